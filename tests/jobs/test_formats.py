"""Avro and Protobuf from a real broker, with a real registry: the same rows as from JSON, and poison in quarantine."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.planted import event_log, files_below, holders, watched
from support.servers import registry as producers
from support.servers.certificates import Authority
from support.servers.gate import gate
from support.small_pipeline import START, at
from support.world import World, content
from windrow.config.column_types import parse_type
from windrow.config.formats import Format
from windrow.files import write_whole
from windrow.io.landing.registry import Registry as RegistryClient
from windrow.io.landing.registry import RegistryRefused, RegistryUnnamed, RegistryUnreachable
from windrow.io.registers import clocks, writer_schemas
from windrow.jobs import land
from windrow.jobs.run import Context
from windrow.outcomes import ExitCode, exit_code
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.processes import free_port
from windrow.platform.servers.registry import API, Registry
from windrow.platform.servers.store import Store
from windrow.semantics.landing.batch import Reconsidered
from windrow.simulate.formats import encoder
from windrow.simulate.poison import KINDS
from windrow.simulate.traffic import Traffic, records
from windrow.transforms.formats.framing import unframed
from windrow.transforms.formats.records import reader

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PIPELINE = """\
name: {f}
start: 2026-11-01T00:00:00Z
interval: 5m
left:
  name: served
  topic: {t}.{f}_served
  format: {f}
  columns: {columns}
  key: [k]
  event_time: t
  event_id: id
  out_of_orderness: 10s
right:
  - name: likes
    role: label
    topic: {t}.{f}_likes
    format: {f}
    columns: {columns}
    key: [k]
    event_time: t
    out_of_orderness: 10s
    window: {before: 0s, after: 2m}
grace: 30s
idle: {mode: wait}
"""
SIMULATED = {
    "request_id": "string",
    "event_id": "string",
    "action": "string",
    "user_id": "bigint",
    "item_id": "bigint",
    "served_at": "timestamp",
    "engaged_at": "timestamp",
    "features": "array<float>",
}
FORMATS = ("json", "avro", "protobuf")
START_TEXT = "2026-11-01T00:00:00Z"


@pytest.fixture(scope="module")
def registry(session_places: Places) -> Iterator[Registry]:
    """A real registry."""
    jars.ensure(session_places, also=["registry"])
    running = Registry(replace(session_places, registries=(("default", f"http://127.0.0.1:{free_port()}{API}"),)))
    running.start()
    yield running
    running.stop()


def made(world: World, registry: str, kind: str, now: float = 10_000) -> Context:
    """A pipeline of a format, with its topics, at a registry."""
    text = PIPELINE.replace("{columns}", producers.COLUMNS).replace("{f}", kind)
    ctx = world.pipeline(text, now=at(now))
    world.topics({f"{kind}_served": 1, f"{kind}_likes": 1})
    return replace(ctx, places=replace(ctx.places, registries=(("default", registry),)))


def serializers(kind: str, registry: str) -> list[producers.Serialize]:
    """What writes the three versions of an event in a format."""
    if kind == "json":
        return [lambda _topic, one: producers.as_json(one)] * 3
    if kind == "avro":
        return [producers.avro(registry, fields) for fields in producers.AVRO]
    return [producers.protobuf(registry, text) for text in producers.PROTOBUF]


def sent(world: World, kind: str, registry: str) -> None:
    """Produce the same events in a format, three versions in turn."""
    write = serializers(kind, registry)
    records: list[Any] = []
    for number in range(24):
        version = number % 3
        for topic, delay in ((f"{kind}_served", 0), (f"{kind}_likes", 7)):
            if delay == 0 or number % 2:
                one = producers.event(number, 20 * number + delay, number % 5, version)
                records.append((topic, 0, write[version](f"{world.name}.{topic}", one), at(20 * number)))
    world.produce(records)


def plain(rows: list[dict[str, Any]]) -> list[Any]:
    """Rows without the names of topics; floats as they are, to the bit."""

    def exact(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: exact(one) for name, one in value.items() if name not in ("_topic", "_raw")}
        if isinstance(value, list):
            return [exact(one) for one in value]
        return value.hex() if isinstance(value, float) else value

    return [exact(row) for row in content(rows)]


def test_three_formats_and_three_versions_of_a_schema_give_the_same_rows(world: World, registry: Registry) -> None:
    found = {}
    for kind in FORMATS:
        ctx = made(world, registry.url, kind)
        sent(world, kind, registry.url)
        world.land(ctx)
        world.train(ctx)
        landed = sorted(world.table(ctx, f"landing/{world.name}.{kind}_served"), key=lambda row: row["_offset"])
        assert [row["_quarantined"] for row in landed] == [None] * 24
        found[kind] = (plain(landed), plain(world.training(ctx)))
        if kind != "json":
            schemas = writer_schemas.kept(ctx.home, "default")
            assert len(schemas) >= 3
    landed, trained = found["json"]
    assert len(trained) == 15
    assert any(row["label_state"] == "positive" for row in trained)
    assert {row["note"] is None for row in landed} == {True, False}
    for kind in ("avro", "protobuf"):
        assert found[kind][0] == landed
        assert found[kind][1] == trained


def test_a_registry_that_asks_answers_who_it_knows_and_refuses_others(
    registry: Registry, session_places: Places, tmp_path: Path
) -> None:
    ours, login = Authority("ours"), "ann:planted-registry-3b1f"
    write = producers.avro(registry.url, producers.AVRO[0])
    number = int.from_bytes(write("asked", producers.event(0, 0, 0, 0))[1:5], "big")
    file, trusted = tmp_path / "registry.properties", ours.write(tmp_path / "ours.pem")
    with gate(registry.url, ours, tmp_path, login=login) as address:
        places = replace(session_places, registries=(("default", address),), registry_client=file)

        def ask(*lines: str) -> Any:
            write_whole(file, "\n".join(lines), private=True)
            return RegistryClient(places, "default").schema(number)

        trusts = f"ssl.ca.location={trusted}"
        found = ask(trusts, f"basic.auth.user.info={login}")
        assert (found.id, found.kind) == (number, "AVRO")
        foreign = Authority("foreign").write(tmp_path / "foreign.pem")
        for lines in (
            (trusts,),
            (trusts, "basic.auth.user.info=ann:wrong"),
            (f"ssl.ca.location={foreign}", f"basic.auth.user.info={login}"),
        ):
            with pytest.raises(RegistryRefused, match="do not accept each other") as refused:
                ask(*lines)
            assert exit_code(refused.value) is ExitCode.REFUSED
            assert "planted" not in str(refused.value)


def test_a_registry_that_asks_for_a_certificate_answers_who_has_one_and_refuses_others(
    registry: Registry, session_places: Places, tmp_path: Path
) -> None:
    ours, foreign = Authority("ours"), Authority("foreign")
    number = int.from_bytes(producers.avro(registry.url, producers.AVRO[0])("asked", producers.event(0, 0, 0, 0))[1:5])
    file, trusts = tmp_path / "registry.properties", f"ssl.ca.location={ours.write(tmp_path / 'ours.pem')}"
    with gate(registry.url, ours, tmp_path, asks=ours) as address:
        places = replace(session_places, registries=(("default", address),), registry_client=file)

        def ask(own: str | None) -> Any:
            key, mark, chain = (own or "").partition("-----BEGIN CERT")
            write_whole(tmp_path / "own.key", key, private=True)
            (tmp_path / "own.pem").write_text(mark + chain)
            files = (f"ssl.certificate.location={tmp_path}/own.pem", f"ssl.key.location={tmp_path}/own.key")
            write_whole(file, "\n".join((trusts, *(files if own else ()))), private=True)
            return RegistryClient(places, "default").schema(number)

        assert ask(ours.signed("windrow")).kind == "AVRO"
        expired = ours.signed("windrow", until=datetime.now(UTC) - timedelta(hours=1))
        for own in (None, foreign.signed("windrow"), expired):
            with pytest.raises(RegistryRefused, match="do not accept each other") as refused:
                ask(own)
            assert exit_code(refused.value) is ExitCode.REFUSED
            assert "BEGIN" not in str(refused.value)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["environment", "file"])
def test_planted_secrets_of_store_and_registry_are_nowhere_but_where_they_were_put(
    world: World, registry: Registry, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The store's key is in the environment of all processes, if it is given there; in a file it is in none.

    From a file it is handed on in memory, to whoever reads or commits: so all jobs run.
    """
    ours, login = Authority("ours"), "ann:planted-registry-3b1f"
    own = ours.signed("windrow")
    write_whole(tmp_path / "own.pem", own, private=True)
    lines = [f"ssl.ca.location={ours.write(tmp_path / 'ours.pem')}", f"basic.auth.user.info={login}"]
    lines += [f"ssl.{part}.location={tmp_path}/own.pem" for part in ("certificate", "key")]
    write_whole(tmp_path / "registry.properties", "\n".join(lines), private=True)
    of_store = store.environment()["AWS_SECRET_ACCESS_KEY"]
    of_registry = (login.partition(":")[2], base64.b64encode(login.encode()).decode(), own.splitlines()[1])
    if kind == "file":
        keys = {name: os.environ[name.upper()] for name in ("aws_access_key_id", "aws_secret_access_key")}
        lines = ["[default]", *(f"{name} = {value}" for name, value in keys.items())]
        write_whole(tmp_path / "credentials", "\n".join(lines), private=True)
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
        for name in keys:
            monkeypatch.delenv(name.upper())

    outside = World(replace(world.places, tables=f"{store.url}/planted_{kind}"), world.name)
    ctx = made(outside, registry.url, "avro")
    sent(outside, "avro", registry.url)
    run, output = ("--run", "planted"), ""
    more = {"WINDROW_REGISTRY_CLIENT": str(tmp_path / "registry.properties")}
    properties, of_spark = event_log(tmp_path), "planted-spark-9d40"
    write_whole(properties, f"{properties.read_text()}spark.authenticate.secret {of_spark}\n", private=True)
    more["WINDROW_SPARK_SECRETS"] = str(properties)
    with gate(registry.url, ours, tmp_path, login=login, asks=ours) as address, watched() as seen:
        later = (("join", *run, "--interval", START_TEXT), ("check", *run), ("publish", *run))
        for job, *words in (("land",), *(later if kind == "file" else ())):
            done = outside.script(job, ctx.pipeline.name, *words, WINDROW_REGISTRY=address, **more)
            assert done.returncode == ExitCode.DONE, done.stderr[-2000:]
            output += done.stdout + done.stderr
    assert sum(row["landed"] for row in clocks.observe(ctx.home).rows) == 36
    assert [row["rows"] for row in outside.register(ctx)] == ([15] if kind == "file" else [])

    written = files_below(world.places.home, tmp_path / "events", store.folder / "data")
    assert any("events" in path.parts and b"s3://" in content for path, content in written.items())
    assert any(path.parent.name == "_delta_log" and f"planted_{kind}" in str(path) for path in written)
    assert any("java" in one for one in seen.arguments)
    secrets = (of_store, of_spark, *of_registry)
    assert holders(written, secrets) == []
    assert [one for one in secrets if one in output] == []
    assert [one for one in secrets for arguments in seen.arguments if one in arguments] == []
    shown = {one for one in secrets if any(one in environment for environment in seen.environments)}
    assert shown == ({of_store} if kind == "environment" else set())


def test_poison_is_quarantined_and_an_unknown_schema_is_judged_again(world: World, registry: Registry) -> None:
    ctx = made(world, registry.url, "avro")
    topic = f"{world.name}.avro_served"
    first, _, last = serializers("avro", registry.url)
    good = first(topic, producers.event(1, 10, 1, 0))
    fields = [{**field, "type": "string"} if field["name"] == "score" else field for field in producers.AVRO[0]]
    text_for_number = producers.avro(registry.url, fields)(topic, {**producers.event(2, 11, 1, 0), "score": "x"})
    infinite = first(topic, {**producers.event(3, 12, 1, 0), "score": float("nan")})
    of_protobuf = serializers("protobuf", registry.url)[0](f"{world.name}.other", producers.event(4, 13, 1, 0))
    unknown = b"\0\x7f\xff\xff\xff" + good[5:]
    values = [good, good[:-1], good + b"\0", good[5:], b"\0\0", None, text_for_number, infinite, of_protobuf, unknown]
    world.produce([("avro_served", 0, value, at(10)) for value in values])
    with pytest.raises(RegistryUnnamed, match="WINDROW_REGISTRY has no address"):
        world.land(replace(ctx, places=replace(ctx.places, registries=())))
    nobody = replace(ctx.places, registries=(("default", f"http://127.0.0.1:{free_port()}{API}"),))
    with pytest.raises(RegistryUnreachable, match=r"did not answer.*the same offsets will land") as refused:
        world.land(replace(ctx, places=nobody))
    assert refused.value.code == ExitCode.NOT_READY
    assert clocks.observe(ctx.home).rows == ()

    world.land(ctx)
    rows = sorted(world.table(ctx, f"landing/{topic}"), key=lambda row: row["_offset"])
    other = int.from_bytes(of_protobuf[1:5], "big")
    why = [None, "malformed", "malformed", "unframed", "unframed", "tombstone", "wrong_type", "not_finite"]
    assert [row["_quarantined"] for row in rows] == [*why, f"other_schema:{other}", "unknown_schema:2147483647"]
    assert [row["_raw"] for row in rows[1:]] == values[1:]
    assert json.loads(rows[6]["_unreadable"]) == {"score": "wrong_type"}

    # What is known stays known without the registry; a schema that is new to landing needs it.
    world.produce([("avro_served", 0, good, at(20))])
    away = replace(ctx, places=nobody)
    assert sum(row["landed"] for row in world.land(away).rows) == 2
    world.produce([("avro_served", 0, last(topic, producers.event(9, 20, 1, 2)), at(20))])
    with pytest.raises(RegistryUnreachable):
        world.land(away)
    assert sum(row["landed"] for row in world.land(ctx).rows) == 3

    # The registry learns the schema later: here its keeping is done by hand.
    known = next(iter(writer_schemas.kept(ctx.home, "default").values()))
    assert known.kind == "AVRO"
    missing = writer_schemas.kept(ctx.home, "default")[int.from_bytes(good[1:5], "big")]._replace(id=2147483647)
    writer_schemas.keep(ctx.home, "default", [missing], at(10_000))
    *_, again = land.land(ctx, reconsider=Reconsidered("ann", "the schema was registered"))
    assert sum(row["landed"] for row in again.after.rows) == 4
    (row,) = [row for row in world.table(ctx, f"landing/{topic}") if row["_reconsidered"] is not None]
    assert (row["_offset"], row["id"]) == (9, "e1")


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_simulated_poison_is_what_its_truth_says(registry: Registry, session_places: Places, kind: Any) -> None:
    traffic = Traffic(start=START, rows=100, poison=dict.fromkeys(KINDS, 0.01))
    columns = {name: parse_type(text) for name, text in SIMULATED.items()}
    places, schemas = replace(session_places, registries=(("default", registry.url),)), {}
    encode = encoder(kind, registry.url)
    for record in records(traffic):
        value = encode(record)
        if record.kind in ("far_ahead", "null_key", "time_missing", "before_start", "tombstone", "too_large"):
            continue  # judged by its values or its size, as in JSON
        assert value is not None
        framed = unframed(value)
        if framed and framed.schema not in schemas:
            found = RegistryClient(places, "default").schema(framed.schema)
            assert found is not None
            schemas[framed.schema] = found
        (read,) = reader(Format(kind), columns, schemas)(pa.array([value])).to_pylist()
        is_bad = bool(read["reason"] or read["wrong"] or read["not_finite"])
        assert is_bad == (record.fate == "quarantined"), record
