"""Look at every pipeline and tell people: a pipeline or a notifier that fails keeps no other from being looked at.

What began or ended is recorded first, with whom it is to be told. Each notifier that was reached is recorded at once.
So nobody is told twice, but by a kill in the moment between, and what nobody heard is told at the next look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from windrow.places import Places
from windrow_airflow.alerts.messages import example, message
from windrow_airflow.alerts.notifiers import Notifier, names_for
from windrow_airflow.pipeline_files import names as pipeline_names

if TYPE_CHECKING:
    from windrow.jobs.upkeep.alerts import Look
    from windrow.jobs.upkeep.health import Runs

PATIENCE = 60
"""Seconds that one notification may take, and one look."""
log = logging.getLogger(__name__)


class NotTold(Exception):
    """Somebody could not be told, or a pipeline could not be looked at; the next look tries again."""


@dataclass
class Round:
    """What a round of looks did."""

    open: dict[str, list[str]] = field(default_factory=dict)
    """pipeline → conditions that hold"""
    told: int = 0
    problems: list[str] = field(default_factory=list)
    hanging: set[str] = field(default_factory=set)
    """notifiers that did not end in time: the rest of the round goes on without them, and tells them nothing"""


def look_and_tell(
    names: list[str],
    places: Places,
    notifiers: Mapping[str, Notifier],
    now: Callable[[], datetime],
    runs_of: Callable[[str], Runs | None] = lambda name: None,
) -> Round:
    """Look at pipelines one after another, and tell what began and ended.

    Args:
        now: the clock.
        runs_of: what Airflow knows of a pipeline's DAGs.
    """
    from windrow.io.registers import alerts
    from windrow.io.registers.recent import Recent
    from windrow.jobs.upkeep.alerts import gone, look
    from windrow.outcomes import AnotherWriter

    done, recent, notified = Round(), Recent(), partial(names_for, notifiers)
    files = pipeline_names(places)
    removed = alerts.others(places, files) if files else []  # without any file, it is their folder that is missing
    for name in [*names, *removed]:
        with _noting(done, f"{name} was not looked at"):
            try:
                with alerts.looking(places, name):
                    with _limited():
                        if name in removed:
                            found = gone(name, places, now(), notified=notified)
                        else:
                            found = look(name, places, now(), runs=runs_of(name), notified=notified, recent=recent)
                    done.open[name] = [one.condition for one in found.alerts if one.ended_at is None]
                    _tell(found, places, notifiers, now, done)
            except AnotherWriter as busy:
                log.info("%s is looked at by another process: %s", name, busy)
    return done


def try_out(notifiers: Mapping[str, Notifier], now: datetime) -> Round:
    """Send a test message to every notifier; nothing is recorded."""
    done = Round()
    for name, notifier in notifiers.items():
        with _noting(done, f"{name} was not told"), _limited():
            notifier.tell(example(now))
            done.told += 1
    return done


def _tell(
    found: Look, places: Places, notifiers: Mapping[str, Notifier], now: Callable[[], datetime], done: Round
) -> None:
    from airflow.sdk.exceptions import AirflowTaskTimeout

    from windrow.jobs.upkeep.alerts import told

    untold: set[tuple[str, str]] = set()
    for alert, event, name in found.due:
        if name in done.hanging or (alert.condition, name) in untold:  # the end is never told before its begin
            continue
        if name not in notifiers:  # it was taken out of the file since: nobody can be told by it
            log.warning("%s: %s of %s: no notifier %s any more", found.pipeline, event, alert.condition, name)
            found = told(places, found, alert, event, name, now())
            continue
        saying = message(found.pipeline, alert, event)
        untold.add((alert.condition, name))
        with _noting(done, f"{name} was not told: {saying.title}"):
            try:
                with _limited():
                    notifiers[name].tell(saying)
            except AirflowTaskTimeout:
                done.hanging.add(name)
                raise
            untold.discard((alert.condition, name))
            found = told(places, found, alert, event, name, now())
            done.told += 1
            log.info("%s was told: %s", name, saying.title)


@contextmanager
def _noting(done: Round, what: str) -> Iterator[None]:
    """Note a failure and go on."""
    from airflow.sdk.exceptions import AirflowTaskTimeout

    try:
        yield
    except (Exception, AirflowTaskTimeout) as error:
        log.warning("%s: %s", what, error, exc_info=not isinstance(error, AirflowTaskTimeout))
        done.problems.append(f"{what}: {type(error).__name__}: {error}")


@contextmanager
def _limited() -> Iterator[None]:
    from airflow.sdk.execution_time.timeout import timeout

    with timeout(PATIENCE, f"no end after {PATIENCE} s"):
        yield
