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
"""Columns that `total` needs."""


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


def total(lines: pl.DataFrame, publication: Mapping[str, Any], label_streams: Sequence[str]) -> dict[str, Any]:
    """Totals of one publication: what landed late, what it changes, by how much it missed the closing, and why.

    Args:
        lines: the lines that count of its interval, with the columns `TOTALLED`.
        publication: its register row.
    Returns:
        `labels`: label rows that were matched; `late_labels`: others that match by now, each counted once, however many
        rows it matches; `other`: lines of every kind but late_label and late_left; `recall` = labels / (labels +
        late_labels); `flip_rate` = flips / rows, None where there are none; `missed_by_…`: durations.
    """
    by_kind = Counter(lines["kind"].to_list())
    balance = json.loads(publication["balance"]) if publication["balance"] else {}
    labels = sum(int(balance.get(f"{stream}.matched", 0)) for stream in label_streams)
    # one label can be late for several rows: lines would count it once per row
    late_labels = lines.filter(pl.col("kind") == "late_label").select("stream", *LATE_ROW).unique().height
    before, after = (pl.col(name) for name in STATES)
    flips = lines.filter(before.is_not_null() & (before != after)).height
    missed = lines["missed_by_us"].drop_nulls()
    return {
        "interval": publication["interval"],
        "publication": publication["number"],
        "rows": publication["rows"],
        "labels": labels,
        "lines": lines.height,
        "late_labels": late_labels,
        "late_lefts": by_kind["late_left"],
        "other": lines.height - by_kind["late_label"] - by_kind["late_left"],
        "kinds": dict(by_kind),
        "flips": flips,
        "recall": rate(labels, labels + late_labels),
        "flip_rate": rate(flips, publication["rows"]),
        **{f"missed_by_p{p}": _quantile(missed, p / 100) for p in (50, 90)},
        "missed_by_max": _quantile(missed, 1.0),
        "causes": dict(Counter(lines["cause"].drop_nulls().to_list())),
    }


def _quantile(micros: pl.Series, q: float) -> timedelta | None:
    value = micros.quantile(q, interpolation="higher")
    return None if value is None else timedelta(microseconds=int(value))
