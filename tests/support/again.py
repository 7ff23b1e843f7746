"""Something that is done again and again beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def again_and_again(act: Callable[[], T], every: float = 0.5) -> Iterator[list[T]]:
    """Repeat `act` in a thread while the body runs, every so many seconds, and yield its results.

    Whatever it raises is raised here.
    """
    stop, results = threading.Event(), list[T]()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.wait(every):
                results.append(act())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield results
    finally:
        stop.set()
        thread.join()
    assert not failed, failed
