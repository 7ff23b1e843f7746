"""Durations and instants as people write them in a pipeline file.

A duration always has a unit (`10m`, `1h30m`, `500ms`, `0s`) and a fixed length: a day is 24 hours.
An instant always has a zone, and is UTC from here on: a naive one is refused, never guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

LONGEST = timedelta(days=366)
"""No window, grace or pause in a pipeline file is longer."""

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_DURATION = re.compile("".join(f"(?:([0-9]{{1,12}}){unit})?" for unit in _MILLISECONDS))
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(?P<zone> ?(Z|[+-]\d\d:?\d\d))?)?",
    re.IGNORECASE | re.ASCII,
)
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def short(value: object, limit: int = 60) -> str:
    """A value quoted for a message, cut where it is long.

    >>> short("a" * 100, limit=5)
    "'aaaaa…'"
    """
    text = str(value)
    return repr(text if len(text) <= limit else text[:limit] + "…")


def parse_duration(text: str) -> timedelta:
    """`1h30m` as a timedelta. Units d, h, m, s, ms, each at most once and in this order.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    text = text.strip()
    found = _DURATION.fullmatch(text)
    if text and found:
        amounts = (int(amount or 0) for amount in found.groups())
        length = sum(n * size for n, size in zip(amounts, _MILLISECONDS.values(), strict=True))
        if length > LONGEST / timedelta(milliseconds=1):
            raise ValueError(f"{short(text)} is too long; at most {duration_text(LONGEST)}")
        return timedelta(milliseconds=length)
    if text.startswith("-"):
        raise ValueError(f"{short(text)} is negative; a duration is 0s or more")
    if re.fullmatch("[0-9]{1,12}", text):
        raise ValueError(f"{short(text)} has no unit; write {text}s, {text}m, {text}h or {text}ms")
    raise ValueError(f"{short(text)} is no duration; write 500ms, 30s, 10m, 1h30m or 1d")


def duration_text(length: timedelta) -> str:
    """A timedelta as the file writes it.

    >>> duration_text(timedelta(minutes=90)), duration_text(timedelta())
    ('1h30m', '0s')
    """
    parts, rest = [], length // timedelta(milliseconds=1)
    for unit, size in _MILLISECONDS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_instant(text: str) -> datetime:
    """An ISO instant with its zone, as UTC.

    >>> parse_instant("2026-11-01T02:00:00+02:00").isoformat()
    '2026-11-01T00:00:00+00:00'
    """
    text = text.strip()
    found = _INSTANT.fullmatch(text)
    if not found:
        raise ValueError(f"{short(text)} is no instant; write 2026-11-01T00:00:00Z")
    if not found["zone"]:
        whole = f"{text}Z" if found["time"] else f"{text}T00:00:00Z"
        raise ValueError(f"{short(text)} has no time zone; write {whole} if UTC is meant")
    try:
        return in_range(datetime.fromisoformat(text.upper().replace(" Z", "Z")).astimezone(UTC))
    except (ValueError, OverflowError) as wrong:
        raise ValueError(f"{short(text)} is no instant: {wrong}; write 2026-11-01T00:00:00Z") from None


def in_range(at: datetime) -> datetime:
    """The instant itself; refused outside 1970 to 2199, where window arithmetic could leave the calendar."""
    if not _FIRST <= at < _LAST:
        raise ValueError("only the years 1970 to 2199 can be meant")
    return at
