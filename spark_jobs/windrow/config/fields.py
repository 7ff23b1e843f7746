"""Types of the single fields of a pipeline file: each reads its text strictly, or names what would be right.

Whether fields fit together is checked in `checks`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from windrow import text
from windrow.config.column_types import parse_type
from windrow.config.origins import column_name, declared_name
from windrow.semantics.intervals import DAY
from windrow.semantics.match import KeyRange

LONGEST_NAME = 64
LONGEST_PROSE = 2_000
MOST_COLUMNS = 2_000
NAME = re.compile(r"[a-z][a-z0-9_]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        if not timedelta() <= value <= text.LONGEST:
            raise ValueError(f"{value} is out of range; 0s to {text.duration_text(text.LONGEST)}")
        return value
    if not isinstance(value, str):
        raise ValueError("must be a duration; write 30s, 10m or 1h30m")
    return text.parse_duration(value)


def _schedule(value: timedelta) -> timedelta:
    if not timedelta(seconds=1) <= value <= DAY:
        raise ValueError(f"{text.duration_text(value)} cannot be a schedule; write 1s to 1d")
    return value


def _instant(value: object) -> datetime:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone; instants are UTC")
        return text.in_range(value.astimezone(UTC))
    if not isinstance(value, str):
        raise ValueError("must be an instant; write 2026-11-01T00:00:00Z")
    return text.parse_instant(value)


def pipeline_name(value: str) -> str:
    """Return a name unchanged that is safe as a folder, a DAG id, a column and the name of a measure.

    Raises:
        ValueError: it is not.
    """
    if not NAME.fullmatch(value) or len(value) > LONGEST_NAME:
        rule = f"a lower-case letter, then lower-case letters, digits and _, at most {LONGEST_NAME}"
        raise ValueError(f"{text.short(value)} cannot be a name; write {rule}, such as feed")
    return value


def _type(value: object) -> str:
    if value is None:
        raise ValueError('has no type; write one, and put a type with a comma in quotes: "decimal(10,2)"')
    if not isinstance(value, str):
        raise ValueError("must be a Spark type as text, such as bigint or struct<id:bigint>")
    return str(parse_type(value))


def topic_name(value: str) -> str:
    """Return a topic unchanged that Kafka can have, and that is not one of its own.

    Raises:
        ValueError: it cannot be a topic.
    """
    if value in (".", "..") or not _TOPIC.fullmatch(value):
        rule = "1 to 249 letters, digits, dots, - and _"
        raise ValueError(f"{text.short(value)} cannot be a Kafka topic; write {rule}")
    if value.startswith("__"):
        raise ValueError(f"{value!r} is one of Kafka's own topics; name a topic of events")
    return value


def one_or_many(value: object) -> object:
    """Return a text as a list of one, and any other value as it is."""
    return (value,) if isinstance(value, str) else value


def _key_range(value: object) -> KeyRange:
    if isinstance(value, str):
        if not value:
            raise ValueError("is empty; write the text with which the keys of canaries begin")
        return value
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(
            "must be the first and the last value, such as [9000000000, 9000000999], or a beginning of text"
        )
    try:
        first, last = (int(str(one)) for one in value)
    except ValueError:
        raise ValueError(
            f"[{value[0]}, {value[1]}] are not two whole numbers; a key of text takes a beginning"
        ) from None
    if first > last:
        raise ValueError(f"[{first}, {last}] is empty; write the least value first")
    return first, last


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) < len(values):
        raise ValueError("names a topic twice; remove one")
    return values


def _prose(value: str) -> str:
    text = value.strip()
    if not text:
        raise ValueError("is empty; write a sentence, or leave the field out")
    if len(text) > LONGEST_PROSE:
        raise ValueError(f"has {len(text)} characters; at most {LONGEST_PROSE:,}")
    if any(not sign.isprintable() and sign != "\n" for sign in text):
        raise ValueError("holds a character that cannot be printed; write plain text")
    return text


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Name = Annotated[str, AfterValidator(pipeline_name)]
ColumnName = Annotated[str, AfterValidator(column_name)]
DeclaredName = Annotated[str, AfterValidator(declared_name)]
ColumnDdl = Annotated[str, BeforeValidator(_type)]
Columns = Annotated[dict[DeclaredName, ColumnDdl], Field(min_length=1, max_length=MOST_COLUMNS)]
Topic = Annotated[str, AfterValidator(topic_name)]
Topics = Annotated[
    tuple[Topic, ...],
    BeforeValidator(one_or_many),
    AfterValidator(_once),
    Field(min_length=1, max_length=100),
]
Prose = Annotated[str, AfterValidator(_prose)]
KeyRangeField = Annotated[Any, AfterValidator(_key_range)]
Expression = Annotated[str, AfterValidator(str.strip)]
Schedule = Annotated[Duration, AfterValidator(_schedule)]
