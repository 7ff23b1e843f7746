"""Instants and durations as text: as people write them, as programs store them, as people read them.

    written by people     `2026-11-01T00:00:00Z`, `1h30m`      parse_instant, parse_duration, duration_text
    stored, for programs  `2026-11-01T00:00:00.000000Z`        instant_text, instant_of
    names and messages    `2026-11-01T00:00:00Z`               short_instant_text
    read by people        `2026-11-01 00:00:00Z`, `2h 5m 10s`  shown_instant, shown_duration
    in a sentence         `1 h 30 min`                         rounded_duration

A duration always has a unit and a fixed length: a day is 24 hours. An instant always has a zone, and is UTC from here
on: a naive one is refused, never guessed.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta

LONGEST = timedelta(days=366)
"""Longest window, grace or other duration that a pipeline file may have."""

_MILLISECONDS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SENTENCE_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
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


def escaped(value: object, keep: str = "") -> str:
    r"""A value as text for a terminal: what would steer it, or change the order of letters, is written as an escape.

    That is every control character (escape sequences, line ends), every invisible format character (bidirectional
    ones among them), and the separators of lines and paragraphs.

    Args:
        keep: characters that stay as they are, such as the line ends of a message.

    >>> print(escaped("a\x1b[31m\nb\u202ec"))
    a\x1b[31m\nb\u202ec
    >>> escaped("two\nlines", keep="\n")
    'two\nlines'
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c in keep or c == " " or c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    r"""An escape as Python writes it: \n, \x1b, \u202e. Blanks of other languages stay."""
    if unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun, in the singular for one and in the plural for any other number.

    Args:
        many: the plural, where it is not `one` with an s.

    >>> counted(1, "row"), counted(1_200, "row"), counted(2, "batch", "batches")
    ('1 row', '1,200 rows', '2 batches')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def size_text(count: int) -> str:
    """A number of bytes as people read it.

    >>> size_text(999), size_text(1_000), size_text(12_345_678), size_text(3 * 10**12)
    ('999 B', '1.0 kB', '12.3 MB', '3.0 TB')
    """
    if count < 1000:
        return f"{count} B"
    power = min((len(str(count)) - 1) // 3, 5)
    return f"{count / 1000**power:.1f} {' kMGTP'[power]}B"


def parse_duration(text: str) -> timedelta:
    """Parse `1h30m`: units d, h, m, s, ms, each at most once and in this order.

    Raises:
        ValueError: the text is not a duration, or is longer than `LONGEST`; the message says what to write.

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
    raise ValueError(f"{short(text)} is not a duration; write 500ms, 30s, 10m, 1h30m or 1d")


def duration_text(length: timedelta) -> str:
    """A timedelta as a pipeline file writes it; what is less than a millisecond is cut off.

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
    """Parse an ISO instant that has a time zone, and return it in UTC.

    Raises:
        ValueError: the text is not an instant, has no zone, or is outside 1970 to 2199; the message says what to write.

    >>> parse_instant("2026-11-01T02:00:00+02:00").isoformat()
    '2026-11-01T00:00:00+00:00'
    """
    text = text.strip()
    found = _INSTANT.fullmatch(text)
    if not found:
        raise ValueError(f"{short(text)} is not an instant; write 2026-11-01T00:00:00Z")
    if not found["zone"]:
        whole = f"{text}Z" if found["time"] else f"{text}T00:00:00Z"
        raise ValueError(f"{short(text)} has no time zone; write {whole} if UTC is meant")
    try:
        return in_range(datetime.fromisoformat(text.upper().replace(" Z", "Z")).astimezone(UTC))
    except (ValueError, OverflowError) as wrong:
        raise ValueError(f"{short(text)} is not an instant: {wrong}; write 2026-11-01T00:00:00Z") from None


def in_range(at: datetime) -> datetime:
    """Return the instant unchanged.

    Raises:
        ValueError: it is outside 1970 to 2199, where window arithmetic could leave the calendar.
    """
    if not _FIRST <= at < _LAST:
        raise ValueError("only the years 1970 to 2199 can be meant")
    return at


def instant_text(at: datetime) -> str:
    """An instant as every stored text has it: UTC with microseconds, so that texts sort like instants.

    >>> instant_text(datetime(2026, 11, 1, tzinfo=UTC))
    '2026-11-01T00:00:00.000000Z'
    """
    return _utc(at).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_of(text: str) -> datetime:
    """The instant that `instant_text` wrote."""
    return _utc(datetime.fromisoformat(text.replace("Z", "+00:00")))


def without_login(url: str) -> str:
    """A URL without user and password, as it may be shown; any other text as it is.

    >>> without_login("https://key:secret@store:9000/x"), without_login("AWS")
    ('https://store:9000/x', 'AWS')
    """
    return re.sub(r"(?<=://)[^/]*@", "", url)


def short_instant_text(at: datetime) -> str:
    """An instant without fractions, as file names of reports, run keys and messages about intervals have it.

    >>> short_instant_text(datetime(2026, 11, 1, 0, 10, tzinfo=UTC))
    '2026-11-01T00:10:00Z'
    """
    return f"{_utc(at):%Y-%m-%dT%H:%M:%SZ}"


def shown_instant(at: datetime | None, missing: str = "-") -> str:
    """An instant as people read it; fractions only where there are any.

    >>> shown_instant(datetime(2026, 11, 1, 0, 10, tzinfo=UTC)), shown_instant(None)
    ('2026-11-01 00:10:00Z', '-')
    """
    if at is None:
        return missing
    text = f"{_utc(at):%Y-%m-%d %H:%M:%S}"
    return f"{text}.{at:%f}".rstrip("0") + "Z" if at.microsecond else f"{text}Z"


def shown_duration(length: timedelta | None, *, exact: bool = False, missing: str = "") -> str:
    """A duration as people read it: the parts that are not zero, fractions of a second only where `exact`.

    >>> shown_duration(timedelta(hours=2, minutes=5)), shown_duration(-timedelta(seconds=7, microseconds=500_000))
    ('2h 5m', '-7s')
    >>> shown_duration(timedelta(seconds=3, microseconds=500_000), exact=True), shown_duration(timedelta(0))
    ('3.5s', '0s')
    """
    if length is None:
        return missing
    seconds, micros = divmod(abs(length) // timedelta(microseconds=1), 1_000_000)
    counts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"))
    parts = [f"{count}{unit}" for count, unit in counts if count]
    fraction = f".{micros:06d}".rstrip("0") if exact and micros else ""
    if seconds % 60 or fraction or not parts:
        parts.append(f"{seconds % 60}{fraction}s")
    return ("-" if length < timedelta(0) else "") + " ".join(parts)


def rounded_duration(length: timedelta) -> str:
    """A duration in a sentence: two units, rounded to the second of them; below 10 s three digits.

    >>> rounded_duration(timedelta(minutes=90)), rounded_duration(timedelta(seconds=3661))
    ('1 h 30 min', '1 h 1 min')
    >>> rounded_duration(timedelta(milliseconds=250))
    '0.25 s'
    """
    seconds = length.total_seconds()
    if seconds < 0:
        return f"-{rounded_duration(-length)}"
    if seconds < 10:
        return f"{seconds:.3g} s"
    first = next(i for i, (_, size) in enumerate(_SENTENCE_UNITS) if seconds >= size)
    unit = _SENTENCE_UNITS[min(first + 1, 3)][1]
    rest = round(seconds / unit) * unit
    parts = []
    for name, size in _SENTENCE_UNITS[first : first + 2]:
        count, rest = divmod(rest, size)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts)


def _utc(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone")
    return at.astimezone(UTC)
