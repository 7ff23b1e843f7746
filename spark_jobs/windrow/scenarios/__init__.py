"""Scenarios: what happens to a pipeline, in a file that a domain expert can read, and what must then be true.

    report = run_file("tests/scenarios/vectors/01_both_ends_of_the_window_are_in.yaml")
    print(report)                   # a timeline, the rows, and expected beside found where they differ

The format stands in `reading`, the words for events and rows in `notation`. A scenario runs on paper
(`semantics.paper.model`); `kafka` turns it into records and a pipeline file, so that Kafka, Spark and Delta run it too.
"""

from windrow.scenarios.reading import ScenarioInvalid, read
from windrow.scenarios.rehearsal import Mismatch, Rehearsal
from windrow.scenarios.report import Report, run, run_file
from windrow.scenarios.scenario import Scenario

__all__ = ["Mismatch", "Rehearsal", "Report", "Scenario", "ScenarioInvalid", "read", "run", "run_file"]
