"""The job check over real tables, without Spark: candidates of one run are judged as one run per interval would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from windrow.config import Pipeline, load, parse
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.registers import judgements, measures, plans, publications
from windrow.jobs import earlier, publish
from windrow.jobs.check import Judged, check, execute
from windrow.jobs.earlier import earlier_intervals
from windrow.jobs.run import BadRequest, Context
from windrow.jobs.upkeep.override import override
from windrow.outcomes import Blocked, NothingToDo
from windrow.places import PROJECT, Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.balance import BalanceBroken
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import may_publish
from windrow.semantics.plan import Plan

from .test_comparison import NOW, numbers_of

FEED = load(PROJECT / "dags" / "pipelines" / "feed.yaml")
Measures = Mapping[str, float | None]


@dataclass(frozen=True)
class Lived:
    """A pipeline whose candidates are measures by hand."""

    ctx: Context
    sound: Measures

    def candidate(self, number: int, run: str, served: int = 1000, clicks: int = 60, **more: float) -> Plan:
        """Record the candidate of an interval; `number` counts from `NOW`."""
        start = NOW.start + number * FEED.interval
        plan = Plan("feed", run, Interval(start, start + FEED.interval), {}, FEED.config_hash)
        found = {**self.sound, **numbers_of(served, clicks), "rows": float(served), **more}
        rows = [{"plan": plan.id, "interval": start, "name": name, "value": value} for name, value in found.items()]
        measures.record(self.ctx.home, rows)
        return plan

    def publish(self, plan: Plan, verdict: str = "passed") -> None:
        """Register a publication of a candidate."""
        found = measures.by_plan(self.ctx.home, [plan])[plan.id]
        labels = {"negative": int(found["negative"] or 0), "positive": int(found["positive_complete"] or 0)}
        row: dict[str, Any] = {
            **dict.fromkeys(PUBLICATIONS.names), **labels, "unknown": 0, "rows": int(found["rows"] or 0),
            "number": publications._last_registered(self.ctx.home) + 1, "interval": plan.interval.start,
            "plan_id": plan.id, "config_hash": plan.config_hash, "verdict": verdict,
        }  # fmt: skip
        publications.register(self.ctx.home, row)

    def judged(self, plan: Plan) -> dict[str, tuple[float | None, str]]:
        """Value and verdict of each judged measure, by metric and bound."""
        rows = judgements.of_plans(self.ctx.home, [plan]).get(plan.id, [])
        return {f"{row['metric']} {row['bound']}": (row["value"], row["verdict"]) for row in rows}

    def verdict(self, plan: Plan) -> str:
        rows = judgements.of_plans(self.ctx.home, [plan])[plan.id]
        return judgements.verdict(rows)


@pytest.fixture
def sound(measures: dict[str, float | None]) -> Measures:
    """Sound measures as the join records them: without what check adds, and of this pipeline's topics."""
    left_out = ("volume", "first_empty", "records.", "quarantine", "label_rate_", "drift_")
    topics = {
        f"{name}.{topic}": value
        for topic in FEED.topics
        for name, value in (("records", 1000.0), ("quarantined", 0.0), ("quarantine_rate", 0.0))
    }
    return {name: value for name, value in measures.items() if not name.startswith(left_out)} | topics


@pytest.fixture
def lived(tmp_path: Path, sound: Measures) -> Lived:
    places = Places.from_env({"WINDROW_HOME": str(tmp_path)})
    return Lived(Context(FEED, places, lambda: NOW.end + timedelta(hours=1)), sound)


def test_a_run_that_catches_up_judges_as_one_run_per_interval_does(
    lived: Lived, tmp_path: Path, sound: Measures
) -> None:
    shapes: list[dict[str, Any]] = [
        {}, {}, {"served": 1010}, {"clicks": 66}, {"duplicate_row_ids": 1.0, "served": 90_000}, {},
        {"served": 0, "clicks": 0}, {"clicks": 0, "positive_complete": 0.0}, {}, {"served": 5},
    ]  # fmt: skip
    together = [lived.candidate(n, "catches up", **shape) for n, shape in enumerate(shapes)]
    refused = check(lived.ctx, together)
    assert set(refused) == {together[4].id}

    places = Places.from_env({"WINDROW_HOME": str(tmp_path / "another")})
    other = Lived(Context(FEED, places, lived.ctx.now), sound)
    for n, shape in enumerate(shapes):
        plan = other.candidate(n, f"run {n}", **shape)
        check(other.ctx, [plan])
        if may_publish(other.verdict(plan)):  # type: ignore[arg-type]
            other.publish(plan)
        assert other.judged(plan) == lived.judged(together[n]), n
    assert lived.verdict(together[6]) == lived.verdict(together[9]) == "warned"


def test_a_retry_after_a_part_was_published_judges_the_rest_the_same(lived: Lived) -> None:
    planned = [lived.candidate(n, "run") for n in range(4)] + [lived.candidate(4, "run", duplicate_row_ids=1.0)]
    assert list(check(lived.ctx, planned)) == [planned[4].id]
    before = lived.judged(planned[4])
    for plan in planned[:3]:
        lived.publish(plan)
    later = Context(FEED, lived.ctx.places, lambda: NOW.end + timedelta(hours=2))
    assert list(check(later, planned)) == [planned[4].id]
    assert lived.judged(planned[4]) == before
    assert before["volume_z.served >= -4 and <= 6"][0] is not None


def test_what_a_person_overrode_and_what_is_blocked_is_no_history(lived: Lived) -> None:
    for n in range(5):
        lived.publish(lived.candidate(n, f"run {n}"))
    lived.publish(lived.candidate(5, "run 5", served=900_000), verdict="overridden")
    blocked = lived.candidate(6, "run 6", served=900_000, duplicate_row_ids=1.0)
    check(lived.ctx, [blocked])
    now = lived.candidate(7, "run 7")
    check(lived.ctx, [now])
    assert lived.judged(now)["volume_z.served >= -4 and <= 6"][0] == pytest.approx(0, abs=0.1)


def test_the_past_is_what_the_whole_register_says_and_old_rows_of_it_are_not_read(
    lived: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A register without a hole is read from a week before on; one with holes until there is history enough."""
    whole, read = publications.registered, []
    monkeypatch.setattr(publications, "registered", lambda *given: read.append(given) or whole(*given))
    numbers = [*range(6), *range(200, 206)]
    for n in numbers:
        lived.publish(lived.candidate(n, f"run {n}"))
    now = lived.candidate(210, "now")
    starts = [NOW.start + n * FEED.interval for n in numbers]
    assert sorted(earlier_intervals(lived.ctx, [now])) == starts
    assert read

    read.clear()
    monkeypatch.setattr(earlier, "LOOKED_AT", 6)
    assert sorted(earlier_intervals(lived.ctx, [now])) == starts[6:]
    assert not read


def test_a_candidate_of_a_release_that_counted_no_volumes_is_judged_without(lived: Lived) -> None:
    for n in range(4):
        lived.publish(lived.candidate(n, f"run {n}"))
    old = Plan(
        "feed", "old", Interval(NOW.start + 4 * FEED.interval, NOW.start + 5 * FEED.interval), {}, FEED.config_hash
    )
    gone = ("volume", "records", "quarantine", "positive_complete")
    numbers = {name: value for name, value in lived.sound.items() if not name.startswith(gone)}
    rows = [{"plan": old.id, "interval": old.interval.start, "name": n, "value": v} for n, v in numbers.items()]
    measures.record(lived.ctx.home, rows)
    assert check(lived.ctx, [old]) == {}
    assert lived.verdict(old) == "passed"


def test_the_job_lists_every_interval_that_it_judged_also_when_green_and_when_asked_again(
    lived: Lived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDROW_HOME", str(lived.ctx.places.home))
    planned = [lived.candidate(n, "run") for n in range(3)] + [lived.candidate(3, "run", served=0, clicks=0)]
    plans.record(lived.ctx.home, planned, NOW.end)
    first = execute("feed", "run", planned[0].interval.start)
    printed = capsys.readouterr().out.splitlines()
    assert [one["verdict"] for one in first["judged"]] == ["passed", "passed", "passed", "warned"]
    assert first["report"] == first["judged"][0]["report"]
    assert "volume served 0, usual 1000 (z -" in first["judged"][3]["why"]
    for one, line in zip(first["judged"], printed, strict=True):
        assert line == str(Judged(**one))
        assert Path(one["report"]).is_file()
    again = execute("feed", "run")
    assert again["judged"] == first["judged"]
    assert Path(again["report"]) == lived.ctx.home.reports / "data_docs" / "index.html"


def test_a_blocked_job_lists_what_it_judged_too_and_says_whether_it_may_be_overridden(
    lived: Lived, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WINDROW_HOME", str(lived.ctx.places.home))
    planned = [
        lived.candidate(0, "run"),
        lived.candidate(1, "run", **{"null_rate_max": 1.0, "null_rate.position": 1.0}),
        lived.candidate(2, "run", left_imbalance=1.0),
    ]
    plans.record(lived.ctx.home, planned, NOW.end)
    with pytest.raises(Blocked, match="blocked: null rate of position 100 % ≥ 100 %") as refused:
        execute("feed", "run", planned[1].interval.start)
    assert refused.value.result["may_override"] is True
    assert [one["verdict"] for one in refused.value.result["judged"]] == ["passed", "blocked", "blocked"]
    assert "blocked: left_imbalance 1, not 0" in capsys.readouterr().out
    with pytest.raises(Blocked) as refused:
        execute("feed", "run", planned[2].interval.start)
    assert refused.value.result["may_override"] is False

    alone = lived.candidate(3, "alone", left_imbalance=1.0)
    plans.record(lived.ctx.home, [alone], NOW.end)
    with pytest.raises(Blocked):
        execute("feed", "alone", alone.interval.start)
    with pytest.raises(NothingToDo, match="the check has blocked every interval of this run"):
        publish.execute("feed", "alone")  # which is skipped then, and says nothing of new rows


def test_only_a_blocked_candidate_with_a_sound_balance_can_be_overridden(lived: Lived) -> None:
    planned = [
        lived.candidate(0, "run"),
        lived.candidate(1, "run"),
        lived.candidate(2, "run", landing_imbalance=1.0),
    ]
    plans.record(lived.ctx.home, planned, NOW.end)
    unjudged, passed, broken = (plan.interval.start for plan in planned)
    check(lived.ctx, planned[1:])
    with pytest.raises(BadRequest, match="has not been judged"):
        override(lived.ctx, unjudged, "a person", "because")
    with pytest.raises(BadRequest, match=r"was not blocked \(passed\)"):
        override(lived.ctx, passed, "a person", "because")
    with pytest.raises(BalanceBroken, match="counts of what was landed do not add up"):
        override(lived.ctx, broken, "a person", "because")
    assert publications.registered(lived.ctx.home) == []


def test_verdicts_that_an_earlier_release_recorded_without_words_have_a_line(lived: Lived) -> None:
    plan = lived.candidate(0, "run", duplicate_row_ids=2.0)
    check(lived.ctx, [plan])
    rows = [{**row, "why": None} for row in judgements.of_plans(lived.ctx.home, [plan])[plan.id]]
    assert judgements.why(rows) == "duplicate_row_ids 2, expected = 0"


RIDES = """
name: rides
start: 2026-11-01T00:00:00Z
interval: 10m
left:
  name: served
  topic: rides.served
  columns: {user_id: bigint, served_at: timestamp, price: double, place: string, is_new: boolean, list: array<float>}
  key: [user_id]
  event_time: served_at
  out_of_orderness: 30s
right:
  - {name: clicks, role: label, topic: rides.clicks, columns: {user_id: bigint, at: timestamp}, key: [user_id],
     event_time: at, out_of_orderness: 1m, window: {after: 30m}}
"""


@dataclass(frozen=True)
class Rides:
    """A pipeline whose candidates have rows, so that their columns have distributions."""

    lived: Lived
    pipeline: Pipeline

    def candidate(self, number: int, price: float = 1.0, places: str = "abc", **more: Any) -> Plan:
        """Write the candidate of an interval of 1 000 rows, and its measures."""
        at = self.pipeline.start + number * self.pipeline.interval
        interval = Interval(at, at + self.pipeline.interval)
        plan = Plan("rides", f"run {number}", interval, {}, self.pipeline.config_hash)
        draw = np.random.default_rng(number)
        columns = {
            "_plan": [plan.id] * 1000,
            "price": price * draw.lognormal(2, 1, 1000),
            "place": draw.choice(list(places), 1000),
            "is_new": draw.random(1000) < 0.5,
            **more,
        }
        write_deltalake(self.home.table("candidates"), pa.table(columns), mode="append", partition_by="_plan",
                        schema_mode="merge")  # fmt: skip
        found = {**self.lived.sound, **numbers_of(1000, 60), "rows": 1000.0}
        of_topics = {name: value for name, value in found.items() if "feed." not in name}
        of_topics |= {
            f"{name}.rides.{side}": 0.0 for name in ("records", "quarantined") for side in ("served", "clicks")
        }
        rows = [{"plan": plan.id, "interval": at, "name": name, "value": value} for name, value in of_topics.items()]
        measures.record(self.home, rows)
        return plan

    @property
    def home(self) -> Home:
        return self.lived.ctx.home

    def history(self, count: int) -> None:
        for number in range(count):
            plan = self.candidate(number)
            check(self.lived.ctx, [plan])
            self.lived.publish(plan)

    def why(self, plan: Plan) -> str:
        check(self.lived.ctx, [plan])
        return judgements.why(judgements.of_plans(self.home, [plan])[plan.id]) or ""


def rides(lived: Lived, drift: str = "") -> Rides:
    pipeline = parse(RIDES + drift)
    ctx = Context(pipeline, lived.ctx.places, lambda: NOW.end + timedelta(hours=1))
    return Rides(Lived(ctx, lived.sound), pipeline)


def test_a_column_that_has_moved_is_named_by_the_verdict_and_the_table(lived: Lived) -> None:
    one = rides(lived)
    one.history(4)
    assert one.why(one.candidate(4)) == ""
    moved = one.candidate(5, price=3.0)
    why = one.why(moved)
    assert re.search(r"drift of price: PSI 1\.\d+ > 0\.25", why), why
    assert "drift of price: KS 0." in why
    assert "place" not in why
    assert "drift of place: PSI" in one.why(one.candidate(6, places="xyz"))
    rows = tables.read(one.home.table("distributions"), filters=[("plan", "=", moved.id)])
    assert {row["column"]: row["kind"] for row in rows} == {
        "price": "number",
        "place": "category",
        "is_new": "category",
    }
    assert all(sum(row["rows"]) == 1000 for row in rows)
    assert max(rows, key=lambda row: row["psi"])["column"] == "price"


def test_a_column_that_became_null_has_moved_and_a_new_one_has_not(lived: Lived) -> None:
    one = rides(lived)
    one.history(3)
    lost = one.candidate(3, place=pa.nulls(1000, pa.string()))
    assert "drift of place: PSI" in one.why(lost)
    pipeline = parse(RIDES.replace("is_new: boolean", "is_new: boolean, tip: double"))
    wider = Rides(Lived(replace(one.lived.ctx, pipeline=pipeline), lived.sound), pipeline)
    assert wider.why(wider.candidate(4, tip=[5.0] * 1000)) == ""


def test_two_earlier_intervals_are_no_reference_and_named_columns_alone_are_compared(lived: Lived) -> None:
    one = rides(lived, "drift: {columns: [price]}")
    one.history(2)
    assert one.why(one.candidate(2, price=9.0, places="xyz")) == ""
    columns = tables.read(one.home.table("distributions"), ["column"])
    assert {row["column"] for row in columns} == {"price"}


def test_a_pinned_publication_is_the_reference_and_no_column_is_compared_where_the_list_is_empty(lived: Lived) -> None:
    one = rides(lived, "drift: {reference: 1}")
    one.history(1)
    assert "drift of price" in one.why(one.candidate(1, price=3.0))
    none = rides(lived, "drift: {columns: []}")
    assert none.why(none.candidate(2, price=3.0)) == ""


def test_intervals_of_one_run_are_each_others_reference(lived: Lived) -> None:
    one = rides(lived)
    planned = [one.candidate(number) for number in range(4)] + [one.candidate(4, price=3.0)]
    check(one.lived.ctx, planned)
    judged = judgements.of_plans(one.home, planned)
    assert [judgements.verdict(judged[plan.id]) for plan in planned] == ["passed"] * 4 + ["warned"]
