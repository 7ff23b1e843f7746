"""Where a column comes from: a field of the record's value, or its envelope, which a prefix in `columns` says.

user_id             column user_id: a field of the value
$key.user_id        column user_id: a field of the record's key, or the whole key (`key_format`)
$header.trace-id    column trace_id: the last header of the name trace-id
$timestamp.sent_at  column sent_at: the record's timestamp
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

from windrow.config.problems import near_miss
from windrow.text import short

KeyFormat = Literal["json", "string", "int", "long"]
"""What the bytes of a key are: one JSON object; UTF-8 text; a whole number of 4 or 8 bytes, the highest first."""
KEY_FORMATS: tuple[str, ...] = get_args(KeyFormat)
Part = Literal["value", "key", "header", "timestamp"]
_PREFIXES: dict[str, Part] = {"$key.": "key", "$header.": "header", "$timestamp.": "timestamp"}
_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class Origin(NamedTuple):
    """A column, and what of the record its value is.

    Args:
        column: its name in the tables.
        part: of the record.
        name: of the field or header; of a timestamp the column's name.
    """

    column: str
    part: Part
    name: str


def origin_of(declared: str) -> Origin:
    """Return the origin of a column as `columns` of a pipeline file names it.

    >>> origin_of("$header.trace-id")
    Origin(column='trace_id', part='header', name='trace-id')
    """
    for prefix, part in _PREFIXES.items():
        if declared.startswith(prefix):
            name = declared.removeprefix(prefix)
            return Origin(re.sub(r"[.-]", "_", name) if part == "header" else name, part, name)
    return Origin(declared, "value", declared)


def column_name(value: str) -> str:
    """Return a name unchanged that a column can have.

    Raises:
        ValueError: it cannot be one.
    """
    if value.startswith("_"):
        raise ValueError(f"{short(value)} starts with _, which is kept for Windrow's own columns; rename it")
    if not _COLUMN.fullmatch(value) or len(value) > 128:
        rule = "a letter, then letters, digits and _, at most 128"
        raise ValueError(f"{short(value)} cannot be a column; write {rule} (a type with a comma needs quotes)")
    return value


def declared_name(value: str) -> str:
    """Return a column's name unchanged, with or without the prefix of a part of the envelope.

    Raises:
        ValueError: the prefix is unknown, or what follows cannot be a column.
    """
    if not value.startswith("$"):
        return column_name(value)
    prefix = next((one for one in _PREFIXES if value.startswith(one)), None)
    if prefix is None:
        written = value.partition(".")[0] + "."
        raise ValueError(
            f"{short(value)} has no prefix that is known; {near_miss(written, _PREFIXES, 'prefixes are')} "
            "A name follows it, such as $key.user_id"
        )
    name = value.removeprefix(prefix)
    if _PREFIXES[prefix] == "header" and not (_HEADER.fullmatch(name) and len(name) <= 128):
        rule = "a letter, then letters, digits, _, . and -, at most 128"
        raise ValueError(f"{short(name)} cannot be a header; write {rule}")
    column_name(origin_of(value).column)
    return value
