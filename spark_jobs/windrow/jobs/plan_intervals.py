"""plan: what a rebuild of a range would replace, publish for the first time and leave alone, and why. No Spark.

The plans are recorded under the run's key, with reason and name; `join --planned`, `check` and `publish` carry them
out. With --dry-run nothing is recorded. A second call of the same run finds its plans and changes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from windrow.jobs.planning import request
from windrow.jobs.run import Context, instant, job
from windrow.jobs.survey import Survey, record_survey, recorded_range, survey
from windrow.semantics.plan import Plan

MOST_LISTED = 200
"""Intervals that a task's result lists; the rest is counted."""


def listing(found: Survey | Sequence[Plan], most: int | None = None) -> dict[str, Any]:
    """Return a survey, or the plans that a retry finds recorded, as plain values for programs.

    Args:
        most: how many intervals are listed; default is all of them. Those that are left alone come last.
    """
    if not isinstance(found, Survey):
        return {"recorded": [plan.interval.start for plan in found[:most]], "counts": {"recorded": len(found)}}
    lines = sorted(found.lines, key=lambda line: (line.action == "leave", line.interval))
    return {
        "pins": found.clock.pins,
        "counts": found.counts,
        "rows_replaced": sum(line.rows or 0 for line in found.lines if line.action == "replace"),
        "intervals": [line.to_dict() for line in lines[:most]],
        "not_listed": max(0, len(lines) - most) if most is not None else 0,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job `plan`; returns its exit code."""

    def declare(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--run", required=True, help="key of the run; a retry has the same")
        parser.add_argument("--from", dest="begin", required=True, help="start of the first interval")
        parser.add_argument("--to", dest="end", required=True, help="end of the last interval")
        parser.add_argument("--reason", required=True, help="why; recorded with every publication")
        parser.add_argument("--who", help="who asks; default: the user of this process")
        parser.add_argument("--all", dest="everything", action="store_true", help="also what cannot change")
        parser.add_argument("--dry-run", action="store_true", help="look, and record nothing")

    def execute(ctx: Context, args: argparse.Namespace) -> Mapping[str, Any]:
        why = request(args.reason, args.who)
        begin, end = instant(args.begin), instant(args.end)
        about = {"run": args.run, "from": begin, "to": end, "dry_run": args.dry_run, **why._asdict()}
        recorded = () if args.dry_run else recorded_range(ctx, args.run, begin, end)
        if recorded:
            return {**about, **listing(recorded, MOST_LISTED)}
        found = survey(ctx, begin, end, everything=args.everything)
        if not args.dry_run:
            record_survey(ctx, args.run, found, why)
        return {**about, **listing(found, MOST_LISTED)}

    return job(__doc__ or "", declare, execute, argv)
