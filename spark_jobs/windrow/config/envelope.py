"""Whether the columns that a stream takes from the envelope of its records can be read.

key_format: string            a key that is one text or number makes one column, of a simple type
columns:
  $key.user_id: bigint        each column once, without its prefix
  $header.trace-id: string    a header is one text, so its column is of a simple type
  $timestamp.sent_at: timestamp
  item_id: bigint             the value is read too
"""

from __future__ import annotations

from collections.abc import Iterator

from windrow.config.column_types import parse_type
from windrow.config.origins import KEY_FORMATS, Origin, origin_of
from windrow.config.problems import Finding, Location
from windrow.config.streams import PipelineFields, Stream, located

_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


def findings(pipeline: PipelineFields) -> Iterator[Finding]:
    """What cannot be read of the envelopes; nothing for streams that take nothing from them."""
    for where, stream in located(pipeline):
        yield from _columns_differ(where, stream)
        if stream.origins or stream.key_format:
            yield from _key_is_read(where, stream)
            yield from _types_fit(where, stream)
            yield from _value_is_read(where, stream)


def _columns_differ(where: Location, stream: Stream) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for declared in stream.declared:
        column = origin_of(declared).column
        if column in seen:
            yield (*where, "columns", declared), f"is column {column!r}, as {seen[column]} is; remove one"
        seen.setdefault(column, declared)


def _key_is_read(where: Location, stream: Stream) -> Iterator[Finding]:
    """A key is read where a column is taken from it, and only there."""
    of_key = [name for name in stream.declared if origin_of(name).part == "key"]
    if of_key and stream.key_format is None:
        formats = ", ".join(KEY_FORMATS)
        yield (*where, "columns", of_key[0]), f"comes from the key; write what the key is, key_format: one of {formats}"
    elif stream.key_format and not of_key:
        what = "no column comes from the key; name one, such as $key.user_id, or leave it out"
        yield (*where, "key_format"), f"is {stream.key_format}, and {what}"
    elif stream.key_format != "json":
        for name in of_key[1:]:
            what = f"a key that is {stream.key_format} is one value, which {of_key[0]} takes already; remove one"
            yield (*where, "columns", name), what


def _types_fit(where: Location, stream: Stream) -> Iterator[Finding]:
    for declared, kind in stream.declared.items():
        if problem := _misfit(stream, origin_of(declared), kind):
            yield (*where, "columns", declared), f"is {kind}; {problem}"


def _misfit(stream: Stream, origin: Origin, kind: str) -> str:
    """Why a column of the envelope cannot have a type; empty where it can."""
    is_simple = not parse_type(kind).inner
    if origin.part == "timestamp" and kind != "timestamp":
        return "the record's timestamp is of type timestamp"
    if origin.part == "header" and not is_simple:
        return "a header is one text; write a simple type, or string"
    if origin.part == "key" and stream.key_format in ("int", "long") and kind not in _WHOLE_NUMBERS:
        return f"a key that is {stream.key_format} is a whole number; write one of {', '.join(_WHOLE_NUMBERS)}"
    if origin.part == "key" and stream.key_format == "string" and not is_simple:
        return "a key that is a string is one text; write a simple type, or key_format: json"
    return ""


def _value_is_read(where: Location, stream: Stream) -> Iterator[Finding]:
    if all(origin_of(name).part != "value" for name in stream.declared):
        yield (*where, "columns"), "come from the envelope alone; name at least one field of the value"
