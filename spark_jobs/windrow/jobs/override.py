"""override: a person publishes a blocked interval; name and reason stay in its publication.

A balance that does not add up is not a matter of opinion, and cannot be overridden.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windrow.io.registers import measures, plans
from windrow.jobs.publish import brief, publish
from windrow.jobs.run import BadRequest, Context, instant, job
from windrow.semantics.intervals import on_grid


def override(ctx: Context, at: datetime, who: str, why: str) -> dict[str, Any]:
    """Publish the last candidate of the interval that starts at `at`; returns the register row.

    Raises:
        BadRequest: it has no candidate.
        BalanceBroken: the counts do not add up.
    """
    planned = plans.last_of_interval(ctx.home, at)
    if planned is None or not measures.are_recorded(ctx.home, (planned,)):
        raise BadRequest(f"no candidate of the interval at {at}; `windrow train` makes one")
    return publish(ctx, (planned,), override=(who, why))[0]


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
