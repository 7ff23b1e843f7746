"""The late ledger: what a rebuild at the newest pins would change in a publication, one line each.

    published  +  ledger  =  rebuilt          exactly; `apply` is the proof

    late_left        a left row above the pin                     carries the whole row
    pair_appeared    a left row that `inner` had left out         carries the whole row
    winner_changed   a lesser row id of the same event landed     the one that leaves, the one that comes
    late_label       a label above the pin                        the label, and the one that `take` drops for it
    late_feature     the same of a feature stream
    state_changed    the label state, or its reason, alone        before and after
    erased           a published row that is landed no more       the one that leaves, and what takes its place
    config_changed   the publication is of another config         one line, for nothing else can be compared

A flip of the label state stands on the first line about the row's matches; only where there is none does it
have a line of its own. Late is about batches and pins, never about the clock; the clock only says by how much:
`missed_by` is how far the watermark was beyond the interval's closing when the batch came. A grace larger by
more than that would have caught it. Why it was late, `cause` says. Both publications are of one config: of a
publication under another one the ledger says just that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.semantics.close import closes_at
from windrow.semantics.intervals import shifted
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId
from windrow.semantics.reference import Joined, JoinedRow

State = tuple[str, str | None]
Batch = tuple[str, int]
"""topic, batch number"""
Partition = tuple[str, int, int]
"""topic, epoch, partition"""
Cause = Literal["drained", "idle_advance", "lag", "producer_delay"]
CONFIG_CHANGED, AS_PUBLISHED = "config_changed", "as_published"
"""Lines about a whole interval; lines that take back earlier ones, for a ledger that is only ever added to."""


def cause(
    record_at: datetime | None,
    closed_at: datetime,
    event_clock: datetime | None,
    out_of_orderness: timedelta,
    *,
    drained: bool = False,
) -> Cause:
    """Why a record came after its interval was published. The first that applies:

    drained         a person had declared the end of the stream.
    idle_advance    no event of its own partition had brought the clock to the closing: it passed by idling, or the
                    partition is newer than the publication. `idle: wait` or a longer `idle.after` would have waited.
    lag             it was logged in time: even a partition that had an event of that very moment would not yet have
                    passed the closing. It was held up on the way to its partition (a producer's buffer, a mirror), or
                    written behind newer ones. With LogAppendTime this does not happen.
    producer_delay  it was logged later than window, grace and out-of-orderness allow.

    Args:
        record_at: when it was logged; unknown counts as late.
        closed_at: the least watermark at which the interval is closed.
        event_clock: at the publication's plan, newest trusted event of its partition minus the out-of-orderness.
    """
    if drained:
        return "drained"
    if event_clock is None or event_clock < closed_at:
        return "idle_advance"
    in_time = record_at is not None and shifted(record_at, -out_of_orderness) <= closed_at
    return "lag" if in_time else "producer_delay"


@dataclass(frozen=True)
class Line:
    """One change of one left row. `row`: the whole row that comes; `gone`: the left row that leaves."""

    kind: str
    row_id: RowId
    row: JoinedRow | None = None
    gone: RowId | None = None
    stream: str | None = None
    appeared: Record | None = None
    vanished: Record | None = None
    state: tuple[State, State] | None = None
    missed_by: timedelta | None = None
    cause: Cause | None = None


@dataclass(frozen=True)
class Newer:
    """What is known beyond the publication. `watermark_at`: W as each batch began to land.

    For `cause`, of the publication's plan: `event_clocks` by partition, `out_of_orderness` by topic.
    """

    landed: Mapping[RowId, Record]
    pins: Mapping[str, int]  # of the publication
    watermark_at: Mapping[Batch, datetime | None]
    event_clocks: Mapping[Partition, datetime | None] | None = None
    out_of_orderness: Mapping[str, timedelta] = field(default_factory=dict)
    drained: bool = False

    def is_late(self, row_id: RowId) -> bool:
        return self.landed[row_id].batch > self.pins.get(row_id.topic, 0)

    def missed_by(self, row_id: RowId, closed_at: datetime) -> timedelta | None:
        at = self.watermark_at.get((row_id.topic, self.landed[row_id].batch))
        return None if at is None else at - closed_at

    def cause(self, row_id: RowId, closed_at: datetime) -> Cause | None:
        if self.event_clocks is None:
            return None
        clock = self.event_clocks.get((row_id.topic, row_id.epoch, row_id.partition))
        disorder = self.out_of_orderness[row_id.topic]
        return cause(self.landed[row_id].record_at, closed_at, clock, disorder, drained=self.drained)

    def lateness(self, row_id: RowId, closed_at: datetime) -> dict[str, Any]:
        """By how much and why, of a row above the pin; nothing of another."""
        if not self.is_late(row_id):
            return {}
        return {"missed_by": self.missed_by(row_id, closed_at), "cause": self.cause(row_id, closed_at)}


def ledger(published: Joined, rebuilt: Joined, spec: JoinSpec, newer: Newer) -> tuple[Line, ...]:
    """The lines of one interval, in row order. `rebuilt` is the same interval at the newest pins."""
    closed_at = closes_at(published.interval, spec.after, spec.grace)
    old = {row.row_id: row for row in published.rows}
    new = {row.row_id: row for row in rebuilt.rows}
    lines = list(_whole_rows(old, new, spec.left, newer, closed_at))
    for row_id in (row_id for row_id in new if row_id in old):
        lines += _of_row(old[row_id], new[row_id], spec, newer, closed_at)
    return tuple(sorted(lines, key=lambda line: line.row_id))


def apply(rows: Iterable[JoinedRow], lines: Iterable[Line]) -> tuple[JoinedRow, ...]:
    """The published rows with the ledger in them: the rows of a rebuild."""
    now = {row.row_id: row for row in rows}
    for line in lines:
        if line.gone:
            del now[line.gone]
        if line.row:
            now[line.row_id] = line.row
        if line.stream or line.state:
            now[line.row_id] = _with(now[line.row_id], line)
    return tuple(sorted(now.values(), key=lambda row: (row.event_at, row.row_id)))


def _whole_rows(
    old: Mapping[RowId, JoinedRow], new: Mapping[RowId, JoinedRow], left: Left, newer: Newer, closed_at: datetime
) -> Iterator[Line]:
    """Left rows that come, and those that leave: only another winner, or a deletion, makes a published row leave."""
    leaving = {_event(left, row): row_id for row_id, row in old.items() if row_id not in new}
    for row_id, row in new.items():
        if row_id in old:
            continue
        loser = leaving.pop(_event(left, row), None)
        kind = _leaving(newer, loser) if loser else "late_left" if newer.is_late(row_id) else "pair_appeared"
        yield Line(kind, row_id, row=row, gone=loser, **newer.lateness(row_id, closed_at))
    for row_id in leaving.values():
        yield Line(_leaving(newer, row_id), row_id, gone=row_id)


def _leaving(newer: Newer, row_id: RowId) -> str:
    """What a row that leaves has lost: its place to a lesser row id, or its landing row to a person's deletion."""
    return "winner_changed" if row_id in newer.landed else "erased"


def _of_row(old: JoinedRow, new: JoinedRow, spec: JoinSpec, newer: Newer, closed_at: datetime) -> list[Line]:
    lines = [line for right in spec.right for line in _of_stream(old, new, right, newer, closed_at)]
    before, after = (old.label_state, old.label_reason), (new.label_state, new.label_reason)
    if before != after:
        labels = {right.name for right in spec.labels}
        carrier = next((n for n, line in enumerate(lines) if line.stream in labels), None)
        if carrier is None:
            lines.append(Line("state_changed", new.row_id, state=(before, after)))
        else:
            lines[carrier] = replace(lines[carrier], state=(before, after))
    return lines


def _of_stream(old: JoinedRow, new: JoinedRow, right: Right, newer: Newer, closed_at: datetime) -> Iterator[Line]:
    was, is_now = ({m.row_id: m for m in row.matches[right.name]} for row in (old, new))
    leaving = {_event(right, m): m for row_id, m in was.items() if row_id not in is_now}
    coming = [m for row_id, m in is_now.items() if row_id not in was]
    for m in coming:
        loser = leaving.pop(_event(right, m), None)
        kind = "winner_changed" if loser or not newer.is_late(m.row_id) else f"late_{right.role}"
        if loser is None and right.take != "all" and leaving:
            loser = leaving.pop(next(iter(leaving)))
        if loser and loser.row_id not in newer.landed:
            kind = "erased"
        lateness = newer.lateness(m.row_id, closed_at)
        yield Line(kind, new.row_id, stream=right.name, appeared=m, vanished=loser, **lateness)
    for m in leaving.values():
        yield Line(_leaving(newer, m.row_id), new.row_id, stream=right.name, vanished=m)


def _event(stream: Left | Right, row: Record | JoinedRow) -> Any:
    event_id = row.values.get(stream.event_id) if stream.event_id else None
    return row.row_id if event_id is None else (event_id, row.event_at)


def _with(row: JoinedRow, line: Line) -> JoinedRow:
    matches = dict(row.matches)
    if line.stream:
        kept = [m for m in matches[line.stream] if m != line.vanished]
        matches[line.stream] = tuple(sorted([*kept, *([line.appeared] if line.appeared else [])], key=_order))
    state = line.state[1] if line.state else (row.label_state, row.label_reason)
    return replace(row, matches=matches, label_state=state[0], label_reason=state[1])


def _order(record: Record) -> Any:
    return record.order
