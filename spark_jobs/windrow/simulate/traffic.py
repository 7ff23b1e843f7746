"""Seeded traffic of a feed: served rows, and the clicks and purchases that follow them.

The same settings give the same records, byte for byte, in every process. Every partition keeps the promise of the
pipeline file: no event, retries included, is older than the newest one before it by more than the out-of-orderness.
Poison does not break this promise for the good records around it.

    event time   s1   s2  s3        c1        a served row every span / rows, a click after a lognormal delay
    produced       s1 s3   s2    c1  c1'      delayed by up to the out-of-orderness; c1' is a producer's retry
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from windrow.simulate import record
from windrow.simulate.flow import CHUNK, Draws, Flow
from windrow.simulate.formats import Encode, FormatName
from windrow.simulate.record import Message, SimulatedRecord
from windrow.simulate.settings import Traffic
from windrow.simulate.truth import Truth
from windrow.text import duration_text, short_instant_text

__all__ = ["Traffic", "messages", "pipeline_yaml", "records", "truth"]


def messages(traffic: Traffic, encoded: Encode | None = None) -> Iterator[Message]:
    """The messages of the traffic, in produce order; `encoded` makes their values, JSON by default."""
    return record.messages(records(traffic), encoded)


def truth(traffic: Traffic, until: datetime | None = None) -> Truth:
    """The expected result; with `until`, of what is produced before that instant."""
    return Truth(lambda: records(traffic), traffic.rules, until)


def records(traffic: Traffic) -> Iterator[SimulatedRecord]:
    """Yield every record in produce order, `lost` ones included; memory holds only records that are not yet due."""
    flow = Flow(traffic)
    for first in range(0, traffic.rows, CHUNK):
        draws = Draws.of(traffic, first // CHUNK)
        for i in range(min(CHUNK, traffic.rows - first)):
            yield from flow.until(flow.served(first + i, i, draws))
    yield from flow.until(None)


def pipeline_yaml(
    traffic: Traffic, name: str = "feed", *, idle: str = "{mode: caught_up, after: 5m}", form: FormatName = "json"
) -> str:
    """The pipeline file of the traffic in a format; `idle` is the text of that field."""
    t = traffic
    return f"""\
name: {name}
start: {short_instant_text(t.start)}
interval: {duration_text(t.interval)}
left:
  name: served
  topic: {t.served_topic}
  format: {form}
  columns:
    request_id: string
    user_id: bigint
    item_id: bigint
    served_at: timestamp
    features: "array<float>"
  key: [user_id, item_id]
  event_time: served_at
  event_id: request_id
  out_of_orderness: {duration_text(t.out_of_orderness)}
right:
  - name: clicks
    role: label
    topic: {t.engagements_topic}
    format: {form}
    where: "action = 'click'"
    silence: unknown
    columns: {{event_id: string, user_id: bigint, item_id: bigint, action: string, engaged_at: timestamp}}
    key: [user_id, item_id]
    event_time: engaged_at
    event_id: event_id
    out_of_orderness: {duration_text(t.label_out_of_orderness)}
    window: {{before: {duration_text(t.before)}, after: {duration_text(t.after)}}}
    join: left
    take: all
grace: {duration_text(t.grace)}
idle: {idle}
max_skew: 10m
labels:
  clicked: "size(clicks) > 0"
expectations: training_rows
"""
