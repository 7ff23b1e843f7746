"""Gaps in the `clock` table: what is read of them is what a clock would have that carried every gap on for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from support.landed_history import MINUTE, START, Step, landed, steps
from windrow.config.files import load
from windrow.config.pipeline import Pipeline
from windrow.home import Home
from windrow.io.registers import clocks
from windrow.places import Places
from windrow.semantics.clock import ClockRow
from windrow.semantics.intervals import EARLIEST, LATEST
from windrow.semantics.landing.gaps import CARRIED, gaps_of
from windrow.semantics.records import Gap

PIPELINE = """\
name: small
start: 2026-11-01T00:00:00Z
interval: 10m
left: {name: served, topic: s, columns: {k: bigint, t: timestamp}, key: [k], event_time: t, out_of_orderness: 1m}
right:
  - name: likes
    role: label
    topic: t
    columns: {k: bigint, t: timestamp}
    key: [k]
    event_time: t
    out_of_orderness: 1m
    window: {before: 0s, after: 10m}
grace: 1m
idle: {mode: wait}
max_skew: 2m
labels: {liked: "size(likes) > 0"}
"""


def by_observation(history: list[ClockRow]) -> Mapping[int, list[ClockRow]]:
    found: dict[int, list[ClockRow]] = defaultdict(list)
    for row in history:
        found[row["observation"]].append(row)
    return found


def home_in(folder: Path) -> Home:
    file = folder / "small.yaml"
    file.write_text(PIPELINE)
    return Home(load(file), Places(home=folder, cache=folder, pipelines=(folder,)))


def touching(rows: list[ClockRow], pipeline: Pipeline, pin: int, lo: datetime, hi: datetime) -> set[Gap]:
    """The gaps of rows that carry all there ever were."""
    known = [gap.at_pin(pin, timedelta(minutes=1), pipeline.max_skew) for gap in gaps_of(rows) if gap.batch <= pin]
    return {g for g in known if (g.start_at or EARLIEST) <= hi and (g.end_at or LATEST) >= lo}


@settings(max_examples=40, deadline=None)
@given(steps, st.data())
def test_what_is_read_is_what_a_clock_with_every_gap_would_say(script: list[Step], data: st.DataObject) -> None:
    """Also of a table that an earlier release began."""
    is_whole, cut = data.draw(st.booleans()), data.draw(st.integers(0, len(script)))
    every = by_observation(landed(script, is_whole=is_whole, once_from=len(script))[1])
    carried = data.draw(st.sampled_from([0, 1, 3, CARRIED]))
    ours = by_observation(landed(script, is_whole=is_whole, once_from=cut, carried=carried)[1])
    assert ours.keys() == every.keys()
    with TemporaryDirectory() as folder:
        home = home_in(Path(folder))
        for number, rows in ours.items():
            clocks.record(home, number, rows)
            seen = clocks.observe(home)
            assert set(seen.gaps) == set(gaps_of(every[number]))
            pins = [data.draw(st.integers(0, rows[0]["batch"])) for _ in range(2)]
            lo = START + data.draw(st.integers(-5, 10)) * MINUTE
            hi = lo + data.draw(st.integers(0, 5)) * MINUTE
            for pin in pins:
                near = seen.gaps_between(lo, hi, pipeline=home.pipeline, pins={"t": pin})
                assert set(near) == touching(every[number], home.pipeline, pin, lo, hi)
            between = [
                set(
                    seen.gaps_between(EARLIEST, LATEST, pipeline=home.pipeline, pins={"t": pin}, above={"t": min(pins)})
                )
                for pin in pins
            ]
            known = [touching(every[number], home.pipeline, pin, EARLIEST, LATEST) for pin in pins]
            assert between[0] ^ between[1] == known[0] ^ known[1]


def test_a_gap_that_stays_open_ends_with_the_record_behind_it_and_is_found_beside_an_older_one(tmp_path: Path) -> None:
    lost_before_the_first, nothing, lost, a_record = (2, 2), (0, 0), (3, 3), (1, 0)
    moves = [lost_before_the_first, nothing, lost, a_record, nothing, nothing]
    script: list[Step] = [([move, (0, 0)], False, False) for move in moves]
    home = home_in(tmp_path)
    for number, rows in by_observation(landed(script, carried=0)[1]).items():
        clocks.record(home, number, rows)
    seen, every = clocks.observe(home), by_observation(landed(script, once_from=len(script))[1])[5]
    assert [gap.next_after for gap in seen.gaps] == [START + 3 * MINUTE] * 2
    assert set(seen.gaps) == set(gaps_of(every))
    late = START + 3.5 * MINUTE
    near = seen.gaps_between(late, late, pipeline=home.pipeline, pins=seen.pins)
    assert len(near) == 1
    assert set(near) == touching(every, home.pipeline, seen.pins["t"], late, late)


def test_a_landing_writes_as_many_gaps_after_a_long_time_as_on_its_first_day() -> None:
    """Each landing finds an offset without a record in each partition."""
    script: list[Step] = [([(7, 0), (7, 0)], False, False)] * 40
    written = [len(gaps_of(rows)) for rows in by_observation(landed(script, is_whole=False)[1]).values()]
    assert written == [*range(2, CARRIED + 1, 2), *[CARRIED] * (40 - CARRIED // 2)]
