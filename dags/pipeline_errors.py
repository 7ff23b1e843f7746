"""Shows pipeline files that cannot be used as one import error, `file:line: field: what would be right` each.

Airflow takes down every DAG of a file that has an import error. This file has no DAG, so the error is shown
where people look for it, and the pipelines that are right, made by factory.py, go on.
"""

import os

from windrow.places import Places
from windrow_airflow.pipeline_files import problems


class PipelineFilesWrong(Exception):
    """The last line of the import error, the one that people read."""


if wrong := problems(Places.from_env(os.environ)):
    raise PipelineFilesWrong("no DAGs are made of these:\n" + "\n".join(wrong))
