"""The state that a pass of the late ledger starts from: register, clock, landing logs, last pass. No Spark.

Register and training table are read under the training lock, so they fit together. What lands while the rest is read is
above the pins of the observation, and belongs to the next pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from windrow.columns import BATCH, EVENT_TIME, QUARANTINED
from windrow.home import Home, Table
from windrow.io.delta import store, tables
from windrow.io.delta.locks import held
from windrow.io.ledger.table import APP_ID, last_pass, lines, path_of
from windrow.io.registers import clocks, publications
from windrow.io.registers.clocks import Observation
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import EARLIEST, LATEST
from windrow.semantics.ledger import CONFIG_CHANGED
from windrow.semantics.plan import Plan
from windrow.transforms.facts import facts_of
from windrow.transforms.ledger.due import floor_of, seen_before
from windrow.transforms.ledger.passes import Due, Knowledge, LandedFile, Standing, State

_STATISTICS = (
    f"max.{BATCH}", f"min.{EVENT_TIME}", f"max.{EVENT_TIME}", "num_records",
    f"null_count.{EVENT_TIME}", f"null_count.{QUARANTINED}",
)  # fmt: skip
"""Columns of `tables.data_files`, in the order of the fields of `LandedFile`."""


def read(home: Home) -> tuple[State, Observation] | None:
    """Return the present state, and the clock observation whose pins it has; None where nothing is published or landed.

    A publication that a killed run did not register is registered first. The caller holds the ledger's lock.
    """
    training = home.table(Table.TRAINING)
    if not store.may_exist(training):
        return None
    with held(home.lock(Table.TRAINING)):
        publications.repair(home)
        registered = _standing(home)
        table = tables.opened(training)  # after the register: it has what that knows
    observed = clocks.observe(home)
    if table is None or not observed.rows or not len(registered.starts):
        return None
    opened = {topic: tables.opened(home.landing(topic)) for topic in home.pipeline.topics}
    landing = {topic: landed for topic, landed in opened.items() if landed is not None}
    config_hash = home.pipeline.config_hash
    newest = last_pass(home)
    is_last = newest is not None and newest.known.config_hash == config_hash
    last = newest if is_last else last_pass(home, config_hash)
    standing = _with_rows(home, registered, registered.where(registered.numbers > (last.publication if last else 0)))
    seen = seen_before(standing, last)
    floor = floor_of(home.pipeline, seen)
    state = State(
        number=(newest.number if newest else max(0, tables.version_of(path_of(home), APP_ID))) + 1,
        standing=standing,
        training_version=table.version(),
        pins=observed.pins,
        clocks=observed.clocks,
        versions={topic: landed.version() for topic, landed in landing.items()},
        files={topic: _files(landed, floor[topic]) for topic, landed in landing.items()},
        new_commits=_commits_since(landing, last.versions if last else {}),
        seen=seen,
        newest=newest,
        marked=_marked(home, standing),
        knowledge=partial(_knowledge, home, observed, floor),
    )
    return state, observed


def with_rows(home: Home, work: Due, starts: Sequence[datetime]) -> Due:
    """Return a pass with the whole register rows of these intervals, as they stood when its state was read.

    Args:
        starts: starts of published intervals.
    """
    return replace(work, standing=_with_rows(home, work.standing, starts))


def _standing(home: Home) -> Standing:
    """Return every publication that readers see, without a row of the register."""
    rows = tables.arrow(home.table(Table.PUBLICATIONS), publications.IDENTITY)
    if rows is None:
        rows = PUBLICATIONS.empty_table()
    is_comparable = pc.fill_null(pc.equal(rows["config_hash"], home.pipeline.config_hash), False)
    return Standing.of(publications.instants(rows["interval"]), rows["number"].to_numpy(), is_comparable.to_numpy())


def _with_rows(home: Home, standing: Standing, starts: Sequence[datetime]) -> Standing:
    if not starts:
        return standing
    # an interval may have been published again since
    found = (
        row for row in publications.of_intervals(home, starts) if row["number"] == standing.number_of(row["interval"])
    )
    return replace(standing, rows={**standing.rows, **{row["interval"]: row for row in found}})


def _files(table: DeltaTable, floor: int) -> tuple[LandedFile, ...]:
    """Return the files that hold a batch above the floor, or of which the log does not say it."""
    found, newest = tables.data_files(table), f"max.{BATCH}"
    if newest in found.column_names:
        found = found.filter(pc.coalesce(pc.greater(found[newest], floor), pa.scalar(True)))
    return tuple(LandedFile(*[row.get(name) for name in _STATISTICS]) for row in found.to_pylist())


def _commits_since(landing: Mapping[str, DeltaTable], versions: Mapping[str, int]) -> tuple[Mapping[str, Any], ...]:
    """Return the entries of the landing tables' histories after these versions."""
    entries: list[Mapping[str, Any]] = []
    for topic, table in landing.items():
        if (new := table.version() - versions.get(topic, -1)) > 0:
            entries += table.history(limit=new)
    return tuple(entries)


def _marked(home: Home, standing: Standing) -> frozenset[datetime]:
    """Return starts of the intervals of another pipeline file that have their `config_changed` line already."""
    other = {
        at: {"number": standing.number_of(at), "config_hash": ""} for at in standing.where(~standing.is_comparable)
    }
    if not other:
        return frozenset()
    found = lines(home, list(other), columns=("interval", "kind"), standing=other)
    return frozenset(found.filter(pl.col("kind") == CONFIG_CHANGED)["interval"])


def _knowledge(home: Home, observed: Observation, floor: Mapping[str, int], plan: Plan) -> Knowledge:
    """Return what was known at the pins and clock of a plan.

    Args:
        observed: an observation of the clock that is not older than the plan.
        floor: topic → batch that every plan has seen: what had ended by then is the same at all of them.
    """
    known = observed.gaps_between(EARLIEST, LATEST, pipeline=home.pipeline, pins=plan.pins, above=floor)
    facts = facts_of(home.pipeline, (plan,), ())
    reached = plan.frontier(home.pipeline.after, home.pipeline.grace)
    return Knowledge(frozenset(known), facts.heard_until, reached)


def observations_above(home: Home, floor: Mapping[str, int]) -> Sequence[Observation]:
    """Return the observations of the clock that saw a batch from the floor on, oldest first.

    Args:
        floor: topic → batch.
    """
    alternatives: list[list[tables.Filter]] = [
        [("topic", "=", topic), ("batch", ">=", batch)] for topic, batch in floor.items()
    ]
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in tables.read(home.table(Table.CLOCK), filters=alternatives):
        by_number.setdefault(row["observation"], []).append(row)
    return [Observation(n, home.pipeline.topics, tuple(rows)) for n, rows in sorted(by_number.items())]
