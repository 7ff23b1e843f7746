"""A real Kafka broker on this machine: one node, KRaft, no container. Records survive `windrow down` and `up`.

    <home>/platform/kafka/data/       log segments and cluster id
    <home>/platform/kafka/broker.log  its output

Topics are never created implicitly (`auto.create.topics.enable=false`); a record may be up to 16 MiB large.
"""

from __future__ import annotations

import base64
import os
import subprocess
import uuid
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock

from windrow.files import write_whole
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.conditions import DidNotStart
from windrow.platform.java import find_java
from windrow.platform.processes import Address, Background, require_port

MAX_MESSAGE_BYTES = 16 * 2**20
PATIENCE = timedelta(seconds=180)


def _cluster_id() -> str:
    """A random id as Kafka writes it; not one with a leading dash, which Kafka's command reads as an option."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


class Broker:
    """The broker of a home folder, at the address that `places.kafka` names."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.address = Address.parse(places.kafka)
        self.folder = places.home / "platform" / "kafka"
        self.process = Background(self.folder, "broker")

    @property
    def bootstrap(self) -> str:
        """Bootstrap address for clients."""
        return self.places.kafka

    @property
    def is_ours(self) -> bool:
        """Whether this project runs the broker: one on another machine is only used, never started or stopped."""
        return self.address.host in ("127.0.0.1", "localhost")

    def start(self) -> None:
        """Start it and wait until it answers. Idempotent.

        Raises:
            PortTaken, JavaMissing, JarsMissing, DidNotStart: the message says what to do.
        """
        if not self.is_ours or self.is_up():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            self._start()

    def _start(self) -> None:
        if self.process.process() is None:
            self.process.stop()
            require_port(self.address, "the Kafka broker", "WINDROW_KAFKA (host:port)")
            require_port(self._controller, "the broker's controller", "WINDROW_KAFKA (the port after it counts)")
            self._write_configuration()
            self._format_once()
            self.process.start([*self._java, "kafka.Kafka", self._properties], os.environ, self.folder)
        self.process.wait(self.is_up, PATIENCE, f"read {self.process.log}, then run it again.")

    def stop(self) -> bool:
        """Stop it cleanly and return whether it ran. Its data are kept."""
        return self.process.stop(patience=timedelta(seconds=30))

    def is_up(self) -> bool:
        """Whether it answers a metadata request. At our own address another broker's answer does not count."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        if self.is_ours and self.process.process() is None:
            return False
        settings: dict[str, Any] = {"bootstrap.servers": self.places.kafka, "socket.timeout.ms": 2000}
        settings |= {"log_level": 0, "error_cb": lambda _: None}
        admin = AdminClient(settings)
        try:
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    @property
    def _controller(self) -> Address:
        return Address(self.address.host, self.address.port + 1)

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

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

    def _write_configuration(self) -> None:
        listeners = f"BROKER://{self.address},CONTROLLER://{self._controller}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{self._controller}",
            "listeners": listeners,
            "advertised.listeners": f"BROKER://{self.address}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
            "num.partitions": 1,
            "default.replication.factor": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "log.retention.hours": -1,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
        write_whole(self._properties, "".join(f"{key}={value}\n" for key, value in settings.items()))

    def _format_once(self) -> None:
        """Format the data folder, the first time only: this writes its cluster id."""
        if (self.folder / "data" / "meta.properties").exists():
            return
        cluster = _cluster_id()
        command = [
            *self._java,
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster,
            "-c",
            str(self._properties),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DidNotStart(
                f"The broker's data folder {self.folder / 'data'} could not be formatted:\n"
                f"{(done.stderr or done.stdout).strip()[-800:]}",
                "look at that folder: is the disk full, or does it belong to another user?",
            )
