"""erase: rows of a key leave every table, and nothing brings them back."""

from __future__ import annotations

from collections.abc import Callable
from json import loads

from windrow.cli.show import AsJson, console, print_json
from windrow.jobs.decision import noted
from windrow.jobs.erasure.options import Keys, KeysFile, Why
from windrow.jobs.options import PipelineName, Who
from windrow.jobs.run import context
from windrow.text import counted


def erase(
    pipeline: PipelineName,
    key: Keys = None,
    keys_file: KeysFile = None,
    why: Why = "",
    who: Who = None,
    json: AsJson = False,
) -> None:
    """Erase the rows of a key from every table, for good; only a salted hash of the key stays.

    By which columns, the pipeline file says (`erase`). Without a key, what was erased before is looked for again.

    \b
    windrow erase feed --keys-file keys.csv
    windrow erase feed --key user_id=4711
    """
    from windrow.jobs.erasure import erase as job
    from windrow.jobs.erasure import report

    ctx = context(pipeline)
    user, reason = noted(why, who)
    done = job.erase(ctx, ctx.run_key("erase"), key or (), keys_file, who=user, why=reason)
    if json:
        exports = [{**one, "state": one["state"] and loads(one["state"])} for one in done["exports"]]
        print_json({**done, "exports": exports})
        return
    landed = sum(one["rows"] for one in done["landing"].values())
    console.print(
        f"{counted(done['keys'], 'key')}: {counted(landed, 'landed record')} emptied, "
        f"{counted(done['training']['rows'], 'training row')} of {counted(done['training']['intervals'], 'interval')} "
        f"and {counted(done['candidates'], 'candidate')} erased"
    )
    if done["other_rows"]:
        intervals = counted(len(done["other_rows"]), "interval")
        first, last = min(done["other_rows"]), max(done["other_rows"])
        console.print(
            f"rows of other keys in {intervals} still have a record of the key: "
            f"windrow rebuild {ctx.pipeline.name} from {first} to the end of the interval {last}"
        )
    if done["snapshots"]:
        console.print(f"snapshots that still hold the key: {', '.join(sorted(done['snapshots']))}")
    for one in report.unsearched(done):
        console.print(f"not searched: {one}")
    console.print(f"report: {done['report']}")


COMMANDS: dict[str, Callable[..., None]] = {"erase": erase}
