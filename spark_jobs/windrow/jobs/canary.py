"""canary: send what is due of the pairs that test the way to the training table, and record what was acknowledged.

    read      the table of acknowledged canaries ─▶ compute  what is due now      (`semantics.canary.schedule`)
    write     each record to its topic, then one commit with what the broker has acknowledged

With `--for` it looks again whenever something is due. A pipeline without `canary` in its file is refused, and so is
one whose topics are missing: nothing is created. What a left row or a label is made of is in `config.canary`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from windrow.columns import BATCH, EVENT_TIME, QUARANTINED
from windrow.config import Pipeline, Stream
from windrow.config.canary import unsendable, values_of
from windrow.home import Table
from windrow.io.delta.locks import held
from windrow.io.landing import broker
from windrow.io.landing.landed_rows import LandedRows
from windrow.io.registers import canaries, publications
from windrow.jobs.options import CanaryEvery, CanaryFor, PipelineName
from windrow.jobs.run import BadRequest, Context, context, job
from windrow.outcomes import NotReady
from windrow.semantics.canary.schedule import Due, Rhythm
from windrow.semantics.plan import Plan
from windrow.simulate import producer
from windrow.simulate.record import Message, encode

EVERY = timedelta(minutes=1)
"""How often a pair is sent, unless the file or the command says otherwise."""
TIMEOUT_S = 20.0
"""How long the broker has to acknowledge a record."""

Row = dict[str, Any]


class CanaryNotSent(NotReady):
    """The broker did not acknowledge a canary. What it has acknowledged is recorded; the next look goes on."""


def rhythm_of(pipeline: Pipeline, every: timedelta | None = None) -> Rhythm:
    """Return how often pairs of a pipeline are sent, and at which delays.

    Args:
        every: instead of the file's.

    Raises:
        BadRequest: the file has no `canary`.
    """
    if pipeline.canary is None:
        raise BadRequest(
            f"{pipeline.name} keeps no keys for canaries, so none is sent. Write a range that nobody else uses into "
            "its file: canary: {keys: {user_id: [9000000000, 9000000999]}}; docs/PIPELINE.md says more"
        )
    labels = {stream.name: stream.window.after for stream in pipeline.label_streams}
    return Rhythm(pipeline.left.name, labels, every or pipeline.canary.every or EVERY, pipeline.canary.delays)


def feed(ctx: Context, every: timedelta | None = None, lasting: timedelta | None = timedelta(0)) -> Iterator[list[Row]]:
    """Send what is due, again and again; yields the acknowledged records of each look (columns: `schemas.CANARIES`).

    Args:
        every: how often a pair is sent; default: as the file says.
        lasting: for how long at least; None: until the caller stops.

    Raises:
        BadRequest: the file has no `canary`, or a stream that canaries cannot be sent to.
        BrokerUnreachable, TopicMissing: no answer from Kafka, or not about a topic.
        CanaryNotSent: the broker did not acknowledge a record.
    """
    rhythm = rhythm_of(ctx.pipeline, every)
    if reason := unsendable(ctx.pipeline):
        raise BadRequest(
            f"{reason}; let a producer of its own send "
            "records with keys of the canaries: they are counted whoever sends them"
        )
    until = None if lasting is None else ctx.now() + lasting
    while True:
        yield send_due(ctx, rhythm)
        now = ctx.now()
        if until is not None and now >= until:
            return
        next_at = rhythm.next_at(now, canaries.since(ctx.home, now - rhythm.longest))
        time.sleep(max(0.0, (min(next_at, until or next_at) - now).total_seconds()))


def send_due(ctx: Context, rhythm: Rhythm) -> list[Row]:
    """Send what is due now, and record what was acknowledged; two processes at once send nothing twice."""
    with held(ctx.home.lock(Table.CANARIES)):
        now = ctx.now()
        due = rhythm.due(now, canaries.since(ctx.home, now - max(rhythm.longest, rhythm.every)))
        streams = {stream.name: stream for stream in ctx.pipeline.streams}
        topics = {name for one in due for name in streams[one.stream].topics}
        partitions = broker.describe(ctx.places.brokers, topics) if topics else {}
        acknowledged: list[Row] = []
        try:
            for one in due:
                message = _message(ctx.pipeline, streams[one.stream], one, now, rhythm.event_id(one), partitions)
                acknowledged.append(_row(ctx, one, now, message, _sent(ctx, message)))
        finally:
            canaries.record(ctx.home, acknowledged)
        return acknowledged


def _message(
    pipeline: Pipeline, stream: Stream, due: Due, now: datetime, event_id: int, topics: Mapping[str, broker.Topic]
) -> Message:
    """Return a canary as a message. Topics and partitions of a stream take turns, so that each of them is tested."""
    topic = topics[stream.topics[due.number % len(stream.topics)]]
    partition = topic.partitions[due.number % len(topic.partitions)].number
    values = values_of(pipeline, stream, due.number, now, event_id)
    key = "/".join(str(values[name]) for name in stream.key)
    return Message(topic.name, partition, key.encode(), encode(values), int(now.timestamp() * 1000))


def _sent(ctx: Context, message: Message) -> int:
    """Send a message, and return its offset."""
    try:
        done = producer.produce(ctx.places.brokers, [message], timeout_s=TIMEOUT_S)
    except producer.DeliveryFailed as failed:
        raise CanaryNotSent(f"{failed} What was acknowledged before is recorded; run again.") from failed
    return done.first_offsets[message.topic, message.partition]


def _row(ctx: Context, due: Due, now: datetime, message: Message, offset: int) -> Row:
    return {
        "served_at": due.served_at,
        "number": due.number,
        "stream": due.stream,
        "delay_s": None if due.delay is None else due.delay.total_seconds(),
        "event_time": now,
        "topic": message.topic,
        "partition": message.partition,
        "offset": offset,
        "acknowledged_at": ctx.now(),
    }


def lost(ctx: Context, at: datetime | None = None) -> list[dict[str, Any]]:
    """Return the pairs of a published interval that did not arrive whole: `served_at`, `delay_s`, `row`, `label`.

    The last two say of each record where it is: `topic/partition/offset: landed`, `not landed`, or why not in time.

    Args:
        at: start of the interval; default: the newest publication that lacks a pair.

    Raises:
        BadRequest: there is no such publication.
    """
    rhythm = rhythm_of(ctx.pipeline)
    standing = publications.standing(publications.registered(ctx.home))
    lacking = [row for row in standing.values() if (row["canary_matched"] or 0) < (row["canary_pairs"] or 0)]
    chosen = standing.get(at) if at else max(lacking, key=lambda row: row["interval"], default=None)
    if chosen is None:
        raise BadRequest("no publication lacks a pair of canaries" if at is None else f"nothing is published at {at}")
    records = canaries.of_interval(ctx.home, chosen["interval"], chosen["interval_end"])
    where = _whereabouts(ctx, records, Plan.from_json(chosen["plan"]).pins)
    rows = {record["served_at"]: where[id(record)] for record in records if record["stream"] == rhythm.left}
    pairs = [
        {
            "served_at": record["served_at"],
            "delay_s": record["delay_s"],
            "row": rows.get(record["served_at"], "not acknowledged"),
            "label": where[id(record)],
        }
        for record in records
        if record["stream"] != rhythm.left
    ]
    return [pair for pair in pairs if not (pair["row"].endswith(": landed") and pair["label"].endswith(": landed"))]


def _whereabouts(ctx: Context, records: Sequence[Row], pins: Mapping[str, int]) -> dict[int, str]:
    """Return in words where each record is, by its identity in this process."""
    landed, streams = LandedRows(ctx.home), {stream.name: stream for stream in ctx.pipeline.streams}
    found = {}
    for one in records:
        rows = landed.by_id(streams[one["stream"]], one["topic"], None, one["partition"], one["offset"])
        row = next((row for row in rows if row[EVENT_TIME] in (None, one["event_time"])), None)
        if row is None:
            state = "not landed"
        elif row[QUARANTINED]:
            state = f"quarantined: {row[QUARANTINED]}"
        elif row[BATCH] > pins.get(one["topic"], 0):
            state = "landed after the publication"
        else:
            state = "landed"
        found[id(one)] = f"{one['topic']}/{one['partition']}/{one['offset']}: {state}"
    return found


def execute(pipeline: PipelineName, every: CanaryEvery = None, lasting: CanaryFor = timedelta(0)) -> Mapping[str, Any]:
    """Send what is due, and return how many records were acknowledged."""
    looks = [len(rows) for rows in feed(context(pipeline), every, lasting)]
    return {"looks": len(looks), "acknowledged": sum(looks)}


main = job(execute)
