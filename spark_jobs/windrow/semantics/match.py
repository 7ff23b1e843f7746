"""Matching: which right rows belong to a left row. Both ends of a join window are inside.

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
"""Type name and value of each key column: two keys are equal if both agree in every column."""


def matches(left_at: datetime, right_at: datetime, before: timedelta, after: timedelta) -> bool:
    """Whether rows of one key match: `l.t - before <= r.t <= l.t + after`."""
    return -before <= utc(right_at) - utc(left_at) <= after


def key_of(values: Mapping[str, Any], columns: Iterable[str]) -> Key | None:
    """Return the key of a row, or None where a key column is null or absent: such a row matches nothing.

    Values are never concatenated: ('1', '12') is not ('11', '2'), and 1 is neither '1' nor True.
    """
    key = [values.get(c) for c in columns]
    if any(v is None for v in key):
        return None
    # NaN differs from itself; as text, equal keys with a NaN are equal
    return tuple((type(v).__name__, v if v == v else "NaN") for v in key)
