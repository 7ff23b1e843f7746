"""Many small pipelines at once in one process, each of which may be killed at a crash point without the others.

A kill is an exception that nothing catches. It is raised at the crash point, in the thread or in the landing of the
topic that is to die. `tests/faults/test_faults.py` kills real processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from windrow.io.delta import crash_points
from windrow.jobs import land
from windrow.semantics.landing.batch import Topic


class Killed(BaseException):
    """Stands for a SIGKILL: nothing in the product catches it."""


_HERE = threading.local()
_POINT_OF: dict[str, str] = {}
_UNSEEN: dict[tuple[str, int], int] = {}


@contextmanager
def dying(point: str | None, after: int = 0) -> Iterator[None]:
    """Within the body, this thread dies at the point once it has passed it `after` times."""
    _HERE.dies_at, _HERE.passes = point, after
    try:
        yield
    finally:
        _HERE.dies_at = None


@contextmanager
def doomed_landing(points: Mapping[str, str]) -> Iterator[None]:
    """Within the body, the landing of each topic dies at its crash point."""
    _POINT_OF.update(points)
    try:
        yield
    finally:
        for topic in points:
            del _POINT_OF[topic]


@contextmanager
def lagging(unseen: Mapping[tuple[str, int], int]) -> Iterator[None]:
    """Within the body, the broker seems to hold so many more records of each (topic, partition)."""
    _UNSEEN.update(unseen)
    try:
        yield
    finally:
        for place in unseen:
            del _UNSEEN[place]


@contextmanager
def faults() -> Iterator[None]:
    """Within the body, `dying`, `doomed_landing` and `lagging` take effect."""
    land_topic, next_batch = land.land_topic, land.next_batch

    def land_or_die(*args: Any, **kwargs: Any) -> Any:
        (topic,) = [a for a in args if isinstance(a, Topic)]
        with dying(_POINT_OF.get(topic.name)):
            return land_topic(*args, **kwargs)

    def plan_with_lag(topic: Topic, *args: Any, **kwargs: Any) -> Any:
        batch = next_batch(topic, *args, **kwargs)
        more = {p: (s, u, end + _UNSEEN.get((topic.name, p), 0)) for p, (s, u, end) in batch.ranges.items()}
        return replace(batch, ranges=more)

    def point(name: str) -> None:
        if getattr(_HERE, "dies_at", None) == name:
            _HERE.passes -= 1
            if _HERE.passes < 0:
                raise Killed(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(land, "land_topic", land_or_die)
        patch.setattr(land, "next_batch", plan_with_lag)
        patch.setattr(crash_points, "point", point)
        yield


AT_ONCE = 4


def side_by_side(live: Callable[[Any], None], names: Iterable[Any]) -> dict[Any, BaseException | None]:
    """Run `live` for many names at once; returns what each raised, or None."""
    with faults(), ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {pool.submit(live, name): name for name in names}
        for future in as_completed(futures):
            print(f"{futures[future]}: {future.exception() or 'as on paper'}", flush=True)
        return {name: future.exception() for future, name in futures.items()}
