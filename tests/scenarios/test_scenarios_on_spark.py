"""Every scenario through a real broker, Spark and Delta, step by step as it stands on paper.

Landings have the scenario's own clock, runs are the product's. After every landing the clock vector, after every
publication the whole training table and the register are those of the model; what the file expects is compared too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.product import Followed, world_at
from support.side_by_side import side_by_side
from windrow.places import Places
from windrow.scenarios import Rehearsal, read
from windrow.scenarios.kafka import why_only_on_paper

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(1800)]

FILES = {path.stem: path for path in sorted(Path(__file__).parent.rglob("*.yaml"))}
REAL = [name for name, path in FILES.items() if not why_only_on_paper(read(path))]
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
    assert len(REAL) + len(PAPER) == len(FILES)
