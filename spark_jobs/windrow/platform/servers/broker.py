"""A real Kafka on this machine: one node or several, KRaft, no container. Records survive `windrow down` and `up`.

    <home>/platform/kafka/data/          log segments and cluster id of the only node
    <home>/platform/kafka/broker.log     its output
    <home>/platform/cluster/kafka-N/     the same of node N, where WINDROW_KAFKA names several local addresses

Each node is broker and controller, and its controller listens on the port after its own. Of several nodes every record
is on three, and is acknowledged once it is on two (two nodes: on both, and on one), so that one may be lost.

Topics are never created implicitly (`auto.create.topics.enable=false`); a record may be up to 16 MiB large.
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path

from filelock import FileLock

from windrow.files import write_whole
from windrow.outcomes import NotReady, Refused
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.conditions import DidNotStart, OtherPlatform
from windrow.platform.java import find_java
from windrow.platform.processes import Address, Background, require_port

MAX_MESSAGE_BYTES = 16 * 2**20
PATIENCE = timedelta(seconds=180)
MOST_COPIES = 3
"""Replication of a topic where there are as many nodes or more."""


def _cluster_id() -> str:
    """A random id as Kafka writes it; not one with a leading dash, which Kafka's command reads as an option."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


@dataclass(frozen=True)
class Node:
    """One node: a broker and a controller in one process."""

    number: int
    address: Address
    folder: Path

    @property
    def controller(self) -> Address:
        """Where its controller listens."""
        return self.address.next()

    @property
    def process(self) -> Background:
        """Its process."""
        return Background(self.folder, "broker")

    @property
    def properties(self) -> Path:
        """Its configuration."""
        return self.folder / "server.properties"

    @property
    def is_formatted(self) -> bool:
        """Whether its data folder belongs to a cluster already."""
        return (self.folder / "data" / "meta.properties").exists()


class Broker:
    """The Kafka of a home folder, at the address or addresses that `places.kafka` names."""

    def __init__(self, places: Places) -> None:
        self.places = places
        addresses = Address.all_of(places.kafka)
        self.address = addresses[0]
        self.is_ours = places.kafka_client is None and all(address.is_local for address in addresses)
        """Whether this project runs it: brokers on another machine, and those that ask who a client is, are only used,
        never started or stopped."""
        self.nodes = tuple(
            Node(number, address, _folder(places, number, len(addresses)))
            for number, address in enumerate(addresses, start=1)
        )
        self.folder = self.nodes[0].folder
        self.process = self.nodes[0].process

    @property
    def bootstrap(self) -> str:
        """Bootstrap address for clients."""
        return self.places.kafka

    def start(self) -> None:
        """Start the nodes that do not run, and wait until all answer. Idempotent.

        Raises:
            OtherPlatform: the home's records are in another number of nodes.
            PortTaken, JavaMissing, JarsMissing, DidNotStart: the message says what to do.
        """
        if not self.is_ours or self.is_up():
            return
        self.require_own_data()
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            self._start()

    def _start(self) -> None:
        stopped = [node for node in self.nodes if node.process.process() is None]
        for node in stopped:
            node.process.stop()
            require_port(node.address, "the Kafka broker", "WINDROW_KAFKA (host:port)")
            require_port(node.controller, "the broker's controller", "WINDROW_KAFKA (the port after it counts)")
        cluster = self._cluster()
        for node in self.nodes:
            node.folder.mkdir(parents=True, exist_ok=True)
        for node in stopped:
            self._write_configuration(node)
            self._format_once(node, cluster)
            node.process.start([*self._java, "kafka.Kafka", node.properties], os.environ, node.folder)
        for node in self.nodes:
            hint = f"read {node.process.log}, then run it again."
            node.process.wait(partial(self.answers, node), PATIENCE, hint)

    def stop(self) -> bool:
        """Stop it cleanly and return whether it ran. Its data are kept."""
        # The last of several has nobody left to sign off at, and would wait for that until it is killed.
        patience = timedelta(seconds=30 if len(self.nodes) == 1 else 10)
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return any(list(pool.map(lambda node: node.process.stop(patience), self.nodes)))

    def is_up(self) -> bool:
        """Whether all its nodes answer. At our own address another broker's answer does not count."""
        if not self.is_ours:
            return bool(self._known())
        if any(node.process.process() is None for node in self.nodes):
            return False
        return self._known() >= {node.number for node in self.nodes}

    def answers(self, node: Node) -> bool:
        """Whether a node runs, and the others know it."""
        return node.process.process() is not None and node.number in self._known()

    def require_own_data(self) -> None:
        """Check that the home's records, if it has any, are in as many nodes as there are addresses.

        Raises:
            OtherPlatform: they are not; the message says how to go on.
        """
        if not self.is_ours:
            return
        many = _nodes_of(self.places)
        if many and many != len(self.nodes):
            raise OtherPlatform(
                f"The records of {self.places.home} are in {_counted(many)}, and WINDROW_KAFKA="
                f"{self.places.kafka} names {_counted(len(self.nodes))}.",
                f"for a cluster's home `source {self.places.home}/platform/cluster/env`; or name another folder: "
                "WINDROW_HOME=<folder>.",
            )

    def refusal(self) -> Refused | None:
        """Why the brokers do not let this client in; None where they do, or do not answer."""
        try:
            self._metadata()
        except Refused as refused:
            return refused
        except NotReady:  # the issuer of tokens does not answer
            pass
        return None

    def _known(self) -> set[int]:
        """Numbers of the brokers in a metadata answer; empty where there is none."""
        try:
            return self._metadata()
        except (Refused, NotReady):
            return set()

    def _metadata(self) -> set[int]:
        from confluent_kafka import KafkaException

        from windrow.kafka.asking import Admin

        with Admin(self.places.brokers, {"socket.timeout.ms": 2000, "log_level": 0}) as admin:
            try:
                return set(admin.metadata(2).brokers)
            except KafkaException:
                return set()

    @cached_property
    def _java(self) -> list[str]:
        logging = Path(__file__).with_name("broker-log4j2.properties")
        return [
            str(find_java(os.environ)),
            "-Xms128m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-Duser.timezone=UTC",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            jars.kafka_class_path(self.places),
        ]

    def _write_configuration(self, node: Node) -> None:
        copies = min(len(self.nodes), MOST_COPIES)
        written = max(1, copies - 1)
        settings = {
            "process.roles": "broker,controller",
            "node.id": node.number,
            "controller.quorum.voters": ",".join(f"{one.number}@{one.controller}" for one in self.nodes),
            "listeners": f"BROKER://{node.address},CONTROLLER://{node.controller}",
            "advertised.listeners": f"BROKER://{node.address}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": node.folder / "data",
            "auto.create.topics.enable": "false",
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
            "num.partitions": 1,
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": written,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": written,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.hours": -1,
            "num.network.threads": 2,
            "num.io.threads": 4,
            **({"min.insync.replicas": written} if len(self.nodes) > 1 else {}),
        }
        write_whole(node.properties, "".join(f"{key}={value}\n" for key, value in settings.items()))

    def _cluster(self) -> str:
        """The id of the cluster that some node belongs to, or a new one."""
        for node in self.nodes:
            if node.is_formatted:
                lines = (node.folder / "data" / "meta.properties").read_text().splitlines()
                return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))
        return _cluster_id()

    def _format_once(self, node: Node, cluster: str) -> None:
        """Format the data folder of a node, the first time only: this writes the cluster's id."""
        if node.is_formatted:
            return
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(node.properties)]
        done = subprocess.run([*self._java, *tool], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DidNotStart(
                f"The broker's data folder {node.folder / 'data'} could not be formatted:\n"
                f"{(done.stderr or done.stdout).strip()[-800:]}",
                "look at that folder: is the disk full, or does it belong to another user?",
            )


def _folder(places: Places, number: int, many: int) -> Path:
    platform = places.home / "platform"
    return platform / "kafka" if many == 1 else platform / "cluster" / f"kafka-{number}"


def _nodes_of(places: Places) -> int:
    """Number of nodes that hold records of this home."""
    platform = places.home / "platform"
    if (platform / "kafka" / "data").is_dir():
        return 1
    return len(list((platform / "cluster").glob("kafka-*")))


def _counted(many: int) -> str:
    return "one broker" if many == 1 else f"{many} brokers"
