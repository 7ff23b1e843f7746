"""Thousands of random histories in memory (`support.histories`), and a check that every case occurred in them."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings

from support.histories import RUN_POINTS, Histories

Histories.TestCase.settings = settings(
    max_examples=int(os.environ.get("WINDROW_HISTORIES", "1000")),
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
TestHistories = pytest.mark.timeout(600)(Histories.TestCase)


def test_the_histories_have_come_upon_everything() -> None:
    """A case that never occurred has not been tested. Runs after the histories, and only with all of them."""
    seen = Histories.seen
    if seen["histories"] < 1000:
        pytest.skip("too few histories were run to say")
    few = {name: seen[name] for name in EXPECTED if seen[name] < seen["histories"] / 200}
    assert not few


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
