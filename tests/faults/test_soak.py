"""Three minutes of `benchmarks/soak.py`: traffic and faults, and every row compared with an independent truth."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windrow.places import PROJECT

BENCHMARKS = PROJECT / "benchmarks"


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_after_minutes_of_faults_every_row_is_as_the_truth_says(tmp_path: Path) -> None:
    """Every run has another seed; the failure names it."""
    seed, file = int(time.time()) % 10_000, tmp_path / "soak.json"
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--minutes", "3", "--faults", "8"]
    command += ["--seed", str(seed), "--disk", "512"]
    done = subprocess.run(
        [*command, "--home", str(tmp_path), "--result", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stdout[-20_000:]}\n{done.stderr[-5000:]}"
    result = json.loads(file.read_text())
    about = result["about"]
    assert result["wrong"] == []
    assert about["rows compared"] > 2000
    assert about["rows lost"] + about["rows twice or extra"] + about["rows wrong"] == 0
    assert about["faults"] >= 8  # on a busy machine; on an idle one it is dozens


@pytest.fixture
def truth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from soaking import truth

    return truth


START = datetime(2026, 11, 1, tzinfo=UTC)


def _instant(seconds: float) -> str:
    return f"{(START + timedelta(seconds=seconds)).isoformat(timespec='microseconds')}"


def _served(name: str, user: int | None, at: float) -> bytes:
    return json.dumps(
        {"request_id": name, "user_id": user, "item_id": 1, "served_at": _instant(at), "features": [0.5]}
    ).encode()


def _engaged(name: str, user: int, at: float, action: str = "click") -> bytes:
    return json.dumps(
        {"event_id": name, "user_id": user, "item_id": 1, "action": action, "engaged_at": _instant(at)}
    ).encode()


def test_the_truth_of_a_few_records_is_the_one_written_by_hand(truth: Any) -> None:
    """Window 0 to 10 s, intervals of 15 s; the last events, at 60 s, close the intervals that end by 45 s."""
    served = (_served("a", 1, 1), _served("a", 1, 1), _served("b", 2, 2), _served("k", None, 3), b"{", None)
    engaged = (_engaged("late", 1, 11.000001), _engaged("last", 1, 11), _engaged("p", 2, 4, "purchase"),
               _engaged("last", 1, 11), _engaged("before", 2, 1.999999))  # fmt: skip
    topics = {"served": [*served, _served("end", 9, 60)], "engagements": [*engaged, _engaged("end", 9, 60)]}
    sides = {
        side: truth.judged(side, [truth.Record(0, offset, value) for offset, value in enumerate(values)])
        for side, values in topics.items()
    }
    second = timedelta(seconds=1)
    rules = truth.Rules(START, 15 * second, 10 * second, second, 2 * second)
    found = truth.expected("t", rules, sides["served"], sides["engagements"])
    state = truth.COLUMNS.index("label_state")
    clicks = truth.COLUMNS.index("clicks")
    assert {where: (row[0], row[state], [click[4] for click in row[clicks]]) for where, row in found.rows.items()} == {
        (0, 0): ("a", "positive", [1]),
        (0, 2): ("b", "negative", []),
        (0, 3): ("k", "unknown", []),
    }
    assert (found.duplicates, found.still_open, len(found.intervals)) == (1, 1, 3)
    assert sides["served"].unreadable == {(0, 4), (0, 5)}


def test_a_row_that_is_lost_doubled_invented_or_changed_is_a_difference(truth: Any) -> None:
    row = tuple(range(len(truth.COLUMNS)))
    want = {(0, n): row for n in range(4)}
    changed = (*row[:-1], "other")
    found = [((0, 0), row), ((0, 1), row), ((0, 1), row), ((0, 2), changed), ((0, 7), row)]
    difference = truth.compare(want, found)
    assert difference.lost == {(0, 3)}
    assert difference.twice == {(0, 1)}
    assert difference.extra == {(0, 7)}
    assert set(difference.wrong) == {(0, 2)}
    assert truth.compare(want, [(where, row) for where in want]).all == set()


def test_an_acknowledged_record_that_its_topic_lacks_is_named_and_one_in_doubt_is_counted(truth: Any) -> None:
    topics = {"t.served": [truth.Record(0, 0, b'{"request_id":"a"}'), truth.Record(0, 1, b'{"request_id":"b"}')]}
    assert truth.unacknowledged(["t.served 0 0 a\n"], topics) == ([], 1)
    for wrong in ("t.served 0 0 b\n", "t.served 0 7 a\n"):
        lost, _ = truth.unacknowledged([wrong], topics)
        assert len(lost) == 1
