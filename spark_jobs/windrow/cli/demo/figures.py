"""Figures of the demo: compared with the truth of its input, and shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from windrow import platform, training
from windrow.cli.demo.preparation import Demo
from windrow.cli.show import PUBLICATION, console, print_table
from windrow.home import Table
from windrow.io.registers import clocks, publications
from windrow.semantics.intervals import interval_of
from windrow.text import shown_instant


def differences(demo: Demo) -> Iterator[str]:
    """Yield a line for each figure that differs from the truth: landing counts, interval counts, rows with labels."""
    truth = demo.truth.counts
    seen = clocks.observe(demo.home)
    for topic in demo.moved.topics:
        for name, count in truth.landing(topic).items():
            found = sum(row[name] for row in seen.of_topic(topic))
            if found != count:
                yield f"{topic}: {name} {found:,}, expected {count:,}"
    standing = publications.standing(publications.registered(demo.home))
    for start, counts in truth.intervals.items():
        row = standing[start]
        expected = {
            "rows": counts.rows,
            "left_duplicate": counts.duplicate,
            "positive": counts.positive,
            "negative": counts.negative,
            "unknown": sum(counts.unknown.values()),
        }
        for name, value in expected.items():
            if row[name] != value:
                yield f"{shown_instant(start)}: {name} {row[name]:,}, expected {value:,}"
    yield from _row_differences(demo)


def _row_differences(demo: Demo) -> Iterator[str]:
    columns = ("label_state", "label_reason", "clicked", "_interval", "_event_time", "_partition", "_offset")
    labels = pl.col("clicks").list.eval(pl.element().struct.field("click_id"))
    rows = _training(demo).select(*columns, labels).collect()
    found = {
        (r["_partition"], r["_offset"]): (
            r["_event_time"], r["clicks"], r["label_state"], r["label_reason"], r["clicked"], r["_interval"],
        )
        for r in rows.iter_rows(named=True)
    }  # fmt: skip
    if rows.height != len(found):
        yield f"{rows.height - len(found):,} rows of the training table are there twice"
    expected = {
        (r.partition, r.offset): (
            r.event_at, list(r.labels), r.state, r.reason, _clicked(r.state), r.interval_at,
        )
        for r in demo.truth.rows()
    }  # fmt: skip
    wrong = sorted(row for row in expected.keys() | found.keys() if expected.get(row) != found.get(row))
    for row in wrong[:10]:
        yield f"row at partition, offset {row}: {found.get(row)}, expected {expected.get(row)}"
    if len(wrong) > 10:
        yield f"… and {len(wrong) - 10} more rows"


def _clicked(state: str) -> bool | None:
    return None if state == "unknown" else state == "positive"


def _training(demo: Demo) -> pl.LazyFrame:
    """Return the training table as a trainer reads it, with its unknown rows; only the intervals of the input."""
    end = max(demo.truth.counts.intervals) + demo.pipeline.interval
    return training.read(demo.pipeline.name, end=end, labels="all", places=demo.places).rows


def print_results(demo: Demo) -> None:
    """Print the publications, the figures, a sample of rows, and where to look further."""
    standing = publications.standing(publications.registered(demo.home))
    of_input = [standing[start] for start in sorted(demo.truth.counts.intervals)]
    console.print("\npublications", style="bold")
    print_table(of_input, (*PUBLICATION, "why"))
    _print_figures(demo, of_input)
    _print_sample(demo)
    airflow, name = platform.Airflow(demo.places), demo.pipeline.name
    first = interval_of(demo.moved.start, demo.pipeline.start, demo.pipeline.interval)
    console.print(f"\ntraining table   {demo.home.table(Table.TRAINING)}")
    console.print(f"data quality     {of_input[-1]['report']}")
    console.print(f"Airflow          {airflow.url}  user {airflow.login.user}, password {airflow.login.password}")
    console.print(f"look further     windrow clock {name}; windrow publications {name}; windrow down")
    console.print(f"a backfill       airflow backfill of {name}.training, for example {first}")


def as_json(demo: Demo) -> dict[str, Any]:
    """Return the figures of a demo that match its truth, and where to look further, for programs."""
    total, airflow = demo.truth.counts.total, platform.Airflow(demo.places)
    return {
        "pipeline": demo.pipeline.name,
        "intervals": len(demo.truth.counts.intervals),
        "rows": total.rows,
        "positive": total.positive,
        "negative": total.negative,
        "unknown": sum(total.unknown.values()),
        "training_table": demo.home.table(Table.TRAINING),
        "airflow": airflow.url,
    }


def _print_figures(demo: Demo, of_input: list[dict[str, Any]]) -> None:
    console.print("\nfigures, found = expected from the input", style="bold")
    total = demo.truth.counts.total
    unknown = sum(total.unknown.values())
    expected = {"rows": total.rows, "positive": total.positive, "negative": total.negative, "unknown": unknown}
    for name, count in expected.items():
        label = "rows served" if name == "rows" else name
        console.print(f"  {label:12} {sum(row[name] for row in of_input):>8,} = {count:,}")
    seen = clocks.observe(demo.home)
    for topic in demo.moved.topics:
        here = {n: sum(row[n] for row in seen.of_topic(topic)) for n in ("read", "landed", "quarantined")}
        console.print(
            f"  {topic}: read {here['read']:,} = landed {here['landed']:,} + quarantined {here['quarantined']:,}"
        )


def _print_sample(demo: Demo) -> None:
    console.print("\nsample, in served order", style="bold")
    columns = (
        "_event_time", "impression_id", "item_id", "position", "propensity", "clicked", "label_state", "label_reason",
    )  # fmt: skip
    rows = _training(demo).sort("_event_time", "_topic", "_epoch", "_partition", "_offset")
    sample = rows.select(columns).filter(pl.col("_event_time").is_not_null()).head(8).collect()
    with pl.Config(tbl_rows=8, tbl_cols=len(columns), tbl_hide_dataframe_shape=True, tbl_width_chars=160):
        console.print(str(sample))
