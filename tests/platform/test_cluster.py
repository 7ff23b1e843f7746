"""A cluster on one machine: what is written for it, whose home is whose, and that one of three brokers may die."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from support.command import windrow as command_of
from support.small_pipeline import PIPELINE, event, made
from support.world import World
from windrow import platform
from windrow.cli import app
from windrow.io.landing.broker import BrokerUnreachable
from windrow.jobs.run import Context
from windrow.places import Places
from windrow.platform import Airflow, Broker, OtherPlatform, PortTaken, Postgres, SparkCluster
from windrow.platform.processes import Address, free_port
from windrow.platform.servers import cluster
from windrow.platform.servers.broker import Node
from windrow.simulate import producer
from windrow.simulate.record import Message

PLANTED = "planted-0f6c1d77a2"
ONE_BROKER = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:19093
listeners=BROKER://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093
advertised.listeners=BROKER://127.0.0.1:19092
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
log.dirs={home}/platform/kafka/data
auto.create.topics.enable=false
message.max.bytes=16777216
replica.fetch.max.bytes=16777216
num.partitions=1
default.replication.factor=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.hours=-1
num.network.threads=2
num.io.threads=4
"""
"""What a home's only broker has been started with since the first version."""


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with a home of its own."""
    return {"WINDROW_HOME": f"{tmp_path}/home", "WINDROW_CACHE": f"{tmp_path}/cache", "PATH": os.environ["PATH"]}


def settings_of(broker: Broker, number: int) -> dict[str, str]:
    """The configuration of a node, as it is written."""
    node = broker.nodes[number - 1]
    node.folder.mkdir(parents=True)
    broker._write_configuration(node)
    return dict(line.split("=", 1) for line in node.properties.read_text().splitlines())


def test_the_settings_and_the_folder_of_an_only_broker_are_what_they_were(home: dict[str, str]) -> None:
    places = Places.from_env(home)
    broker = Broker(places)
    settings_of(broker, 1)
    assert broker.nodes[0].properties.read_text() == ONE_BROKER.replace("{home}", str(places.home))
    assert broker.folder == places.home / "platform" / "kafka"


def test_three_addresses_are_three_nodes_that_keep_every_record_on_two(home: dict[str, str]) -> None:
    broker = Broker(Places.from_env(home | {"WINDROW_KAFKA": "127.0.0.1:9,127.0.0.1:19, localhost:29"}))
    found = [settings_of(broker, number) for number in (1, 2, 3)]
    assert [one["node.id"] for one in found] == ["1", "2", "3"]
    assert {one["controller.quorum.voters"] for one in found} == {"1@127.0.0.1:10,2@127.0.0.1:20,3@localhost:30"}
    assert found[2]["listeners"] == "BROKER://localhost:29,CONTROLLER://localhost:30"
    assert len({one["log.dirs"] for one in found}) == 3
    for name in ("default.replication.factor", "offsets.topic.replication.factor"):
        assert {one[name] for one in found} == {"3"}
    for name in ("min.insync.replicas", "transaction.state.log.min.isr"):
        assert {one[name] for one in found} == {"2"}


def test_brokers_of_which_one_is_elsewhere_are_used_and_never_started(home: dict[str, str]) -> None:
    broker = Broker(Places.from_env(home | {"WINDROW_KAFKA": "127.0.0.1:9,kafka.example:9092"}))
    assert not broker.is_ours


def test_no_two_parts_of_a_cluster_want_the_same_port() -> None:
    usual = dict(cluster.DEFAULTS)
    ports = [port for one in Address.all_of(usual["WINDROW_KAFKA"]) for port in (one.port, one.next().port)]
    ports += [Address.parse(usual[name]).port for name in ("WINDROW_STORE", "WINDROW_POSTGRES")]
    ports += [int(usual["WINDROW_AIRFLOW_PORT"]) + one for one in (0, 1)]
    spark = SparkCluster(Places.from_env(usual), {})
    ports += [spark.address.port, *(spark.page(name).port for name in spark.processes)]
    assert len(set(ports)) == len(ports) == 14


def test_a_shell_that_sources_env_is_on_the_cluster_and_nobody_else_may_read_it(home: dict[str, str]) -> None:
    known = cluster.environment(home | {"WINDROW_POSTGRES": "127.0.0.1:15"})
    file = cluster.write_env(known)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    sourced = subprocess.run(
        ["sh", "-c", f". {file} && env"], env={"PATH": home["PATH"]}, capture_output=True, text=True, check=True
    )
    environ = dict(line.split("=", 1) for line in sourced.stdout.splitlines())
    places = Places.from_env(environ | {"WINDROW_CACHE": home["WINDROW_CACHE"]})
    assert places == Places.from_env(known | {"WINDROW_CACHE": home["WINDROW_CACHE"]})
    assert (places.tables, places.postgres, places.home) == ("s3://windrow", "127.0.0.1:15", Path(home["WINDROW_HOME"]))
    assert environ["AWS_SECRET_ACCESS_KEY"] == known["AWS_SECRET_ACCESS_KEY"]
    assert environ["no_proxy"] == "127.0.0.1,localhost"

    # without it, the home itself says where its parts are; what the shell says counts more
    assert cluster.environment(home)["WINDROW_POSTGRES"] == "127.0.0.1:15"
    assert cluster.environment(home | {"WINDROW_POSTGRES": "127.0.0.1:16"})["WINDROW_POSTGRES"] == "127.0.0.1:16"


@pytest.mark.parametrize(
    "foreign",
    [
        {"WINDROW_KAFKA": "kafka.example:9092"},
        {"WINDROW_KAFKA": "127.0.0.1:19092"},
        {"WINDROW_SPARK_MASTER": "yarn"},
        {"WINDROW_SPARK_MASTER": "spark://master:7077"},
    ],
)
def test_a_cluster_of_this_machine_has_no_part_elsewhere(home: dict[str, str], foreign: dict[str, str]) -> None:
    with pytest.raises(OtherPlatform, match=next(iter(foreign))):
        cluster.environment(home | foreign)


def test_a_home_of_one_broker_does_not_become_a_clusters(home: dict[str, str]) -> None:
    places = Places.from_env(home)
    (places.home / "platform" / "kafka" / "data").mkdir(parents=True)
    (places.home / "platform" / "airflow").mkdir()
    (places.home / "platform" / "airflow" / "airflow.db").touch()
    known = Places.from_env(home | cluster.environment(home))
    with pytest.raises(
        OtherPlatform, match=r"are in one broker, and WINDROW_KAFKA=\S+ names 3 brokers.*\n.*WINDROW_HOME"
    ):
        Broker(known).start()
    with pytest.raises(OtherPlatform, match=r"airflow\.db, and not in the PostgreSQL.*\n.*WINDROW_HOME"):
        Airflow(known).start()

    done = CliRunner().invoke(app, ["up", "--cluster"], env=home)
    assert isinstance(done.exception, OtherPlatform)
    assert not cluster.is_in(places.home), "it stays one broker's"


def test_a_home_of_a_cluster_does_not_become_one_brokers(home: dict[str, str]) -> None:
    places = Places.from_env(home)
    file = cluster.write_env(cluster.environment(home))
    for number in (1, 2, 3):
        (file.parent / f"kafka-{number}").mkdir()
    with pytest.raises(OtherPlatform, match=f"are in 3 brokers.*\n.*source {file}"):
        Broker(places).start()
    with pytest.raises(OtherPlatform, match=f"is a cluster's home.*\n.*source {file}"):
        Airflow(places).start()


def test_the_state_of_every_part_is_shown_before_anything_runs(home: dict[str, str]) -> None:
    known = home | cluster.environment(home)
    cluster.write_env(known)
    parts = platform.status(Places.from_env(known))
    names = ("kafka 1", "kafka 2", "kafka 3", "store", "postgres", "spark-master", "spark-worker-1", "spark-worker-2")
    assert {part.name for part in parts} >= {*names, "airflow scheduler"}
    assert {part.state for part in parts} == {"stopped"}


@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_wrong_location_of_the_tables_keeps_no_part_from_being_looked_at_and_stopped(
    home: dict[str, str], is_cluster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in cluster.environment(home):
        monkeypatch.setenv(name, "")  # a command in a cluster's home sets them for its process
    if is_cluster:
        cluster.write_env(cluster.environment(home))
    wrong = home | {"WINDROW_TABLES": "s3:bucket", "WINDROW_KAFKA": "" if is_cluster else "127.0.0.1:9"}
    for command, says in (("status", f"home {home['WINDROW_HOME']}"), ("down", "Kafka was not running")):
        done = command_of(wrong, command)
        assert (done.returncode, done.stderr) == (0, "")
        assert says in done.stdout
    assert all(part["state"] == "stopped" for part in json.loads(command_of(wrong, "status", "--json").stdout))
    refused = command_of(wrong, "up")
    assert (refused.returncode, refused.stderr.startswith("SettingWrong: WINDROW_TABLES='s3:bucket'")) == (2, True)


def test_airflow_keeps_its_state_in_postgresql_and_the_password_in_files_of_its_owner(home: dict[str, str]) -> None:
    known = home | cluster.environment(home)
    airflow = Airflow(Places.from_env(known), known)
    airflow.folder.mkdir(parents=True)
    airflow._write_configuration()
    parser = configparser.RawConfigParser()
    parser.read(airflow.folder / "airflow.cfg")
    url = parser["database"]["sql_alchemy_conn"]
    password = url.partition("windrow:")[2].partition("@")[0]
    assert url == f"postgresql+psycopg2://windrow:{password}@127.0.0.1:15432/postgres"
    assert parser["database"]["sql_alchemy_conn_async"] == url.replace("psycopg2", "asyncpg")
    assert "sql_alchemy_connect_args" not in parser["database"]
    assert int(parser["core"]["parallelism"]) > 1
    holders = [path for path in airflow.places.home.rglob("*") if path.is_file() and password in path.read_text()]
    assert {path.name for path in holders} == {"airflow.cfg", "postgres.secret"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in holders} == {0o600}
    assert not any(password in value for value in airflow.environment().values())


def test_executors_get_the_store_by_their_workers_environment_and_the_secret_from_a_file(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED)
    places = Places.from_env(home | cluster.environment(home))
    spark = SparkCluster(places, {"AWS_ACCESS_KEY_ID": "windrow"})
    spark.folder.mkdir(parents=True, exist_ok=True)
    spark._write_secrets()
    written = spark.secrets.read_text()
    spark._write_secrets()
    assert spark.secrets.read_text() == written, "the secret is made once"
    assert stat.S_IMODE(spark.secrets.stat().st_mode) == 0o600
    given = dict(line.split(" ", 1) for line in written.splitlines())
    assert given["spark.authenticate"] == "true"
    assert given["spark.cores.max"] == "2"
    for name in spark.processes:
        environ = spark._environment(name)
        assert PLANTED not in environ.values(), "only the cluster's own store"
        assert ("AWS_ACCESS_KEY_ID" in environ) == (name != "spark-master")
        assert environ["SPARK_LOCAL_IP"] == "127.0.0.1"
        assert given["spark.authenticate.secret"] not in " ".join([*spark._command(name), *environ.values()])


@pytest.fixture(scope="module")
def three(session_places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Three brokers."""
    platform.jars.ensure(session_places)
    addresses = ",".join(f"127.0.0.1:{free_port()}" for _ in range(3))
    running = Broker(replace(session_places, home=tmp_path_factory.mktemp("three"), kafka=addresses))
    running.start()
    yield running
    running.stop()


def land_as_a_retried_task_does(world: World, ctx: Context) -> None:
    """Right after a leader's death its partitions have none; landing then ends with 60 and is tried again."""
    deadline = time.monotonic() + 120
    while True:
        try:
            world.land(ctx)
            return
        except BrokerUnreachable:
            assert time.monotonic() < deadline
            time.sleep(1)


@pytest.mark.kafka
@pytest.mark.spark
def test_a_broker_that_is_killed_while_records_come_loses_none_and_doubles_none(
    three: Broker, spark: Any, places: Places
) -> None:
    world = World(replace(places, kafka=three.bootstrap), "three")
    ctx = made(world, PIPELINE, {"served": 3, "likes": 1})
    assert copies(three, "three.served") == {0: 3, 1: 3, 2: 3}, "the cluster's own replication"
    sent = [message(event("served", n % 3, n / 100, key=n, name=f"s{n}")) for n in range(6000)]
    sent += [message(event("likes", 0, n / 10, key=n, name=f"l{n}")) for n in range(600)]
    leader = leader_of(three, "three.served")

    produced = producer.produce(three.bootstrap, sent, on_progress=once(lambda: kill(leader)))
    assert not three.answers(leader), "killed while records came"
    assert produced.total == len(sent)

    land_as_a_retried_task_does(world, ctx)
    for topic, many in (("served", 6000), ("likes", 600)):
        rows = world.table(ctx, f"landing/three.{topic}")
        assert len(rows) == len({(row["_partition"], row["_offset"]) for row in rows}) == many
        assert {row["id"] for row in rows} == {f"{topic[0]}{n}" for n in range(many)}

    three.start()
    assert all(three.answers(node) for node in three.nodes)


@pytest.mark.kafka
def test_another_home_on_a_port_of_three_is_refused(three: Broker, tmp_path: Path) -> None:
    other = Broker(replace(three.places, home=tmp_path))
    with pytest.raises(PortTaken, match="WINDROW_KAFKA"):
        other.start()


def test_postgresql_answers_to_its_password_survives_a_kill_and_runs_as_nobody_in_particular(
    session_places: Places, tmp_path: Path
) -> None:
    import psycopg2

    platform.jars.ensure(session_places, also=["postgres"])
    server = Postgres(replace(session_places, home=tmp_path, postgres=f"127.0.0.1:{free_port()}"))
    try:
        server.start()
        query(server, "CREATE TABLE kept AS SELECT 7 AS n")
        with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
            psycopg2.connect(
                host="127.0.0.1", port=server.address.port, user="windrow", password="x", dbname="postgres"
            )
        process = server.process.process()
        assert process is not None
        assert process.uids().real != 0, "PostgreSQL does not run as root"
        process.kill()
        process.wait(10)
        assert not server.is_up()
        server.start()
        assert query(server, "SELECT n FROM kept") == [(7,)]
        assert server.stop() is True
        server.start()
        assert query(server, "SELECT n FROM kept") == [(7,)]
        assert server.stop() is True
        assert server.stop() is False
    finally:
        server.stop()
        shutil.rmtree(server.folder.parent if server.user else server.folder, ignore_errors=True)


def query(server: Postgres, sql: str) -> list[Any]:
    import psycopg2

    with psycopg2.connect(server.url("psycopg2").replace("+psycopg2", "")) as one, one.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description and sql.startswith("SELECT") else []


def message(record: tuple[str, int, bytes, Any]) -> Message:
    topic, partition, value, stamp = record
    return Message(f"three.{topic}", partition, None, value, int(stamp.timestamp() * 1000))


def once(act: Callable[[], None]) -> Callable[[int], None]:
    """Act at the first acknowledged messages."""
    seen: list[int] = []

    def progress(acknowledged: int) -> None:
        if acknowledged and not seen:
            seen.append(acknowledged)
            act()

    return progress


def kill(node: Node) -> None:
    process = node.process.process()
    assert process is not None
    process.kill()
    process.wait(10)


def described(broker: Broker, topic: str) -> dict[int, Any]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return dict(admin.list_topics(topic, timeout=20).topics[topic].partitions)


def copies(broker: Broker, topic: str) -> dict[int, int]:
    return {number: len(partition.replicas) for number, partition in described(broker, topic).items()}


def leader_of(broker: Broker, topic: str) -> Node:
    """The node that leads partition 0."""
    number = described(broker, topic)[0].leader
    return next(node for node in broker.nodes if node.number == number)
