"""The canaries of a pipeline file: which records they are, and whether a record of each stream can be made (rule 23).

canary.keys     user_id: [900, 999]      the mark: a record of any stream with such a key is a canary
left.where      not is_bot               a canary is made of defaults by type, and of constants of the condition
right.where     action = 'click'         so that it is true: `is_bot: false`, `action: click`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice, product
from typing import Any

from windrow.config.column_types import ColumnType, parse_type
from windrow.config.problems import Finding, Location, near_miss
from windrow.config.streams import Canary, LeftStream, PipelineFields, Stream, located
from windrow.semantics.match import KeyRange, Mark
from windrow.text import duration_text, instant_text, short

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_MOST_TRIES = 10_000
"""Combinations of constants that are tried for a condition."""
_TEXTS = 1_000
"""Keys of text that take turns."""
_SOME_TIME = datetime(2026, 11, 1, tzinfo=UTC)


class NoCanary(ValueError):
    """No record can be made that the stream's `where` selects; the message says what would be right."""


def mark_of(pipeline: PipelineFields, stream: Stream) -> Mark | None:
    """Which records of a stream are canaries, by the stream's own names of the key columns; None: none is."""
    if pipeline.canary is None:
        return None
    names = dict(zip(pipeline.left.key, stream.key, strict=True))
    return Mark(tuple((names[name], range_) for name, range_ in pipeline.canary.keys.items()))


def values_of(pipeline: PipelineFields, stream: Stream, number: int, at: datetime, event_id: int) -> dict[str, Any]:
    """Return the values of a canary as JSON: key and event time, and other columns so that `where` is true.

    Args:
        number: of the pair; keys take turns within their range.
        at: event time.
        event_id: distinguishes the events of a pipeline.

    Raises:
        NoCanary: no values make `where` true.
    """
    mark = mark_of(pipeline, stream)
    assert mark is not None, "the pipeline has canaries"
    values = {name: _default(parse_type(kind), at) for name, kind in stream.columns.items()}
    values[stream.event_time] = instant_text(at)
    if stream.event_id is not None:
        values[stream.event_id] = event_id if _is_number(stream, stream.event_id) else f"windrow-canary-{event_id}"
    values |= {column: _key(range_, number) for column, range_ in mark.ranges}
    fixed = {stream.event_time, stream.event_id, *(column for column, _ in mark.ranges)}
    return _selected(stream, values, fixed) if stream.where else values


def unsendable(pipeline: PipelineFields) -> str | None:
    """Say why canaries cannot be sent to a stream that would get them; None where they can be."""
    for stream in (pipeline.left, *pipeline.label_streams):
        if stream.format.kind != "json":
            return f"canaries are sent as JSON, and {stream.name} is {stream.format.kind}"
        if stream.origins:
            names = ", ".join(stream.written(name) for name in stream.origins)
            return f"canaries are sent as values alone, and {stream.name} takes {names}"
    return None


def findings(pipeline: PipelineFields) -> Iterator[Finding]:
    """What makes canaries impossible; nothing for a pipeline without them."""
    if pipeline.canary is None:
        return
    problems = list(_keys_are_there(pipeline, pipeline.canary))
    yield from problems
    yield from _delays_fit(pipeline, pipeline.canary)
    if pipeline.canary.every and (reason := unsendable(pipeline)):
        yield ("canary", "every"), f"{reason}; leave it out"
    for where, stream in located(pipeline):
        if stream.event_id in stream.columns and not _can_be_an_id(stream.columns[str(stream.event_id)]):
            kind = stream.columns[str(stream.event_id)]
            yield (*where, "event_id"), f"is {kind}; canaries need an event id of type string or bigint"
        elif not problems and stream.where and set(stream.key) <= set(stream.columns):
            try:
                values_of(pipeline, stream, 0, _SOME_TIME, 0)
            except NoCanary as refused:
                yield (*where, "where"), str(refused)


def _keys_are_there(pipeline: PipelineFields, canary: Canary) -> Iterator[Finding]:
    """Each range is one of a key column of the left stream, and fits its type."""
    left: LeftStream = pipeline.left
    if any(len(stream.key) != len(left.key) for stream in pipeline.right):
        yield ("canary", "keys"), "needs streams whose keys have equally many columns"
    for name, range_ in canary.keys.items():
        where: Location = ("canary", "keys", name)
        if name not in left.key or name not in left.columns:
            yield where, f"{short(name)} is not in left.key; {near_miss(name, left.key, 'its columns are')}"
        elif problem := _misfit(left.columns[name], range_):
            yield where, f"column {name!r} is {left.columns[name]}; {problem}"


def _misfit(kind: str, range_: KeyRange) -> str:
    if kind == "string":
        return "" if isinstance(range_, str) else "write the text with which the keys of canaries begin: canary-"
    bits = _BITS.get(kind)
    if bits is None:
        return "canaries are marked by a key column of whole numbers or text"
    if isinstance(range_, str):
        return "write the first and the last value, such as [9000000000, 9000000999]"
    most = 2 ** (bits - 1)
    return "" if -most <= range_[0] and range_[1] < most else f"its values are from {-most} to {most - 1}"


def _delays_fit(pipeline: PipelineFields, canary: Canary) -> Iterator[Finding]:
    labels = pipeline.label_streams
    if not labels:
        yield ("canary",), "needs a right stream of role label: a pair is a left row and a label"
        return
    after = min(stream.window.after for stream in labels)
    for position, delay in enumerate(canary.delays):
        where: Location = ("canary", "delays", position)
        if delay in canary.delays[:position]:
            yield where, f"{duration_text(delay)} is there twice; remove one"
        if delay > after:
            name = next(stream.name for stream in labels if stream.window.after == after)
            yield where, f"{duration_text(delay)} is beyond the window of {name}; at most {duration_text(after)}"


def _selected(stream: Stream, values: dict[str, Any], fixed: set[str | None]) -> dict[str, Any]:
    """Return the values with constants of `where` in its columns, so that it is true.

    Args:
        fixed: columns that keep their value.
    """
    from windrow.config.conditions import columns_in, constants_in, predicate  # the parser takes long to import

    is_selected = predicate(str(stream.where), stream.columns)
    if is_selected is None:
        raise NoCanary("can only be evaluated by Spark, and canaries must satisfy it; compare columns with constants")
    used = [name for name in stream.columns if name.lower() in columns_in(str(stream.where)) and name not in fixed]
    constants = constants_in(str(stream.where))
    choices = [_candidates(values[name], parse_type(stream.columns[name]), constants) for name in used]
    for chosen in islice(product(*choices), _MOST_TRIES):
        tried = {**values, **dict(zip(used, chosen, strict=True))}
        if is_selected(tried) is True:
            return tried
    raise NoCanary("is true for no canary that can be made of its constants; choose other keys, or another condition")


def _candidates(default: Any, kind: ColumnType, constants: tuple[str | int | float, ...]) -> list[Any]:
    """Values of a column that a condition with these constants may be true for."""
    numbers = [one for one in constants if not isinstance(one, str)]
    if kind.name == "string":
        return [default, *(one for one in constants if isinstance(one, str)), f"{default}-", None]
    if kind.name == "boolean":
        return [False, True, None]
    if kind.name in _BITS:
        return [default, *(int(one) + step for one in numbers for step in (0, 1, -1)), None]
    if kind.name in ("float", "double", "decimal"):
        return [default, *(one + step for one in numbers for step in (0, 1, -1)), None]
    return [default, None]


def _key(range_: KeyRange, number: int) -> int | str:
    if isinstance(range_, str):
        return f"{range_}{number % _TEXTS}"
    return range_[0] + number % (range_[1] - range_[0] + 1)


def _default(kind: ColumnType, at: datetime) -> Any:
    """A value of the type, as JSON."""
    if kind.name == "struct":
        return {name: _default(part, at) for name, part in zip(kind.fields, kind.inner, strict=True)}
    plain: Mapping[str, Any] = {
        "string": "canary",
        "boolean": False,
        "timestamp": instant_text(at),
        "date": at.date().isoformat(),
        "binary": "",
        "array": [],
        "map": {},
    }
    return plain.get(kind.name, 0)


def _is_number(stream: Stream, column: str) -> bool:
    return stream.columns[column] == "bigint"


def _can_be_an_id(kind: str) -> bool:
    return kind in ("bigint", "string")
