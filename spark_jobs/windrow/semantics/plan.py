"""Plans: what a run is about to do, recorded before work starts. The same values always have the same id.

recorded ──▶ joined ──▶ judged ──▶ published
   ▲ a retry of the run finds its plan here and carries it out again, at the recorded pins
   ▲ a cleared run, a backfill, a rebuild is another run: another plan, new pins, the same code
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windrow.semantics.clock import PartitionClock
from windrow.semantics.intervals import Interval
from windrow.text import instant_of, instant_text


@dataclass(frozen=True)
class Plan:
    """One interval of one pipeline, at fixed pins, by one run."""

    pipeline: str
    run: str  # the recording run; a try number is not part of it, a clear number is
    interval: Interval
    pins: Mapping[str, int]  # topic -> the newest batch that takes part
    config_hash: str
    watermark: tuple[PartitionClock, ...] = ()  # the vector that closed the interval
    drained: bool = False
    supersedes: int | None = None  # the interval's publication number known at planning
    _json: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pins", dict(sorted(self.pins.items())))
        ordered = tuple(sorted(self.watermark, key=lambda p: p.identity))
        object.__setattr__(self, "watermark", ordered)
        object.__setattr__(self, "_json", _canonical(self))

    @property
    def id(self) -> str:
        """16 hex digits over everything above, the run included."""
        return hashlib.sha256(self._json.encode()).hexdigest()[:16]

    def __hash__(self) -> int:
        return hash(self._json)

    def to_json(self) -> str:
        """Canonical: sorted keys, no spaces, UTC with microseconds."""
        return self._json

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote; its id is the same."""
        raw = json.loads(text)
        interval = Interval(instant_of(raw["interval"]["start"]), instant_of(raw["interval"]["end"]))
        clocks = (
            PartitionClock(**{**p, "newest_at": _maybe(p["newest_at"]), "clock_at": _maybe(p["clock_at"])})
            for p in raw["watermark"]
        )
        return cls(**{**raw, "interval": interval, "watermark": tuple(clocks)})


def _canonical(plan: Plan) -> str:
    def said(at: datetime | None) -> str | None:
        return None if at is None else instant_text(at)

    raw: dict[str, Any] = {
        "pipeline": plan.pipeline,
        "run": plan.run,
        "interval": {"start": said(plan.interval.start), "end": said(plan.interval.end)},
        "pins": dict(plan.pins),
        "config_hash": plan.config_hash,
        "watermark": [
            {**vars(p), "newest_at": said(p.newest_at), "clock_at": said(p.clock_at)} for p in plan.watermark
        ],
        "drained": plan.drained,
        "supersedes": plan.supersedes,
    }
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _maybe(text: str | None) -> datetime | None:
    return None if text is None else instant_of(text)
