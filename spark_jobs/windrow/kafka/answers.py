"""Answers of Kafka's admin client, taken so that an error of the broker cannot end the process."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException


def answer_of(future: Future[Any], timeout_s: float | None = None) -> Any:
    """Return what a future of an admin client brings.

    An error is raised anew. A trace in the one that the future holds would keep this process's frames, and the client
    with them, until the client's own thread drops the future; a client that ends in its own thread aborts the process.

    Args:
        timeout_s: seconds to wait; None: as long as the request itself may take.

    Raises:
        KafkaException: the broker's error.
        TimeoutError: no answer in time.
    """
    try:
        return future.result(timeout_s)
    except KafkaException as error:
        error.__traceback__ = None
        arguments = error.args
    raise KafkaException(*arguments)
