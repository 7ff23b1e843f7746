"""The `clock` table: what each landing run observed; the watermark follows from it. No Spark, no broker.

One observation is one commit. It holds a row for every partition of every topic of the pipeline, also for partitions
without a record, so the newest observation alone gives the watermark, the pins and the partition that holds the clock.
A topic that was not in the pipeline file then has the rows of the newest observation that it is in, as long as its
landing table is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from windrow.config import Pipeline
from windrow.home import Home, Table
from windrow.io.delta import lookup, tables
from windrow.io.registers.gaps import Shown, on_record, shown
from windrow.outcomes import NotReady
from windrow.schemas import CLOCK
from windrow.semantics.clock import ClockRow, PartitionClock, watermark
from windrow.semantics.close import frontier
from windrow.semantics.intervals import shifted
from windrow.semantics.landing.gaps import AcceptedGap, have_earlier, recorded_once
from windrow.semantics.records import Gap

APP_ID = "windrow.clock"
STEPS = tuple(2**n for n in range(17))
"""How many observations before the newest `earlier` looks: 1, 2, 4, … 65,536: three months at 2 minutes."""


class ClockBehind(NotReady):
    """A plan's pins are beyond the clock: the clock table was lost. Landing restores it from the landing commits."""


@dataclass(frozen=True)
class Observation:
    """The clock at the end of a landing run; `number` only grows, -1 before the first."""

    number: int
    topics: tuple[str, ...]
    rows: tuple[ClockRow, ...]
    """columns of `schemas.CLOCK`; one row per partition, by topic and partition"""
    table: lookup.Lookup | None = field(default=None, compare=False, repr=False, kw_only=True)
    """that it was read from, or is in: earlier observations may hold gaps too; None where they hold none"""

    @cached_property
    def clocks(self) -> tuple[PartitionClock, ...]:
        """One clock per partition, for the functions of `semantics.clock`."""
        return tuple(PartitionClock.of_row(row) for row in self.rows)

    @property
    def pins(self) -> dict[str, int]:
        """The last landed batch of every topic."""
        return {row["topic"]: row["batch"] for row in self.rows}

    @cached_property
    def watermark(self) -> datetime | None:
        """Rule 3: the least clock of all partitions of all topics; None until every one of them has started."""
        topics = {row["topic"] for row in self.rows}
        return watermark(self.clocks) if topics == set(self.topics) else None

    @cached_property
    def gaps(self) -> tuple[AcceptedGap, ...]:
        """Every accepted gap of the pipeline's topics."""
        return on_record(self.table, self.rows)

    @cached_property
    def shown_gaps(self) -> Shown:
        """Gaps to be shown to a person: all, or the newest of very many."""
        return shown(self.table, self.rows)

    def frontier(self, pipeline: Pipeline) -> datetime | None:
        """Rule 4: every window that ends before this instant has closed; None without a watermark."""
        return frontier(self.watermark, pipeline.after, pipeline.grace)

    def of_topic(self, topic: str) -> tuple[ClockRow, ...]:
        """The rows of one topic."""
        return tuple(row for row in self.rows if row["topic"] == topic)

    def gaps_between(
        self,
        lo: datetime,
        hi: datetime,
        *,
        pipeline: Pipeline,
        pins: Mapping[str, int],
        above: Mapping[str, int] | None = None,
    ) -> tuple[Gap, ...]:
        """Return the gaps that were accepted up to the pins and touch event times in `[lo, hi]` (rule 13).

        Args:
            above: topic → batch; gaps that had ended when it had landed may be missing. None: all are wanted.

        Raises:
            ClockBehind: the observation is older than a pin.
        """
        behind = [topic for topic, pin in pins.items() if self.pins.get(topic, 0) < pin]
        if behind:
            raise ClockBehind(
                f"the clock of {', '.join(behind)} is behind a plan: the clock table was lost or reset. "
                f"`windrow land {pipeline.name}` restores it from the landing commits; then run again."
            )
        disorder = max(map(pipeline.out_of_orderness, pipeline.topics))
        recorded = on_record(
            self.table, self.rows, since=shifted(lo, -pipeline.max_skew), until=shifted(hi, disorder), above=above
        )
        known = (
            gap.at_pin(pins[gap.lost.topic], pipeline.out_of_orderness(gap.lost.topic), pipeline.max_skew)
            for gap in recorded
            if gap.batch <= pins.get(gap.lost.topic, 0)
        )
        return tuple(
            gap
            for gap in known
            if (gap.start_at is None or gap.start_at <= hi) and (gap.end_at is None or gap.end_at >= lo)
        )


def observe(home: Home) -> Observation:
    """Read the newest observation. Rows of topics that the pipeline file does not name are left out."""
    return observed(home, lookup.opened(home.table(Table.CLOCK)))


def observed(home: Home, clock: lookup.Lookup | None) -> Observation:
    """Return the newest observation of the clock's table, if there is one, as `observe` does."""
    number, rows = -1, []
    if clock is not None:
        last = clock.table.transaction_version(APP_ID)
        if last is None:  # a table that was copied without its transactions still has its observations
            last = max((row["observation"] for row in clock.read(["observation"], None, [])), default=-1)
        number = int(last)
        rows = clock.having(clock.schema.names, "observation", number)
    away = set(home.pipeline.topics) - {row["topic"] for row in rows}
    rows = [row for row in rows if row["topic"] in home.pipeline.topics]
    if clock is not None and number >= 0:
        # where the folder was deleted meanwhile, all that the broker has lands anew
        there = [topic for topic in sorted(away) if tables.opened(home.landing(topic)) is not None]
        rows += [row for topic in there for row in _last_rows(clock, topic)]
    return Observation(number, home.pipeline.topics, _ordered(map(_complete, rows)), table=clock)


def _last_rows(clock: lookup.Lookup, topic: str) -> list[dict[str, Any]]:
    """Return a topic's rows of the newest observation that has any: the pipeline file did not name it since."""
    wanted, near = lookup.equal("topic", topic), [lookup.Range("topic", topic, topic)]
    found = next(clock.newest_first(clock.schema.names, wanted, "observation", near), [])
    last = max((row["observation"] for row in found), default=None)
    return [row for row in found if row["observation"] == last]


def earlier(clock: lookup.Lookup | None, number: int) -> tuple[ClockRow, ...]:
    """Return the rows of a few observations before that with this number, newest first: the nearer, the denser.

    Args:
        clock: the clock's table, if there is one.
    """
    if clock is None:
        return ()
    wanted = [number - step for step in STEPS if number >= step]
    rows = clock.having_any(clock.schema.names, "observation", wanted)
    return tuple(sorted(map(_complete, rows), key=lambda row: -row["observation"]))


def at_batch(home: Home, topic: str, topic_id: str, batch: int) -> tuple[ClockRow, ...] | None:
    """Return a topic's rows of the newest observation after a batch; empty if it is before the first of its topic id.

    None where the batch was clocked together with a later one.
    """
    if batch <= 0:
        return ()
    clock = lookup.opened(home.table(Table.CLOCK))
    wanted = lookup.all_of([lookup.equal("topic", topic), lookup.equal("batch", batch)])
    found = clock.read(clock.schema.names, wanted, [lookup.Range("batch", batch, batch)]) if clock is not None else []
    last = max((row["observation"] for row in found), default=None)
    rows = [_complete(row) for row in found if row["observation"] == last]
    if not rows:
        return None
    return _ordered(rows) if rows[0]["topic_id"] == topic_id else ()


def history(home: Home, topic: str) -> tuple[ClockRow, ...]:
    """Return the rows of a topic of every observation, oldest first.

    Returns:
        One row per observation and partition, with columns of newer releases filled in.
    """
    rows = tables.read(home.table(Table.CLOCK), filters=[("topic", "=", topic)])
    return tuple(sorted(map(_complete, rows), key=lambda row: (row["observation"], row["partition"])))


def record(home: Home, number: int, rows: Iterable[ClockRow]) -> Observation:
    """Append an observation, exactly once per number, and return it. The caller holds the landing lock.

    Args:
        number: that of the observation before, plus one.
        rows: one per partition, without the number.

    Raises:
        WriteSkipped: an observation of this number or a later one is in the table.
    """
    numbered = [{**row, "observation": number} for row in rows]
    tables.append_once(home.table(Table.CLOCK), CLOCK, numbered, app_id=APP_ID, version=number)
    return Observation(number, home.pipeline.topics, _ordered(numbered))


def record_next(home: Home, before: Observation, rows: Iterable[ClockRow]) -> Observation:
    """Append the observation after another one, as `record` does; of very many gaps the older stay where they are.

    Args:
        before: the newest observation.
        rows: one per partition, with all gaps of the rows of `before`.
    """
    number = before.number + 1
    seen = record(home, number, recorded_once(rows, before.rows, number))
    return replace(seen, table=lookup.opened(home.table(Table.CLOCK))) if have_earlier(seen.rows) else seen


def _complete(row: ClockRow) -> ClockRow:
    """The row with all columns: an older release counts every undelivered offset as skipped."""
    return {**row, "unexplained": row.get("unexplained") or 0}


def _ordered(rows: Iterable[ClockRow]) -> tuple[ClockRow, ...]:
    return tuple(sorted(rows, key=lambda row: (row["topic"], row["partition"])))
