"""intact: do the tables of a pipeline agree with each other, and are their files there? `verify` and `reconcile` ask.

    read      logs and registers; sizes of the files that they name
    compute   what one table says of another, compared             (`semantics.intact`)

No payload is read, and rows only where the log does not tell how many there are. What is found is for a person: nothing
is repaired here but the register, which is derived (rule 20).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from windrow.columns import DATE, PLAN
from windrow.home import Home, Table
from windrow.io.delta import damage, lookup, tables
from windrow.io.landing import batches
from windrow.io.registers import clocks, erasures, measures, plans, publications, snapshots
from windrow.io.registers.clocks import Observation
from windrow.outcomes import NeedsPerson
from windrow.semantics.intact import (
    candidate_faults,
    line_faults,
    offset_faults,
    pin_faults,
    register_faults,
    row_faults,
    training_faults,
)
from windrow.semantics.landing.undelivered import Committed
from windrow.semantics.maintenance import outdated
from windrow.semantics.plan import pins_of
from windrow.transforms.ledger.passes import Pass

SHOWN = 20
"""Faults that a message lists."""
BATCHES = 1_000
"""Newest landing commits of a topic whose offsets are compared with the clock."""


class TablesDisagree(NeedsPerson):
    """Tables contradict each other, or a file is gone. A retry does not help: a person restores what was changed."""


def require_intact(home: Home) -> None:
    """Compare the tables of a pipeline.

    Raises:
        TablesDisagree: lists the first faults, with table and file.
        TableDamaged: a log cannot be read.
        CommitsLost: a landing table is behind the clock.
        TrainingBehind: the training table lacks publications.
    """
    seen = clocks.observe(home)
    batches.refuse_lost(home, seen.rows)
    # tables are compared once all of their files are there: some of them are read
    faults = [*_files(home)] or [*_landed(home, seen), *_published(home), *_candidates(home), *_late(home)]
    if faults:
        more = f"\n    … and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise TablesDisagree(
            f"{len(faults)} faults in the tables of {home.pipeline.name}:\n    "
            + "\n    ".join(faults[:SHOWN])
            + f"{more}\nRows, files or commits were changed or lost. Restore the tables from a backup; where only "
            f"training rows are wrong, `windrow rebuild {home.pipeline.name}` makes their intervals again."
        )


def _files(home: Home) -> Iterator[str]:
    """Data files that are missing, or have another size than the log says; files of snapshots that are missing."""
    paths = [home.table(table) for table in Table if table is not Table.LANDING]
    for path in [*paths, *map(home.landing, home.pipeline.topics)]:
        table = tables.opened(path)
        if table is not None:
            yield from damage.wrong_files(path, tables.data_files(table))
    for one in snapshots.kept(home):
        for location in snapshots.files_of(home, one.name).missing:
            yield f"{location} of the snapshot {one.name} is missing"


def _landed(home: Home, seen: Observation) -> Iterator[str]:
    """What landing tables and their commits say of the clock's counts, in the epoch of the clock."""
    for topic in home.pipeline.topics:
        rows, table = seen.of_topic(topic), lookup.opened(home.landing(topic))
        if rows and table is not None:
            number = rows[0]["batch"]
            yield from row_faults(topic, rows, batches.rows_held(table, rows[0]["epoch"], number))
            committed = _of_epoch(batches.committed_up_to(table.table, number), rows[0]["topic_id"])
            first = committed[-1].batch.number if committed else number + 1
            before = clocks.at_batch(home, topic, rows[0]["topic_id"], first - 1)
            if before is None:  # what came since is not known: only whether the counts add up
                committed, before = [], rows
            yield from offset_faults(topic, rows, committed, before)


def _of_epoch(found: Iterable[Committed], topic_id: str) -> list[Committed]:
    """The newest batches of a topic id that say what was undelivered, as far as all of them do."""
    own = takewhile(lambda one: one.batch.topic_id == topic_id and (one.rows is not None or one.account), found)
    return list(islice(own, BATCHES))


def _published(home: Home) -> list[str]:
    """What is wrong in the register, or with the training table by it.

    Of every publication a few columns are read, and whole rows only of those whose commits the log still has.
    """
    # in this order, because what is in the table is registered by then; what others publish later is not in it
    table = tables.opened(home.table(Table.TRAINING))
    publications.repair_if_behind(home)
    register = publications.registered(home, ("number", "interval", "rows", "training_version"))
    if table is None:
        return []
    known = [row for row in register if row["training_version"] <= table.version()]
    held = tables.rows_by(table, DATE)
    planned, committed = publications.plans(home), list(publications.committed(home))
    newest = publications.registered(home, first=min(row["number"] for row in committed)) if committed else []
    return [
        *register_faults(_rows(planned), newest, committed),
        *training_faults(publications.standing(known).values(), held, erasures.remaining(home)),
        *_behind(home, (pins_of(plan) for _, plan, _ in _rows(planned))),
    ]


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table as Python values, which are made for some of them at a time: a year has 50 000."""
    for batch in table.to_batches(1_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _candidates(home: Home) -> list[str]:
    """Candidates that were measured and can still be published, compared with what was measured."""
    # in this order, because candidates are written before they are measured, and removed after they are published
    measured = measures.plan_ids(home)
    table = tables.opened(home.table(Table.CANDIDATES))
    held = {} if table is None else tables.rows_by(table, PLAN)
    unpublished = plans.of_ids(home, measured - publications.plan_ids(home) - erasures.discarded(home))

    starts = [plan.interval.start for plan in unpublished]
    standing = publications.standing(publications.of_intervals(home, starts, ("number", "interval")))
    gone = set(outdated(unpublished, {start: row["number"] for start, row in standing.items()}))
    numbers = measures.by_plan(home, [plan for plan in unpublished if plan.id not in gone])
    rows = {plan: int(found["rows"] or 0) + int(found["left_unpaired"] or 0) for plan, found in numbers.items()}
    return [*candidate_faults(rows, held), *_behind(home, (plan.pins for plan in unpublished))]


def _late(home: Home) -> list[str]:
    """Lines of the late ledger, compared with what its passes wrote."""
    table = lookup.opened(home.table(Table.LATE))
    if table is None:
        return []
    counted = takewhile(lambda commit: commit.rows is not None, tables.commits_of(table.table))
    passes = [(Pass.from_json(commit.message), commit.rows or 0) for commit in counted]
    if not passes:
        return []
    oldest = passes[-1][0].number
    lines = table.read(["pass"], pc.field("pass") >= oldest, [lookup.Range("pass", oldest)])
    return [*line_faults(sum(rows for _, rows in passes), len(lines)), *_behind(home, [passes[0][0].known.pins])]


def _behind(home: Home, planned: Iterable[Mapping[str, int]]) -> list[str]:
    """Topics with a landing table whose clock is behind the pins of plans. It is read after the plans, made from it."""
    pins = clocks.observe(home).pins
    landed = [topic for topic in home.pipeline.topics if tables.opened(home.landing(topic)) is not None]
    return pin_faults({topic: pins.get(topic, 0) for topic in landed}, planned)
