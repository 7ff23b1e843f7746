"""Lengths of time in a sentence: two units are enough for a person."""

from __future__ import annotations

from datetime import timedelta

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def long(length: timedelta) -> str:
    """`1 h 30 min`, `45 s`, `0.25 s`; rounded to its second unit.

    >>> long(timedelta(minutes=90)), long(timedelta(seconds=3661)), long(timedelta(milliseconds=250))
    ('1 h 30 min', '1 h 1 min', '0.25 s')
    """
    seconds = length.total_seconds()
    if seconds < 0:
        return f"-{long(-length)}"
    if seconds < 10:
        return f"{seconds:.3g} s"
    first = next(i for i, (_, size) in enumerate(_UNITS) if seconds >= size)
    unit = _UNITS[min(first + 1, 3)][1]
    rest = round(seconds / unit) * unit
    parts = []
    for name, size in _UNITS[first : first + 2]:
        count, rest = divmod(rest, size)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts)
