"""A pin: what has to be known to read the same rows again, as one small text that is kept with the model.

    read(…) ──▶ rows
            └─▶ pin: version of the table, publications, request, version of the code ──▶ read_pinned(pin) ──▶ the rows

The rows of a publication never change, so the publications name the rows; the version of the table says where they
are found first. Compaction may move them and vacuum may end that version: they are then read from another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from windrow.semantics.intervals import Interval
from windrow.text import instant_of, instant_text
from windrow.training.request import Request


@dataclass(frozen=True)
class Pin:
    """One read of one pipeline.

    Args:
        version: version of the training table.
        publications: numbers of the publications whose rows were looked at, ascending.
        plans: digest of their plans (`digest`); another table with the same numbers has another one.
        span: served times whose rows were looked at: those of the request, or more where credits need them.
        code_version: version of Windrow that read.
    """

    pipeline: str
    version: int
    publications: tuple[int, ...]
    plans: str
    request: Request
    span: Interval
    code_version: str

    def to_json(self) -> str:
        """Return the pin as text; publications are ranges, `[[1, 144], [150, 150]]`."""
        span = [instant_text(self.span.start), instant_text(self.span.end)]
        publications = list(_ranges(self.publications))
        raw = {**vars(self), "publications": publications, "request": self.request.to_dict(), "span": span}
        return json.dumps(raw, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Pin:
        """Return the pin that `to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        numbers = tuple(n for first, last in raw["publications"] for n in range(first, last + 1))
        span, request = Interval(*map(instant_of, raw["span"])), Request.from_dict(raw["request"])
        return cls(**{**raw, "publications": numbers, "request": request, "span": span})


def digest(plan_ids: Iterable[str]) -> str:
    """Return 16 hex digits over the plans of publications, by number."""
    return hashlib.sha256("\n".join(plan_ids).encode()).hexdigest()[:16]


def _ranges(numbers: tuple[int, ...]) -> Iterable[list[int]]:
    """Yield first and last of each run of consecutive numbers.

    >>> list(_ranges((1, 2, 3, 7, 9, 10)))
    [[1, 3], [7, 7], [9, 10]]
    """
    breaks = [n for n, (one, other) in enumerate(pairwise(numbers), 1) if other != one + 1]
    for begin, end in pairwise([0, *breaks, len(numbers)]):
        if begin < end:
            yield [numbers[begin], numbers[end - 1]]
