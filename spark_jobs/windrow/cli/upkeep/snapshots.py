"""snapshot, snapshots: named states of the training table that outlive maintenance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from windrow.cli.show import AsJson, console, print_json, print_table
from windrow.io.registers import snapshots
from windrow.jobs.decision import noted
from windrow.jobs.options import OptionalFrom, OptionalTo, PipelineName, Who
from windrow.jobs.run import BadRequest, context
from windrow.jobs.upkeep.snapshot import AtPublication, SnapshotName, Why, brief
from windrow.text import counted, size_text

_COLUMNS = ("name", "taken_at", "who", "from", "to", "publication", "rows", "files", "size", "held", "why")


def snapshot(
    pipeline: PipelineName,
    name: SnapshotName,
    begin: OptionalFrom = None,
    end: OptionalTo = None,
    publication: AtPublication = None,
    why: Why = "",
    who: Who = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the snapshot: maintenance may delete its files.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Keep the training rows of a range as they are now, or were after a publication, under a name.

    Maintenance spares their files until the snapshot is deleted. A name is given once.

    \b
    windrow snapshot feed ranker-7 --why "training set of ranker 7"
    windrow snapshot feed november --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --publication 4711
    windrow snapshot feed november --delete
    """
    from windrow.jobs.upkeep import snapshot as job

    user, reason = noted(why, who)
    if delete:
        if begin or end or publication:
            raise BadRequest("--delete is for the whole snapshot: leave --from, --to and --publication out")
        ctx = context(pipeline)
        gone = job.delete(ctx, name, who=user, why=reason)
        if json:
            print_json(brief(next(one for one in snapshots.listed(ctx.home) if one.name == name)))
            return
        console.print(f"{gone.name} is deleted; the next `windrow maintain {pipeline}` deletes files that only it had")
        return
    one = job.take(context(pipeline), name, begin, end, publication, who=user, why=reason)
    if json:
        print_json(brief(one))
        return
    console.print(
        f"{one.name} keeps {counted(one.rows, 'row')} of {one.range}: {counted(one.file_count, 'file')}, "
        f'{size_text(one.size)}. Read them with training.read("{pipeline}", at="snapshot:{one.name}")'
    )


def snapshots_(pipeline: PipelineName, json: AsJson = False) -> None:
    """List the snapshots of a pipeline: who took them, when and why, and the bytes that are there for them only."""
    home = context(pipeline, is_reader=True).home
    held, listed = snapshots.held(home), snapshots.listed(home)
    rows: list[dict[str, Any]] = [{**brief(one), "held_bytes": held.by_name.get(one.name, 0)} for one in listed]
    if json:
        print_json(rows)
        return
    kept = [row for row in rows if row["deleted_at"] is None]
    if not kept:
        console.print(f"{pipeline}: no snapshot is kept. `windrow snapshot {pipeline} NAME` takes one")
        return
    shown = [{**row, "size": size_text(row["bytes"]), "held": size_text(row["held_bytes"])} for row in kept]
    print_table(shown, _COLUMNS)
    console.print(
        f"{size_text(held.bytes)} of past versions are there for snapshots only; "
        f"`windrow snapshot {pipeline} NAME --delete` lets them go"
    )


COMMANDS: dict[str, Callable[..., None]] = {"snapshot": snapshot, "snapshots": snapshots_}
