"""Questions to brokers that end where the broker refuses this client, instead of after the time for an answer.

librdkafka keeps trying to connect, whatever the reason is that it cannot; the reason is in its events.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import TimeoutError, wait
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from windrow.kafka.answers import answer_of
from windrow.kafka.client import Kafka
from windrow.kafka.refusals import NotLetIn, of_error

_OTHERS_S = 2.0
"""Seconds for another broker of the list to answer, after one has refused."""
_LOOK_S = 0.05


class Refusals:
    """The first refusal among a client's events; it is the client's `error_cb`."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._first: NotLetIn | None = None
        self._at = 0.0
        self._patience = _OTHERS_S if "," in kafka.bootstrap else 0.0

    def __call__(self, error: KafkaError) -> None:
        """Take an event."""
        if self._first is None and (found := of_error(self._kafka, error)):
            self._first, self._at = found, time.monotonic()

    @property
    def found(self) -> NotLetIn | None:
        """The refusal, once other brokers have had time to answer."""
        return self._first if time.monotonic() - self._at >= self._patience else None

    def raise_if_any(self) -> None:
        """Raise the refusal, once other brokers have had time to answer.

        Raises:
            Refused: a broker refused this client.
            TokenUnavailable: the issuer of its tokens does not answer.
        """
        if found := self.found:
            raise found


class Admin:
    """A client for questions about topics, groups and rights. Use it in a `with`, which closes it in the same thread.

    librdkafka aborts the process if a client is closed in the client's own thread. Python's garbage collector runs in
    any thread, and the traceback of a refusal refers to the client, so only the collector would close that client.
    """

    def __init__(self, brokers: Kafka | str, settings: Mapping[str, Any] | None = None) -> None:
        """Connect, with further settings of librdkafka.

        Raises:
            BadInput: the file of client properties is missing, open to others, or wrong.
        """
        self.kafka = Kafka.of(brokers)
        self._refusals = Refusals(self.kafka)
        usual: dict[str, Any] = {"log_level": 2, "client.id": "windrow", "error_cb": self._refusals}
        self.client = AdminClient({**self.kafka.librdkafka(), **usual, **(settings or {})})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        """Close the connections. Questions without an answer fail."""
        self.client.__exit__(*ended)

    def answer(self, future: Any, timeout_s: float, subject: str = "") -> Any:
        """Return what a future of the client brings.

        Args:
            subject: what was asked about, for the message of a refusal.

        Raises:
            Refused: the broker refuses this client, or its question.
            TokenUnavailable: the issuer of its tokens does not answer.
            KafkaException: any other error, or no answer in time.
        """
        until = time.monotonic() + timeout_s
        while not wait([future], _LOOK_S).done:
            self.client.poll(0)
            self._refusals.raise_if_any()
            if time.monotonic() > until:
                break
        try:
            return answer_of(future, 0.1)
        except TimeoutError:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None
        except KafkaException as failed:
            if refused := of_error(self.kafka, failed.args[0], subject):
                raise refused from None
            raise

    def metadata(self, timeout_s: float) -> ClusterMetadata:
        """Return brokers and topics.

        Raises:
            Refused: the broker refuses this client.
            TokenUnavailable: the issuer of its tokens does not answer.
            KafkaException: no answer in time.
        """
        until, look = time.monotonic() + timeout_s, 1.0
        while True:
            try:
                return self.client.list_topics(timeout=max(0.1, min(look, until - time.monotonic())))
            except KafkaException:
                self.client.poll(0.1)
                self._refusals.raise_if_any()
                if time.monotonic() > until:
                    raise
                look *= 2
