"""The late ledger's table: which passes were made, and which of their lines count. No Spark.

    pass n ──▶ one commit: its lines, and in the commit what it was complete up to (pins, clock, register)
    a line counts while its publication stands, and until a newer pass looks at the same subject again

Append only: nothing is changed or taken out. A subject is a left event (event id and event time; without an event id
a row id): the published row and the one that a rebuild has instead have the same subject. `lines` is the reading
rule; everybody reads through it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.delta.tables import Filter
from windrow.io.registers import publications
from windrow.schemas import LATE
from windrow.semantics.ledger import AS_PUBLISHED, CONFIG_CHANGED
from windrow.semantics.plan import Plan
from windrow.semantics.records import RowId

APP_ID = "windrow.late"
_STATES = ("state_before", "state_after")


@dataclass(frozen=True)
class Pass:
    """What a pass of the ledger was complete up to. It is written into the pass's own commit."""

    number: int
    known: Plan
    """pins, clock and config hash as a plan of that moment would have them; its interval means nothing"""
    publication: int
    """every standing publication up to this number was looked at"""
    versions: Mapping[str, int]
    """topic → version of its landing table"""

    def to_json(self) -> str:
        """What the commit carries."""
        told = {**vars(self), "known": self.known.to_json(), "windrow": "late"}
        return json.dumps(told, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Pass:
        """The pass that `to_json` wrote."""
        told = json.loads(text)
        del told["windrow"]
        return cls(**{**told, "known": Plan.from_json(told["known"])})


def path_of(home: Home) -> str:
    """Location of the ledger."""
    return home.table(Table.LATE)


def last_pass(home: Home, config_hash: str | None = None) -> Pass | None:
    """The newest pass, or the newest under a config; None where there is none, or its commit has left the log."""
    found = (Pass.from_json(commit.message) for commit in tables.commits(path_of(home)))
    return next((one for one in found if config_hash in (None, one.known.config_hash)), None)


def lines(
    home: Home,
    starts: Sequence[datetime] | None = None,
    *,
    columns: Sequence[str] = tuple(LATE.names),
    standing: Mapping[datetime, Mapping[str, Any]] | None = None,
) -> pl.DataFrame:
    """The lines that count, of some intervals or of all: the reading rule.

    1. Lines of a standing publication count; those of one that was replaced do not any more.
    2. Of the lines about one subject of a publication, those of its newest pass count.
    3. `as_published` says that an earlier difference is gone: it takes older lines away and is itself none.
    4. A publication of another config has its `config_changed` line, one of this config has the others.
    """
    if standing is None:
        standing = publications.standing(publications.registered(home))
    wanted = standing if starts is None else {start: standing[start] for start in starts if start in standing}
    table = tables.opened(path_of(home))
    if table is None or not wanted:
        return pl.from_arrow(LATE.empty_table()).select(columns)  # type: ignore[union-attr]
    between: list[Filter] = [("interval", ">=", min(wanted)), ("interval", "<=", max(wanted))]
    needed = list(dict.fromkeys([*columns, "publication", "subject", "pass", "kind"]))
    read = pl.from_arrow(table.to_pyarrow_table(columns=needed, filters=between))
    assert isinstance(read, pl.DataFrame)
    same: list[int] = []
    other: list[int] = []
    for row in wanted.values():
        (same if row["config_hash"] == home.pipeline.config_hash else other).append(row["number"])
    changed = pl.col("kind") == CONFIG_CHANGED
    compared = read.filter(~changed & pl.col("publication").is_in(same))
    newest = pl.col("pass") == pl.col("pass").max().over("publication", "subject")
    compared = compared.filter(newest & (pl.col("kind") != AS_PUBLISHED))
    incomparable = read.filter(changed & pl.col("publication").is_in(other)).unique("publication", keep="first")
    return pl.concat([compared, incomparable]).select(columns)


def summary(home: Home, starts: Sequence[datetime]) -> dict[datetime, dict[str, int]]:
    """What a rebuild of these intervals would change: counts by kind, and `flips` of the label state.

    Complete up to the newest pass: what landed since is not in it. Intervals without a line are absent.
    """
    found: dict[datetime, Counter[str]] = {}
    for line in lines(home, starts, columns=("interval", "kind", *_STATES)).iter_rows(named=True):
        counts = found.setdefault(line["interval"], Counter())
        counts[line["kind"]] += 1
        counts["flips"] += is_flip(line)
    return {start: dict(counts) for start, counts in sorted(found.items())}


def of_row(home: Home, row_id: RowId) -> list[dict[str, Any]]:
    """The lines that count about one left row, published or to come, as dicts of `schemas.LATE`."""
    table = tables.opened(path_of(home))
    if table is None:
        return []
    filters: list[list[Filter]] = [_is_row(row_id, ""), _is_row(row_id, "gone_")]
    found = table.to_pyarrow_table(columns=["interval"], filters=filters).to_pylist()  # one or the other
    starts = sorted({row["interval"] for row in found})
    about = (_id(row_id, ""), _id(row_id, "gone_"))
    counting = lines(home, starts).iter_rows(named=True) if starts else ()
    return [line for line in counting if any(one.items() <= line.items() for one in about)]


def is_flip(line: Mapping[str, Any]) -> bool:
    """Whether the label state itself changes, not only its reason."""
    return line["state_before"] is not None and line["state_before"] != line["state_after"]


def missed_by(line: Mapping[str, Any]) -> timedelta | None:
    """How far the watermark was beyond the interval's closing when what came late began to land."""
    return None if line["missed_by_us"] is None else timedelta(microseconds=line["missed_by_us"])


def _id(row_id: RowId, prefix: str) -> dict[str, Any]:
    return {f"{prefix}{name}": value for name, value in vars(row_id).items()}


def _is_row(row_id: RowId, prefix: str) -> list[Filter]:
    return [(name, "=", value) for name, value in _id(row_id, prefix).items()]
