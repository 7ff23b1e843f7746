"""Options of the jobs, each declared once: name, type and help, for `run_job.py JOB PIPELINE …` and for `windrow`.

    def execute(pipeline: PipelineName, run: RunKey, interval: OptionalIntervalStart = None) -> Mapping[str, Any]: ...

An option without a default in the signature is required. An option of a single job is declared in its signature.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Annotated

import typer

from windrow.jobs.run import BadRequest, duration, instant
from windrow.semantics.maintenance import RETENTION
from windrow.text import duration_text


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadRequest(f"{text!r} is not a day such as 2026-11-01") from None


def longer_than_zero(value: str | timedelta) -> timedelta:
    """Return a duration of the command line that has a length.

    Raises:
        BadRequest: the text is not a duration, or is 0s.
    """
    length = duration(value)
    if not length:
        raise BadRequest(f"{value!r} has no length; write 1s or more")
    return length


# How help names a value
TIME, LENGTH, TEXT, NAME, LENGTHS = "TIME", "DURATION", "TEXT", "NAME", "DURATION,…"

PipelineName = Annotated[str, typer.Argument(help="Name of the pipeline, as in its file.", metavar="PIPELINE")]
RunKey = Annotated[str, typer.Option("--run", metavar="KEY", help="Key of the run; a retry has the same.")]

# Who decides, and why: `windrow.jobs.decision` checks both
Reason = Annotated[str, typer.Option(metavar=TEXT, help="Why; recorded for good with what comes of it.")]
Who = Annotated[str | None, typer.Option(metavar=NAME, help="Who decides; default: the user of this process.")]

# Which intervals
_INTERVAL = typer.Option("--interval", parser=instant, metavar=TIME, help="Start of an interval, 2026-11-01T00:00:00Z.")
_FROM = typer.Option("--from", parser=instant, metavar=TIME, help="Start of the range, 2026-11-01T00:00:00Z.")
_TO = typer.Option("--to", parser=instant, metavar=TIME, help="End of the range, not included.")
IntervalStart = Annotated[datetime, _INTERVAL]
OptionalIntervalStart = Annotated[datetime | None, _INTERVAL]
From = Annotated[datetime, _FROM]
OptionalFrom = Annotated[datetime | None, _FROM]
To = Annotated[datetime, _TO]
OptionalTo = Annotated[datetime | None, _TO]

# land
EVERY = timedelta(seconds=15)
"""How often a run with `--for` lands."""
LandFor = Annotated[
    timedelta,
    typer.Option(
        "--for", parser=duration, metavar=LENGTH, show_default=False, help="Keep landing this long; default: land once."
    ),
]
LandEvery = Annotated[
    timedelta,
    typer.Option(
        parser=longer_than_zero,
        metavar=LENGTH,
        show_default=False,
        help=f"How often, with --for; default: {duration_text(EVERY)}.",
    ),
]
# canary
CanaryFor = Annotated[
    timedelta | None,
    typer.Option(
        "--for",
        parser=duration,
        metavar=LENGTH,
        show_default=False,
        help="Keep sending this long; without it, the job looks once and the command goes on until it is stopped.",
    ),
]
CanaryEvery = Annotated[
    timedelta | None,
    typer.Option(
        parser=longer_than_zero,
        metavar=LENGTH,
        show_default=False,
        help="How often a pair is sent; default: `every` of the pipeline file, else 1m.",
    ),
]

AcceptGap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TOPIC/PARTITION:FROM-TO",
        help="Give up offsets that the broker deleted, as the failed run names them: feed.served/0:5-10. Repeatable.",
    ),
]
ReplayLost = Annotated[
    bool,
    typer.Option(
        "--replay-lost",
        help="Land batches again that a landing table has lost, with --reason; what Kafka no longer has becomes a gap.",
    ),
]
TrustClock = Annotated[
    bool,
    typer.Option(
        "--trust-clock",
        help="Land although the host's clock went back (it was ahead before, and is right now), or is ahead of the "
        "broker's (which is wrong).",
    ),
]
Reconsider = Annotated[
    str | None,
    typer.Option(
        metavar="REASON", help="Judge quarantined records again: the pipeline file or the clock was corrected."
    ),
]

# plan, rebuild
Everything = Annotated[bool, typer.Option("--all", help="Also intervals since whose publication nothing has landed.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what would be replaced, and record nothing.")]

# verify, rollback
PublicationNumber = Annotated[
    int | None, typer.Option("--publication", min=1, metavar="N", help="The publication of this number.")
]
StandingOf = Annotated[
    datetime | None,
    typer.Option("--interval", parser=instant, metavar=TIME, help="The standing publication of the interval."),
]
LastPublications = Annotated[
    int | None, typer.Option("--last", min=1, metavar="N", help="The N newest publications; default: 1.")
]
RollbackTo = Annotated[int, typer.Option("--to", min=1, metavar="N", help="Number of the publication to go back to.")]

# maintenance, summarise
Retention = Annotated[
    timedelta,
    typer.Option(
        parser=duration,
        metavar=LENGTH,
        show_default=False,
        help=f"How long files of past table versions stay, at least 7d; default: {duration_text(RETENTION)}.",
    ),
]
Day = Annotated[date | None, typer.Option(parser=_day, metavar="DAY", help="UTC day, 2026-11-01; default: yesterday.")]

# lag_impact: texts, because `windrow.jobs.lag.arguments` reads them all at once; an empty one counts as not given.
LagFrom = Annotated[
    str | None,
    typer.Option("--from", metavar=TIME, help="Start of served time; default: 24 hours before the end."),
]
LagTo = Annotated[
    str | None, typer.Option("--to", metavar=TIME, help="End of served time, not included; default: what is closed.")
]
Sides = Annotated[
    list[str] | None,
    typer.Option(
        "--side",
        "--sides",
        metavar="SIDE,…",
        help="Where lag is injected: left, right, both, a stream or a topic; default: left,right.",
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partitions", "--partition", metavar="N,…", help="Partitions of the side that lag, 0,2; default: all."
    ),
]
Lags = Annotated[
    list[str] | None,
    typer.Option(
        "--lag",
        "--lags",
        metavar=LENGTHS,
        help="Constant lags, 5m,1h; default: of 1m,10m,1h,6h those that fit four times into the range.",
    ),
]
Pauses = Annotated[
    list[str] | None,
    typer.Option(
        "--pause",
        "--pauses",
        metavar=LENGTHS,
        help="The side stands still this long from the middle of the range, then catches up; default: the longest lag.",
    ),
]
Drains = Annotated[
    list[str] | None,
    typer.Option(
        "--drain",
        "--drains",
        metavar=LENGTHS,
        help="The side is this far behind in the middle of the range, and gains one second in ten; default: none.",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="After a pause: how many times faster than written the backlog is read. Of a drain: in how many seconds "
        "it gains one. Default: 10.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "--policies",
        metavar="CLOCK,…",
        help="Clocks: slowest, fastest_side, newest_partition, idle_timeout, wall; default: all.",
    ),
]
Tick = Annotated[
    str | None,
    typer.Option(metavar=LENGTH, help="How often clocks that run on wall time are looked at; default: 1m."),
]
IdleAfter = Annotated[
    str | None,
    typer.Option(metavar=LENGTH, help="After how long idle_timeout leaves a partition out; default: the pipeline's."),
]
Windows = Annotated[
    list[str] | None,
    typer.Option(
        "--window", "--windows", metavar=LENGTHS, help="Windows (`after`) to try in addition to the pipeline's, 1h."
    ),
]
Graces = Annotated[
    list[str] | None,
    typer.Option("--grace", "--graces", metavar=LENGTHS, help="Graces to try in addition to the pipeline's, 10m."),
]
RowByRow = Annotated[
    bool, typer.Option("--row-by-row", help="Close row by row, as stream processors do, not by interval.")
]
Sample = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Share of the keys, 0.1; all events of a key stay together; default: 1."),
]
Recalls = Annotated[
    list[str] | None,
    typer.Option("--recall", "--recalls", metavar="SHARE,…", help="Wanted recalls; default: 0.99,0.999."),
]
