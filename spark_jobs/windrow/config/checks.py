"""Whether the parts of a pipeline fit together, and what is right but worth knowing.

Each check is a function from a pipeline to findings (where, what is wrong; what would be right). It assumes
that every single field is right by itself, which the models have seen to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING

from windrow.config.column_types import ColumnType, parse_type, why_no_key
from windrow.config.problems import Location, near_miss
from windrow.semantics.intervals import DAY, EPOCH
from windrow.text import duration_text, short

if TYPE_CHECKING:
    from windrow.config.pipeline import Pipeline, Stream

Finding = tuple[Location, str]

READS_WORTH_KNOWING = 20
"""From this many readings of each label on, `check` says so."""

_STATE = {"label_state": ColumnType("string"), "label_reason": ColumnType("string")}
_TIME, _TEXT, _INT, _LONG = (ColumnType(name) for name in ("timestamp", "string", "int", "bigint"))
_IDENTITY = {"_event_time": _TIME, "_topic": _TEXT, "_epoch": _INT, "_partition": _INT, "_offset": _LONG}
_AUDIT = "an audit column, which depends on when rows were landed and published; a label may not"
_LABEL = "a label, and labels do not see each other; repeat its expression"
_AUDIT_COLUMNS = dict.fromkeys(("_batch", "_arrived_at", "_observed_until", "_publication"), _AUDIT)


def findings(pipeline: Pipeline) -> list[Finding]:
    """Everything that does not fit, in no order."""
    checks: tuple[Callable[[Pipeline], Iterator[Finding]], ...] = (
        _interval_divides_the_day,
        _start_is_on_the_grid,
        _stream_names_differ,
        _columns_are_there,
        _right_columns_compare,
        _keys_compare,
        _names_do_not_collide,
        _shared_topics_agree,
        _expressions_read,
    )
    return list(chain.from_iterable(check(pipeline) for check in checks))


def _located(pipeline: Pipeline) -> Iterator[tuple[Location, Stream]]:
    yield ("left",), pipeline.left
    for position, stream in enumerate(pipeline.right):
        yield ("right", position), stream


def _interval_divides_the_day(pipeline: Pipeline) -> Iterator[Finding]:
    length = pipeline.interval
    if length < timedelta(seconds=1):
        yield ("interval",), f"{duration_text(length)} is too short; at least 1s"
    elif length > DAY or DAY % length:
        seconds = length.total_seconds()
        fitting = [n for n in range(1, 86401) if 86400 % n == 0]
        below = max((n for n in fitting if n <= seconds), default=1)
        above = min((n for n in fitting if n >= seconds), default=86400)
        near = " or ".join(duration_text(timedelta(seconds=n)) for n in sorted({below, above}))
        yield ("interval",), f"{duration_text(length)} does not divide 24 hours; write {near}"


def _start_is_on_the_grid(pipeline: Pipeline) -> Iterator[Finding]:
    length = pipeline.interval
    if length < timedelta(seconds=1) or length > DAY or DAY % length:
        return
    off = (pipeline.start - EPOCH) % length
    if off:
        below, above = pipeline.start - off, pipeline.start - off + length
        near = " or ".join(at.isoformat().replace("+00:00", "Z") for at in (below, above))
        yield ("start",), f"is not on the UTC grid of {duration_text(length)} intervals; write {near}"


def _stream_names_differ(pipeline: Pipeline) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for where, stream in _located(pipeline):
        if stream.name in seen:
            yield (*where, "name"), f"{stream.name!r} is also the name of {seen[stream.name]}; rename one"
        seen.setdefault(stream.name, "the left stream" if where == ("left",) else f"right stream {where[-1]}")


def _columns_are_there(pipeline: Pipeline) -> Iterator[Finding]:
    """Key, event time and event id name columns, of types that can be what they are for."""
    for where, stream in _located(pipeline):
        for position, name in enumerate(stream.key):
            yield from _column(stream, (*where, "key", position), name, "key")
            if name in stream.key[:position]:
                yield (*where, "key", position), f"{name!r} stands twice in the key; remove one"
        yield from _column(stream, (*where, "event_time"), stream.event_time, "event_time")
        if stream.event_id is not None:
            yield from _column(stream, (*where, "event_id"), stream.event_id, "event_id")


def _column(stream: Stream, where: Location, name: str, use: str) -> Iterator[Finding]:
    if name not in stream.columns:
        yield (
            where,
            f"{short(name)} is no column of {stream.name}; {near_miss(name, stream.columns, 'columns are')}",
        )
        return
    kind = parse_type(stream.columns[name])
    if use == "event_time" and kind.name != "timestamp":
        yield where, f"column {name!r} is {kind}; an event time must be of type timestamp"
    if use != "event_time" and (reason := why_no_key(kind)):
        what = "a key column" if use == "key" else "an event id"
        yield where, f"column {name!r} is {kind}, which cannot be {what}: {reason}"


def _right_columns_compare(pipeline: Pipeline) -> Iterator[Finding]:
    """A right stream's array is sorted, and maps have no order."""
    for index, stream in enumerate(pipeline.right):
        for name, kind in stream.columns.items():
            if any(part.name == "map" for part in parse_type(kind).parts()):
                yield (
                    ("right", index, "columns", name),
                    f"column {name!r} is {kind}; maps in right streams come later, use a struct or an array of structs",
                )


def _keys_compare(pipeline: Pipeline) -> Iterator[Finding]:
    """Keys are equal by type and value: as many columns, of the same types, position by position."""
    left = pipeline.left
    for index, right in enumerate(pipeline.right):
        where: Location = ("right", index, "key")
        if len(right.key) != len(left.key):
            names = ", ".join(left.key)
            yield (
                where,
                f"has {len(right.key)} columns, left.key has {len(left.key)}; name one for each of: {names}",
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


def _names_do_not_collide(pipeline: Pipeline) -> Iterator[Finding]:
    """Left columns, right streams and labels become columns of one table, beside its own; case makes none."""
    taken: dict[str, str] = dict.fromkeys(_STATE, "a column of every training table")
    named: list[tuple[Location, str, str]] = [
        *((("left", "columns", name), name, "a left column") for name in pipeline.left.columns),
        *((("right", i, "name"), stream.name, "a right stream") for i, stream in enumerate(pipeline.right)),
        *((("labels", name), name, "a label") for name in pipeline.labels),
    ]
    for where, name, what in named:
        other = taken.get(name.lower())
        if other is None:
            taken[name.lower()] = what
        elif not (what == other == "a right stream"):  # said by _stream_names_differ
            yield where, f"{name!r} is also {other} (upper and lower case are one); rename one of them"
    for index, stream in enumerate(pipeline.right):
        seen: dict[str, str] = {}
        for name in stream.columns:
            if name.lower() in seen:
                other_name = seen[name.lower()]
                message = f"{name!r} is also {other_name!r} (upper and lower case are one); rename one"
                yield ("right", index, "columns", name), message
            seen.setdefault(name.lower(), name)


def _shared_topics_agree(pipeline: Pipeline) -> Iterator[Finding]:
    """A topic is landed and clocked once: its readers agree in time, disorder, format and column types."""
    located = list(_located(pipeline))
    for index, (where, stream) in enumerate(located):
        for _, other in located[:index]:
            shared = [topic for topic in stream.topics if topic in other.topics]
            if shared:
                reason = f"{other.name} reads topic {shared[0]} too"
                yield from (
                    ((*where, *field), f"{what}; {reason}, make them equal") for field, what in _differ(stream, other)
                )


def _differ(stream: Stream, other: Stream) -> Iterator[Finding]:
    if stream.event_time != other.event_time:
        yield ("event_time",), f"is {stream.event_time!r}, in {other.name} it is {other.event_time!r}"
    if stream.out_of_orderness != other.out_of_orderness:
        ours, theirs = duration_text(stream.out_of_orderness), duration_text(other.out_of_orderness)
        yield ("out_of_orderness",), f"is {ours}, in {other.name} it is {theirs}"
    if stream.format != other.format:
        yield ("format",), f"is {stream.format}, in {other.name} it is {other.format}"
    theirs_by_name = {name.lower(): (name, kind) for name, kind in other.columns.items()}
    for name, kind in stream.columns.items():
        known, known_kind = theirs_by_name.get(name.lower(), (name, kind))
        if known != name:
            yield (
                ("columns", name),
                f"is written {known!r} in {other.name} (upper and lower case are one column)",
            )
        elif known_kind != kind:
            yield ("columns", name), f"is {kind}, in {other.name} it is {known_kind}"


def _expressions_read(pipeline: Pipeline) -> Iterator[Finding]:
    """`where` sees the stream's own columns; a label sees the joined row."""
    filtered = [(where, stream) for where, stream in _located(pipeline) if stream.where is not None]
    if not filtered and not pipeline.labels:
        return
    from windrow.config import sql  # the parser takes longer to import than everything else here

    for where, stream in filtered:
        scope = sql.Scope(_types(stream.columns))
        yield from (((*where, "where"), problem) for problem in sql.problems_of(stream.where or "", scope))
    label_scope = sql.Scope(
        {
            **_types(pipeline.left.columns),
            **{stream.name: element_type(stream) for stream in pipeline.right},
            **_STATE,
            **_IDENTITY,
            "_interval": _TIME,
        },
        refused={
            **_AUDIT_COLUMNS,
            **dict.fromkeys(pipeline.labels, _LABEL),
        },
        refused_fields={"_arrived_at": _AUDIT},
    )
    for name, expression in pipeline.labels.items():
        yield from ((("labels", name), problem) for problem in sql.problems_of(expression, label_scope))


def _types(columns: Mapping[str, str]) -> dict[str, ColumnType | None]:
    return {name: parse_type(kind) for name, kind in columns.items()}


def element_type(stream: Stream) -> ColumnType:
    """The column of a right stream in the joined row: an array of structs."""
    fields = {
        **_IDENTITY,
        "_arrived_at": _TIME,
        **{n: parse_type(kind) for n, kind in stream.columns.items()},
    }
    element = ColumnType("struct", inner=tuple(fields.values()), fields=tuple(fields))
    return ColumnType("array", inner=(element,))


def warnings_of(pipeline: Pipeline) -> Iterator[Finding]:
    """What is right, and still worth a second look."""
    if not pipeline.label_streams:
        yield (
            ("right",),
            "no stream has role: label; every row will be without a label (state unknown or negative)",
        )
    for where, stream in _located(pipeline):
        if stream.event_id is None:
            yield where, "has no event_id; a producer's retry becomes a row of its own"
    for index, right in enumerate(pipeline.right):
        reads = 1 + (right.window.before + right.window.after) / pipeline.interval
        if reads > READS_WORTH_KNOWING:
            yield (
                ("right", index, "window"),
                f"every row of {right.name} is read about {reads:.0f} times (1 + window / interval); "
                "a longer interval reads less",
            )
        if right.role == "feature" and "silence" in right.model_fields_set:
            yield (
                ("right", index, "silence"),
                "has no effect on a feature stream; labels alone decide the state",
            )
    yield from _doubtful_functions(pipeline)
    if pipeline.idle.mode == "wait":
        yield (
            ("idle",),
            "mode wait: a partition without new records holds the clock, and nothing closes till it has some",
        )


def _doubtful_functions(pipeline: Pipeline) -> Iterator[Finding]:
    from windrow.config import sql

    expressions: list[tuple[Location, str]] = [
        *(((*where, "where"), stream.where) for where, stream in _located(pipeline) if stream.where),
        *((("labels", name), expression) for name, expression in pipeline.labels.items()),
    ]
    for where, expression in expressions:
        yield from ((where, doubt) for doubt in sql.doubtful_functions(expression))
