"""Cut labels are those of a rebuild with the shorter window: compared with the reference join, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.histories import Histories, rules, seconds
from support.training.feed import CLICKED, FILE, INTERVAL, life
from support.training.likes_and_buys import likes_and_buys
from support.training.outages import MICROSECOND, MINUTE, START, WINDOW, Outage, lived
from support.training.outages import RULES as OUTAGE_RULES
from support.training.table import Writer, home_of, paper_home, seen, table_of
from windrow import training
from windrow.config import Pipeline, parse
from windrow.home import Home
from windrow.places import Places
from windrow.scenarios.kafka import pipeline_file
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.paper.landings import Sent
from windrow.semantics.paper.model import Model, Publication
from windrow.semantics.records import RowId
from windrow.semantics.reference import JoinedRow, reference_join
from windrow.training.derived import derived
from windrow.training.maturity import matured, with_derived_labels
from windrow.training.observed import Observed

KEPT = ("offset_gap", "forced", "label_quarantined")
"""Reasons that a row keeps, because it does not say where in its window the doubt begins."""
COMPARED: Counter[str] = Counter()


def rebuilt(model: Model, one: Publication, after: timedelta) -> tuple[JoinedRow, ...]:
    """The rows of an interval with shorter label windows, at the same pins."""
    spec = model.spec_at(one.plan.pins, one.plan.drained)
    right = tuple(replace(r, after=min(r.after, after)) if r.role == "label" else r for r in spec.right)
    short = replace(spec, right=right)
    forced = one.plan.is_forced(short.after, short.grace)
    return reference_join(model.landed, replace(short, forced=forced), one.plan.interval, one.plan.pins).rows


@cache
def _file(text: str) -> Pipeline:
    return parse(text, "paper.yaml")


def cut(model: Model, one: Publication, after: timedelta) -> dict[RowId, dict[str, Any]]:
    """What the reader makes of the published rows, by row id."""
    pipeline = _file(pipeline_file(model.rules, "paper"))
    streams = [stream.name for stream in pipeline.label_streams]
    labels = {"seen": lambda row: any(row.matches[name] for name in streams)}
    rows = pl.from_arrow(table_of(pipeline, labels, one))
    assert isinstance(rows, pl.DataFrame)
    observed = [Observed.of(one.number, one.plan, pipeline)]
    made = with_derived_labels(matured(rows.lazy(), observed, after), observed).collect()
    return {RowId(r["_topic"], r["_epoch"], r["_partition"], r["_offset"]): r for r in made.iter_rows(named=True)}


def compare(model: Model, one: Publication, after: timedelta) -> None:
    """Every row of the rebuild is there, and no other; what they differ in is what a row cannot know."""
    found = cut(model, one, after)
    published = {row.row_id: row for row in one.joined.rows}
    expected = rebuilt(model, one, after)
    assert found.keys() == {row.row_id for row in expected}
    for row in expected:
        mine, long = found[row.row_id], published[row.row_id]
        for name, matches in row.matches.items():
            ids = [RowId(m["_topic"], m["_epoch"], m["_partition"], m["_offset"]) for m in mine[name]]
            assert ids == [m.row_id for m in matches]
        state, reason = row.label_state, row.label_reason
        has_label = any(row.matches[r.name] for r in model.rules.spec.labels)
        if long.label_reason in KEPT:
            reason, state = long.label_reason, "positive" if has_label else "unknown"
        assert (mine["label_state"], mine["label_reason"]) == (state, reason)
        assert mine["seen"] == (None if state == "unknown" else has_label)
        COMPARED[f"{long.label_reason} > {reason}"] += 1
        COMPARED["labels cut"] += sum(map(len, row.matches.values())) < sum(map(len, long.matches.values()))


# ---- random histories: retries, gaps of poison, silence, drains, rebuilds, `inner` features, `take: first`


class Matured(Histories):
    """After a history every publication is cut, at both ends of what a label can be late by, and in between."""

    def teardown(self) -> None:
        if not hasattr(self, "model") or self.model.rules.spec.right[0].take == "last":
            return
        for one in self.model.publications:
            for after in (seconds(2) - MICROSECOND, seconds(2), seconds(9)):
                compare(self.model, one, after)


def test_cut_rows_of_random_histories_are_those_of_a_rebuild_with_that_window() -> None:
    """Hypothesis draws from constants of the loaded code too, so what 60 histories meet changes: it goes on then."""
    usual = {"labels cut", "None > None", "null_key > null_key", "side_silent > side_silent", "drained > drained"}
    COMPARED.clear()
    for many in (60, 300, 1_500):
        _live(many)
        if usual <= COMPARED.keys():
            return
    assert usual <= COMPARED.keys()


def _live(many: int) -> None:
    run_state_machine_as_test(
        Matured,
        settings=settings(
            max_examples=many,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )


# ---- outages, and several label streams


def test_the_edges_of_an_outage_are_known_to_the_microsecond() -> None:
    COMPARED.clear()
    for kind in ("held", "lost"):
        life = lived(Outage(kind, 22, 25), rows=150)  # type: ignore[arg-type]
        for minutes in (0, 5, 12, 20):
            for one in life.model.publications:
                compare(life.model, one, minutes * MINUTE)
    assert COMPARED["side_silent > None"] > 20
    assert COMPARED["side_silent > side_silent"] > 20
    assert COMPARED["offset_gap > offset_gap"] > 20


@pytest.mark.parametrize("beyond", [-MICROSECOND, timedelta(0), MICROSECOND])
def test_a_row_is_observed_for_a_time_if_the_label_side_was_heard_beyond_it(beyond: timedelta) -> None:
    """The boundary of rule 10: an event at the very end of the window is not later."""
    after, heard = 5 * MINUTE, START + 7 * MINUTE
    model = Model(OUTAGE_RULES)
    at = heard - after - beyond
    model.produce(("served", 0), Sent(at, {"key": "k"}, at))
    model.produce(("labels", 0), Sent(heard, {"key": "other"}, heard))
    for now in (START + 60 * MINUTE, START + 61 * MINUTE):
        model.land(now)
    (one, *_) = [p for p in model.publish_all(model.plan("all")) if p.joined.rows]
    compare(model, one, after)
    (row,) = cut(model, one, after).values()
    assert (row["label_state"], row["label_reason"]) == (
        ("negative", None) if beyond > timedelta(0) else ("unknown", "side_silent")
    )


@pytest.mark.parametrize("silence", ["unknown", "negative"])
@pytest.mark.parametrize("join", ["left", "inner"])
def test_each_label_stream_is_cut_and_heard_by_itself(silence: Any, join: Any) -> None:
    """Likes come within 15 minutes, buys within 60; buys are silent for a part of the time, then likes."""
    COMPARED.clear()
    for seed in range(2):
        model = likes_and_buys(seed, join=join, silence=silence)
        assert len(model.publications) > 15
        for minutes in (3, 16, 40):
            for one in model.publications:
                compare(model, one, minutes * MINUTE)
    assert COMPARED["side_silent > None"] > 2 or join == "inner"
    assert COMPARED["label_quarantined > label_quarantined"] > 2
    assert COMPARED["labels cut"] > 20


# ---- through a read


@pytest.mark.parametrize("after", ["5m", "10m", "29m59s999ms", "30m"])
def test_a_read_has_the_complete_rows_of_a_rebuild_with_that_window(feed: Home, after: str) -> None:
    rows = training.read("feed", matured=after, places=feed.places).rows.sort("_event_time").collect()
    length = training.read("feed", matured=after, places=feed.places).pin.request.matured
    assert length is not None
    of_rebuild = [row for one in life().publications for row in rebuilt(life(), one, length)]
    expected = {
        (row.row_id.partition, row.row_id.offset): (row.label_state, [m.row_id.offset for m in row.matches["clicks"]])
        for row in of_rebuild
        if row.label_reason is None
    }
    columns = ("_partition", "_offset", "label_state", "clicks", "clicked")
    found = {
        (partition, offset): (state, [label["_offset"] for label in labels])
        for partition, offset, state, labels, _ in rows.select(columns).iter_rows()
    }
    assert found == expected
    assert rows["clicked"].to_list() == (rows["label_state"] == "positive").to_list()
    whole = training.read("feed", places=feed.places).rows.collect()
    assert (rows.height > whole.height) == (after in ("5m", "10m")), (
        "rows of the outage that a shorter window has whole"
    )


def test_a_sample_credits_and_splits_are_of_the_cut_labels(feed: Home) -> None:
    options: Any = {"matured": "5m", "places": feed.places}
    cut_rows = training.read("feed", **options).rows.collect()
    sample = training.read("feed", negatives=0.5, **options).rows.collect()
    assert (sample["label_state"] == "positive").sum() == (cut_rows["label_state"] == "positive").sum()
    credited = training.read("feed", attribute="linear", labels="all", **options).rows.collect()
    lengths = credited.select(pl.col("clicks").list.len() == pl.col("_credit_clicks").list.len())
    assert lengths.to_series().all()
    of_label: Counter[int] = Counter()
    for labels, shares in credited.select("clicks", "_credit_clicks").iter_rows():
        for label, share in zip(labels, shares, strict=True):
            of_label[label["_offset"]] += share
    assert set(of_label.values()) == {1.0}
    parts = training.split("feed", parts=["a", "b"], cuts=[START + 12 * INTERVAL], **options)
    assert parts["a"].pin.request.end == START + 12 * INTERVAL - 5 * MINUTE


def test_a_pin_reads_cut_rows_again(feed: Home) -> None:
    rows, pin = training.read("feed", matured="7m", delays=True, survival="clicks", places=feed.places)
    again = training.read_pinned(pin.to_json(), places=feed.places).rows
    assert again.sort("_partition", "_offset").collect().equals(rows.sort("_partition", "_offset").collect())


def test_publications_under_another_file_are_cut_by_their_own_windows(places: Places) -> None:
    """Half of the intervals were published when a like counted for 15 minutes only, and was not `inner`."""
    model = lived(Outage("held", 22, 12), rows=60).model
    (labels,) = model.rules.spec.right
    shorter = replace(model.rules, spec=replace(model.rules.spec, right=(replace(labels, after=15 * MINUTE),)))
    earlier, later = model.publications[:6], model.publications[6:]
    old = paper_home(places, shorter)
    Writer(old, seen(old)).publish_all(
        replace(one, joined=replace(one.joined, rows=rebuilt(model, one, 15 * MINUTE))) for one in earlier
    )
    home = home_of(places, pipeline_file(model.rules, "paper"))
    Writer(home, seen(home)).publish_all(later)
    rows = training.read("paper", matured="10m", labels="all", places=places).rows.collect()
    expected = [row for one in model.publications for row in rebuilt(model, one, 10 * MINUTE)]
    states = dict(rows.select("_offset", "label_state").iter_rows())
    assert states == {row.row_id.offset: row.label_state for row in expected}
    with pytest.raises(training.WrongRequest, match="publication 1 has labels of labels for only 15m"):
        training.read("paper", matured="16m", places=places)
    apart = training.split("paper", parts=["a", "b"], cuts=[START + 40 * MINUTE], places=places)
    assert apart["a"].pin.request.end == START + 40 * MINUTE - WINDOW, "the widest window that a row may have"


# ---- derived labels


SCHEMA = pl.Schema(
    {
        "clicks": pl.List(pl.Struct({"action": pl.String, "price": pl.Float64})),
        "item_id": pl.Int64,
        "name": pl.String,
        "label_state": pl.String,
    }
)
ROWS = pl.DataFrame(
    {
        "clicks": [
            [{"action": "buy", "price": 4.0}, {"action": None, "price": None}],
            [{"action": None, "price": 1.0}],
            [],
            [{"action": "like", "price": 9.0}],
        ],
        "item_id": [1, 2, 3, None],
        "name": ["a", None, "b", "c"],
        "label_state": ["positive", "positive", "negative", "positive"],
    },
    SCHEMA,
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("size(clicks) > 0", [True, True, False, True]),
        ("cardinality(Clicks)", [2, 1, 0, 1]),
        ("exists(clicks, e -> e.action = 'buy' and e.price > 3.5)", [True, False, False, False]),
        ("exists(clicks, e -> e.action in ('a', 'like'))", [None, None, False, True]),
        ("exists(clicks, e -> e.price is not null)", [True, True, False, True]),
        ("size(filter(clicks, e -> e.price >= 4)) >= 1", [True, False, False, True]),
        ("case when size(clicks) > 1 then 1 when item_id = 2 then 2 end", [1, 2, None, None]),
        ("if(size(clicks) > 0, 1.5, 0.0)", [1.5, 1.5, 0.0, 1.5]),
        ("coalesce(item_id, 0)", [1, 2, 3, 0]),
        ("not (size(clicks) = 0 or item_id = 1)", [False, True, False, None]),
        ("item_id between 2 and 3", [False, True, True, None]),
        ("name <=> 'a'", [True, False, False, False]),
        ("int(size(clicks) > 0)", [1, 1, 0, 1]),
        ("label_state = 'positive' and true", [True, True, False, True]),
    ],
)
def test_a_label_that_is_computed_here_has_sqls_value(text: str, values: list[Any]) -> None:
    made = derived(text, SCHEMA)
    assert made is not None
    assert ROWS.select(made.alias("value"))["value"].to_list() == values


@pytest.mark.parametrize(
    "text",
    [
        "aggregate(clicks, 0D, (a, e) -> a + e.price)",
        "clicks[0].action",
        "item_id = '1'",
        "item_id / 2 > 1",
        "exists(clicks, e -> e.action = name)",
        "size(clicks.action) > 0",
        "cast(name as int)",
        "upper(name) = 'A'",
    ],
)
def test_a_label_that_polars_might_compute_otherwise_is_not_computed(text: str) -> None:
    assert derived(text, SCHEMA) is None


def test_a_label_that_is_not_computed_is_left_out_with_a_warning(places: Places) -> None:
    text = FILE.read_text().replace('clicked: "size(clicks) > 0"', 'clicked: "size(array_distinct(clicks)) > 0"')
    home = home_of(places, text)
    Writer(home, CLICKED).publish_all(life(60).publications)
    with pytest.warns(training.LabelLeftOut, match="left out, because labels are cut: clicked"):
        rows = training.read("feed", matured="5m", places=places).rows
    assert "clicked" not in rows.collect_schema()
    assert "clicked" in training.read("feed", places=places).rows.collect_schema()


# ---- refusals


def test_more_than_rows_carry_is_refused(feed: Home, places: Places) -> None:
    with pytest.raises(
        training.WrongRequest, match="matured is 31m, and publication 1 has labels of clicks for only 30m"
    ):
        training.read("feed", matured="31m", places=feed.places)
    with pytest.raises(training.WrongRequest, match="matured: 'soon' is not a duration"):
        training.read("feed", matured="soon", places=feed.places)
    with pytest.raises(training.WrongRequest, match="a time after serving"):
        training.read("feed", matured=-MINUTE, places=feed.places)
    last = Model(rules("last", "left", "unknown", IdlePolicy("wait")))
    home = paper_home(places, last.rules)
    for topic, count in last.partitions.items():
        for partition in range(count):
            last.produce((topic, partition), Sent(START + MINUTE, {"key": "a"}, START + MINUTE))
    last.land(START + MINUTE)
    Writer(home, seen(home)).publish_all(last.publish_all(last.plan("all")))
    with pytest.raises(training.WrongRequest, match="labels is `take: last` in publication 1"):
        training.read("paper", matured="5s", places=places)
    assert training.read("paper", matured="15s", places=places).rows.collect().height == 0
