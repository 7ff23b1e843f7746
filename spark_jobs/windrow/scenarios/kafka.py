"""Rules as a pipeline file and what is sent as Kafka records, for the real thing; and why some scenarios cannot be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.scenarios.scenario import Scenario
from windrow.semantics.paper.landings import PartitionId, Rules, Sent
from windrow.semantics.records import Left, Right
from windrow.text import duration_text, instant_text


@dataclass(frozen=True)
class KafkaRecord:
    """One record, as a producer sends it."""

    topic: str
    partition: int
    value: bytes
    timestamp: datetime


def why_only_on_paper(scenario: Scenario) -> str | None:
    """What of a scenario has no counterpart that a test could arrange; None where the real thing can run it."""
    if scenario.rules.stamped:
        return "the broker stamps records with its own clock, which no scenario can set"
    return None


def record_of(place: PartitionId, sent: Sent) -> KafkaRecord:
    """What is sent, as JSON, in microseconds of UTC."""
    assert sent.event_at is not None
    value = {"at": instant_text(sent.event_at), **sent.values, "value": "no number" if sent.defect else 1}
    return KafkaRecord(*place, json.dumps(value).encode(), sent.record_at or sent.event_at)


def pipeline_file(rules: Rules, name: str, topic: str = "{topic}") -> str:
    """The rules as a pipeline file. `topic`: how a topic is called there, with `{topic}` for its name here."""
    spec = rules.spec
    idle = "{mode: wait}" if rules.idle.mode == "wait" else f"{{mode: caught_up, after: {_said(rules.idle.after)}}}"
    right = [line for stream in spec.right for line in _right(stream, rules, topic)]
    seen = " or ".join(f"size({stream.name}) > 0" for stream in spec.labels)
    lines = [
        f"name: {name}",
        f"start: {instant_text(spec.start)}",
        f"interval: {_said(spec.interval)}",
        "left:",
        *("  " + line for line in _side(spec.left, rules, topic)),
        "right:",
        *right,
        f"grace: {_said(spec.grace)}",
        f"idle: {idle}",
        f"max_skew: {_said(spec.max_skew)}",
        f'labels: {{seen: "{seen}"}}' if seen else "",
        "expectations: training_rows",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _right(stream: Right, rules: Rules, topic: str) -> Iterator[str]:
    first, *rest = _side(stream, rules, topic)
    yield f"  - {first}"
    for line in rest:
        yield f"    {line}"
    yield f"    role: {stream.role}"
    yield f"    window: {{before: {_said(stream.before)}, after: {_said(stream.after)}}}"
    yield f"    join: {stream.join}"
    yield f"    take: {stream.take}"
    yield f"    silence: {stream.silence}"


def _side(stream: Left | Right, rules: Rules, topic: str) -> Iterator[str]:
    columns = [*(f"{c}: string" for c in stream.key), "at: timestamp", "id: string", "action: string"]
    yield f"name: {stream.name}"
    yield f"topic: [{', '.join(topic.replace('{topic}', one) for one in stream.topics)}]"
    yield "format: json"
    yield f"columns: {{{', '.join([*columns, 'value: bigint'])}}}"
    yield f"key: [{', '.join(stream.key)}]"
    yield "event_time: at"
    if stream.event_id:
        yield f"event_id: {stream.event_id}"
    if stream.where is not None:
        column, value = stream.where.column, stream.where.value  # type: ignore[attr-defined]
        yield f"where: \"{column} = '{value}'\""
    yield f"out_of_orderness: {_said(rules.out_of_orderness[stream.topics[0]])}"


def _said(length: timedelta) -> str:
    return duration_text(length)
