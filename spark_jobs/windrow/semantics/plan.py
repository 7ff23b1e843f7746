"""Plans: what a run is about to do, recorded before work starts. The same values always have the same id.

recorded ──▶ joined ──▶ judged ──▶ published
   ▲ a retry of the run finds the recorded plan and carries it out at the same pins
   ▲ a cleared run, a backfill and a rebuild are other runs: another plan, new pins, the same code
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from windrow.semantics.clock import PartitionClock, watermark
from windrow.semantics.close import frontier, is_closed
from windrow.semantics.intervals import LATEST, Interval
from windrow.text import instant_of, instant_text


@dataclass(frozen=True)
class Plan:
    """One interval of one pipeline, at fixed pins, by one run."""

    pipeline: str
    run: str
    """key of the run; it holds how often the run was cleared, not which try it is"""
    interval: Interval
    pins: Mapping[str, int]
    """topic → newest batch that takes part"""
    config_hash: str
    watermark: tuple[PartitionClock, ...] = ()
    """clocks of all partitions when the plan was made"""
    drained: bool = False
    supersedes: int | None = None
    """number of the interval's standing publication when the plan was made"""
    _json: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pins", dict(sorted(self.pins.items())))
        ordered = tuple(sorted(self.watermark, key=lambda p: p.identity))
        object.__setattr__(self, "watermark", ordered)
        object.__setattr__(self, "_json", _canonical(self))

    @property
    def id(self) -> str:
        """16 hex digits of a hash over all fields, the run included."""
        return id_of(self._json)

    def frontier(self, after: timedelta, grace: timedelta) -> datetime | None:
        """Event time before which every window had closed when the plan was made; a drain closes all of them."""
        return LATEST if self.drained else frontier(watermark(self.watermark), after, grace)

    def is_forced(self, after: timedelta, grace: timedelta) -> bool:
        """Whether a person or a bound publishes the interval before it has closed by the plan's own clock."""
        return not is_closed(self.interval, self.frontier(after, grace))

    def __hash__(self) -> int:
        return hash(self._json)

    def to_json(self) -> str:
        """Return the canonical text: sorted keys, no spaces, instants in UTC with microseconds."""
        return self._json

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that `to_json` wrote, with the same id."""
        raw = json.loads(text)
        interval = Interval(instant_of(raw["interval"]["start"]), instant_of(raw["interval"]["end"]))
        clocks = (
            PartitionClock(
                **{**p, "newest_at": _instant_or_none(p["newest_at"]), "clock_at": _instant_or_none(p["clock_at"])}
            )
            for p in raw["watermark"]
        )
        return cls(**{**raw, "interval": interval, "watermark": tuple(clocks)})


def id_of(text: str) -> str:
    """Return the id of the plan that `Plan.to_json` wrote, without making the plan."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pins_of(text: str) -> Mapping[str, int]:
    """Return the pins of the plan that `Plan.to_json` wrote, without making the plan."""
    pins: Mapping[str, int] = json.loads(text)["pins"]
    return pins


def _canonical(plan: Plan) -> str:
    def text(at: datetime | None) -> str | None:
        return None if at is None else instant_text(at)

    raw: dict[str, Any] = {
        "pipeline": plan.pipeline,
        "run": plan.run,
        "interval": {"start": text(plan.interval.start), "end": text(plan.interval.end)},
        "pins": dict(plan.pins),
        "config_hash": plan.config_hash,
        "watermark": [
            {**vars(p), "newest_at": text(p.newest_at), "clock_at": text(p.clock_at)} for p in plan.watermark
        ],
        "drained": plan.drained,
        "supersedes": plan.supersedes,
    }
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _instant_or_none(text: str | None) -> datetime | None:
    return None if text is None else instant_of(text)
