"""Random histories through Kafka, Spark and Delta: after every landing and publication the tables equal the paper.

The state machine that runs hundreds of them on paper (`support.histories`) draws these too. They run at the same
time, each in a home of its own, because a small history mostly waits for a driver that plans.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.histories import History, drawn
from support.product import Followed, world_at
from support.side_by_side import side_by_side
from windrow.places import Places

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(3000)]

HISTORIES, STEPS = int(os.environ.get("WINDROW_LIVES", "8")), 8
KINDS = {
    *("land_killed", "killed_run", "Outdated", "NotCaughtUp", "drained", "late_label", "late_left"),
    *("positive", "negative", "null_key", "side_silent"),  # the other reasons are the scenarios'
}


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return drawn(HISTORIES, STEPS, KINDS)


@pytest.fixture(scope="module")
def lived(
    request: pytest.FixtureRequest,
    histories: list[History],
    broker: object,
    spark: object,
    session_places: Places,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[int, BaseException | None]:
    """Number of a history → the failure, or None where it went as on paper. Only those that this run selects."""

    def live(n: int) -> None:
        world = world_at(session_places, tmp_path_factory.mktemp(f"history{n}"), f"h{n}")
        histories[n].live(Followed(histories[n].rules, world))

    mine = [item for item in request.session.items if item.path == Path(__file__) and hasattr(item, "callspec")]
    return side_by_side(live, [item.callspec.params["n"] for item in mine])


@pytest.mark.parametrize("n", range(HISTORIES))
def test_the_product_lives_through_a_history_as_it_stands_on_paper(
    histories: list[History], lived: dict[int, BaseException | None], n: int
) -> None:
    why = lived[n]
    if why is not None:
        why.add_note(f"in this history:\n{histories[n]}")
        raise why


def test_the_histories_come_upon_every_kind_of_fault(histories: list[History]) -> None:
    seen = {name for history in histories for name in history.seen}
    assert len(histories) == HISTORIES
    assert seen >= KINDS
