"""The Open Bandit data as traffic, on a small wheel of the same shape; what is fetched is checked."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from windrow.config import parse
from windrow.places import Places
from windrow.semantics.intervals import at_micros
from windrow.simulate import bandit_wheel
from windrow.simulate.bandit_wheel import OpenBanditUnavailable, fetch, read
from windrow.simulate.open_bandit import NOTE, Moved, messages, pipeline_yaml, recent, records, truth

START = datetime(2026, 11, 21, 14, tzinfo=UTC)
WEEK = datetime(2019, 11, 24, tzinfo=UTC)
MOVED = Moved(START, files=("random/all", "bts/men"))
LINES = 1_500
EVERY = 30
"""One impression of so many is clicked."""


def _csv(items: int) -> Iterator[list[str]]:
    affinities = [f"user-item_affinity_{i}" for i in range(items)]
    users = [f"user_feature_{i}" for i in range(4)]
    yield ["", "timestamp", "item_id", "position", "click", "propensity_score", *users, *affinities]
    for line in range(LINES):
        at = WEEK + timedelta(days=7) * line / LINES + timedelta(microseconds=17)
        click = "1" if line % EVERY == 7 else "0"
        yield [str(line), at.isoformat(), str(line % items), str(1 + line % 3), click, "0.0125", *"abcd"] + [
            "1.5" if i == line % items else "0.0" for i in range(items)
        ]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wheel") / "small.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for policy, campaign, items in (("random", "all", 8), ("bts", "men", 4)):
            text = io.StringIO()
            csv.writer(text).writerows(_csv(items))
            archive.writestr(f"obp/dataset/obd/{policy}/{campaign}/{campaign}.csv", text.getvalue())
    return path


def test_every_line_becomes_an_impression_and_every_click_a_label(wheel: Path) -> None:
    made = [r for r in records(MOVED, wheel) if not r.again and not r.id.startswith("poison")]
    kinds = Counter(r.kind for r in made)
    assert kinds["impression"] + kinds["clicked impression"] == 2 * LINES
    assert kinds["click"] == kinds["clicked impression"] == 2 * LINES // EVERY
    one = next(iter(read(wheel, "bts/men")))
    assert (one.impression_id, one.propensity, one.user_features) == ("bts-men-00000", 0.0125, tuple("abcd"))
    assert one.affinities == (1.5, 0.0, 0.0, 0.0)


def test_times_are_moved_onto_the_span_in_the_same_order(wheel: Path) -> None:
    shown = {r.id: at_micros(r.event_us or 0) for r in records(MOVED, wheel) if r.side == "left" and not r.again}
    for one in read(wheel, "random/all"):
        exact = (one.shown_at - WEEK) / timedelta(days=7) * MOVED.span + START
        assert abs(shown[one.impression_id] - exact) <= timedelta(microseconds=2)
    assert min(at for name, at in shown.items() if not name.startswith("poison")) >= START


def test_delays_are_the_same_every_time_and_known_at_the_edge(wheel: Path) -> None:
    def delays(moved: Moved) -> dict[str, timedelta]:
        made = [r for r in records(moved, wheel) if not r.again and not r.id.startswith("poison")]
        shown = {r.key: r.event_us or 0 for r in made if r.side == "left"}
        return {r.id: timedelta(microseconds=(r.event_us or 0) - shown[r.key]) for r in made if r.kind == "click"}

    found = delays(MOVED)
    assert found == delays(replace(MOVED, start=START + timedelta(hours=5)))
    ends = Counter(delay - MOVED.after for delay in found.values() if delay > timedelta(minutes=9))
    assert ends[timedelta(0)] == ends[timedelta(microseconds=1)] == 1
    assert len(ends) == 8
    assert timedelta(seconds=25) < sorted(found.values())[len(found) // 2] < timedelta(seconds=70)
    assert min(found.values()) >= timedelta(seconds=1)


def test_the_states_are_those_of_a_plain_computation(wheel: Path) -> None:
    made = [r for r in records(MOVED, wheel) if r.fate == "landed"]
    clicked_at = {r.key: at_micros(r.event_us or 0) for r in made if r.side == "right"}
    newest: dict[int, datetime] = {}
    for r in made:
        if r.side == "right":
            newest[r.partition] = max(at_micros(r.event_us or 0), newest.get(r.partition, START))
    clock = max(newest.values()) - MOVED.click_out_of_orderness
    rows = {r.id: r for r in truth(MOVED, wheel).rows()}
    assert len(rows) == 2 * LINES + 1, "every impression once, and the poisoned one without a key"
    broken = [name for name, row in rows.items() if row.reason == "label_quarantined"]
    assert len(broken) == 1
    for name, row in rows.items():
        if name == "poison-left-null_key" or name in broken:
            assert row.state == "unknown"
            continue
        end = row.event_at + MOVED.after
        hit = (name,) in clicked_at and clicked_at[name,] <= end
        silent = end >= clock
        state = "positive" if hit else "unknown" if silent else "negative"
        assert (row.state, row.reason) == (state, "side_silent" if silent else None)
    counts = truth(MOVED, wheel).counts
    assert counts.total.positive == 2 * LINES // EVERY - 7
    assert counts.total.unknown["side_silent"] > 0
    assert counts.total.negative > 0
    assert counts.total.duplicate == sum(r.again for r in made if r.side == "left") > 0


def test_disorder_stays_within_the_promise_on_every_partition(wheel: Path) -> None:
    newest: dict[tuple[str, int], int] = {}
    used, worst = set(), 0
    for r in records(MOVED, wheel):
        if r.fate != "landed" or r.event_us is None:
            continue
        where = r.topic, r.partition
        used.add(where)
        allowed = MOVED.out_of_orderness if r.side == "left" else MOVED.click_out_of_orderness
        behind = newest.get(where, 0) - r.event_us
        assert behind <= allowed // timedelta(microseconds=1)
        worst = max(worst, behind)
        newest[where] = max(newest.get(where, 0), r.event_us)
    assert worst > 1_000_000, "no disorder: the test shows nothing"
    assert used == {(topic, p) for topic, many in MOVED.topics.items() for p in range(many)}


def test_the_published_data_gives_the_figures_of_the_demo() -> None:
    real = fetch(Places.from_env(os.environ).cache)
    assert fetch(real.parents[1]) == real, "the second time from the cache"
    counts = truth(Moved(START), real).counts
    assert counts.kinds["open_bandit.clicks"]["click"] == 149
    assert (counts.total.rows, counts.total.positive) == (30_001, 142)
    assert counts.landing("open_bandit.impressions") == {"read": 30_151, "landed": 30_143, "quarantined": 8}
    assert counts.landing("open_bandit.clicks") == {"read": 172, "landed": 165, "quarantined": 7}
    assert {str(reason) for reason in counts.total.unknown} == {
        "side_silent",
        "null_key",
        "label_quarantined",
    }


def test_poison_is_counted_and_can_be_left_out(wheel: Path) -> None:
    counts = truth(MOVED, wheel).counts
    assert counts.landing(MOVED.impressions_topic)["quarantined"] == 8
    assert counts.landing(MOVED.clicks_topic)["quarantined"] == 7
    sent = Counter((m.topic, m.partition) for m in messages(MOVED, wheel))
    assert counts.produced == dict(sent)
    clean = truth(replace(MOVED, poisoned=False), wheel).counts
    assert clean.fates[MOVED.impressions_topic]["quarantined"] == 0
    assert clean.total.rows == 2 * LINES


def test_the_pipeline_file_is_a_valid_one() -> None:
    pipeline = parse(pipeline_yaml(MOVED))
    assert (pipeline.name, pipeline.start, pipeline.interval) == ("open_bandit", START, timedelta(minutes=10))
    assert pipeline.topics == tuple(sorted(MOVED.topics))
    assert pipeline.after == MOVED.after


def test_the_demo_is_over_before_now() -> None:
    for minute in (0, 29, 59):
        now = datetime(2026, 11, 21, 16, minute, 1, tzinfo=UTC)
        moved = recent(now)
        assert moved.start == datetime(2026, 11, 21, 14, tzinfo=UTC)
        assert moved.ends_at <= now


def test_what_is_made_up_is_said_and_the_source_named() -> None:
    for word in ("Saito", "ZOZO", "CC BY 4.0", "made up", "time of each click", "label_quarantined"):
        assert word in NOTE


def test_a_file_that_is_not_the_expected_one_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(folder: Path) -> Path:
        (folder / bandit_wheel.WHEEL).write_bytes(b"something else")
        return folder / bandit_wheel.WHEEL

    monkeypatch.setattr(bandit_wheel, "_download", download)
    with pytest.raises(OpenBanditUnavailable, match="SHA-256"):
        fetch(tmp_path)
    assert list((tmp_path / "open_bandit").iterdir()) == []


def test_without_a_working_pip_the_message_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandit_wheel, "_pips", lambda: iter([(["false"], {})]))
    with pytest.raises(OpenBanditUnavailable, match="by hand") as error:
        fetch(tmp_path)
    assert str(tmp_path / "open_bandit" / bandit_wheel.WHEEL) in str(error.value)
