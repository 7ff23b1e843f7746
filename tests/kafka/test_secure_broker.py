"""A real broker that asks who its clients are: traffic, landing and joining by a login, and wrong credentials."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from support.planted import event_log, files_below, holders, watched
from support.servers.certificates import Authority
from support.servers.secure_broker import PLAIN_USER, SecureBroker, client_file, landing_rights
from support.servers.token_issuer import TokenIssuer, token_issuer
from support.small_pipeline import PIPELINE, at, event
from support.world import World
from windrow.files import write_whole
from windrow.io.landing import broker as asked
from windrow.jobs import land
from windrow.jobs.run import Context
from windrow.kafka.refusals import AccessDenied, CertificateRefused, LoginRefused, TokenUnavailable, of_java
from windrow.outcomes import Condition, ExitCode, Refused, exit_code
from windrow.places import Places
from windrow.platform import jars, status
from windrow.simulate import producer
from windrow.simulate.record import Message

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

PASSWORD, TOKEN_SECRET = "planted-scram-51c7e9", "planted-token-7b20d4"
SECRETS = (PASSWORD, TOKEN_SECRET)
OURS, FOREIGN = Authority("ours"), Authority("foreign")
OVER = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenIssuer]:
    with token_issuer(OURS, tmp_path_factory.mktemp("issuer")) as running:
        running.clients["tom"] = TOKEN_SECRET
        yield running


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, session_places: Places, spark: object, issuer: TokenIssuer
) -> Iterator[SecureBroker]:
    places = replace(session_places, home=tmp_path_factory.mktemp("secure"), kafka=SecureBroker.free_address())
    jars.ensure(places)
    broker = SecureBroker(places, OURS, issuer)
    broker.start()
    broker.set_password("sam", PASSWORD)
    writes = ((ResourceType.TOPIC, "s.", AclOperation.CREATE), (ResourceType.TOPIC, "s.", AclOperation.WRITE))
    broker.allow("sam", *landing_rights("s."), *writes)
    yield broker
    broker.stop()


@pytest.fixture
def world(broker: SecureBroker, places: Places, request: pytest.FixtureRequest) -> World:
    """A home of its own on the broker; it writes as somebody who may do everything."""
    return World(
        replace(places, kafka=broker.bootstrap), f"s.t{hashlib.sha256(request.node.name.encode()).hexdigest()[:10]}"
    )


class Client:
    """A client's file, and the places of a process that uses it."""

    def __init__(self, broker: SecureBroker, world: World, folder: Path) -> None:
        self.broker, self.world, self.folder = broker, world, folder
        self.file = folder / "kafka.properties"

    def login(self, user: str = "sam", password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512") -> Places:
        """Write a file with a name and a password."""
        self._write({"security.protocol": "SASL_SSL", **self.broker.login(user, password, mechanism)})
        return self._places(self.broker.secure)

    def tokens(
        self, secret: str = TOKEN_SECRET, trusts: Path | None = None, name: str = "tom", where: str | None = None
    ) -> Places:
        """Write a file with a name and a secret for the issuer of tokens, its address, and what trusts it."""
        self._write({"security.protocol": "SASL_SSL", **self.broker.tokens(name, secret, trusts, where)})
        return self._places(self.broker.secure)

    def certificate(self, own: str, trusts: Authority = OURS) -> Places:
        """Write a file with a certificate."""
        write_whole(self.folder / "own.pem", own, private=True)
        stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.folder / "own.pem"}
        self._write({"security.protocol": "SSL", **stores}, trusts)
        return self._places(self.broker.mutual)

    def context(self, places: Places) -> Context:
        """A run of the small pipeline by such a client."""
        return World(places, self.world.name).pipeline(PIPELINE, now=at(10_000))

    def _write(self, settings: dict[str, Any], trusts: Authority = OURS) -> None:
        trusted = trusts.write(self.folder / "authority.pem")
        client_file(self.file, {**settings, "ssl.truststore.type": "PEM", "ssl.truststore.location": trusted})

    def _places(self, listener: str) -> Places:
        return replace(self.world.places, kafka=listener, kafka_client=self.file)


@pytest.fixture
def client(broker: SecureBroker, world: World, tmp_path: Path) -> Client:
    return Client(broker, world, tmp_path)


def landed(world: World, topic: str = "served") -> list[str]:
    """Ids of the landed rows."""
    ctx = world.pipeline(PIPELINE)
    return sorted(row["id"] for row in world.table(ctx, f"landing/{world.name}.{topic}"))


def test_records_are_produced_landed_and_joined_by_a_client_with_a_login(client: Client, world: World) -> None:
    places = client.login()
    topics = {f"{world.name}.{side}": 1 for side in ("served", "likes")}
    assert set(producer.create_topics(places.brokers, topics)) == set(topics)
    records = [event("served", 0, 10, name="a"), event("likes", 0, 20), event("served", 0, 300), event("likes", 0, 300)]
    sent = [Message(f"{world.name}.{t}", p, None, v, int(s.timestamp() * 1000)) for t, p, v, s in records]
    assert producer.produce(places.brokers, sent).total == 4
    ctx = client.context(places)
    world.land(ctx)
    world.land(ctx)  # compares what has landed with what the broker has
    world.train(ctx)
    assert [(row["id"], row["liked"]) for row in world.training(ctx)] == [("a", True)]
    (part,) = [part for part in status(places) if part.name == "kafka"]
    assert part.state == "elsewhere"


def test_each_wrong_credential_has_its_line_and_none_is_a_broker_without_an_answer(client: Client) -> None:
    for places, kind in (
        (client.login(password="wrong"), LoginRefused),
        (client.login(user="unknown"), LoginRefused),
        (client.login(PLAIN_USER, "wrong", "PLAIN"), LoginRefused),
        (client.login("sam", PASSWORD, "SCRAM-SHA-256"), LoginRefused),
    ):
        _refused(places, kind)
    (part,) = [part for part in status(client.login(password="wrong")) if part.name == "kafka"]
    assert part.state == "elsewhere, refused: LoginRefused"
    for own, trusts in (
        (OURS.signed("mia", until=OVER), OURS),
        (FOREIGN.signed("mia"), OURS),
        (OURS.signed("mia"), FOREIGN),
    ):
        _refused(client.certificate(own, trusts), CertificateRefused)


def test_tokens_land_and_a_client_that_their_issuer_refuses_is_one_clear_line(
    client: Client, world: World, issuer: TokenIssuer
) -> None:
    client.broker.allow("tom", *landing_rights("s."))
    records_of(world, "a")
    ctx = client.context(client.tokens())
    world.land(ctx)
    assert landed(world) == ["a"]
    assert issuer.issued >= 2, "librdkafka and Java asked for a token each"

    _refused(client.tokens("wrong"), LoginRefused)
    with pytest.raises(LoginRefused, match=r"issuer of tokens .* does not accept this client: invalid_client"):
        world.land(ctx)
    assert isinstance(of_a_java_client(ctx.places), LoginRefused)
    with audience(issuer, "another service"):
        _refused(client.tokens(), LoginRefused)  # by the broker
    with busy(issuer), pytest.raises(TokenUnavailable) as unavailable:
        world.land(client.context(client.tokens()))
    assert exit_code(unavailable.value) is ExitCode.NOT_READY
    records_of(world, "b")
    world.land(ctx)
    assert landed(world) == ["a", "b"]


def test_an_issuer_whose_certificate_is_not_trusted_gets_no_secret(client: Client, issuer: TokenIssuer) -> None:
    foreign = FOREIGN.write(client.folder / "foreign.pem")
    places = client.tokens(trusts=foreign, name="tim")
    _refused(places, CertificateRefused)
    assert isinstance(of_a_java_client(places), TokenUnavailable), "Java tells the reason in its log only"
    assert "tim" not in issuer.asked


def test_an_issuer_that_takes_a_connection_and_says_nothing_is_given_up(client: Client, world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ctx = client.context(client.tokens(where=f"https://127.0.0.1:{silent.getsockname()[1]}/token"))
        with pytest.raises(TokenUnavailable):
            world.land(ctx)
        assert isinstance(of_a_java_client(ctx.places), TokenUnavailable)


def test_a_certificate_lands_what_it_may_read_and_a_new_one_goes_on(client: Client, world: World) -> None:
    records_of(world, "a")
    ctx = client.context(client.certificate(OURS.signed("mia")))
    with pytest.raises(AccessDenied) as refused:
        world.land(ctx)
    assert exit_code(refused.value) is ExitCode.REFUSED
    client.broker.allow("mia", *landing_rights("s."))
    world.land(ctx)
    assert landed(world) == ["a"]

    records_of(world, "b")
    client.certificate(OURS.signed("mia", until=OVER))
    with pytest.raises(CertificateRefused):
        world.land(ctx)
    client.certificate(OURS.signed("mia"))
    world.land(ctx)
    assert landed(world) == ["a", "b"]


def test_a_password_that_changes_between_and_during_landings_loses_nothing(client: Client, world: World) -> None:
    """Whoever comes with the old password is refused, and what it left is landed next."""
    client.broker.set_password("ron", "the first")
    client.broker.allow("ron", *landing_rights("s."))
    records_of(world, "a")
    ctx = client.context(client.login("ron", "the first"))
    landings = land.land(ctx, lasting=timedelta(seconds=60), every=timedelta(seconds=1))
    next(landings)
    client.broker.set_password("ron", "the second")
    records_of(world, "b")
    with pytest.raises(LoginRefused):
        list(landings)
    client.login("ron", "the second")
    world.land(ctx)
    records_of(world, "c")
    world.land(ctx)
    assert landed(world) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["login", "tokens"])
def test_a_planted_secret_is_nowhere_but_in_the_file_of_the_client(
    client: Client, world: World, tmp_path: Path, kind: str
) -> None:
    """Not in output, Spark's events and plans, commits, registers, or arguments and environment of a process."""
    client.broker.allow("tom", *landing_rights("s."))
    records_of(world, "a")
    outside = World(client.login() if kind == "login" else client.tokens(), world.name)
    ctx = outside.pipeline(PIPELINE)
    with watched() as seen:
        done = outside.script(
            "land",
            ctx.pipeline.name,
            WINDROW_KAFKA_CLIENT=str(client.file),
            WINDROW_SPARK_SECRETS=str(event_log(tmp_path)),
        )
    assert done.returncode == ExitCode.DONE, done.stderr[-2000:]
    assert landed(world) == ["a"]

    assert any("java" in one for one in seen.arguments)
    assert seen.has(str(client.file)), "where the file is may be known"
    written = files_below(outside.places.home, tmp_path / "events")
    assert any("events" in path.parts and b"kafka" in content for path, content in written.items())
    assert any(path.parent.name == "_delta_log" for path in written)
    assert holders(written, SECRETS) == []
    assert [one for one in SECRETS if one in done.stdout + done.stderr or seen.has(one)] == []
    assert holders({client.file: client.file.read_bytes()}, SECRETS) == [client.file]


def records_of(world: World, name: str) -> None:
    """Produce a served row; the topics are made with the first."""
    if name == "a":
        world.topics({"served": 1, "likes": 1})
    world.produce([event("served", 0, 10, name=name)])


@contextmanager
def audience(issuer: TokenIssuer, name: str) -> Iterator[None]:
    """Let the issuer give tokens for another service."""
    issuer.audience, before = name, issuer.audience
    try:
        yield
    finally:
        issuer.audience = before


@contextmanager
def busy(issuer: TokenIssuer) -> Iterator[None]:
    """Let the issuer be busy."""
    issuer.is_busy = True
    try:
        yield
    finally:
        issuer.is_busy = False


def of_a_java_client(places: Places) -> Condition | None:
    """What the error of a Java client means, which landing meets where librdkafka was let in."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    with pytest.raises(Py4JJavaError) as failed:
        asked.clock(spark, places.brokers)
    assert TOKEN_SECRET not in str(failed.value)
    return of_java(places.brokers, str(failed.value))


def _refused(places: Places, kind: type[Refused]) -> None:
    running = background_threads()
    for ask, is_question in (
        (lambda: asked.describe(places.brokers, ["s.topic"]), True),
        (lambda: producer.create_topics(places.brokers, {"s.topic": 1}), True),
        (lambda: producer.produce(places.brokers, [Message("s.topic", 0, None, b"x", 1)]), False),
    ):
        began = time.monotonic()
        with pytest.raises(kind) as refused:
            ask()
        assert exit_code(refused.value) is ExitCode.REFUSED
        assert not any(secret in str(refused.value) for secret in SECRETS)
        assert time.monotonic() - began < 25, "it does not wait until the time for an answer is over"
        if is_question:  # `refused` still refers to the frames of the question
            assert background_threads() <= running, "its client is closed, and not left to the garbage collector"


def background_threads() -> set[str]:
    """Ids of the threads in which librdkafka returns answers to questions."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if (task / "comm").read_text() == "rdk:bg\n":
                found.add(task.name)
    return found
