"""The broker is real, keeps its records over stop and start, and refuses what it should."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from os import environ
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from windrow.places import Places
from windrow.platform import Broker, PortTaken, jars
from windrow.platform.processes import free_port
from windrow.platform.servers.broker import _cluster_id

pytestmark = pytest.mark.kafka

LARGE = b"x" * (12 * 2**20)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    places = _places(tmp_path_factory.mktemp("home"))
    jars.ensure(places)
    broker = Broker(places)
    broker.start()
    yield broker
    broker.stop()


def test_records_of_any_allowed_size_survive_stop_and_start(broker: Broker) -> None:
    _create(broker, "kept")
    cluster = _admin(broker).list_topics(timeout=10).cluster_id
    _produce(broker, "kept", [b"one", LARGE])
    assert broker.stop() is True
    assert not broker.is_up()
    broker.start()
    assert _admin(broker).list_topics(timeout=10).cluster_id == cluster
    assert _records(broker, "kept", 2) == [b"one", LARGE]
    segments = [*(broker.folder / "data").glob("kept-*"), *(broker.folder / "data").glob("kept-*/*.log")]
    assert len(segments) >= 2
    assert {oct(path.stat().st_mode & 0o077) for path in segments} == {"0o0"}, "for their owner only"


def test_a_cluster_id_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [uuid.UUID(bytes=bytes([first] * 16)) for first in (0xF8, 0xFB, 0x41)]
    monkeypatch.setattr(uuid, "uuid4", lambda: drawn.pop(0))
    assert _cluster_id() == "QUFBQUFBQUFBQUFBQUFBQQ"


def test_a_second_start_leaves_the_broker_alone(broker: Broker) -> None:
    broker.start()
    before = broker.process.process()
    broker.start()
    assert before is not None
    assert broker.process.process() == before


def test_a_killed_broker_starts_again_with_its_records(broker: Broker) -> None:
    broker.start()
    _create(broker, "crashed")
    _produce(broker, "crashed", [b"acknowledged"])
    process = broker.process.process()
    assert process is not None
    process.kill()
    process.wait(10)
    assert not broker.is_up()
    broker.start()
    assert _records(broker, "crashed", 1) == [b"acknowledged"]


def test_a_topic_is_never_made_by_writing_to_it(broker: Broker) -> None:
    broker.start()
    with pytest.raises(KafkaException, match=r"UNKNOWN_TOPIC|Unknown topic"):
        _produce(broker, "nobody.made.this", [b"lost"], timeout=5)
    assert "nobody.made.this" not in _admin(broker).list_topics(timeout=10).topics


def test_another_home_on_the_same_port_is_refused_and_the_first_goes_on(broker: Broker, tmp_path: Path) -> None:
    broker.start()
    other = Broker(replace(broker.places, home=tmp_path))
    with pytest.raises(PortTaken, match="WINDROW_KAFKA"):
        other.start()
    assert other.stop() is False
    assert broker.is_up()


def test_stop_leaves_no_process_and_a_second_stop_is_nothing(broker: Broker) -> None:
    broker.start()
    tree = broker.process.tree()
    assert broker.stop() is True
    assert [one for one in tree if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert broker.stop() is False


def _places(home: Path) -> Places:
    return replace(Places.from_env(environ), home=home, kafka=f"127.0.0.1:{free_port()}")


def _admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.places.kafka})


def _create(broker: Broker, topic: str) -> None:
    admin = _admin(broker)
    for made in admin.create_topics([NewTopic(topic, 1)]).values():
        made.result(10)


def _produce(broker: Broker, topic: str, values: list[bytes], timeout: float = 20) -> None:
    refused = []
    producer = Producer(
        {
            "bootstrap.servers": broker.places.kafka,
            "message.max.bytes": 16 * 2**20,
            "message.timeout.ms": int(timeout * 1000),
            "topic.metadata.propagation.max.ms": 1000,
        }
    )
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error) if error else None)
    assert producer.flush(timeout + 5) == 0
    if refused:
        raise KafkaException(refused[0])


def _records(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": broker.places.kafka, "group.id": "test", "fetch.message.max.bytes": 16 * 2**20}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    for _ in range(count):
        record = consumer.poll(20)
        assert record is not None, f"only {len(found)} of {count} records came back"
        assert record.error() is None
        found.append(record.value())
    consumer.close()
    return found
