"""A scenario as Kafka records and a pipeline file, for the real thing; and why some scenarios cannot be.

Offsets are those of topics that begin empty, so names of events are known by (topic, partition, offset).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from windrow.config import duration_text
from windrow.scenarios.notation import Event
from windrow.scenarios.scenario import Land, Plan, Publish, Replay, Scenario
from windrow.semantics.history import Left, Right
from windrow.semantics.plan import instant_text


@dataclass(frozen=True)
class KafkaRecord:
    """One record, as a producer sends it."""

    topic: str
    partition: int
    value: bytes
    timestamp: datetime


def why_only_on_paper(scenario: Scenario) -> str | None:
    """What of a scenario has no counterpart that a test could arrange; None where the real thing can run it."""
    rules = scenario.rules.spec
    for step in scenario.history:
        if isinstance(step, Replay | Plan) or (isinstance(step, Publish) and (step.run or step.refused)):
            return "runs that overlap, retries and resets are the fault tests'"
        if isinstance(step, Land) and (
            step.unseen or step.unreachable or step.is_killed or any(e.is_lost for e in step.events)
        ):
            return "lag, kills and lost offsets are the fault tests'"
    if rules.interval < timedelta(seconds=1) or rules.interval % timedelta(seconds=1):
        return "an interval is at least a second"
    return None


def kafka_record(event: Event, scenario: Scenario) -> KafkaRecord:
    """The event as JSON, in microseconds of UTC."""
    value = {
        **dict(zip(scenario.key, event.key, strict=True)),
        "at": instant_text(event.at),
        "id": event.event_id,
        "value": "no number" if event.is_bad else 1,
        **event.values,
    }
    return KafkaRecord(event.topic, event.partition, json.dumps(value).encode(), event.logged_at or event.at)


def pipeline_file(scenario: Scenario, name: str, topic: str = "{topic}") -> str:
    """The rules as a pipeline file. `topic`: how a topic is called there, with `{topic}` for its name here."""
    spec, rules = scenario.rules.spec, scenario.rules
    idle = "{mode: wait}" if rules.idle.mode == "wait" else f"{{mode: caught_up, after: {_said(rules.idle.after)}}}"
    right = [line for stream in spec.right for line in _right(stream, scenario, topic)]
    seen = " or ".join(f"size({stream.name}) > 0" for stream in spec.labels)
    lines = [
        f"name: {name}",
        f"start: {instant_text(spec.start)}",
        f"interval: {_said(spec.interval)}",
        "left:",
        *("  " + line for line in _side(spec.left, scenario, topic)),
        "right:",
        *right,
        f"grace: {_said(spec.grace)}",
        f"idle: {idle}",
        f"max_skew: {_said(spec.max_skew)}",
        f'labels: {{seen: "{seen}"}}' if seen else "",
        "expectations: training_rows",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _right(stream: Right, scenario: Scenario, topic: str) -> Iterator[str]:
    first, *rest = _side(stream, scenario, topic)
    yield f"  - {first}"
    for line in rest:
        yield f"    {line}"
    yield f"    role: {stream.role}"
    yield f"    window: {{before: {_said(stream.before)}, after: {_said(stream.after)}}}"
    yield f"    join: {stream.join}"
    yield f"    take: {stream.take}"
    yield f"    silence: {stream.silence}"


def _side(stream: Left | Right, scenario: Scenario, topic: str) -> Iterator[str]:
    columns = [*(f"{c}: string" for c in scenario.key), "at: timestamp", "id: string", "action: string"]
    yield f"name: {stream.name}"
    yield f"topic: {topic.replace('{topic}', stream.topics[0])}"
    yield "format: json"
    yield f"columns: {{{', '.join([*columns, 'value: bigint'])}}}"
    yield f"key: [{', '.join(scenario.key)}]"
    yield "event_time: at"
    if stream.event_id:
        yield f"event_id: {stream.event_id}"
    if stream.where is not None:
        column, value = stream.where.column, stream.where.value  # type: ignore[attr-defined]
        yield f"where: \"{column} = '{value}'\""
    yield f"out_of_orderness: {_said(scenario.rules.out_of_orderness[stream.topics[0]])}"


def _said(length: timedelta) -> str:
    return duration_text(length)
