"""Forms of the DAGs that people trigger. Wrong input is refused before a run exists, not by a job an hour later.

Airflow validates a form against these schemas when a run is triggered, from the UI, the API or the command. What a
schema cannot express (a range that ends before it begins, an instant off the grid, the future) is refused by the first
task, which needs no Spark.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import Param

from windrow.config import Pipeline
from windrow.text import duration_text

INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})$"
"""An instant with its zone, which is never guessed."""
DURATIONS = r"^[0-9a-z., ]{0,500}$"
"""A list of durations; the job checks each of them."""


def rebuild_form(pipeline: Pipeline) -> dict[str, Param]:
    """Return the fields `from`, `to`, `reason`, `dry_run` and `all`."""
    length = duration_text(pipeline.interval)
    return {
        "from": _instant(f"Start of the first interval, UTC. Intervals are {length} long, counted from midnight."),
        "to": _instant("End of the last interval, UTC, not included. The range must be closed."),
        "reason": _reason("Why it is published again. Recorded with every publication, together with your name."),
        "dry_run": Param(
            True,
            type="boolean",
            title="Dry run",
            description="Only plan: list what would be replaced, what would not and why, and what would change.",
        ),
        "all": Param(
            False,
            type="boolean",
            title="All",
            description="Also intervals that cannot change: nothing has landed since, and the file is the same.",
        ),
    }


def override_form(pipeline: Pipeline) -> dict[str, Param]:
    """Return the fields `interval` and `reason`.

    There is no field for the name: the decision is recorded under the signed-in user.
    """
    length = duration_text(pipeline.interval)
    return {
        "interval": _instant(f"Start of the blocked interval of {length}, UTC, as the log of check names it."),
        "reason": _reason("Why its rows are right as they are. Recorded with the publication, with your name."),
    }


def erase_form() -> dict[str, Param]:
    """Return the fields `keys_file` and `why`.

    There is no field for a key: Airflow keeps what a form was given, and the key must stand nowhere.
    """
    return {
        "keys_file": Param(
            type="string",
            pattern=r"^/[A-Za-z0-9_./-]{1,500}$",
            title="File of keys",
            description="Path of a CSV file on the machine where tasks run; its first line names the columns.",
        ),
        "why": Param(
            "",
            type="string",
            maxLength=1000,
            title="Why",
            description="Without personal data: a number of the request. Recorded, with your name.",
        ),
    }


def lag_impact_form() -> dict[str, Param]:
    """Return the fields, all optional; empty means the last closed day and the job's default scenarios."""
    return {
        "from": _instant("Start of the range, UTC. Empty: the last closed day.", optional=True),
        "to": _instant("End of the range, UTC, not included. Empty: that day's end.", optional=True),
        "sides": _list("Where lag is injected: left, right, or names of streams or topics. Empty: each side in turn."),
        "partitions": _list("Partitions of the side that lag. Empty: all of them.", pattern=r"^[0-9, ]{0,500}$"),
        "lags": _list("Constant lags, for example 1m, 10m, 1h.", pattern=DURATIONS),
        "pauses": _list(
            "The side stops for this long, then reads its backlog at ten times the pace at which it was written.",
            pattern=DURATIONS,
        ),
        "drains": _list(
            "The side starts this far behind, and gains one second with every ten seconds of records.",
            pattern=DURATIONS,
        ),
        "policies": _list("Clocks to compare. Empty: all."),
        "windows": _list("Windows (`after`) for recall, in addition to the pipeline's own.", pattern=DURATIONS),
        "graces": _list("Graces to compare. Empty: the pipeline's own.", pattern=DURATIONS),
        "sample": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            maximum=1,
            description="Share of the keys to analyse, above 0 and at most 1; all events of a key stay together.",
        ),
    }


def maintenance_form(retention: timedelta) -> dict[str, Param]:
    """Return the field `retention`: how long old files are kept; `retention` is its default."""
    return {
        "retention": Param(
            duration_text(retention),
            type="string",
            pattern=r"^[0-9]{1,4}[dh]$",
            title="Retention",
            description="Files that no table version of this time needs are deleted. Less than 7d is refused: a "
            "running job, or a reader of a past version, may still need them.",
        ),
    }


def _instant(description: str, *, optional: bool = False) -> Param:
    kind: Any = ["null", "string"] if optional else "string"
    more: dict[str, Any] = {"type": kind, "format": "date-time", "pattern": INSTANT, "description": description}
    return Param(None, **more) if optional else Param(**more)


def _reason(description: str) -> Param:
    return Param(type="string", title="Reason", minLength=3, maxLength=1000, pattern=r"\S", description=description)


def _list(description: str, pattern: str = r"^[A-Za-z0-9_./, -]{0,500}$") -> Param:
    return Param(None, type=["null", "string"], pattern=pattern, description=description)
