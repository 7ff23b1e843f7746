"""Whether the parts of a scenario fit together: events to topics, expectations to events that have happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from windrow.config.problems import Location, near_miss
from windrow.scenarios.notation import Event, Row
from windrow.scenarios.scenario import Change, Erase, Expect, Land, Replay, Scenario
from windrow.text import counted

Finding = tuple[Location, str]


def contradictions(scenario: Scenario) -> Iterator[Finding]:
    """What does not fit, step by step: the place in the file, and a message."""
    events: Counter[tuple[str, str]] = Counter()
    partitions = dict(scenario.rules.partitions)
    for n, step in enumerate(scenario.history):
        here: Location = ("history", n)
        if isinstance(step, Land):
            for m, event in enumerate(step.events):
                yield from _event(scenario, partitions, event, (*here, "land", m), events)
        if isinstance(step, Change):
            if step.topic not in partitions:
                yield here, f"{step.topic!r} is not a topic; {near_miss(step.topic, partitions, 'topics are')}"
            partitions[step.topic] = step.partitions or partitions.get(step.topic, 1)
        if isinstance(step, Replay) and (step.topic, step.name) not in events:
            yield (*here, "replay"), f"{step.topic} {step.name} is not an event before this step"
        if isinstance(step, Erase) and len(step.key) != len(scenario.key):
            yield (*here, "erase"), f"the rules have the key {', '.join(scenario.key)}; give one value for each"
        if isinstance(step, Expect):
            for row in step.rows or ():
                yield from _row(scenario, row, {name for _, name in events}, (*here, "expect", "rows", row.name))


def _event(
    scenario: Scenario, partitions: Mapping[str, int], event: Event, at: Location, events: Counter[tuple[str, str]]
) -> Iterator[Finding]:
    if event.topic not in partitions:
        yield at, f"{event.topic!r} is not a topic; {near_miss(event.topic, partitions, 'topics are')}"
    elif event.partition >= partitions[event.topic]:
        yield at, f"{event.topic} has {counted(partitions[event.topic], 'partition')}, numbered from p0"
    if len(event.key) != len(scenario.key):
        yield at, f"the key has {counted(len(event.key), 'column')}, the rules have {', '.join(scenario.key)}"
    reading = [stream for stream, topics in scenario.streams if event.topic in topics]
    for stream in event.bad_for:
        if stream not in reading:
            yield at, f"{stream!r} is not a stream of {event.topic}; {near_miss(stream, reading, 'its streams are')}"
    events[event.topic, event.name] += 1
    if events[event.topic, event.name] > 1:
        yield at, f"two events of {event.topic} are called {event.name}; name this one: … as NAME"


def _row(scenario: Scenario, row: Row, known: Collection[str], at: Location) -> Iterator[Finding]:
    for name in (row.name, *(name for _, matches in row.matches for name in matches)):
        if name not in known:
            yield at, f"{name} is not an event before this step; {near_miss(name, known, 'events')}"
    streams = [stream for stream, _ in scenario.streams]
    for stream, _ in row.matches:
        if stream not in streams:
            yield at, f"{stream} is not a stream; {near_miss(stream, streams, 'streams are')}"
