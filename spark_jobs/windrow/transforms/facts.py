"""Values that the plans of one run fix, in addition to the rows: the same rows and facts give the same result.

plans of a run ─▶ pins, clocks at planning, drained ─▶ Facts ─▶ label states and plan ids of the joined rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from windrow.config import Pipeline, Stream
from windrow.semantics.clock import PartitionClock
from windrow.semantics.plan import Plan
from windrow.semantics.records import Gap


@dataclass(frozen=True)
class Facts:
    """Values of one run that decide label states, in addition to the rows."""

    plan_of: Mapping[datetime, str]
    """interval start → plan id"""
    heard_until: Mapping[str, datetime | None]
    """label stream → its newest event clock; a window that ends later was closed by idling alone"""
    observed_until: datetime | None
    """least clock of the label topics at the pins"""
    drained: bool = False
    gaps: tuple[Gap, ...] = ()
    """accepted gaps of label topics that can overlap a window"""
    forced: frozenset[datetime] = frozenset()
    """starts of intervals that a person publishes before they close"""


def facts_of(pipeline: Pipeline, plans: Sequence[Plan], gaps: tuple[Gap, ...]) -> Facts:
    """Return the values that the plans of one run fix. All of the plans are made from one clock observation.

    Args:
        gaps: accepted gaps of label topics that can overlap a window.
    """
    clocks = plans[0].watermark
    label_topics = {topic for stream in pipeline.label_streams for topic in stream.topics}
    label_clocks = [clock.clock_at for clock in clocks if clock.topic in label_topics]
    return Facts(
        plan_of={plan.interval.start: plan.id for plan in plans},
        heard_until={stream.name: _heard_until(pipeline, stream, clocks) for stream in pipeline.label_streams},
        observed_until=None if None in label_clocks else min(filter(None, label_clocks), default=None),
        drained=plans[0].drained,
        gaps=gaps,
        forced=frozenset(plan.interval.start for plan in plans if plan.is_forced(pipeline.after, pipeline.grace)),
    )


def _heard_until(pipeline: Pipeline, stream: Stream, clocks: Iterable[PartitionClock]) -> datetime | None:
    """Newest event clock among the partitions of a stream's topic; of several topics, the least of theirs.

    None if a topic has no event.
    """
    by_topic = []
    for topic in stream.topics:
        at = (c.event_clock(pipeline.out_of_orderness(topic)) for c in clocks if c.topic == topic)
        by_topic.append(max((c for c in at if c is not None), default=None))
    return None if None in by_topic else min(filter(None, by_topic))
