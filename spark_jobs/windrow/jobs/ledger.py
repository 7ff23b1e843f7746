"""late: extend the late ledger with what has landed since its last pass, and renew its page.

Training does this by itself after every publication; alone it is for a pipeline whose training stands still.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from windrow.io.ledger import extend as ledger_pass
from windrow.io.ledger import table as ledger_table
from windrow.io.ledger.due import Due
from windrow.io.registers import publications
from windrow.jobs.options import PipelineName
from windrow.jobs.run import Context, context, job
from windrow.jobs.spark import spark_for
from windrow.outcomes import NeedsSpark
from windrow.quality import ledger_report

BRIEF = ("kind", "row", "stream", "appeared", "vanished", "state", "missed_by", "cause")
"""What people are shown of a line: ids and states, no values."""
_SUMMED = ("interval", "kind", "stream", "missed_by_us", "cause", "state_before", "state_after")
_APPEARED = ("appeared_topic", "appeared_epoch", "appeared_partition", "appeared_offset")


class LedgerNotExtended(RuntimeError):
    """What was published stands and is on record; only the ledger is behind. Trying again helps."""


def extend(ctx: Context) -> Due | None:
    """Make the ledger complete up to what has landed; Spark starts only where rows must be looked at."""
    name = ctx.pipeline.name
    work = ledger_pass.extend(ctx.home, lambda: spark_for(f"late {name}", ctx.places, ctx.pipeline))
    if work is not None and (work.needs_spark or work.incomparable or not page(ctx).exists()):
        newest = sorted(work.standing)[-ledger_report.LISTED :]
        ledger_report.write(name, totals(ctx, newest), work.known.pins, ctx.places.reports(name))
    return work


def extend_after_publication(ctx: Context) -> None:
    """The same, after publications that are on record already: a failure says so and fails the run.

    It is loud, because a ledger that fell behind in silence would let late data look complete. It comes last, because
    what is published is right without it: a retry finds the publications, and extends the ledger only.
    """
    try:
        extend(ctx)
    except NeedsSpark:
        raise
    except Exception as error:
        raise LedgerNotExtended(
            f"published and on record, but the late ledger could not be extended: {type(error).__name__}: {error}. "
            f"Nothing has to be published again; run `windrow late {ctx.pipeline.name} --extend`, or retry."
        ) from error


def totals(ctx: Context, starts: Sequence[datetime] | None = None) -> list[dict[str, Any]]:
    """By published interval, oldest first: what came late, what it changes, by how much it missed, and why.

    labels: label rows that were matched in the interval; late_labels: others that match by now (each counted once,
    however many rows it matches). recall = labels / (labels + late_labels). flip_rate = flips / rows. A rate of
    nothing is null. other: lines of every other kind.
    """
    register = publications.registered(ctx.home)
    standing = publications.standing(register)
    chosen = sorted(standing) if starts is None else [s for s in starts if s in standing]
    columns = (*_SUMMED, *_APPEARED)
    found = ledger_table.lines(ctx.home, chosen, columns=columns, standing=standing)
    by_start = {key[0]: lines for key, lines in found.partition_by("interval", as_dict=True).items()}
    empty = found.clear()
    return [_total(ctx, start, standing[start], by_start.get(start, empty)) for start in chosen]


def _total(ctx: Context, start: datetime, row: Mapping[str, Any], lines: pl.DataFrame) -> dict[str, Any]:
    kinds = Counter(lines["kind"].to_list())
    balance = json.loads(row["balance"]) if row["balance"] else {}
    labels = sum(int(balance.get(f"{stream.name}.matched", 0)) for stream in ctx.pipeline.label_streams)
    late_labels = lines.filter(pl.col("kind") == "late_label").select("stream", *_APPEARED).unique().height
    flips = lines.filter(
        pl.col("state_before").is_not_null() & (pl.col("state_before") != pl.col("state_after"))
    ).height
    missed = lines["missed_by_us"].drop_nulls()
    quantiles = {f"missed_by_p{p}": _quantile(missed, p / 100) for p in (50, 90)}
    return {
        "interval": start,
        "publication": row["number"],
        "rows": row["rows"],
        "labels": labels,
        "lines": lines.height,
        "late_labels": late_labels,
        "late_lefts": kinds["late_left"],
        "other": lines.height - kinds["late_label"] - kinds["late_left"],
        "kinds": dict(kinds),
        "flips": flips,
        "recall": _rate(labels, labels + late_labels),
        "flip_rate": _rate(flips, row["rows"]),
        **quantiles,
        "missed_by_max": _quantile(missed, 1.0),
        "causes": dict(Counter(lines["cause"].drop_nulls().to_list())),
    }


def _quantile(micros: pl.Series, q: float) -> timedelta | None:
    value = micros.quantile(q, interpolation="higher")
    return None if value is None else timedelta(microseconds=int(value))


def _rate(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A total as people read it."""
    spans = ("missed_by_p50", "missed_by_p90", "missed_by_max")
    causes = ", ".join(f"{name} {n}" for name, n in sorted(row["causes"].items()))
    rates = {name: None if row[name] is None else f"{row[name]:.2%}" for name in ("recall", "flip_rate")}
    return {**row, **{name: None if row[name] is None else str(row[name]) for name in spans}, **rates, "causes": causes}


def brief(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line as people read it."""

    def row_id(prefix: str) -> str | None:
        parts = [line[f"{prefix}{name}"] for name in ("topic", "epoch", "partition", "offset")]
        return None if parts[0] is None else "/".join(str(part) for part in parts)

    def state(when: str) -> str:
        return "/".join(part for name in ("state", "reason") if (part := line[f"{name}_{when}"]))

    missed_by = ledger_table.missed_by(line)
    return {
        "kind": line["kind"],
        "row": row_id(""),
        "stream": line["stream"],
        "appeared": row_id("appeared_"),
        "vanished": row_id("vanished_") or (row_id("gone_") if line["stream"] is None else None),
        "state": f"{state('before')} -> {state('after')}" if line["state_before"] else None,
        "missed_by": None if missed_by is None else str(missed_by),
        "cause": line["cause"],
    }


def page(ctx: Context) -> Path:
    """The ledger's page."""
    return ctx.home.reports / "late" / "index.html"


def execute(pipeline: PipelineName) -> Mapping[str, Any]:
    """Extend the ledger, and return how many lines of each kind it has."""
    ctx = context(pipeline)
    work = extend(ctx)
    kinds = Counter(ledger_table.lines(ctx.home, columns=("kind",))["kind"].to_list())
    pins = dict(work.known.pins) if work else {}
    return {"pass": work.number if work else None, "pins": pins, "kinds": dict(kinds), "report": str(page(ctx))}


main = job(execute)
