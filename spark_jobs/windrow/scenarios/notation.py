"""The notation of scenarios for times, events, rows and ledger lines: reading and writing it.

    served k 0                                  topic, key, time
    labels k 4 as a p1 id=e7 action=click       its name, its partition, its event id, a column
    labels null 5                               a null in the key
    labels 11,2 5                               two key columns
    labels k 5 bad                              a record that landing must quarantine
    labels k 5 bad=likes                        a value of a wrong type in a column that only the stream likes reads
    labels k 5 lost                             retention (or compaction) deletes it before it is read
    labels k 3000 logged=10                     its record is stamped 10 by its producer

A time is a number of the scenario's units after its start, `23:59:30` (hours may pass 24), or with a fraction.
Without `as`, an event is called `key@time`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from windrow.semantics.intervals import MICROSECOND
from windrow.semantics.ledger import Line
from windrow.semantics.paper.landings import PartitionId
from windrow.semantics.reference import JoinedRow

_CLOCK = re.compile(r"(-?)(\d+):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_WORD = re.compile(r"[^\s]+")
COLUMNS = ("key", "at", "id", "action", "value")
"""Columns of every record of a scenario, in addition to those of a composed key."""


def own_column(stream: str) -> str:
    """Name of the column of a scenario's records that only this stream reads."""
    return f"of_{stream}"


@dataclass(frozen=True)
class Times:
    """Converts between times in a scenario (numbers of a unit after its start) and instants."""

    start: datetime
    unit: timedelta

    def length(self, text: str) -> timedelta:
        """Parse a duration; raises ValueError with what would be right."""
        clock = _CLOCK.fullmatch(text)
        if clock:
            sign, hours, minutes, seconds = clock.groups()
            micros = (int(hours) * 3600 + int(minutes) * 60) * 10**6 + int(Decimal(seconds or 0) * 10**6)
            return -micros * MICROSECOND if sign else micros * MICROSECOND
        try:
            exact = Decimal(text.replace("_", "")) * (self.unit // MICROSECOND)
        except InvalidOperation:
            raise ValueError(f"{text!r} is not a time; write a number of units, such as 100, or 23:59:30") from None
        if exact != int(exact):
            raise ValueError(f"{text!r} is finer than a microsecond")
        return int(exact) * MICROSECOND

    def at(self, text: str) -> datetime:
        """Parse an instant; raises ValueError with what would be right."""
        return self.start + self.length(text)

    def text_of(self, length: timedelta) -> str:
        """A duration in units, without trailing zeros."""
        text = format(Decimal(length // MICROSECOND) / Decimal(self.unit // MICROSECOND), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text

    def text_at(self, at: datetime | None) -> str:
        """An instant in units after the start; `none` for None."""
        return "none" if at is None else self.text_of(at - self.start)


@dataclass(frozen=True)
class Event:
    """One record that a producer sends."""

    topic: str
    key: tuple[str | None, ...]
    at: datetime
    name: str
    partition: int = 0
    event_id: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    logged_at: datetime | None = None
    is_bad: bool = False
    bad_for: tuple[str, ...] = ()
    """streams that cannot read a column of their own"""
    is_lost: bool = False

    @property
    def partition_id(self) -> PartitionId:
        """Topic and partition that it is sent to."""
        return (self.topic, self.partition)


def read_event(text: str, times: Times) -> Event:
    """Parse an event; raises ValueError with what would be right."""
    words = _WORD.findall(text)
    if len(words) < 3:
        raise ValueError(f"{text!r} is not an event; write topic, key and time, such as: served k 0")
    topic, key, at, *rest = words
    event: dict[str, Any] = {
        "topic": topic,
        "key": tuple(None if k == "null" else k for k in key.split(",")),
        "at": times.at(at),
    }
    more: dict[str, Any] = {"name": f"{key}@{at}", "values": {}}
    values: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        name, is_set, value = word.partition("=")
        if word == "as" and rest:
            more["name"] = rest.pop(0)
        elif re.fullmatch(r"p\d+", word):
            more["partition"] = int(word[1:])
        elif word in ("bad", "lost"):
            more[f"is_{word}"] = True
        elif name == "bad" and value:
            more["bad_for"] = (*more.get("bad_for", ()), value)
        elif name == "id" and is_set:
            more["event_id"] = value
        elif name == "logged" and is_set:
            more["logged_at"] = times.at(value)
        elif name == "action" and is_set:
            values[name] = value
        else:
            raise ValueError(
                f"{word!r} in {text!r} is not known; after topic, key and time come: as NAME, p1, id=…, action=…, "
                "logged=…, bad, bad=STREAM, lost"
            )
    return Event(**{**event, **more, "values": values})


@dataclass(frozen=True)
class Row:
    """A training row in a scenario's words: names instead of row ids."""

    name: str
    state: str
    matches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(stream, names of its matches in row order); streams without a match are left out."""

    def __str__(self) -> str:
        matches = [f"{stream} {' '.join(names)}" for stream, names in self.matches]
        return f"{self.name}: {', '.join([self.state, *matches])}"


def read_row(name: str, text: str) -> Row:
    """Parse the state and the matches of a row: `positive, labels a b`."""
    state, *parts = (part.strip() for part in text.split(","))
    matches = []
    for part in parts:
        stream, *names = part.split()
        if not names:
            raise ValueError(f"{part!r} names no match; write: positive, labels k@100")
        matches.append((stream, tuple(names)))
    return Row(name, state, tuple(sorted(matches)))


def row_of(row: JoinedRow, names: Mapping[object, str]) -> Row:
    """A joined row in the scenario's words; `names` maps row ids to names."""
    matches = {stream: tuple(names[m.row_id] for m in rows) for stream, rows in row.matches.items() if rows}
    return Row(names[row.row_id], _state_text((row.label_state, row.label_reason)), tuple(sorted(matches.items())))


def _state_text(state: tuple[str, str | None]) -> str:
    return "/".join(part for part in state if part)


def line_text(line: Line, names: Mapping[object, str], times: Times) -> str:
    """A ledger line in the scenario's words; added matches have a +, removed ones a -.

    `late_label k@0 labels +k@90, negative to positive, missed by 5`
    """
    text = f"{line.kind} {names[line.row_id]}"
    if line.gone and line.gone != line.row_id:
        text += f" instead of {names[line.gone]}"
    elif line.gone:
        text += " leaves"
    if line.stream:
        text += f" {line.stream}"
        text += f" +{names[line.appeared.row_id]}" if line.appeared else ""
        text += f" -{names[line.vanished.row_id]}" if line.vanished else ""
    if line.state:
        text += f", {_state_text(line.state[0])} to {_state_text(line.state[1])}"
    if line.missed_by is not None:
        text += f", missed by {times.text_of(line.missed_by)}"
    return text
