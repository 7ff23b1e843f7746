"""Whether the parts of a pipeline fit together.

Each check is a function from the fields of a pipeline to findings. Every single field is right by itself: the types
in `fields` have checked that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

from windrow.columns import ARRIVED_AT, AUDIT, ELEMENT_TYPES, INTERVAL, LABEL_TYPES, ORDER_TYPES, TRAINING_TYPES
from windrow.config import canary, drift, envelope
from windrow.config.column_types import ColumnType, parse_type, reason_not_a_key
from windrow.config.problems import Finding, Location, near_miss
from windrow.config.streams import PipelineFields, Stream, located
from windrow.semantics.erasure.keys import columns_in
from windrow.semantics.intervals import grid_around, is_length, nearest_lengths, on_grid
from windrow.text import counted, duration_text, short, short_instant_text

ERASABLE = ("string", "tinyint", "smallint", "int", "bigint")
"""Types of columns by which rows can be erased: a value has one spelling, whoever writes it."""

SHORTEST = timedelta(seconds=1)
"""No interval is shorter."""

_AUDIT = "an audit column, which depends on when rows were landed and published; a label may not"
_LABEL = "a label, and labels do not see each other; repeat its expression"


def findings(pipeline: PipelineFields) -> list[Finding]:
    """Every part that does not fit another, in no particular order; empty for a usable pipeline."""
    checks: tuple[Callable[[PipelineFields], Iterator[Finding]], ...] = (
        _interval_divides_the_day,
        _start_is_on_the_grid,
        _stream_names_differ,
        _columns_are_there,
        _right_columns_compare,
        _keys_compare,
        _names_do_not_collide,
        _shared_topics_agree,
        _expressions_read,
        _described_columns_are_there,
        envelope.findings,
        canary.findings,
        drift.findings,
        _erasure_can_be_carried_out,
        _bounds_leave_time_to_close,
    )
    return list(chain.from_iterable(check(pipeline) for check in checks))


def _interval_divides_the_day(pipeline: PipelineFields) -> Iterator[Finding]:
    length = pipeline.interval
    if length < SHORTEST:
        yield ("interval",), f"{duration_text(length)} is too short; at least {duration_text(SHORTEST)}"
    elif not is_length(length):
        near = " or ".join(duration_text(fitting) for fitting in nearest_lengths(length))
        yield ("interval",), f"{duration_text(length)} does not divide 24 hours; write {near}"


def _start_is_on_the_grid(pipeline: PipelineFields) -> Iterator[Finding]:
    length = pipeline.interval
    if length < SHORTEST or not is_length(length):
        return  # _interval_divides_the_day reports it
    if not on_grid(pipeline.start, length):
        near = " or ".join(short_instant_text(at) for at in grid_around(pipeline.start, length))
        yield ("start",), f"is not on the UTC grid of {duration_text(length)} intervals; write {near}"


def _bounds_leave_time_to_close(pipeline: PipelineFields) -> Iterator[Finding]:
    """What waits only for what the file itself asks for is within `waiting.max_age`; a policy has a bound."""
    bounds = pipeline.waiting
    if bounds.policy != "wait" and (bounds.max_rows, bounds.max_bytes, bounds.max_age) == (None, None, None):
        yield ("waiting", "policy"), f"{bounds.policy} without a bound; add max_rows, max_bytes or max_age"
    if bounds.max_age is None:
        return
    after = max(stream.window.after for stream in pipeline.right)
    least = after + pipeline.grace + max(stream.out_of_orderness for stream in pipeline.streams)
    if bounds.max_age <= least:
        yield (
            ("waiting", "max_age"),
            f"{duration_text(bounds.max_age)} is exceeded by every interval: each waits for the window, the grace and "
            f"the out-of-orderness; write more than {duration_text(least)}",
        )


def _stream_names_differ(pipeline: PipelineFields) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for where, stream in located(pipeline):
        if stream.name in seen:
            yield (*where, "name"), f"{stream.name!r} is also the name of {seen[stream.name]}; rename one"
        seen.setdefault(stream.name, "the left stream" if where == ("left",) else f"right stream {where[-1]}")


def _columns_are_there(pipeline: PipelineFields) -> Iterator[Finding]:
    """Key, event time and event id name existing columns, of types that are allowed there."""
    for where, stream in located(pipeline):
        for position, name in enumerate(stream.key):
            yield from _column(stream, (*where, "key", position), name, "key")
            if name in stream.key[:position]:
                yield (*where, "key", position), f"{name!r} is in the key twice; remove one"
        yield from _column(stream, (*where, "event_time"), stream.event_time, "event_time")
        if stream.event_id is not None:
            yield from _column(stream, (*where, "event_id"), stream.event_id, "event_id")


def _column(stream: Stream, where: Location, name: str, use: str) -> Iterator[Finding]:
    """Whether a column exists and has a type for its use: `key`, `event_time` or `event_id`."""
    if name not in stream.columns:
        yield (
            where,
            f"{short(name)} is not a column of {stream.name}; {near_miss(name, stream.columns, 'columns are')}",
        )
        return
    kind = parse_type(stream.columns[name])
    if use == "event_time" and kind.name != "timestamp":
        yield where, f"column {name!r} is {kind}; an event time must be of type timestamp"
    if use != "event_time" and (reason := reason_not_a_key(kind)):
        what = "a key column" if use == "key" else "an event id"
        yield where, f"column {name!r} is {kind}, which cannot be {what}: {reason}"


def _right_columns_compare(pipeline: PipelineFields) -> Iterator[Finding]:
    """No maps in right streams: their arrays are sorted, and maps have no order."""
    for index, stream in enumerate(pipeline.right):
        for name, kind in stream.columns.items():
            if any(part.name == "map" for part in parse_type(kind).parts()):
                yield (
                    ("right", index, "columns", stream.written(name)),
                    f"column {name!r} is {kind}; maps in right streams come later, use a struct or an array of structs",
                )


def _keys_compare(pipeline: PipelineFields) -> Iterator[Finding]:
    """Keys are compared by type and value: equally many columns, of the same types, position by position."""
    left = pipeline.left
    for index, right in enumerate(pipeline.right):
        where: Location = ("right", index, "key")
        if len(right.key) != len(left.key):
            names = ", ".join(left.key)
            yield (
                where,
                f"has {counted(len(right.key), 'column')}, left.key has {len(left.key)}; name one for each of: {names}",
            )
            continue
        for position, (ours, theirs) in enumerate(zip(left.key, right.key, strict=True)):
            one, other = left.columns.get(ours), right.columns.get(theirs)
            if one and other and one != other:
                yield (
                    (*where, position),
                    f"column {theirs!r} is {other}, its partner {ours!r} in left.key is {one}; "
                    "keys are equal by type and value, give both the same type",
                )


def _names_do_not_collide(pipeline: PipelineFields) -> Iterator[Finding]:
    """Left columns, right streams and labels become columns of one table; names must differ, ignoring case."""
    taken: dict[str, str] = dict.fromkeys(LABEL_TYPES, "a column of every training table")
    named: list[tuple[Location, str, str]] = [
        *((("left", "columns", pipeline.left.written(name)), name, "a left column") for name in pipeline.left.columns),
        *((("right", i, "name"), stream.name, "a right stream") for i, stream in enumerate(pipeline.right)),
        *((("labels", name), name, "a label") for name in pipeline.labels),
    ]
    for where, name, what in named:
        other = taken.get(name.lower())
        if other is None:
            taken[name.lower()] = what
        elif not (what == other == "a right stream"):  # _stream_names_differ reports these
            yield where, f"{name!r} is also {other} (upper and lower case are the same); rename one of them"
    for index, stream in enumerate(pipeline.right):
        seen: dict[str, str] = {}
        for name in stream.columns:
            if name.lower() in seen:
                other_name = seen[name.lower()]
                message = f"{name!r} is also {other_name!r} (upper and lower case are the same); rename one"
                yield ("right", index, "columns", stream.written(name)), message
            seen.setdefault(name.lower(), name)


def _shared_topics_agree(pipeline: PipelineFields) -> Iterator[Finding]:
    """Streams of one topic agree in event time, out-of-orderness, `compacted`, formats and columns: it lands once."""
    readers = list(located(pipeline))
    for index, (where, stream) in enumerate(readers):
        for _, other in readers[:index]:
            shared = [topic for topic in stream.topics if topic in other.topics]
            if shared:
                reason = f"{other.name} reads topic {shared[0]} too"
                yield from (
                    ((*where, *field), f"{what}; {reason}, make them equal") for field, what in _differ(stream, other)
                )


def _differ(stream: Stream, other: Stream) -> Iterator[Finding]:
    """Where two streams of one topic disagree; locations are relative to the first of them."""
    if stream.event_time != other.event_time:
        yield ("event_time",), f"is {stream.event_time!r}, in {other.name} it is {other.event_time!r}"
    if stream.out_of_orderness != other.out_of_orderness:
        ours, theirs = duration_text(stream.out_of_orderness), duration_text(other.out_of_orderness)
        yield ("out_of_orderness",), f"is {ours}, in {other.name} it is {theirs}"
    if stream.compacted != other.compacted:
        yield ("compacted",), f"is {stream.compacted}, in {other.name} it is {other.compacted}"
    if stream.format != other.format:
        yield ("format",), f"is {stream.format}, in {other.name} it is {other.format}"
    if stream.key_format != other.key_format and stream.key_format and other.key_format:
        yield ("key_format",), f"is {stream.key_format}, in {other.name} it is {other.key_format}"
    theirs_by_name = {name.lower(): (name, kind) for name, kind in other.columns.items()}
    for name, kind in stream.columns.items():
        known, known_kind = theirs_by_name.get(name.lower(), (name, kind))
        if known != name:
            yield (
                ("columns", stream.written(name)),
                f"is written {known!r} in {other.name} (upper and lower case are the same)",
            )
        elif known_kind != kind:
            yield ("columns", stream.written(name)), f"is {kind}, in {other.name} it is {known_kind}"
        elif name.lower() in theirs_by_name and stream.written(name) != other.written(name):
            yield ("columns", stream.written(name)), f"is {other.written(name)} in {other.name}"


@dataclass(frozen=True)
class Expression:
    """A `where` or a label: its location in the file, its text, and the columns that it sees (name → Spark's type)."""

    where: Location
    text: str
    columns: dict[str, str]
    is_condition: bool


def expressions_of(pipeline: PipelineFields) -> Iterator[Expression]:
    """Every expression of the file. A `where` sees the stream's own columns; a label sees the joined row."""
    for where, stream in located(pipeline):
        if stream.where is not None:
            yield Expression((*where, "where"), stream.where, dict(stream.columns), is_condition=True)
    joined = {name: str(kind) for name, kind in _joined_columns(pipeline).items()}
    for name, text in pipeline.labels.items():
        yield Expression(("labels", name), text, joined, is_condition=False)


def _joined_columns(pipeline: PipelineFields) -> dict[str, ColumnType]:
    """Columns that a label may use: left columns, right streams, label state and reason, row order, interval."""
    return {
        **_types(pipeline.left.columns),
        **{stream.name: element_type(stream) for stream in pipeline.right},
        **_types({**LABEL_TYPES, **ORDER_TYPES, INTERVAL: TRAINING_TYPES[INTERVAL]}),
    }


def _expressions_read(pipeline: PipelineFields) -> Iterator[Finding]:
    """Every `where` and label is one allowed expression over columns that exist."""
    expressions = list(expressions_of(pipeline))
    if not expressions:
        return
    from windrow.config import sql  # imported late: its parser takes longer to import than the whole package

    refused = {**dict.fromkeys(AUDIT, _AUDIT), **dict.fromkeys(pipeline.labels, _LABEL)}
    joined = sql.Scope(dict(_joined_columns(pipeline)), refused=refused, refused_fields={ARRIVED_AT: _AUDIT})
    for one in expressions:
        scope = sql.Scope(dict(_types(one.columns))) if one.is_condition else joined
        yield from ((one.where, problem) for problem in sql.problems_of(one.text, scope))


def _described_columns_are_there(pipeline: PipelineFields) -> Iterator[Finding]:
    """`describe` names columns that the training table has."""
    if pipeline.describe is None:
        return
    fields = (f"{stream.name}.{name}" for stream in pipeline.right for name in stream.columns)
    streams = (stream.name for stream in pipeline.right)
    known = {*pipeline.left.columns, *streams, *fields, *pipeline.labels}
    for name in pipeline.describe.columns:
        if name not in known:
            problem = f"is not a column of the training table; {near_miss(name, known, 'columns are')}"
            yield ("describe", "columns", name), problem


def _erasure_can_be_carried_out(pipeline: PipelineFields) -> Iterator[Finding]:
    """`erase` names left columns whose values have one spelling; rows that stay without payload keep their number."""
    erase, left = pipeline.erase, pipeline.left
    if erase is None:
        return
    for position, name in enumerate(erase.by):
        where: Location = ("erase", "by", position)
        if name not in left.columns:
            yield where, f"{short(name)} is not a left column; {near_miss(name, left.columns, 'columns are')}"
            continue
        if name in erase.by[:position]:
            yield where, f"{name!r} stands there twice; remove one"
        for stream in pipeline.streams:
            column = (columns_in(stream, left, [name]) or {}).get(name)
            kind = parse_type(stream.columns.get(column, "string")) if column else None
            if kind and kind.name not in ERASABLE:
                yield (
                    where,
                    f"column {column!r} of {stream.name} is {kind}; keys are erased by text or whole numbers "
                    f"({', '.join(ERASABLE)})",
                )
    if erase.mode == "null":
        problems = {
            "left.event_id": left.event_id is not None,
            "left.where": left.where is not None,
            "a stream with join: inner": any(stream.join == "inner" for stream in pipeline.right),
        }
        for what in (name for name, is_there in problems.items() if is_there):
            yield (
                ("erase", "mode"),
                f"null does not go with {what}: a row without payload cannot show whether a rebuild has it; "
                "write mode: delete",
            )


def _types(columns: Mapping[str, str]) -> dict[str, ColumnType]:
    return {name: parse_type(kind) for name, kind in columns.items()}


def element_type(stream: Stream) -> ColumnType:
    """The column of a right stream in the joined row: an array of structs."""
    fields = {name: parse_type(kind) for name, kind in {**ELEMENT_TYPES, **stream.columns}.items()}
    element = ColumnType("struct", inner=tuple(fields.values()), fields=tuple(fields))
    return ColumnType("array", inner=(element,))
