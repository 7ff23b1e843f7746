"""Hundreds of random histories in memory (`support.histories`), and a check that every case occurred in them."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.histories import RUN_POINTS, Histories

Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("WINDROW_HISTORIES", "400")),
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
TestHistories = pytest.mark.timeout(600)(Histories.TestCase)


@pytest.mark.timeout(1200)
def test_the_histories_have_come_upon_everything() -> None:
    """A case that never occurred has not been tested. Runs after the histories, and only with all of them.

    Hypothesis draws from constants of the loaded code too, so how often they meet a case changes: they go on then.
    """
    if Histories.seen["histories"] < 400:
        pytest.skip("too few histories were run to say")
    for many in (1_000, 2_500):
        if _rare():
            run_state_machine_as_test(Histories, settings=settings(Histories.TestCase.settings, max_examples=many))
    assert not _rare()


def _rare() -> dict[str, int]:
    """Cases that have occurred in less than one of 200 histories, and how often."""
    seen = Histories.seen
    return {name: seen[name] for name in EXPECTED if seen[name] < seen["histories"] / 200}


EXPECTED = (
    *(
        "crash",
        *RUN_POINTS,
        "replay",
        "superseded",
        "retry",
        "rebuild",
        "drain",
        "not caught up",
        "publications",
        "rows",
    ),
    *("late_left", "late_label", "late_feature", "pair_appeared", "winner_changed", "state_changed"),
    *("positive None", "negative None", "unknown side_silent", "unknown null_key", "unknown label_quarantined"),
)
