"""A broker that refuses is told apart from one that does not answer, in librdkafka's words and in Java's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from windrow.jobs.causes import known_cause
from windrow.kafka.client import Kafka
from windrow.kafka.refusals import (
    AccessDenied,
    CertificateRefused,
    LoginRefused,
    TokenUnavailable,
    of_error,
    of_java,
)
from windrow.outcomes import Condition, ExitCode, Refused
from windrow.simulate import producer
from windrow.simulate.record import Message

KAFKA = Kafka("a:9092", Path("/run/kafka.properties"))


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (KafkaError._AUTHENTICATION, LoginRefused, "does not accept this client's login"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, LoginRefused, "login"),
        (KafkaError.UNSUPPORTED_SASL_MECHANISM, LoginRefused, "login"),
        (KafkaError._SSL, CertificateRefused, "no TLS connection"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AccessDenied, "use the topic clicks:"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AccessDenied, "use the group clicks:"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AccessDenied, "use the transactional id clicks:"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, AccessDenied, "use the cluster clicks:"),
    ],
)
def test_an_error_of_librdkafka_is_one_clear_line(code: int, kind: type[Refused], words: str) -> None:
    found = of_error(KAFKA, KafkaError(code, "why\nnot"), "clicks")
    assert type(found) is kind
    assert found.code is ExitCode.REFUSED == 80
    for text in (words, "why not", "a:9092", "/run/kafka.properties"):
        assert text in str(found)
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    ("number", "is_refused"),
    [(40, True), (42, True), (45, True), (48, True), (49, True), (51, True), (116, True), (0, False), (80, False)],
)
def test_a_tls_alert_after_the_handshake_is_a_refusal(number: int, is_refused: bool) -> None:
    told = KafkaError(KafkaError._TRANSPORT, f"Receive failed: SSL routines::an alert: SSL alert number {number} (5ms)")
    assert isinstance(of_error(KAFKA, told), CertificateRefused) is is_refused


CALL = "org.apache.kafka.common.KafkaException: javax.security.auth.login.LoginException: "
ANSWER = "java.io.IOException: The response code {} and error response {{{}}} was encountered reading the token"
INVALID = '{"error":"invalid_client","error_description":"no such client"}'


@pytest.mark.parametrize(
    ("why", "of_java_too", "kind"),
    [
        (INVALID, ANSWER.format(401, '"invalid_client" - "no such client"'), LoginRefused),
        ('{"error":"invalid_scope"}', ANSWER.format(400, '"invalid_scope"'), LoginRefused),
        ('{"error":"temporarily_unavailable"}', ANSWER.format(400, '"temporarily_unavailable"'), TokenUnavailable),
        ("<html>Too many</html>", ANSWER.format(429, "Too many"), TokenUnavailable),
        ("Failed to connect to 127.0.0.1:9", "java.net.ConnectException: Connection refused", TokenUnavailable),
        (
            "SSL certificate OpenSSL verify result: self-signed certificate (18)",
            "javax.net.ssl.SSLHandshakeException: PKIX path building failed",
            CertificateRefused,
        ),
        ("error adding trust anchors from file: /x", "javax.net.ssl.SSLException: a certificate", CertificateRefused),
    ],
)
def test_an_issuer_that_refuses_is_told_from_one_that_does_not_answer(
    why: str, of_java_too: str, kind: type[Condition]
) -> None:
    text = f"Failed to acquire SASL OAUTHBEARER token: {why}"
    for found in (
        of_error(KAFKA, KafkaError(KafkaError._AUTHENTICATION, text)),
        of_java(KAFKA, f"Failed to create new KafkaAdminClient\nCaused by: {CALL}{of_java_too}\n\tat org.apache"),
    ):
        assert type(found) is kind
        assert "\n" not in str(found)
        assert found.code is (ExitCode.NOT_READY if kind is TokenUnavailable else ExitCode.REFUSED)


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN])
def test_no_answer_is_no_refusal(code: int) -> None:
    assert of_error(KAFKA, KafkaError(code, "Disconnected while requesting ApiVersion")) is None


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            "SaslAuthenticationException: Authentication failed: invalid credentials",
            LoginRefused,
            "invalid credentials",
        ),
        ("SslAuthenticationException: SSL handshake failed", CertificateRefused, "SSL handshake failed"),
        ("TopicAuthorizationException: Not authorized to access topics: [t]", AccessDenied, "use the topic: Not auth"),
        ("GroupAuthorizationException: Not authorized to access group: g", AccessDenied, "use the group: Not auth"),
        ("TransactionalIdAuthorizationException: no", AccessDenied, "use the transactional id: no"),
        ("ClusterAuthorizationException", AccessDenied, "use the cluster"),
    ],
)
def test_a_failed_spark_job_tells_the_refusal(
    text: str, kind: type[Refused], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = f"Job aborted: Task 0 failed: java.lang.X: org.apache.kafka.common.errors.{text}\n\tat org.apache.kafka.Y"
    monkeypatch.setenv("WINDROW_KAFKA_CLIENT", "/run/kafka.properties")
    for found in (of_java(KAFKA, trace), known_cause(RuntimeError(trace))):
        assert type(found) is kind
        assert words in str(found)
        assert "/run/kafka.properties" in str(found)
        assert "\tat" not in str(found)
    assert of_java(KAFKA, "org.apache.kafka.common.errors.TimeoutException: no answer") is None


def _raise_as_the_client_does(error: KafkaError) -> None:
    """Raise the error itself: the client does so, although it is no exception by its type."""
    raising = ctypes.pythonapi.PyErr_SetObject
    raising.argtypes, raising.restype = [ctypes.py_object, ctypes.py_object], None
    raising(KafkaError, error)


def _raise_exception(error: KafkaError) -> None:
    raise KafkaException(error)


def _raise_cause(error: KafkaError) -> None:
    raise SystemError("returned a result with an exception set") from KafkaException(error)


@pytest.mark.parametrize("fails", [_raise_as_the_client_does, _raise_exception, _raise_cause])
def test_what_is_fatal_to_a_producer_is_a_refusal_where_a_right_is_missing(fails: Callable[[KafkaError], None]) -> None:
    def messages(code: int) -> Iterator[Message]:
        fails(KafkaError(code, "Failed to acquire idempotence PID", fatal=True))
        yield Message("clicks", 0, None, b"x", 1)

    with pytest.raises(AccessDenied, match="use the cluster: Failed to acquire"):
        producer.produce("127.0.0.1:1", messages(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    if fails is not _raise_as_the_client_does:  # which pytest cannot catch either
        with pytest.raises((KafkaException, SystemError)):
            producer.produce("127.0.0.1:1", messages(KafkaError.INVALID_PRODUCER_EPOCH))
