"""Conditions of a pipeline that a person is told of, as its tables show them at one look. Pure functions.

    unusable    its file or a table cannot be used
    landing     landing fails, or has stopped
    training    the newest run that publishes failed, and no blocked interval explains it
    retention   the broker is about to delete records that have not landed    one per topic
    blocked     expectations keep intervals back                              one per stretch of intervals
    silent      a topic that is read to its end gives no events               one per topic
    held        one partition keeps the clock back for longer than promised
    late        an interval has no publication after what is promised
    waiting     more waits for the clock than the pipeline file allows
    quarantine  many records cannot be read                                   one per topic
    reconcile   published rows are not what a rebuild and the ledger say      one per day

A condition is named by its kind and its subject. What is true at every look in between is one condition, however many
runs, retries or intervals it takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from windrow.semantics.clock import ClockRow
from windrow.semantics.fleet.health import WAITING, Finding, Seen, Status, override_move
from windrow.semantics.intervals import shifted
from windrow.text import counted, short_instant_text, shown_instant


class Condition(StrEnum):
    """Kind of a condition; the value stands in the register and in the file of notifiers."""

    UNUSABLE = "unusable"
    LANDING = "landing"
    TRAINING = "training"
    RETENTION = "retention"
    BLOCKED = "blocked"
    SILENT = "silent"
    HELD = "held"
    LATE = "late"
    WAITING = "waiting"
    QUARANTINE = "quarantine"
    RECONCILE = "reconcile"

    @property
    def words(self) -> str:
        """For the title of a message."""
        return _WORDS[self]


_WORDS = {
    Condition.UNUSABLE: "cannot be used",
    Condition.LANDING: "landing fails",
    Condition.TRAINING: "training fails",
    Condition.RETENTION: "retention is about to overtake landing",
    Condition.BLOCKED: "blocked",
    Condition.SILENT: "a side is silent",
    Condition.HELD: "the clock is held",
    Condition.LATE: "publication is late",
    Condition.WAITING: "too much waits for the clock",
    Condition.QUARANTINE: "many records are quarantined",
    Condition.RECONCILE: "reconcile is not equal",
}
_OF_STATUS = {Status.SILENT: Condition.SILENT, Status.HELD: Condition.HELD, Status.LATE: Condition.LATE}

BURST_RATE = 0.01
"""Share of a topic's records of the last hour above which quarantine is a burst."""
BURST_LEAST = 10
"""Quarantined records below which there is no burst, whatever their share."""


@dataclass(frozen=True)
class Holding:
    """A condition that holds now."""

    condition: Condition
    subject: str
    """what of the pipeline it is about: a topic, an interval, a day; empty for the whole pipeline"""
    cause: str
    """what is the case, with figures"""
    move: str
    """the next move of a person"""

    @property
    def key(self) -> tuple[Condition, str]:
        """What names the condition."""
        return (self.condition, self.subject)


def of_findings(name: str, found: Iterable[Finding]) -> list[Holding]:
    """Return the conditions that findings about a pipeline stand for; blocked intervals are `of_blocked`.

    Args:
        name: of the pipeline.
    """
    of_dag = {f"{name}.land": Condition.LANDING, f"{name}.training": Condition.TRAINING}
    holding = []
    for finding in found:
        if finding.status is Status.FAILING:
            kind = of_dag.get(finding.about, Condition.UNUSABLE)
            move = finding.move or f"Mend what it names; `windrow health {name}` shows whether it is usable again"
            holding.append(Holding(kind, "", finding.cause, move))
        elif finding.status.needs_person and finding.about == WAITING:
            holding.append(Holding(Condition.WAITING, "", finding.cause, finding.move))
        elif finding.status in _OF_STATUS:
            holding.append(Holding(_OF_STATUS[finding.status], finding.about, finding.cause, finding.move))
    return list({one.key: one for one in reversed(holding)}.values())[::-1]


def of_blocked(seen: Seen, known: Iterable[str]) -> list[Holding]:
    """Return a condition for each stretch of neighbouring blocked intervals.

    A stretch is named by the start of its first interval. It keeps that name while it grows, and while its first
    intervals are resolved, so that an outage is one condition, and a later one is another.

    Args:
        known: subjects of those that held at the last look.
    """
    held, holding, taken = sorted(known), [], set()
    for stretch in _stretches(sorted(seen.blocked), seen.terms.interval):
        first = short_instant_text(stretch[0])
        subject = max((one for one in held if one <= first), default=first)
        subject = first if subject in taken else subject
        taken.add(subject)
        cause = f"{counted(len(stretch), 'interval')} from {shown_instant(stretch[0])}: {seen.blocked[stretch[0]]}"
        holding.append(Holding(Condition.BLOCKED, subject, cause, override_move(seen.name, stretch[0])))
    return holding


def of_quarantine(name: str, newest: Sequence[ClockRow], before: Sequence[ClockRow]) -> list[Holding]:
    """Return a condition for each topic of which many records could not be read.

    Args:
        name: of the pipeline.
        newest: rows of the newest observation of the clock; their counts are totals.
        before: rows of an earlier one, from which on records are counted; empty for the first.
    """
    earlier = {(row["topic"], row["epoch"], row["partition"]): row for row in before}
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in newest:
        last = earlier.get((row["topic"], row["epoch"], row["partition"]), {})
        for n, column in enumerate(("read", "quarantined")):
            counts[row["topic"]][n] += (row[column] or 0) - (last.get(column) or 0)
    return [
        Holding(
            Condition.QUARANTINE,
            topic,
            f"{quarantined:,} of the newest {counted(read, 'record')} of {topic} cannot be read "
            f"({quarantined / read:.1%} > {BURST_RATE:.0%})",
            f"Ask its producer what changed; `_quarantined` in its landing table says why. Then fix the pipeline file "
            f"or the producer, and `windrow land {name} --reconsider …` judges these records again",
        )
        for topic, (read, quarantined) in sorted(counts.items())
        if quarantined >= BURST_LEAST and quarantined > BURST_RATE * read
    ]


def of_reconciled(name: str, differing: Iterable[Mapping[str, Any]]) -> list[Holding]:
    """Return a condition for each day of which published rows differ.

    Args:
        name: of the pipeline.
        differing: rows of `schemas.RECONCILED`: the newest of each interval, where it is `differs`.
    """
    by_day: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in differing:
        by_day[f"{row['interval']:%Y-%m-%d}"].append(row)
    return [
        Holding(
            Condition.RECONCILE,
            day,
            f"{counted(sum(row['unexplained'] or 0 for row in rows), 'row')} in {counted(len(rows), 'interval')} of "
            f"{day}: neither published as a rebuild makes them, nor in the late ledger",
            f"The log of {name}.reconcile names rows and columns; `windrow verify {name}` says which table is wrong",
        )
        for day, rows in sorted(by_day.items())
    ]


def _stretches(starts: Sequence[datetime], length: timedelta) -> list[list[datetime]]:
    """Starts of intervals in groups of neighbours."""
    groups: list[list[datetime]] = []
    for start in starts:
        if groups and shifted(groups[-1][-1], length) == start:
            groups[-1].append(start)
        else:
            groups.append([start])
    return groups
