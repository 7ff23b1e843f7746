"""A scenario for the product: its rules as a pipeline file, its events as Kafka records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from windrow.scenarios.notation import own_column
from windrow.scenarios.scenario import Scenario
from windrow.semantics.match import KeyRange
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
    """Return why the product cannot run a scenario, or None if it can."""
    if scenario.rules.stamped:
        return "the broker stamps records with its own clock, which no scenario can set"
    return None


def record_of(partition: PartitionId, sent: Sent) -> KafkaRecord:
    """A record as JSON, with its event time in microseconds of UTC."""
    assert sent.event_at is not None
    value = {"at": instant_text(sent.event_at), **sent.values, "value": "no number" if sent.defect else 1}
    value |= dict.fromkeys(sent.unreadable, "no number")
    return KafkaRecord(*partition, json.dumps(value).encode(), sent.record_at or sent.event_at)


def pipeline_file(rules: Rules, name: str, topic: str = "{topic}") -> str:
    """The rules as a pipeline file.

    Args:
        topic: template for the names of topics; `{topic}` stands for the name in the scenario.
    """
    spec = rules.spec
    idle = (
        "{mode: wait}"
        if rules.idle.mode == "wait"
        else f"{{mode: caught_up, after: {duration_text(rules.idle.after)}}}"
    )
    right = [line for stream in spec.right for line in _right(stream, rules, topic)]
    canary = f"canary: {{keys: {{{', '.join(map(_range, spec.left.canary.ranges))}}}}}" if spec.left.canary else ""
    seen = " or ".join(f"size({stream.name}) > 0" for stream in spec.labels)
    lines = [
        f"name: {name}",
        f"start: {instant_text(spec.start)}",
        f"interval: {duration_text(spec.interval)}",
        "left:",
        *("  " + line for line in _side(spec.left, rules, topic)),
        "right:",
        *right,
        f"grace: {duration_text(spec.grace)}",
        f"idle: {idle}",
        f"max_skew: {duration_text(spec.max_skew)}",
        canary,
        _waiting(rules),
        f'labels: {{seen: "{seen}"}}' if seen else "",
        f"erase: {{by: [{', '.join(spec.left.key)}]}}",
        "expectations: training_rows",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _waiting(rules: Rules) -> str:
    bounds = rules.waiting
    age = None if bounds.max_age is None else duration_text(bounds.max_age)
    fields = {"max_rows": bounds.max_rows, "max_age": age, "policy": bounds.policy}
    return f"waiting: {{{', '.join(f'{name}: {value}' for name, value in fields.items() if value)}}}"


def _range(item: tuple[str, KeyRange]) -> str:
    return f"{item[0]}: {json.dumps(item[1])}"


def _right(stream: Right, rules: Rules, topic: str) -> Iterator[str]:
    first, *rest = _side(stream, rules, topic)
    yield f"  - {first}"
    for line in rest:
        yield f"    {line}"
    yield f"    role: {stream.role}"
    yield f"    window: {{before: {duration_text(stream.before)}, after: {duration_text(stream.after)}}}"
    yield f"    join: {stream.join}"
    yield f"    take: {stream.take}"
    yield f"    silence: {stream.silence}"


def _side(stream: Left | Right, rules: Rules, topic: str) -> Iterator[str]:
    columns = [*(f"{c}: string" for c in stream.key), "at: timestamp", "id: string", "action: string"]
    yield f"name: {stream.name}"
    yield f"topic: [{', '.join(topic.replace('{topic}', one) for one in stream.topics)}]"
    yield "format: json"
    yield f"columns: {{{', '.join([*columns, 'value: bigint', f'{own_column(stream.name)}: bigint'])}}}"
    yield f"key: [{', '.join(stream.key)}]"
    yield "event_time: at"
    if stream.event_id:
        yield f"event_id: {stream.event_id}"
    if stream.where is not None:
        column, value = stream.where.column, stream.where.value  # type: ignore[attr-defined]
        yield f"where: \"{column} = '{value}'\""
    yield f"compacted: {'accept' if stream.topics[0] in rules.compacted else 'refuse'}"
    yield f"out_of_orderness: {duration_text(rules.out_of_orderness[stream.topics[0]])}"
