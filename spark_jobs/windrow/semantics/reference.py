"""The reference join: the whole contract in plain loops. Slow, obvious; every engine must agree with it.

    landed records ──▶ one per row id ──▶ where ──▶ no canary ──▶ one per event ──▶ left rows of the interval,
      (batch <= pin)      (replayed)    (filtered)   (canary)      (duplicate)      each with all its right rows:
                                                                                    one JoinedRow, in row order

    a left row in time:      before        after          grace
                          |<-------●-------------------->|<----->|
    ----------------------+---◆----+-------◆-----------◆-+-------+------> event time
                              its matches, both ends in            closed when W is here (`close`)

Every left row of the interval is emitted exactly once, with all its matches, except rows for which an `inner` stream
has no match (`unpaired`). Nothing here knows Kafka, files, Spark or the pipeline file. Time comes in as values:
`close` decides which interval is closed, `JoinSpec.event_clocks` says how far labels have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from windrow.columns import ERASED
from windrow.semantics.balance import Balance, LeftBalance, RightBalance
from windrow.semantics.intervals import Interval, interval_of, shifted, utc
from windrow.semantics.labels import (
    FORCED,
    LABEL_QUARANTINED,
    NULL_KEY,
    OFFSET_GAP,
    SIDE_SILENT,
    is_side_silent,
    label_state,
)
from windrow.semantics.match import key_of, matches
from windrow.semantics.records import (
    Gap,
    JoinSpec,
    Left,
    Predicate,
    Record,
    Right,
    RowId,
    emptied_all,
    event_of,
    is_canary,
    moves_no_clock,
    unreadable_for,
)


@dataclass(frozen=True)
class JoinedRow:
    """A left row with its matches: by right stream, in row order; an empty tuple if nothing matched."""

    row_id: RowId
    event_at: datetime
    values: Mapping[str, Any]
    matches: Mapping[str, tuple[Record, ...]]
    label_state: str
    label_reason: str | None


@dataclass(frozen=True)
class Joined:
    """The rows of one interval. `not_taken`: by stream, matches that `take` left out. `conflict`: see `Side`."""

    interval: Interval
    rows: tuple[JoinedRow, ...]
    balance: Balance
    not_taken: Mapping[str, int]
    conflict: Mapping[str, int]


def reference_join(records: Iterable[Record], spec: JoinSpec, interval: Interval, pins: Mapping[str, int]) -> Joined:
    """Join one interval.

    Args:
        records: everything that has landed, in any order.
        pins: by topic, the newest batch that takes part.

    Raises:
        ValueError: the interval is not on the grid of the rules.
    """
    if interval != interval_of(interval.start, spec.start, spec.interval) or interval.start < utc(spec.start):
        raise ValueError(f"{interval} is not on the grid of {spec.interval} from {spec.start}")
    landed = emptied_all(landed_once(records, pins)[0], spec)
    left = side_of(landed, spec.left, lambda t: interval.contains(t))
    rights = {r.name: side_of(landed, r, _read_for(interval, r)) for r in spec.right}
    matched: dict[str, set[RowId]] = {r.name: set() for r in spec.right}
    not_taken = dict.fromkeys(matched, 0)
    rows: list[JoinedRow] = []
    for row in left.rows:
        found = {r.name: matches_of(row, rights[r.name].rows, spec.left, r) for r in spec.right}
        for name, rows_found in found.items():
            matched[name].update(m.row_id for m in rows_found)  # also matches of an unpaired row: they were read
        if any(r.join == "inner" and not found[r.name] for r in spec.right):
            continue  # unpaired: it is counted, not emitted
        kept = {r.name: taken(found[r.name], r.take) for r in spec.right}
        for name in kept:
            not_taken[name] += len(found[name]) - len(kept[name])
        has_label = any(kept[r.name] for r in spec.labels)
        state = label_state(has_label=has_label, doubts=_doubts(row, landed, spec), drained=spec.drained)
        event_at, row_id = row.order
        rows.append(JoinedRow(row_id, event_at, row.values, kept, state.state, state.reason))
    conflict = {spec.left.name: left.conflict} | {name: side.conflict for name, side in rights.items()}
    return Joined(interval, tuple(rows), _balance(left, rights, len(rows), matched), not_taken, conflict)


def event_clocks(
    records: Iterable[Record],
    pins: Mapping[str, int],
    out_of_orderness: Mapping[str, timedelta],
    streams: Iterable[Left | Right] = (),
) -> dict[str, tuple[datetime | None, ...]]:
    """Event clocks at the pins: newest trusted event time of a partition, minus the out-of-orderness of its topic.

    Quarantined records and canaries do not count. Of a topic that was re-created only the last epoch counts: the
    partitions of earlier ones get no more events.

    Args:
        streams: say which records are canaries.

    Returns:
        By topic, a clock for every partition that has landed an event.
    """
    landed, _ = landed_once(records, pins)
    streams = tuple(streams)
    epoch: dict[str, int] = {}
    for r in landed:
        epoch[r.row_id.topic] = max(r.row_id.epoch, epoch.get(r.row_id.topic, 0))
    newest: dict[tuple[str, int, int], datetime] = {}
    for r in landed:
        if moves_no_clock(r, streams):
            continue
        if r.event_at is not None and r.row_id.epoch == epoch[r.row_id.topic]:
            p = (r.row_id.topic, r.row_id.epoch, r.row_id.partition)
            newest[p] = max(newest.get(p, r.event_at), r.event_at)
    return {
        topic: tuple(shifted(at, -disorder) for p, at in sorted(newest.items()) if p[0] == topic)
        for topic, disorder in out_of_orderness.items()
    }


@dataclass(frozen=True)
class Side:
    """A stream's rows in row order, one per event, and the counts of what was left out.

    `canaries` are in row order too; their events are not compared. `conflict` counts duplicates whose payload differs
    from that of the row that is kept, and of rows with one event id at several event times all but one. `erased`:
    records of its topics in that time whose key was erased (rule 22). They have no payload, so nothing says which
    stream of a shared topic they were for; none of them is `read`.
    """

    rows: tuple[Record, ...]
    read: int
    filtered: int
    duplicate: int
    conflict: int
    canaries: tuple[Record, ...] = ()
    erased: int = 0


def landed_once(records: Iterable[Record], pins: Mapping[str, int]) -> tuple[list[Record], int]:
    """One record per offset, the one that landed first, and the number of later landings of the same offsets.

    A reconsidered record stands for those that landed before it.
    """
    by_pin = standing_for([r for r in records if r.row_id.topic in pins and r.batch <= pins[r.row_id.topic]])
    first: dict[RowId, Record] = {}
    for r in sorted(by_pin, key=lambda r: (r.row_id, r.batch)):
        first.setdefault(r.row_id, r)
    return list(first.values()), len(by_pin) - len(first)


def standing_for(records: Sequence[Record]) -> list[Record]:
    """The records without those that a reconsidered one stands for."""
    since = {r.row_id: r.batch for r in records if r.reconsidered is not None}
    return [r for r in records if r.batch >= since.get(r.row_id, r.batch)]


def side_of(landed: list[Record], stream: Left | Right, is_read: Callable[[datetime], bool]) -> Side:
    """The rows of a stream whose event time is read, after `where`, without canaries, and after deduplication.

    Two records are the same event where event id and event time are equal; without an event id each record is an
    event of its own. The smallest row id is kept.
    """
    read = [
        r
        for r in landed
        if r.row_id.topic in stream.topics
        and unreadable_for(r, stream) is None
        and (passes(r, stream.where) or r.event_at is not None)  # a filtered record may lack its event time
        and is_read(r.order[0])
    ]
    chosen = [r for r in read if passes(r, stream.where)]
    kept = [r for r in chosen if not is_canary(r, stream)]
    winners: dict[Any, Record] = {}
    conflict = 0
    for r in sorted(kept, key=lambda r: r.row_id):
        event = event_of(stream, r.values, r.event_at) or r.row_id
        winner = winners.setdefault(event, r)
        conflict += _payload(winner) != _payload(r)
    ids = [event[0] for event in winners if not isinstance(event, RowId)]  # one id at several times is a conflict
    conflict += len(ids) - len(set(ids))
    rows = tuple(sorted(winners.values(), key=lambda r: r.order))
    canaries = tuple(sorted((r for r in chosen if is_canary(r, stream)), key=lambda r: r.order))
    gone = (r for r in landed if r.row_id.topic in stream.topics and r.quarantined == ERASED and r.event_at is not None)
    erased = sum(is_read(r.order[0]) for r in gone)
    return Side(rows, len(read), len(read) - len(chosen), len(kept) - len(rows), conflict, canaries, erased)


def _read_for(interval: Interval, right: Right) -> Callable[[datetime], bool]:
    """Return a test of event times: whether a right row is read for the windows of the interval, both ends included."""
    first, last = shifted(interval.start, -right.before), shifted(interval.end, right.after)
    return lambda t: first <= t <= last


def matches_of(row: Record, rights: tuple[Record, ...], left: Left, right: Right) -> tuple[Record, ...]:
    """Every match of a left row among the rows of a right stream (`side_of`), in row order."""
    key = key_of(row.values, left.key)
    return tuple(
        r
        for r in rights
        if key is not None
        and key == key_of(r.values, right.key)
        and matches(row.order[0], r.order[0], right.before, right.after)
    )


def _balance(left: Side, rights: Mapping[str, Side], emitted: int, matched: Mapping[str, set[RowId]]) -> Balance:
    return Balance(
        LeftBalance(
            landed=len(left.rows) + left.duplicate + len(left.canaries) + left.erased,
            emitted=emitted,
            duplicate=left.duplicate,
            unpaired=len(left.rows) - emitted,
            canary=len(left.canaries),
            erased=left.erased,
        ),
        {
            name: RightBalance(
                side.read + side.erased,
                len(matched[name]),
                len(side.rows) - len(matched[name]),
                side.duplicate,
                side.filtered,
                len(side.canaries),
                side.erased,
            )
            for name, side in rights.items()
        },
    )


def taken(found: tuple[Record, ...], take: str) -> tuple[Record, ...]:
    """The matches that `take` keeps."""
    return {"all": found, "first": found[:1], "last": found[-1:]}[take]


def _doubts(row: Record, landed: list[Record], spec: JoinSpec) -> set[str]:
    """Reasons why this row's labels may be incomplete, over all label streams; `labels` picks the one that counts."""
    at, doubts = row.order[0], set()
    key = key_of(row.values, spec.left.key)
    if key is None:
        doubts.add(NULL_KEY)
    if spec.forced and spec.labels:
        doubts.add(FORCED)
    for right in spec.labels:
        if any(_overlaps(gap, at, right) for gap in spec.gaps if gap.topic in right.topics):
            doubts.add(OFFSET_GAP)
        bad = [r for r in landed if r.row_id.topic in right.topics and unreadable_for(r, right)]
        same = [r for r in bad if key is not None and key == key_of(r.values, right.key)]
        if any(could_have_matched(at, r, right, spec.max_skew) for r in same):
            doubts.add(LABEL_QUARANTINED)
        silent = (is_side_silent(at, right.after, spec.event_clocks.get(topic, ())) for topic in right.topics)
        if right.silence == "unknown" and any(silent):
            doubts.add(SIDE_SILENT)
    return doubts


def could_have_matched(left_at: datetime, bad: Record, right: Right, max_skew: timedelta) -> bool:
    """Whether a record of the left row's key that the right stream cannot read may be a match.

    It may not if `where` excludes it. A trusted event time decides by itself. Without one, the record time must not be
    before the window by more than `max_skew`, because nothing is logged before it has happened.
    """
    if right.where is not None and right.where(bad.values) is False:
        return False
    if bad.event_at is not None:
        return matches(left_at, bad.event_at, right.before, right.after)
    return bad.record_at is None or shifted(left_at, -right.before) <= shifted(bad.record_at, max_skew)


def _overlaps(gap: Gap, left_at: datetime, right: Right) -> bool:
    """Whether the window and the gap share an instant; a missing bound of the gap has no limit."""
    begins_in_time = gap.start_at is None or utc(gap.start_at) <= shifted(left_at, right.after)
    return begins_in_time and (gap.end_at is None or utc(gap.end_at) >= shifted(left_at, -right.before))


def passes(record: Record, where: Predicate | None) -> bool:
    """Whether `where` keeps a landed record."""
    return where is None or where(record.values) is True


def _payload(record: Record) -> str:
    return repr(sorted(record.values.items()))
