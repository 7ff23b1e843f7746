"""The late ledger: what a rebuild at the newest pins would change in a publication, one line per change.

    published  +  ledger  =  rebuilt          exactly; `apply` is the proof

    late_left        a left row above the pin                     carries the whole row
    pair_appeared    a left row that `inner` had left out         carries the whole row
    winner_changed   a lesser row id of the same event landed     the one that leaves, the one that comes
    late_label       a label above the pin                        the label, and the one that `take` drops for it
    late_feature     the same for a feature stream
    state_changed    the label state, or its reason, alone        before and after
    erased           a published row whose landing row is deleted  the one that leaves, and what takes its place
    config_changed   the publication is of another config         one line, because nothing else can be compared

A change of the label state is recorded on the first line about the row's labels, or on a line of its own if no label
changes. A row is late if its batch is above the pin; the clock does not decide that. The clock gives the amount:
`missed_by` is how far the watermark was beyond the interval's closing when the batch landed, and a grace larger by more
than that would have caught the row; a row that came before the closing missed nothing. `cause` is the reason. Published
and rebuilt rows are of one config.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from windrow.semantics.close import closes_at
from windrow.semantics.intervals import shifted
from windrow.semantics.records import JoinSpec, Left, Record, Right, RowId, event_of
from windrow.semantics.reference import Joined, JoinedRow

State = tuple[str, str | None]
Batch = tuple[str, int]
"""topic, batch number"""
Partition = tuple[str, int, int]
"""topic, epoch, partition"""
Cause = Literal["drained", "forced", "idle_advance", "lag", "producer_delay"]
CONFIG_CHANGED, AS_PUBLISHED = "config_changed", "as_published"
"""Kinds without a row of their own: the interval cannot be compared; earlier lines about the subject no longer count.
The ledger is append only, so a line is revoked by a newer one."""


def cause(
    record_at: datetime | None,
    closed_at: datetime,
    event_clock: datetime | None,
    out_of_orderness: timedelta,
    *,
    drained: bool = False,
    forced: bool = False,
) -> Cause:
    """Why a record landed after its interval was published: the first of these that applies.

    drained         a person had declared the end of the stream.
    forced          a person, or a bound on what waits, had published the interval before it closed.
    idle_advance    no event of its own partition had moved the clock to the closing: idling did, or the partition is
                    newer than the publication. `idle: wait` or a longer `idle.after` would have waited.
    lag             it was logged in time: an event at that very moment would not have moved the clock of its
                    partition past the closing. It was held up on the way to the partition (a producer's buffer, a
                    mirror), or written behind newer records. With LogAppendTime this does not happen.
    producer_delay  it was logged later than window, grace and out-of-orderness allow.

    Args:
        record_at: when it was logged; None counts as late.
        closed_at: the least watermark at which the interval is closed.
        event_clock: newest trusted event of its partition minus the out-of-orderness, at the publication's plan.
    """
    if drained:
        return "drained"
    if forced:
        return "forced"
    if event_clock is None or event_clock < closed_at:
        return "idle_advance"
    in_time = record_at is not None and shifted(record_at, -out_of_orderness) <= closed_at
    return "lag" if in_time else "producer_delay"


@dataclass(frozen=True)
class Line:
    """One change of one left row."""

    kind: str
    row_id: RowId
    row: JoinedRow | None = None
    """the joined row that is added"""
    gone: RowId | None = None
    """the left row that is removed"""
    stream: str | None = None
    """right stream of `appeared` and `vanished`"""
    appeared: Record | None = None
    """match that is added"""
    vanished: Record | None = None
    """match that is removed"""
    state: tuple[State, State] | None = None
    """label state before and after"""
    missed_by: timedelta | None = None
    cause: Cause | None = None


@dataclass(frozen=True)
class Newer:
    """What is known now, and what the publication knew."""

    landed: Mapping[RowId, Record]
    """everything that is landed now"""
    pins: Mapping[str, int]
    """of the publication: topic → newest batch in it"""
    watermark_at: Mapping[Batch, datetime | None]
    """the watermark as each batch began to land"""
    event_clocks: Mapping[Partition, datetime | None] | None = None
    """of the publication's plan; None if causes are not wanted"""
    out_of_orderness: Mapping[str, timedelta] = field(default_factory=dict)
    """by topic"""
    drained: bool = False
    """whether the publication was drained"""
    forced: bool = False
    """whether it was published before it closed"""

    def is_late(self, row_id: RowId) -> bool:
        """Whether a landed row is above the publication's pin."""
        return self.landed[row_id].batch > self.pins.get(row_id.topic, 0)

    def missed_by(self, row_id: RowId, closed_at: datetime) -> timedelta | None:
        """How far the watermark was beyond the closing when the row's batch began to land.

        None where that is not known, and where the watermark had not come to the closing, as it may be after a forced
        or drained publication: the row missed nothing.
        """
        at = self.watermark_at.get((row_id.topic, self.landed[row_id].batch))
        return None if at is None or at < closed_at else at - closed_at

    def cause(self, row_id: RowId, closed_at: datetime) -> Cause | None:
        """Why a late row was late (see the function `cause`); None where causes are not wanted."""
        if self.event_clocks is None:
            return None
        clock = self.event_clocks.get((row_id.topic, row_id.epoch, row_id.partition))
        disorder = self.out_of_orderness[row_id.topic]
        return cause(
            self.landed[row_id].record_at, closed_at, clock, disorder, drained=self.drained, forced=self.forced
        )

    def lateness(self, row_id: RowId, closed_at: datetime) -> dict[str, Any]:
        """`missed_by` and `cause` of a late row; empty for any other."""
        if not self.is_late(row_id):
            return {}
        return {"missed_by": self.missed_by(row_id, closed_at), "cause": self.cause(row_id, closed_at)}


def ledger(published: Joined, rebuilt: Joined, spec: JoinSpec, newer: Newer) -> tuple[Line, ...]:
    """The lines of one interval, in row order.

    Args:
        published: the interval as it was published.
        rebuilt: the same interval at the newest pins.
    """
    closed_at = closes_at(published.interval, spec.after, spec.grace)
    old = {row.row_id: row for row in published.rows}
    new = {row.row_id: row for row in rebuilt.rows}
    lines = list(_whole_rows(old, new, spec.left, newer, closed_at))
    for row_id in (row_id for row_id in new if row_id in old):
        lines += _of_row(old[row_id], new[row_id], spec, newer, closed_at)
    return tuple(sorted(lines, key=lambda line: line.row_id))


def apply(rows: Iterable[JoinedRow], lines: Iterable[Line]) -> tuple[JoinedRow, ...]:
    """The published rows with the changes of the ledger: the rows of a rebuild, in row order."""
    applied = {row.row_id: row for row in rows}
    for line in lines:
        if line.gone:
            del applied[line.gone]
        if line.row:
            applied[line.row_id] = line.row
        if line.stream or line.state:
            applied[line.row_id] = _with(applied[line.row_id], line)
    return tuple(sorted(applied.values(), key=lambda row: (row.event_at, row.row_id)))


def _whole_rows(
    old: Mapping[RowId, JoinedRow], new: Mapping[RowId, JoinedRow], left: Left, newer: Newer, closed_at: datetime
) -> Iterator[Line]:
    """Lines about added and removed left rows; an added row replaces a removed row of the same event."""
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
    """Kind of a removal: a lesser row id of the event has landed, or the row's own landing row was deleted."""
    return "winner_changed" if row_id in newer.landed else "erased"


def _of_row(old: JoinedRow, new: JoinedRow, spec: JoinSpec, newer: Newer, closed_at: datetime) -> list[Line]:
    """Lines about the matches of a row; the first one about a label also carries a change of the row's state."""
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
    """Lines about the matches of one stream; each added match is paired with the removed match that it replaces."""
    before, after = ({match.row_id: match for match in row.matches[right.name]} for row in (old, new))
    leaving = {_event(right, match): match for row_id, match in before.items() if row_id not in after}
    coming = [match for row_id, match in after.items() if row_id not in before]
    for match in coming:
        loser = leaving.pop(_event(right, match), None)
        kind = "winner_changed" if loser or not newer.is_late(match.row_id) else f"late_{right.role}"
        if loser is None and right.take != "all" and leaving:  # `take` has a single slot: whatever was in it leaves
            loser = leaving.pop(next(iter(leaving)))
        if loser and loser.row_id not in newer.landed:
            kind = "erased"
        lateness = newer.lateness(match.row_id, closed_at)
        yield Line(kind, new.row_id, stream=right.name, appeared=match, vanished=loser, **lateness)
    for match in leaving.values():
        yield Line(_leaving(newer, match.row_id), new.row_id, stream=right.name, vanished=match)


def _event(stream: Left | Right, row: Record | JoinedRow) -> Hashable:
    """What names a row across publications: its event, or its row id where it has no event id."""
    return event_of(stream, row.values, row.event_at) or row.row_id


def _with(row: JoinedRow, line: Line) -> JoinedRow:
    """The row with the change that a line describes."""
    matches = dict(row.matches)
    if line.stream:
        kept = [match for match in matches[line.stream] if match != line.vanished]
        added = [line.appeared] if line.appeared else []
        matches[line.stream] = tuple(sorted([*kept, *added], key=lambda record: record.order))
    state = line.state[1] if line.state else (row.label_state, row.label_reason)
    return replace(row, matches=matches, label_state=state[0], label_reason=state[1])
