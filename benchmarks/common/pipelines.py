"""The pipeline file of benchmarks: one served stream and its clicks; what a benchmark varies are parameters."""

from __future__ import annotations

from collections.abc import Mapping

SERVED = {"request_id": "string", "user_id": "bigint", "item_id": "bigint", "served_at": "timestamp"}
CLICKS = {"event_id": "string", "user_id": "bigint", "item_id": "bigint", "engaged_at": "timestamp"}


def pipeline_text(
    name: str,
    start: str,
    interval: str,
    after: str,
    *,
    topics: str = "",
    served: Mapping[str, str] = SERVED,
    served_disorder: str = "30s",
    clicks_disorder: str = "1m",
    grace: str = "1m",
    more: str = "",
) -> str:
    """Return the text of a pipeline file.

    Args:
        start: instant, as in the file.
        interval, after, grace: durations, as in the file.
        topics: prefix of the names of both topics.
        served: columns of the served stream, name → type.
        served_disorder, clicks_disorder: out-of-orderness of the two streams.
        more: further lines.
    """
    return f"""\
name: {name}
start: {start}
interval: {interval}
left:
  name: served
  topic: {topics}served
  columns: {{{_columns(served)}}}
  key: [user_id, item_id]
  event_time: served_at
  out_of_orderness: {served_disorder}
right:
  - name: clicks
    role: label
    topic: {topics}clicks
    columns: {{{_columns(CLICKS)}}}
    key: [user_id, item_id]
    event_time: engaged_at
    out_of_orderness: {clicks_disorder}
    window: {{before: 0s, after: {after}}}
grace: {grace}
labels: {{clicked: "size(clicks) > 0"}}
{more}"""


def _columns(types: Mapping[str, str]) -> str:
    return ", ".join(f'{name}: "{kind}"' for name, kind in types.items())
