"""Whether a pipeline starts long before its first row, so that many empty intervals would be published. No Spark.

start                              first row
  ├──────┬──────┬── … ──┬──────┬──────●───┬────▶ served time
   empty  empty          empty      └ where `start` should be

Without a row every interval that has closed is such an empty one, and the first row may still come in any later one.

Nothing is published then before the file is corrected, or a person wants the empty intervals: the first publication
fixes `start` for good.
"""

from __future__ import annotations

from datetime import datetime

from windrow.config import Pipeline
from windrow.home import Home
from windrow.io.landing.earliest import first_left_at
from windrow.io.registers import clocks, publications, unclosed
from windrow.io.registers.clocks import Observation
from windrow.outcomes import BadInput
from windrow.semantics.clock import ClockRow
from windrow.semantics.intervals import interval_of
from windrow.text import counted, short_instant_text

MANY = 100
"""More empty intervals than this, before the first row or without any, are not published unasked."""
SPARSE = 10
"""Nor are so many times as many intervals as rows: a stray early row would let all others be published behind it."""


class FarStart(BadInput):
    """Many empty intervals would be published before the first row, and `start` could not be moved any more."""

    def __init__(self, cause: str, move: str) -> None:
        super().__init__(f"{cause}. {move}")
        self.cause, self.move = cause, move


def far_start(home: Home, clock: Observation | None = None, *, is_last: bool = False) -> FarStart | None:
    """Return what is wrong with a `start` long before the first row; None if nothing, or once one is published.

    Before every left partition's clock is beyond `start` the first row may still be to come, and nothing closes: then
    only what the bounds of the pipeline file force would be published, and the message says that a row may come.

    Args:
        clock: the newest observation, where the caller has read it.
        is_last: whether what has landed counts as all there is, whatever the clock says (`--drain`, `--force`).

    Raises:
        TableDamaged: a landing table cannot be read.
    """
    if publications.are_any(home):
        return None
    seen = clock or clocks.observe(home)
    has_begun = _has_begun(home, seen)
    if not (is_last or has_begun or _is_forced(home, seen)):
        return None
    first_at = first_left_at(home, home.pipeline.start)
    if first_at is None:
        return _without_rows(home.pipeline, _closed(home.pipeline, seen))
    return _before(home.pipeline, first_at, may_come_earlier=not has_begun) or _with_few_rows(home.pipeline, seen)


def _before(pipeline: Pipeline, first_at: datetime, *, may_come_earlier: bool) -> FarStart | None:
    first = interval_of(first_at, pipeline.start, pipeline.interval)
    at, count = short_instant_text(first.start), (first.start - pipeline.start) // pipeline.interval
    return _far(
        pipeline,
        count,
        f"its first row of {pipeline.left.name} is in the interval of {at}: {counted(count, 'interval')} before it",
        f"Set `start: {at}` in the pipeline file"
        + (", or wait: a partition is not read beyond `start` yet, and may have an earlier row" * may_come_earlier),
    )


def _closed(pipeline: Pipeline, clock: Observation) -> int:
    """Number of intervals that have closed since `start`."""
    frontier = clock.frontier(pipeline)
    return 0 if frontier is None else max(0, (frontier - pipeline.start) // pipeline.interval)


def _with_few_rows(pipeline: Pipeline, clock: Observation) -> FarStart | None:
    rows, closed = _landed(pipeline, clock), _closed(pipeline, clock)
    if rows is None or closed <= SPARSE * rows:
        return None
    return _far(
        pipeline,
        closed - rows,
        f"{counted(rows, 'row')} of {pipeline.left.name} have landed since, while {counted(closed, 'interval')} have "
        f"closed: at least {counted(closed - rows, 'interval')}",
        "If a stray row is the first one, set a later `start` in the pipeline file",
    )


def _landed(pipeline: Pipeline, clock: Observation) -> int | None:
    """Number of left rows that landed since `start`, at most; None where an earlier release has not counted them."""
    left = _left_rows(pipeline, clock)
    if any(row.get("landed") is None for row in left):
        return None
    return sum(row["landed"] - (row.get("before_start") or 0) for row in left)


def _left_rows(pipeline: Pipeline, clock: Observation) -> list[ClockRow]:
    return [row for row in clock.rows if row["topic"] in pipeline.left.topics]


def _without_rows(pipeline: Pipeline, count: int) -> FarStart | None:
    return _far(
        pipeline,
        count,
        f"no row of {pipeline.left.name} has landed since: {counted(count, 'interval')} that have closed",
        "Wait for the first row, or set a later `start` in the pipeline file",
    )


def _far(pipeline: Pipeline, count: int, which: str, move: str) -> FarStart | None:
    if count <= MANY:
        return None
    start = short_instant_text(pipeline.start)
    return FarStart(
        f"{pipeline.name} starts at {start}, and {which} would be published without a row, and after the first "
        "publication `start` cannot be moved forward",
        f"{move}. If you want them, `windrow train {pipeline.name} --from-start` publishes them, and with --interval "
        f"{start} the first one, after which Airflow's runs go on",
    )


def late_start(home: Home, clock: Observation | None = None) -> tuple[str, str] | None:
    """Return cause and move where every left row so far is before `start`; None otherwise, or once one is published.

    Args:
        clock: the newest observation, where the caller has read it.
    """
    if publications.are_any(home):
        return None
    pipeline = home.pipeline
    left = _left_rows(pipeline, clock or clocks.observe(home))
    before = sum(row.get("before_start") or 0 for row in left)
    is_any_after = any(row["newest_at"] is not None and row["newest_at"] >= pipeline.start for row in left)
    if not before or is_any_after:
        return None
    return (
        f"`start` is {short_instant_text(pipeline.start)}, and every row of {pipeline.left.name} that has landed is "
        f"before it: {counted(before, 'row')} left out",
        "Set an earlier `start` in the pipeline file if they are wanted",
    )


def _has_begun(home: Home, clock: Observation) -> bool:
    """Whether every left partition is read beyond `start`, or has nothing more."""
    left = [one.clock_at for one in clock.clocks if one.topic in home.pipeline.left.topics]
    return bool(left) and all(at is not None and at > home.pipeline.start for at in left)


def _is_forced(home: Home, clock: Observation) -> bool:
    """Whether bounds of the pipeline file publish an interval before it closes."""
    beyond = unclosed.decided(home, clock)
    return beyond is not None and bool(beyond.forced)


def refuse_far_start(home: Home, *, is_last: bool = False) -> None:
    """Let nothing be published while `start` is long before the first row.

    Args:
        is_last: as for `far_start`.

    Raises:
        FarStart: it is; TableDamaged: a landing table cannot be read.
    """
    if wrong := far_start(home, is_last=is_last):
        raise wrong
