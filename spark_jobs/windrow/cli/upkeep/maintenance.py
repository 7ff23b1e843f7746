"""maintain, summarise: what `<name>.maintenance` and the last task of `<name>.reconcile` do, from a shell.

They run the same jobs, so no row and no publication changes.
"""

from __future__ import annotations

from collections.abc import Callable

from windrow.cli.show import AsJson, console, print_json
from windrow.jobs.options import Day, PipelineName, Retention
from windrow.jobs.run import context
from windrow.semantics.maintenance import RETENTION
from windrow.text import counted, size_text


def maintain(pipeline: PipelineName, retention: Retention = RETENTION, json: AsJson = False) -> None:
    """Compact small files, and delete old reports and files that no kept version needs. Changes no row.

    \b
    windrow maintain feed --retention 14d
    """
    from windrow.jobs.upkeep import maintain as job

    done = job.maintain(context(pipeline), retention)
    if json:
        print_json(done)
        return
    fewer, deleted = sum(done["fewer_files"].values()), sum(done["deleted_files"].values())
    console.print(
        f"compaction left {counted(fewer, 'file')} fewer; deleted: {counted(deleted, 'file')} of past versions, "
        f"{counted(done['outdated_candidates'], 'outdated candidate')}, "
        f"{counted(done['old_report_days'], 'day')} of reports"
    )
    if done["snapshots"]:
        held = size_text(done["snapshot_bytes"])
        console.print(f"{counted(done['snapshots'], 'snapshot')} kept: {held} of past versions are there for them")


def summarise(pipeline: PipelineName, day: Day = None, json: AsJson = False) -> None:
    """Write the page of a day: label rate, unknowns, late and flip rate, null rates, served against published.

    \b
    windrow summarise feed --day 2026-11-01
    """
    from windrow.jobs import summarise as job

    ctx = context(pipeline)
    chosen = day or ctx.yesterday
    page = job.summarise(ctx, chosen)
    print_json({"pipeline": pipeline, "day": chosen, "page": page}) if json else console.print(str(page))


COMMANDS: dict[str, Callable[..., None]] = {"maintain": maintain, "summarise": summarise}
