"""One gate for all tests: the import of Great Expectations takes seconds, a judgement does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windrow.quality.gate import Gate
from windrow.quality.suites import suites_for
from windrow.quality.validation import _Group
from windrow.quality.verdicts import Judgement
from windrow.semantics.intervals import Interval

EXPECTATIONS = Path(__file__).parents[2] / "expectations"
MADE = _Group.__init__
START = datetime(2026, 11, 1, tzinfo=UTC)
JUDGED_AT = datetime(2026, 11, 1, 12, tzinfo=UTC)

Measures = Mapping[str, float | None]


def interval(number: int = 0) -> Interval:
    length = timedelta(minutes=10)
    return Interval(START + number * length, START + (number + 1) * length)


@pytest.fixture(autouse=True)
def own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate remembers nothing of another one, also in a process whose other tests share (`judged_once`)."""
    monkeypatch.setattr(_Group, "__init__", MADE)


@pytest.fixture
def measures() -> dict[str, float | None]:
    """The measures of a candidate with which nothing is wrong, written by hand."""
    return {
        "rows": 1000.0,
        "left_landed": 1003.0,
        "left_duplicate": 3.0,
        "left_unpaired": 0.0,
        "left_imbalance": 0.0,
        "clicks.read": 120.0,
        "clicks.matched": 100.0,
        "clicks.unmatched": 15.0,
        "clicks.duplicate": 1.0,
        "clicks.filtered": 4.0,
        "clicks.imbalance": 0.0,
        "canary_recall.clicks": 1.0,
        "buys.imbalance": 0.0,
        "right_imbalance": 0.0,
        "positive": 98.0,
        "negative": 882.0,
        "unknown": 20.0,
        "unknown.null_key": 20.0,
        "label_rate": 0.1,
        "drift_psi_max": 0.1,
        "drift_psi.price": 0.1,
        "drift_ks_max": 0.05,
        "unknown_rate": 0.02,
        "rows_outside_interval": 0.0,
        "duplicate_row_ids": 0.0,
        "labels_outside_window": 0.0,
        "labels_out_of_order": 0.0,
        "null_arrays": 0.0,
        "state_contradictions": 0.0,
        "null_event_time": 0.0,
        "schema_differences": 0.0,
        "null_row_id": 0.0,
        "left_key_null_rate": 0.02,
        "null_rate.item_id": 0.0,
        "null_rate.position": 0.1,
        "null_rate_max": 0.1,
        "label_rate_history": 0.11,
        "label_rate_z": -0.6,
        "landing_read": 5000.0,
        "landing_landed": 4990.0,
        "landing_quarantined": 4.0,
        "landing_skipped": 6.0,
        "landing_unexplained": 0.0,
        "landing_imbalance": 0.0,
        "landing_quarantine_rate": 0.0008,
        "landing_duplicate_row_ids": 0.0,
        "volume.served": 1003.0,
        "volume.clicks": 120.0,
        "volume_usual.served": 1010.0,
        "volume_usual.clicks": 115.0,
        "volume_z.served": -0.1,
        "volume_z.clicks": 0.3,
        "first_empty.served": 0.0,
        "records.feed.served": 1003.0,
        "records.feed.clicks": 121.0,
        "quarantined.feed.served": 0.0,
        "quarantined.feed.clicks": 1.0,
        "quarantine_rate.feed.served": 0.0,
        "quarantine_rate.feed.clicks": 1 / 121,
        "quarantine_least.feed.served": 0.0,
        "quarantine_least.feed.clicks": 8e-7,
    }


@pytest.fixture
def empty_measures(measures: dict[str, float | None]) -> dict[str, float | None]:
    """An interval without left rows: counts are zero, rates are null."""
    rates = {name: None for name in measures if "rate" in name or "recall" in name}
    counts = {n: 0.0 for n in measures if n not in rates and not n.startswith(("landing", "clicks"))}
    return {**measures, **rates, **counts, "landing_quarantine_rate": 0.0}


@pytest.fixture(scope="session")
def gate() -> Gate:
    return Gate(suites_for(EXPECTATIONS, "training_rows"))


@pytest.fixture
def judged(gate: Gate, tmp_path: Path) -> Callable[..., Judgement]:
    """Judge measures with the suites of this project."""

    def judge(measures: Measures, number: int = 0, plan: str = "0123456789abcdef", by: Gate = gate) -> Judgement:
        return by.judge(
            measures,
            pipeline="feed",
            interval=interval(number),
            plan=plan,
            report_folder=tmp_path / "reports",
            judged_at=JUDGED_AT + timedelta(minutes=number),
        )

    return judge
