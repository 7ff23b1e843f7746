"""The pipeline file: read once, checked completely, then a frozen value. No other package knows the file format.

    pipeline = load("dags/pipelines/feed.yaml")       # raises PipelineInvalid with every problem
    pipeline, warnings = check("dags/pipelines/feed.yaml")
    pipeline = find("feed", places.pipelines)         # by name, in the folders that hold pipeline files

Imports are light (no pyspark, no Great Expectations): DAG files read pipelines too.
"""

from windrow.config.files import check, load, parse, refusal
from windrow.config.finding import Finder, clash_of, files_by_name, files_of, find
from windrow.config.pipeline import Pipeline
from windrow.config.problems import Inconsistent, PipelineInvalid, PipelineUnknown, Problem
from windrow.config.streams import Describe, Idle, LeftStream, RightStream, Stream, Window

__all__ = [
    "Describe",
    "Finder",
    "Idle",
    "Inconsistent",
    "LeftStream",
    "Pipeline",
    "PipelineInvalid",
    "PipelineUnknown",
    "Problem",
    "RightStream",
    "Stream",
    "Window",
    "check",
    "clash_of",
    "files_by_name",
    "files_of",
    "find",
    "load",
    "parse",
    "refusal",
]
