"""override: a blocked interval becomes visible on a person's word; who and why stand in its publication for good.

A balance that does not add up is no opinion, and is not overridden.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from windrow.jobs.publish import brief
from windrow.jobs.run import BadRequest, Context, instant, job
from windrow.jobs.train import override
from windrow.semantics.intervals import on_grid


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job `override`; returns its exit code."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--interval", required=True, help="start of the blocked interval")
        parser.add_argument("--reason", required=True, help="why its rows are right as they are")
        parser.add_argument("--who", required=True, help="who decides")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        who, why, at = args.who.strip(), args.reason.strip(), instant(args.interval)
        if not who or not why:
            raise BadRequest("an override needs a name and a reason: both are recorded with the publication")
        if at < ctx.pipeline.start or not on_grid(at, ctx.pipeline.interval):
            raise BadRequest(f"no interval of {ctx.pipeline.name} starts at {at}")
        row = override(ctx, at, who, why)
        shown = {name: row[name] for name in ("overridden_by", "override_reason", "report")}
        return {"publications": [{**brief(row), **shown}], "report": row["report"]}

    return job(__doc__ or "", declare, execute, argv)
