"""Matching: which right rows belong to a left row. Both ends of a join window are inside.

         before          after
      |<-------->|<---------------->|
------[----------+------------------]------> event time of the right row
                l.t
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.intervals import utc

Key = tuple[tuple[str, Any], ...]
"""Type name and value of each key column: two keys are equal if both agree in every column."""

KeyRange = tuple[int, int] | str
"""Values of a key column: whole numbers from the first to the second, both included, or texts with this beginning."""


@dataclass(frozen=True)
class Mark:
    """The key values that a pipeline file keeps for canaries, by the columns of one stream (rule 23)."""

    ranges: tuple[tuple[str, KeyRange], ...]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether a row with these values is a canary: each column is in its range, and a null is in none.

        >>> mark = Mark((("user_id", (900, 999)),))
        >>> [mark.holds({"user_id": user}) for user in (899, 900, 999, 1000, None)]
        [False, True, True, False, False]
        """
        return all(_is_in(values.get(column), range_) for column, range_ in self.ranges)


def _is_in(value: Any, range_: KeyRange) -> bool:
    if value is None:
        return False
    if isinstance(range_, str):
        return str(value).startswith(range_)
    return bool(range_[0] <= value <= range_[1])


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
