"""`windrow explain` on tables that are written by hand: questions, answers, messages. No Spark, no broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support import command
from support.command import Done
from support.documents import parsed
from windrow.config import load
from windrow.io.registers import clocks, judgements, plans, publications
from windrow.jobs.explain.answer import explain
from windrow.jobs.explain.lines import lines
from windrow.jobs.explain.question import Question
from windrow.jobs.run import BadRequest, Context
from windrow.places import Places
from windrow.semantics.intervals import Interval
from windrow.semantics.landing.gaps import AcceptedGap, Lost, gaps_text
from windrow.semantics.plan import Plan

START = datetime(2026, 11, 1, tzinfo=UTC)
WINDROW = Path(sys.executable).with_name("windrow")
PIPELINE = """\
name: hand
start: 2026-11-01T00:00:00Z
interval: 10m
left:
  name: served
  topic: served
  columns: {request_id: string, user: string, secret: string, t: timestamp}
  key: [user]
  event_time: t
  event_id: request_id
  out_of_orderness: 0s
right:
  - name: clicks
    role: label
    topic: clicks
    where: "action = 'click'"
    columns: {user: string, action: string, t: timestamp}
    key: [user]
    event_time: t
    out_of_orderness: 0s
    window: {before: 0s, after: 1m}
idle: {mode: wait}
"""
INSTANT = pa.timestamp("us", tz="UTC")
META = {
    "_event_time": INSTANT, "_topic": pa.string(), "_epoch": pa.int32(), "_partition": pa.int32(),
    "_offset": pa.int64(), "_batch": pa.int64(), "_arrived_at": INSTANT, "_record_at": INSTANT,
    "_quarantined": pa.string(), "_raw": pa.binary(),
}  # fmt: skip
PAYLOAD = {
    "served": {"request_id": pa.string(), "user": pa.string(), "secret": pa.string()},
    "clicks": {"user": pa.string(), "action": pa.string()},
}


@dataclass
class Hand:
    """One pipeline whose landing batches a test writes, one file per batch."""

    ctx: Context

    def land(self, topic: str, batch: int, *rows: dict[str, Any], partition: int = 0, first: int | None = None) -> None:
        first = batch * 100 if first is None else first
        meta = {"_topic": topic, "_epoch": 0, "_partition": partition, "_batch": batch, "_arrived_at": at(3600)}
        data = [{**meta, "_offset": first + n, "_record_at": r.get("_event_time"), **r} for n, r in enumerate(rows)]
        schema = pa.schema(META | PAYLOAD[topic])
        write_deltalake(self.ctx.places.landing("hand", topic), pa.Table.from_pylist(data, schema), mode="append")

    def clock(self, number: int, served: float, clicks: float, batches: int, gap: str | None = None) -> None:
        rows = [
            {
                "topic": topic, "topic_id": topic, "epoch": 0, "partition": 0, "batch": batches, "next_offset": 9_000,
                "end_offset": 10_000, "newest_at": at(seconds), "clock_at": at(seconds), "idle": False,
                "landed_at": at(7200), "gap": gap if topic == "clicks" else None,
                **dict.fromkeys(("read", "landed", "quarantined", "skipped", "unexplained", "before_start"), 0),
            }
            for topic, seconds in (("served", served), ("clicks", clicks))
        ]  # fmt: skip
        clocks.record(self.ctx.home, number, rows)

    def plan(self, pin: int, run: str = "r") -> Plan:
        seen = clocks.observe(self.ctx.home)
        interval = Interval(START, START + timedelta(minutes=10))
        pins = {"served": pin, "clicks": pin}
        return Plan("hand", run, interval, pins, self.ctx.pipeline.config_hash, watermark=seen.clocks)

    def publish(self, number: int, pin: int, *rows: dict[str, Any]) -> None:
        """The training rows and the register row of a publication of the first interval."""
        plan = self.plan(pin)
        elements = [(n, META[n]) for n in ("_event_time", "_topic", "_epoch", "_partition", "_offset")]
        schema = pa.schema(
            {name: META[name] for name in list(META)[:5]}
            | {"_interval": INSTANT, "_publication": pa.int64(), "_observed_until": INSTANT}
            | {"label_state": pa.string(), "label_reason": pa.string()}
            | {"clicks": pa.list_(pa.struct(elements))}
        )
        data = [{**r, "_interval": START, "_publication": number} for r in rows]
        write_deltalake(self.ctx.places.table("hand", "training"), pa.Table.from_pylist(data, schema), mode="overwrite")
        counts = dict.fromkeys(("rows", "left_landed", "left_duplicate", "left_unpaired", "positive"), 0)
        publications.register(
            self.ctx.home,
            {
                "number": number, "interval": START, "interval_end": START + timedelta(minutes=10),
                "plan": plan.to_json(), "plan_id": plan.id, "config_hash": plan.config_hash, "verdict": "passed",
                "published_at": at(7300), "training_version": number, **counts,
            },
        )  # fmt: skip

    def ask(self, row: str | None = None, **more: Any) -> dict[str, Any]:
        return explain(self.ctx, Question(row=row, **more))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def left(seconds: float, user: str | None = "7", request_id: str | None = None, **more: Any) -> dict[str, Any]:
    return {"_event_time": at(seconds), "user": user, "request_id": request_id, "secret": "plain text", **more}


def click(seconds: float, user: str | None = "7", action: str | None = "click", **more: Any) -> dict[str, Any]:
    return {"_event_time": at(seconds), "user": user, "action": action, **more}


def state(label_state: str, reason: str | None) -> dict[str, Any]:
    return {"label_state": label_state, "label_reason": reason}


def row_id(topic: str, offset: int, seconds: float) -> dict[str, Any]:
    return {"_event_time": at(seconds), "_topic": topic, "_epoch": 0, "_partition": 0, "_offset": offset}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which `published` was written, once."""
    home = tmp_path_factory.mktemp("written")
    (home / "pipelines").mkdir()
    (home / "pipelines" / "hand.yaml").write_text(PIPELINE)
    published(at_home(home))
    return home


@pytest.fixture
def home(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "home"))


@pytest.fixture
def hand(home: Path) -> Hand:
    return at_home(home)


def at_home(home: Path) -> Hand:
    places = replace(Places.from_env({"WINDROW_HOME": str(home)}), pipelines=(home / "pipelines",))
    return Hand(Context(load(home / "pipelines" / "hand.yaml", places.expectations), places))


def windrow(home: Path, *args: str) -> Done:
    return command.windrow({"WINDROW_HOME": str(home), "WINDROW_KAFKA": "127.0.0.1:9"}, *args)


def process(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The script that is installed."""
    env = {**os.environ, "WINDROW_HOME": str(home), "WINDROW_KAFKA": "127.0.0.1:9"}
    return subprocess.run([WINDROW, *args], env=env, capture_output=True, text=True, timeout=600)


def published(hand: Hand) -> None:
    """A positive row with every kind of near miss, a late label, a late left row, 30 other hours of history."""
    hand.land("served", 1, left(10, request_id="a"), left(10, request_id="a"), left(200, request_id="b"))
    hand.land(
        "clicks", 1,
        click(20), click(9.5), click(71), click(30, action="view"), click(40, user=" 7 "),
        click(50, _quarantined="wrong_type"),
        click(55, user=None, _quarantined="wrong_type", _raw=b'{"user": 7}'),
        click(60, user="8"),
    )  # fmt: skip
    hand.clock(0, 700, 700, 1)
    for hour in range(2, 32):
        for topic, row in (("served", left), ("clicks", click)):
            hand.land(topic, hour, row(3600 * hour, user="else"), row(3600 * hour + 3000, user="7"))
    hand.clock(1, 3600 * 32, 3600 * 32, 31)
    matched = row_id("clicks", 100, 20)
    hand.publish(
        1, 31,
        {**row_id("served", 100, 10), **state("positive", "label_quarantined"), "clicks": [matched]},
        {**row_id("served", 102, 200), **state("negative", None), "clicks": []},
    )  # fmt: skip
    hand.land("clicks", 32, click(25))
    hand.land("served", 32, left(30, request_id="late"))
    hand.clock(2, 3600 * 33, 3600 * 33, 32)


def test_control_characters_of_a_record_do_not_reach_the_terminal(hand: Hand) -> None:
    bad = "\x1b]0;owned\x07\x1b[2J\nrow \u202etxt\u2066 \x9b31m \r[bold]x"
    hand.land("served", 33, left(3600 * 34, request_id=bad, user=bad, secret=bad))
    hand.land("clicks", 33, click(3600 * 34 + 20, user=bad))
    hand.clock(3, 3600 * 34, 3600 * 34, 33)
    done = process(hand.ctx.places.home, "explain", "hand", "served/0/3300", "--columns")
    assert done.returncode == 0, done.stderr
    assert [c for c in done.stdout if not c.isprintable() and c != "\n"] == []
    shown = "\\x1b]0;owned\\x07\\x1b[2J\\nrow \\u202etxt\\u2066 \\x9b31m \\r[bold]x"
    assert f"row served/0/0/3300  user={shown}\n" in done.stdout
    assert f"event id {shown}\n" in done.stdout
    assert f"secret={shown}" in done.stdout
    assert any("clicks/0/0/3300 (batch 33)" in line and shown in line for line in done.stdout.splitlines())
    found = windrow(hand.ctx.places.home, "explain", "hand", bad)
    assert found.returncode == 0, found.stderr
    refused = windrow(hand.ctx.places.home, "explain", "hand", "\x1b[2Jnot there")
    assert refused.returncode == 2
    assert "\x1b" not in refused.stderr


def test_a_published_row_is_explained_with_every_near_miss(hand: Hand) -> None:
    answer = hand.ask("served/0/100")
    assert (answer["outcome"], answer["label_state"], answer["label_reason"]) == (
        "published",
        "positive",
        "label_quarantined",
    )
    assert answer["agrees"] is True
    assert answer["interval"] == {"start": START, "end": at(600), "closes_at": at(660)}
    assert answer["clock"]["watermark"] == at(3600 * 32)
    assert answer["clock"]["held_by"] == "clicks/0"
    clicks = answer["streams"]["clicks"]
    assert clicks["window"] == [at(10), at(70)]
    assert [m["id"] for m in clicks["matched"]] == ["clicks/0/0/100"]
    misses = {m["id"].rsplit("/", 1)[1]: (m["kind"], m["missed_by"]) for m in clicks["near_misses"]}
    assert misses == {
        "101": ("before_window", timedelta(seconds=0.5)),
        "102": ("after_window", timedelta(seconds=1)),
        "103": ("filtered", None),
        "104": ("near_key", None),
        "105": ("quarantined", None),
        "106": ("quarantined", None),
        "3200": ("late", timedelta(seconds=3600 * 32 - 660)),
    }
    assert [d["id"] for d in answer["duplicates"]] == ["served/0/0/101"]
    assert [(p["number"], p["held_row"], p["labels"]) for p in answer["publications"]] == [(1, True, 1)]
    assert answer["looked"]["served"] == {"opened": 1, "of": 32}
    assert answer["looked"]["clicks"]["opened"] <= 4  # the window's, the late one, and what has no event time


def test_what_is_not_published_is_explained_too(hand: Hand) -> None:
    assert hand.ask("served/0/0/101")["outcome"] == "duplicate"
    assert "served/0/0/100 is the same event" in hand.ask("served/0/0/101")["why"]
    assert hand.ask("late")["outcome"] == "late_left"
    assert hand.ask("served/0/200")["outcome"] == "closed"
    hand.land("served", 33, left(-1), left(3600 * 40), left(5, _quarantined="not_finite"), first=5000)
    outcomes = [hand.ask(f"served/0/{n}")["outcome"] for n in (5000, 5001, 5002)]
    assert outcomes == ["before_start", "open", "quarantined"]
    assert "held by clicks/0" in hand.ask("served/0/5001")["why"]
    before, later = hand.ask("served/0/5000"), hand.ask("served/0/5001")
    assert (before["interval"], before["streams"], before["because"]) == (None, {}, [])
    assert (later["label_state"], later["label_reason"]) == (None, None)
    assert later["because"][0] == "no label state yet, because the interval is open: 0 labels matched so far"


def test_an_accepted_gap_is_explained_in_words(hand: Hand) -> None:
    lost = Lost("clicks", 0, 5, 9)
    gap = AcceptedGap(lost, 0, 1, at(0), accepted_at=at(30), who="ann", why="outage", next_after=at(60), next_batch=1)
    hand.clock(3, 3600 * 33, 3600 * 33, 32, gap=gaps_text([gap]))
    hand.publish(
        2, 31,
        {**row_id("served", 100, 10), **state("positive", "offset_gap"), "clicks": [row_id("clicks", 100, 20)]},
        {**row_id("served", 102, 200), **state("negative", None), "clicks": []},
    )  # fmt: skip
    answer = hand.ask("served/0/100")
    assert answer["agrees"] is True
    assert "offsets of a label topic were deleted" in " ".join(answer["because"])
    assert [p["held_row"] for p in answer["publications"]] == [True, True]
    other = hand.ask("b")  # its window begins behind the gap
    assert (other["label_reason"], other["agrees"]) == (None, True)


def test_a_row_that_differs_from_the_landed_ones_names_the_command_that_compares_its_interval(hand: Hand) -> None:
    command = "`windrow verify hand --interval 2026-11-01T00:00:00Z`"
    hand.publish(2, 31, {**row_id("served", 100, 10), **state("negative", None), "clicks": []})
    differs, missing = hand.ask("served/0/100"), hand.ask("served/0/102")
    assert [differs["agrees"], missing["outcome"]] == [False, "missing"]
    assert f"the training table differs from what the landed rows give: {command} compares" in "\n".join(lines(differs))
    assert f"it should be in the training table and is not: {command} compares the whole" in missing["why"]


def test_a_blocked_candidate_names_what_blocked_it(hand: Hand) -> None:
    hour = Interval(at(7200), at(7800))
    plan = replace(hand.plan(31), interval=hour)
    plans.record(hand.ctx.home, [plan], at(9000))
    failed = {
        "plan": plan.id, "interval": hour.start, "suite": "s", "expectation": "expect_label_rate",
        "metric": "label_rate", "value": 0.0, "bound": ">= 0.1", "severity": "critical",
        "verdict": "failed", "report": "r.html", "judged_at": at(9001),
    }  # fmt: skip
    judgements.record(hand.ctx.home, [failed])
    answer = hand.ask("served/0/200")
    assert answer["outcome"] == "blocked"
    assert "expect_label_rate(label_rate)" in answer["why"]
    assert answer["expectations"][0]["verdict"] == "failed"


def test_a_row_is_found_by_event_id_from_the_newest_file_back(hand: Hand) -> None:
    answer = hand.ask("late")
    assert answer["looked"]["served"]["opened"] == 2  # the newest, and the first for retries at that time
    assert hand.ask("a")["row"]["id"] == "served/0/0/100"  # of a retry, the one that won


def test_a_row_is_found_by_key_and_time(hand: Hand) -> None:
    assert hand.ask(key={"user": "7"}, at=at(200))["row"]["id"] == "served/0/0/102"
    with pytest.raises(BadRequest, match=re.escape("served/0/0/102 at 2026-11-01 00:03:20Z")):
        hand.ask(key={"user": "7"}, at=at(201))
    with pytest.raises(BadRequest, match="is 2 rows; name one by its row id: served/0/0/100, served/0/0/101"):
        hand.ask(key={"user": "7"}, at=at(10))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"row": "served/0/9500"}, "has not been landed yet: the next offset to land is 9000"),
        ({"row": "served/0/9999"}, "has not been landed yet: the next offset to land is 9000"),
        (
            {"row": "served/0/10000"},
            "was not in the topic at the last landing: the broker's end of served/0 was 10000.",
        ),
        ({"row": "served/0/300000"}, "If it was produced since, `windrow land hand` lands it; otherwise"),
        ({"row": "served/0/7777"}, "holds no record"),
        ({"row": "served/5/1"}, "served/5 has not been landed"),
        ({"row": "clicks/0/100"}, "clicks is read by clicks; explain takes rows of served"),
        ({"row": "servd/0/1"}, "its topics are clicks, served"),
        ({"row": "nobody"}, "no landed row of served has request_id 'nobody'"),
        ({"key": {"usr": "7"}, "at": at(1)}, "a key is all of user"),
        ({"key": {"user": "7"}}, "and --at the row's event time"),
        ({}, "which row?"),
    ],
)
def test_a_question_without_an_answer_says_what_to_ask(hand: Hand, question: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(message)):
        hand.ask(**question)


def test_a_condition_that_only_spark_can_evaluate_is_named_and_not_guessed(hand: Hand) -> None:
    file = hand.ctx.places.pipelines[0] / "hand.yaml"
    file.write_text(PIPELINE.replace("action = 'click'", "lower(action) = 'click'"))
    answer = replace(hand, ctx=replace(hand.ctx, pipeline=load(file, hand.ctx.places.expectations))).ask("served/0/100")
    assert answer["agrees"] is None
    assert answer["streams"]["clicks"]["where_needs_spark"] is True
    assert [m["id"] for m in answer["streams"]["clicks"]["matched"]] == ["clicks/0/0/100"]  # as published
    assert {"103": "filtered"}.items() <= {
        m["id"].rsplit("/", 1)[1]: m["kind"] for m in answer["streams"]["clicks"]["near_misses"]
    }.items()


def test_the_command_prints_the_answer_and_shows_payload_only_on_request(home: Path) -> None:
    done = windrow(home, "explain", "hand", "served/0/100")
    assert done.returncode == 0, done.stderr
    for words in (
        "row served/0/0/100  user=7",
        "published, in publication 1",
        "clicks (label), window 2026-11-01 00:00:10Z to 2026-11-01 00:01:10Z: 1 matched",
        "0.5s before the window",
        "1s after the window's end",
        "left out by where: action = 'click'",
        "late: it landed 1 batch above the pin; the watermark was 1d 7h 49m beyond the closing when it came",
        "positive: 1 label matched",
    ):
        assert words in done.stdout
    assert "plain text" not in done.stdout
    shown = parsed("explain", windrow(home, "explain", "hand", "a", "--columns", "--json").stdout)
    assert shown["row"]["values"]["secret"] == "plain text"
