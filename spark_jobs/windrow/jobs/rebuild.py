"""rebuild: publish closed intervals again with all that has landed by now, from one join (rule 16)."""

from __future__ import annotations

from datetime import datetime

from windrow.io.registers.plans import Request
from windrow.jobs.plan.planning import recorded_plans
from windrow.jobs.plan.survey import plan_range
from windrow.jobs.run import Context
from windrow.jobs.train import Each, Round, carry_out


def rebuild(
    ctx: Context, run: str, begin: datetime, end: datetime, each: Each, request: Request | None = None
) -> Round:
    """Publish every interval of `[begin, end)` again with new pins.

    Args:
        run: key of the run.
        each: called with the register row of every publication as soon as it is made.
        request: why a person wants it, and who it is.

    Raises:
        WindowStillOpen, BadRequest: see `survey`.
    """
    return carry_out(ctx, plan_range(ctx, run, begin, end, request, everything=True), each)


def resume(ctx: Context, run: str, each: Each) -> Round:
    """Carry out the recorded plans of a run; publications that it has made before it was interrupted stand.

    Raises:
        BadRequest: the run has recorded no plan.
    """
    return carry_out(ctx, recorded_plans(ctx, run, first="plan"), each)
