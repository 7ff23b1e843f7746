"""A pin: what has to be known to read the same rows again, as one small text that is kept with the model.

    read(…) ──▶ rows
            └─▶ pin: version of the table, publications, request, version of the code ──▶ read_pinned(pin) ──▶ the rows

The rows of a publication never change, so the publications name the rows; the version of the table says where they
are found first. Compaction may move them and vacuum may end that version: they are then read from another one, or from
a snapshot that keeps them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windrow.semantics.intervals import Interval
from windrow.semantics.publication import numbers_of, ranges_of
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
        snapshot: name of the snapshot that was read, for people; its publications are those of the pin.
    """

    pipeline: str
    version: int
    publications: tuple[int, ...]
    plans: str
    request: Request
    span: Interval
    code_version: str
    snapshot: str | None = None

    def to_json(self) -> str:
        """Return the pin as text; publications are ranges, `[[1, 144], [150, 150]]`."""
        span = [instant_text(self.span.start), instant_text(self.span.end)]
        raw = {
            **vars(self),
            "publications": ranges_of(self.publications),
            "request": self.request.to_dict(),
            "span": span,
        }
        return json.dumps(raw, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Pin:
        """Return the pin that `to_json` wrote."""
        raw: dict[str, Any] = json.loads(text)
        span, request = Interval(*map(instant_of, raw["span"])), Request.from_dict(raw["request"])
        return cls(**{**raw, "publications": numbers_of(raw["publications"]), "request": request, "span": span})


def digest(plan_ids: Iterable[str]) -> str:
    """Return 16 hex digits over the plans of publications, by number."""
    return hashlib.sha256("\n".join(plan_ids).encode()).hexdigest()[:16]
