"""Matching: which right rows may stand beside a left row. Both ends of a join window are in.

         before          after
      |<-------->|<---------------->|
------[----------+------------------]------> event time of the right row
                l.t
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.intervals import utc

Key = tuple[tuple[str, Any], ...]
"""A key that equals another by type and by value, column by column."""


def matches(left_at: datetime, right_at: datetime, before: timedelta, after: timedelta) -> bool:
    """`l.t - before <= r.t <= l.t + after`. Of the same key, these two rows meet."""
    return -before <= utc(right_at) - utc(left_at) <= after


def key_of(values: Mapping[str, Any], columns: Iterable[str]) -> Key | None:
    """The key, or None where any column is null or absent: such a row meets no other.

    Never concatenated text: ('1', '12') is not ('11', '2'), and 1 is neither '1' nor True.
    """
    key = [values.get(c) for c in columns]
    if any(v is None for v in key):
        return None
    return tuple((type(v).__name__, v if v == v else "NaN") for v in key)
