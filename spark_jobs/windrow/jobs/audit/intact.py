"""intact: do the tables of a pipeline agree with each other, and are their files there? `verify` and `reconcile` ask.

    read      logs and registers; sizes of the files that they name
    compute   what one table says of another, compared             (`semantics.intact`)

No row of a large table is read. What is found is for a person: nothing is repaired here.
"""

from __future__ import annotations

from collections.abc import Iterator

from windrow.columns import DATE, PLAN
from windrow.home import Home, Table
from windrow.io.delta import damage, tables
from windrow.io.landing import batches
from windrow.io.registers import clocks, measures, plans, publications, snapshots
from windrow.outcomes import NeedsPerson
from windrow.semantics.intact import candidate_faults, register_faults, training_faults
from windrow.semantics.maintenance import outdated

SHOWN = 20
"""Faults that a message lists."""


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
    batches.refuse_lost(home, clocks.observe(home).rows)
    faults = [*_files(home), *_published(home), *_candidates(home)]
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


def _published(home: Home) -> list[str]:
    table = tables.opened(home.table(Table.TRAINING))
    register = publications.repaired(home)
    if table is None:
        return []
    # what others publish after the table was opened is not in it
    known = [row for row in register if row["training_version"] <= table.version()]
    held = tables.rows_by(table, DATE)
    return [
        *register_faults(register, publications.committed(home)),
        *training_faults(publications.standing(known).values(), held),
    ]


def _candidates(home: Home) -> list[str]:
    """Candidates that were measured and can still be published, compared with what was measured."""
    # in this order, because candidates are written before they are measured, and removed after they are published
    measured = measures.plan_ids(home)
    table = tables.opened(home.table(Table.CANDIDATES))
    held = {} if table is None else tables.rows_by(table, PLAN)
    register = publications.registered(home, ["number", "interval", "plan_id"])

    standing = {start: row["number"] for start, row in publications.standing(register).items()}
    unpublished = plans.of_ids(home, measured - {row["plan_id"] for row in register})
    gone = set(outdated(unpublished, standing))
    numbers = measures.by_plan(home, [plan for plan in unpublished if plan.id not in gone])
    return candidate_faults(
        {plan: int(found["rows"] or 0) + int(found["left_unpaired"] or 0) for plan, found in numbers.items()}, held
    )
