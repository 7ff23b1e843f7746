"""A pipeline: what its rows mean. Where its tables are is not part of it (see `home`).

A `Pipeline` that exists is usable: every field has been read strictly (`fields`, `streams`) and the parts fit
together (`checks`), whether it was read from a file or made in code.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import Self

from pydantic import model_validator

from windrow.config import canary, checks, drift
from windrow.config.formats import Format
from windrow.config.origins import KeyFormat, Origin
from windrow.config.problems import Inconsistent
from windrow.config.streams import PipelineFields, Stream
from windrow.semantics.drift import Kind
from windrow.semantics.intervals import micros
from windrow.semantics.match import Mark

_WITHOUT_MEANING = {
    *("land_every", "catch_up", "pool", "max_labels_per_key"),
    *("expectations", "describe", "license", "owner", "canary", "erase", "drift", "waiting"),
}


class Pipeline(PipelineFields):
    """One pipeline. Instants are aware UTC, durations `timedelta`, column types normalised Spark DDL."""

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        found = checks.findings(self)
        if found:
            raise Inconsistent(found)
        return self

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic once, sorted: each is landed and clocked once, however many streams read it."""
        return tuple(sorted({topic for stream in self.streams for topic in stream.topics}))

    @property
    def after(self) -> timedelta:
        """The largest `after` of the right streams: what closing waits for, in addition to the grace."""
        return max(stream.window.after for stream in self.right)

    @property
    def before(self) -> timedelta:
        """The largest `before` of the right streams: how far back right rows are read."""
        return max(stream.window.before for stream in self.right)

    def mark_of(self, stream: Stream) -> Mark | None:
        """Which records of a stream are canaries; None: none is (rule 23)."""
        return canary.mark_of(self, stream)

    def streams_of(self, topic: str) -> tuple[Stream, ...]:
        """The streams that read a topic."""
        return tuple(stream for stream in self.streams if topic in stream.topics)

    def out_of_orderness(self, topic: str) -> timedelta:
        """How much older than the newest event of its partition an event of this topic may arrive."""
        return self._first(topic).out_of_orderness

    def accepts_compacted(self, topic: str) -> bool:
        """Whether the topic may be compacted; its undelivered offsets are then gaps."""
        return self._first(topic).compacted == "accept"

    @property
    def drift_kinds(self) -> dict[str, Kind]:
        """Left columns that are compared with earlier intervals → whether they hold numbers or categories."""
        return drift.kinds_of(self)

    def format(self, topic: str) -> Format:
        """How the records of a topic are read; streams that share a topic share it."""
        return self._first(topic).format

    def event_time(self, topic: str) -> str:
        """The event time column of a topic; streams that share a topic share it."""
        return self._first(topic).event_time

    def topic_columns(self, topic: str) -> dict[str, str]:
        """Columns of the landing table of a topic: the union over the streams reading it, left first."""
        self._first(topic)
        return {name: kind for stream in self.streams_of(topic) for name, kind in stream.columns.items()}

    def origins(self, topic: str) -> dict[str, Origin]:
        """Where columns of a topic come from that are no fields of the record's value; streams that share it agree."""
        return {name: origin for stream in self.streams_of(topic) for name, origin in stream.origins.items()}

    def key_format(self, topic: str) -> KeyFormat | None:
        """What the keys of a topic's records are; None where no stream takes a column from them."""
        return next((stream.key_format for stream in self.streams_of(topic) if stream.key_format), None)

    def takes_envelope(self, topic: str) -> bool:
        """Whether columns of a topic come from the keys or headers of its records."""
        return any(origin.part in ("key", "header") for origin in self.origins(topic).values())

    def _first(self, topic: str) -> Stream:
        for stream in self.streams_of(topic):
            return stream
        raise KeyError(f"no stream of pipeline {self.name} reads topic {topic!r}; it has {', '.join(self.topics)}")

    @property
    def config_hash(self) -> str:
        """SHA-256 (hex) over the fields that give rows their meaning: two files with one hash make the same rows.

        These make no difference: how often, how much and beside what a run works (`land_every`, `catch_up`, `pool`),
        what a join refuses (`max_labels_per_key`), the suite that judges (`expectations`), words for people
        (`describe`, `license`, `owner`), which columns are compared with earlier intervals (`drift`), by what rows can
        be erased (`erase`: the keys that were are in a table), how much may wait (`waiting`: a plan's clock says
        whether it was forced), when canaries are sent (all of `canary` but its `keys`), whether a compacted topic is
        accepted (`compacted`: landing records the gaps), the order in which streams, columns and topics are written,
        and spellings (`90s`, `1m30s`).
        """
        meaning = self.model_dump(exclude=_WITHOUT_MEANING)
        if self.canary:
            meaning["canary"] = self.canary.keys
        for stream in (meaning["left"], *meaning["right"]):
            del stream["compacted"]
            stream["columns"] = stream.pop("declared")
            if stream["key_format"] is None:
                del stream["key_format"]
            stream["topics"] = sorted(stream["topics"])
        meaning["right"] = sorted(meaning["right"], key=lambda stream: stream["name"])
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=_canonical)
        return hashlib.sha256(canonical.encode()).hexdigest()


def _canonical(value: object) -> object:
    """Times as whole microseconds, so that the hash does not depend on how a library writes them."""
    if isinstance(value, datetime | timedelta):
        return micros(value)
    raise TypeError(f"{type(value)} has no canonical form")
