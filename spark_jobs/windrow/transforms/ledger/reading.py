"""Which lines of the late ledger count, and their totals. Without Spark, for analysts and listings.

pass 1   late_label  a │ state_changed b        a line counts while its publication stands, and until a newer
pass 2   late_label  a │ late_label    a        pass looks at the same subject again; `as_published` means that
pass 3                   as_published  b        nothing differs any more, and does not count itself
         count: the two lines of pass 2
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from windrow.semantics.balance import rate
from windrow.semantics.ledger import AS_PUBLISHED, CONFIG_CHANGED

NEEDED = ("publication", "subject", "pass", "kind")
"""Columns that `counting` needs."""
STATES = ("state_before", "state_after")
LATE_ROW = ("appeared_topic", "appeared_epoch", "appeared_partition", "appeared_offset")
"""Row id of an added match."""
TOTALLED = ("interval", "kind", "stream", "missed_by_us", "cause", *STATES, *LATE_ROW)
"""Columns of lines that `totals` needs."""
PUBLISHED = ("number", "interval", "rows", "balance")
"""Columns of the register that `totals` needs."""
_MISSED_BY = {"missed_by_p50": 0.5, "missed_by_p90": 0.9, "missed_by_max": 1.0}
"""Name of a total → quantile."""
_COUNTS = (
    pl.len().alias("lines"),
    pl.col("kind").value_counts(sort=True).alias("kinds"),
    # one label can be late for several rows: lines would count it once per row
    pl.struct("stream", *LATE_ROW).filter(pl.col("kind") == "late_label").n_unique().alias("late_labels"),
    (pl.col(STATES[0]).is_not_null() & (pl.col(STATES[0]) != pl.col(STATES[1]))).sum().alias("flips"),
    pl.col("cause").drop_nulls().value_counts(sort=True).alias("causes"),
    *(pl.col("missed_by_us").quantile(q, "higher").alias(name) for name, q in _MISSED_BY.items()),
)
"""What is counted of the lines of each interval."""
_NO_LINES: Mapping[str, Any] = {
    "lines": 0, "kinds": (), "late_labels": 0, "flips": 0, "causes": (), **dict.fromkeys(_MISSED_BY),
}  # fmt: skip


def counting(lines: pl.DataFrame, comparable: Collection[int], incomparable: Collection[int]) -> pl.DataFrame:
    """The lines that count.

    1. Lines of a standing publication count; those of a superseded one do not.
    2. Of the lines about one subject of a publication, those of its newest pass count.
    3. `as_published` means that an earlier difference is gone: older lines stop counting, and it does not count itself.
    4. A publication of another config has its `config_changed` line, one of the current config has the others.

    Args:
        lines: any columns of `schemas.LATE`, among them `NEEDED`.
        comparable: numbers of the standing publications of the current config.
        incomparable: numbers of the other standing publications.

    >>> lines = pl.DataFrame({"publication": [1, 1, 1, 1], "subject": ["a", "a", "b", "b"], "pass": [1, 2, 1, 3],
    ...                       "kind": ["late_left", "late_label", "state_changed", "as_published"]})
    >>> counting(lines, [1], []).rows()
    [(1, 'a', 2, 'late_label')]
    """
    is_config = pl.col("kind") == CONFIG_CHANGED
    compared = lines.filter(~is_config & pl.col("publication").is_in(list(comparable)))
    newest = pl.col("pass") == pl.col("pass").max().over("publication", "subject")
    compared = compared.filter(newest & (pl.col("kind") != AS_PUBLISHED))
    # an interval is marked once, however many passes found it under another config
    changed = lines.filter(is_config & pl.col("publication").is_in(list(incomparable)))
    return pl.concat([compared, changed.unique("publication", keep="first")])


def is_flip(line: Mapping[str, Any]) -> bool:
    """Whether the label state itself changes, not only its reason."""
    return line["state_before"] is not None and line["state_before"] != line["state_after"]


def missed_by(line: Mapping[str, Any]) -> timedelta | None:
    """How far the watermark was beyond the interval's closing when the late row began to land.

    Args:
        line: a line of the ledger.

    Returns:
        None where the line has no such time.
    """
    return None if line["missed_by_us"] is None else timedelta(microseconds=line["missed_by_us"])


def kinds(lines: pl.DataFrame) -> dict[datetime, dict[str, int]]:
    """Number of lines by interval and kind, and `flips` of the label state. Intervals without a line are absent.

    Args:
        lines: lines that count, with `interval`, `kind` and `STATES`.
    """
    found: dict[datetime, Counter[str]] = {}
    for line in lines.iter_rows(named=True):
        counts = found.setdefault(line["interval"], Counter())
        counts[line["kind"]] += 1
        counts["flips"] += is_flip(line)
    return {start: dict(counts) for start, counts in sorted(found.items())}


def totals(
    lines: pl.DataFrame, published: Sequence[Mapping[str, Any]], label_streams: Sequence[str]
) -> list[dict[str, Any]]:
    """Totals of publications: what landed late, what it changes, by how much it missed the closing, and why.

    Args:
        lines: the lines that count of their intervals, with the columns `TOTALLED`.
        published: their register rows, of the columns `PUBLISHED`.
    Returns:
        One per publication, in their order. `labels`: label rows that were matched; `late_labels`: others that match by
        now, each counted once, however many rows it matches; `other`: lines of every kind but late_label and late_left;
        `recall` = labels / (labels + late_labels); `flip_rate` = flips / rows, None where there are none;
        `missed_by_…`: durations.
    """
    found = {row.pop("interval"): row for row in lines.group_by("interval").agg(_COUNTS).iter_rows(named=True)}
    return [_total(row, found.get(row["interval"], _NO_LINES), label_streams) for row in published]


def _total(publication: Mapping[str, Any], found: Mapping[str, Any], label_streams: Sequence[str]) -> dict[str, Any]:
    balance = json.loads(publication["balance"]) if publication["balance"] else {}
    labels = sum(int(balance.get(f"{stream}.matched", 0)) for stream in label_streams)
    kinds, causes = ({one[name]: one["count"] for one in found[f"{name}s"]} for name in ("kind", "cause"))
    by_kind = Counter(kinds)
    return {
        "interval": publication["interval"],
        "publication": publication["number"],
        "rows": publication["rows"],
        "labels": labels,
        "lines": found["lines"],
        "late_labels": found["late_labels"],
        "late_lefts": by_kind["late_left"],
        "other": found["lines"] - by_kind["late_label"] - by_kind["late_left"],
        "kinds": kinds,
        "flips": found["flips"],
        "recall": rate(labels, labels + found["late_labels"]),
        "flip_rate": rate(found["flips"], publication["rows"]),
        **{name: _duration(found[name]) for name in _MISSED_BY},
        "causes": causes,
    }


def _duration(micros: float | None) -> timedelta | None:
    return None if micros is None else timedelta(microseconds=int(micros))
