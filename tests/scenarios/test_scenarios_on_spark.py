"""Every scenario through a real broker, Spark and Delta, step by step as it stands on paper.

Landings have the scenario's own clock, runs are the product's. After every landing the clock vector, after every
publication the whole training table and the register are those of the model; what the file expects is compared too.
What another test shows on Spark already runs on request: `make faults` sets WINDROW_LIVES.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.product import Followed, world_at
from support.side_by_side import side_by_side
from windrow.places import Places
from windrow.scenarios import Rehearsal, read
from windrow.scenarios.kafka import why_only_on_paper

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]

FILES = {path.stem: path for path in sorted(Path(__file__).parent.rglob("*.yaml"))}
SHOWN_ELSEWHERE = {
    "jobs/test_agreement.py::test_published_rows_are_those_of_the_reference_join": (
        "01_both_ends_of_the_window_are_in",
        "02_the_start_of_the_window_is_in",
        "02_with_before_the_start_moves_back",
        "15_one_batch_holds_it_all",
        "rule_08_before_the_start",
        "rule_12_null_keys",
    ),
    "faults/test_fault_zones.py::test_rows_are_the_same_to_the_bit_in_every_process_time_zone": (
        "19_a_day_has_24_hours_in_autumn",
        "19_a_day_has_24_hours_in_spring",
    ),
    "faults/test_fault_lag.py::test_a_partition_an_hour_behind_changes_only_when": (
        "12_the_slowest_partition_decides",
        "twitter_lag_of_either_side_loses_nothing",
    ),
    "jobs/test_landing.py::test_a_drain_closes_everything_and_is_the_reason_of_its_labels": (
        "rule_06_a_drain_declares_the_end",
    ),
    "jobs/test_landing.py::test_a_drain_asks_the_broker_for_records_of_which_the_last_landing_did_not_know": (
        "rule_06_a_drain_waits_for_what_has_not_landed",
    ),
    "jobs/test_gaps.py::test_rows_whose_window_overlaps_an_accepted_gap_are_unknown_to_the_microsecond": (
        "20_an_accepted_gap_is_unknown",
        "rule_13_a_late_record_behind_a_gap",
    ),
    "jobs/test_gaps.py::test_labels_that_compaction_removed_are_a_gap_and_no_row_is_negative_for_them": (
        "rule_13_what_compaction_removed_is_a_gap",
    ),
}
"""Scenarios by the test that lets the same happen on Kafka, Spark and Delta, and compares every row."""
ON_REQUEST = {name for names in SHOWN_ELSEWHERE.values() for name in names}
REPEATED = set() if "WINDROW_LIVES" in os.environ else ON_REQUEST
REAL = [name for name, path in FILES.items() if name not in REPEATED and not why_only_on_paper(read(path))]
PAPER = {
    "rule_07_the_brokers_stamp_says_what_is_ahead": "tests/jobs/test_landing.py has it on a real broker",
}


@pytest.fixture(scope="module")
def carried_out(
    request: pytest.FixtureRequest,
    broker: object,
    spark: object,
    session_places: Places,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, BaseException | None]:
    """By name, why a scenario did not come out as on paper. Only those that were asked for."""

    def carry_out(name: str) -> None:
        scenario = read(FILES[name])
        world = world_at(session_places, tmp_path_factory.mktemp("scenario"), f"s{list(FILES).index(name)}")
        mismatches = Rehearsal(scenario, Followed(scenario.rules, world)).run()
        assert mismatches == (), "\n".join(f"{name}:{m.line}: {m.message}" for m in mismatches)

    asked = {item.callspec.params["name"] for item in request.session.items if is_scenario(item)}
    return side_by_side(carry_out, [name for name in REAL if name in asked])


def is_scenario(item: pytest.Item) -> bool:
    return item.path == Path(__file__) and hasattr(item, "callspec")


@pytest.mark.parametrize("name", REAL)
def test_kafka_spark_and_delta_do_what_stands_on_paper(carried_out: dict[str, BaseException | None], name: str) -> None:
    if (why := carried_out[name]) is not None:
        raise why


def test_scenarios_only_on_paper_are_these() -> None:
    assert {name: why for name, why in PAPER.items() if name not in REAL} == PAPER
    assert len(REAL) + len(PAPER) + len(REPEATED) == len(FILES)


def test_what_is_shown_elsewhere_is_there() -> None:
    tests = Path(__file__).parents[1]
    for shown in SHOWN_ELSEWHERE:
        file, _, test = shown.partition("::")
        assert f"def {test}(" in (tests / file).read_text()
    assert set(FILES) >= ON_REQUEST
