"""Columns of keys, headers and timestamps from a real broker to training rows, in records of every compression."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest
from confluent_kafka import Producer

from support.small_pipeline import PIPELINE, START, at, event, made
from support.world import World
from windrow.io.column_changes import OriginsChanged
from windrow.jobs import land
from windrow.jobs.erasure import erase
from windrow.jobs.run import Context
from windrow.semantics.landing.batch import Reconsidered

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ENVELOPE = PIPELINE.replace(
    "{id: string, k: bigint, t: timestamp}",
    "{id: string, $key.k: bigint, t: timestamp, $header.trace-id: string, $header.n: int, "
    "$timestamp.sent_at: timestamp}\n  key_format: string",
    1,
)
END = [("served", 0, 900.0), ("likes", 0, 900.0)]
"""Events that close every window."""


def served(world: World, codec: str, records: list[tuple[str, str | None, list[Any]]]) -> None:
    """Produce served rows (id, key of the record, headers) with a codec."""
    producer = Producer({"bootstrap.servers": world.places.kafka, "compression.type": codec, "linger.ms": 50})
    for number, (name, key, headers) in enumerate(records):
        value = json.dumps({"id": name, "k": "not the key", "t": _text(number), "pad": "x" * 200}).encode()
        stamp = int(at(number).timestamp() * 1000)
        producer.produce(f"{world.name}.served", value, key=key, partition=0, headers=headers, timestamp=stamp)
    assert producer.flush(60) == 0


def _text(seconds: float) -> str:
    return at(seconds).isoformat().replace("+00:00", "Z")


def test_rows_have_the_key_headers_and_time_of_their_records_whatever_the_codec(world: World) -> None:
    ctx = made(world, ENVELOPE, {"served": 1, "likes": 1})
    for codec in CODECS:
        served(world, codec, [(codec, "7", [("n", b"1"), ("trace-id", f"of {codec}".encode()), ("n", b"2")])])
    served(world, "none", [("bare", None, [])])
    world.produce([event("likes", 0, 1, key=7), *(event(topic, p, s, key=0, name="end") for topic, p, s in END)])
    world.land(ctx)
    world.train(ctx)
    rows = {row["id"]: row for row in world.training(ctx)}
    assert rows.keys() == {*CODECS, "bare"}  # the end's row lacks a key of its record, and its window is open
    for codec in CODECS:
        found = rows[codec]
        assert (found["k"], found["trace_id"], found["n"], found["liked"]) == (7, f"of {codec}", 2, True)
        assert found["sent_at"].astimezone(UTC) == START
    bare = rows["bare"]
    assert (bare["k"], bare["trace_id"], bare["n"]) == (None, None, None)
    assert (bare["label_state"], bare["label_reason"]) == ("unknown", "null_key")

    moved = ENVELOPE.replace("$key.k: bigint", "k: bigint").replace("\n  key_format: string", "")
    with pytest.raises(OriginsChanged, match=r"k +\$key\.k +value"):
        world.land(world.pipeline(moved, now=ctx.now()))


def test_what_is_quarantined_is_judged_again_with_its_key_and_headers_and_an_erased_key_leaves_nothing(
    world: World,
) -> None:
    """The clock of the host is an hour behind at first, so that every record is ahead of its time."""
    ctx = made(world, ENVELOPE + ERASE, {"served": 1, "likes": 1}, now=-3600)
    served(world, "zstd", [("kept", "7", [("n", b"200")]), ("gone", "8", [("n", b"300")])])
    world.produce([event(topic, p, s, key=0, name="end") for topic, p, s in END])
    world.land(ctx)
    assert envelopes(world, ctx) == {"kept": (b"7", b"200"), "gone": (b"8", b"300"), "end": (None, None)}

    erase.erase(ctx, "forget", ["k=8"], who="ann")
    assert envelopes(world, ctx) == {"kept": (b"7", b"200"), "end": (None, None)}

    later = replace(ctx, now=lambda: at(10_000))
    list(land.land(later, reconsider=Reconsidered("ann", "the clock of the host was behind")))
    world.train(later)
    assert [(row["id"], row["k"], row["n"]) for row in world.training(later)] == [("kept", 7, 200)]


ERASE = "erase: {by: [k], mode: delete}\n"


def envelopes(world: World, ctx: Context) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Key and first header of each record that is kept as it came, by its id."""
    rows = [row for row in world.table(ctx, f"landing/{world.name}.served") if row["_raw_envelope"]]
    kept = {json.loads(row["_raw"])["id"]: row["_raw_envelope"] for row in rows}
    return {name: (one["key"], one["headers"][0]["value"] if one["headers"] else None) for name, one in kept.items()}
