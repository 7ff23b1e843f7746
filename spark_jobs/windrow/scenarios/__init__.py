"""Scenarios: files that say what happens to a pipeline and what must then be true, readable for domain experts.

    report = run_file("tests/scenarios/vectors/windows/01_both_ends_of_the_window_are_in.yaml")
    print(report)                   # a timeline, the rows, and the differences between expected and found

`reading` documents the format, `notation` the words for events and rows. A scenario runs on paper
(`semantics.paper.model`); `kafka` turns it into records and a pipeline file, so that Kafka, Spark and Delta can run it.
"""

from windrow.scenarios.reading import ScenarioInvalid, read
from windrow.scenarios.rehearsal import Mismatch, Rehearsal
from windrow.scenarios.report import Report, run, run_file
from windrow.scenarios.scenario import Scenario

__all__ = ["Mismatch", "Rehearsal", "Report", "Scenario", "ScenarioInvalid", "read", "run", "run_file"]
