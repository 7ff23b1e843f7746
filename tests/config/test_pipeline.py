"""Values of a pipeline, and which changes of a file change its hash."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from windrow.config import Inconsistent, Pipeline
from windrow.semantics.clock import IdlePolicy
from windrow.semantics.waiting import Bounds


def test_the_file_is_read_as_it_is_written(files: Any) -> None:
    pipeline = files.load()
    assert (pipeline.name, pipeline.expectations) == ("feed", "training_rows")
    assert pipeline.start == datetime(2026, 11, 1, tzinfo=UTC)
    assert pipeline.interval == timedelta(minutes=10)
    assert pipeline.left.topics == ("feed.served",)
    assert pipeline.left.key == ("user_id", "item_id")
    assert pipeline.left.columns["features"] == "array<float>"
    (clicks,) = pipeline.right
    assert (clicks.window.before, clicks.window.after) == (timedelta(0), timedelta(minutes=30))
    assert clicks.where == "action = 'click'"
    assert pipeline.labels == {"clicked": "size(clicks) > 0"}
    assert isinstance(pipeline.idle, IdlePolicy)


def test_what_is_not_written_has_its_default(files: Any) -> None:
    pipeline = files.load(
        ("grace: 1m\n", ""),
        ("idle: {mode: caught_up, after: 5m}\n", ""),
        ("max_skew: 10m\n", ""),
        ('labels:\n  clicked: "size(clicks) > 0"\n', ""),
        ("expectations: training_rows\n", ""),
        ("before: 0s, ", ""),
        ("  event_id: request_id\n", ""),
        ("    where: \"action = 'click'\"\n", ""),
    )
    clicks = pipeline.right[0]
    assert (pipeline.grace, pipeline.max_skew) == (timedelta(0), timedelta(minutes=10))
    assert (pipeline.idle.mode, pipeline.idle.after) == ("caught_up", timedelta(minutes=5))
    assert (pipeline.labels, pipeline.expectations) == ({}, "training_rows")
    assert (pipeline.left.event_id, str(pipeline.left.format), clicks.where) == (None, "json", None)
    assert (clicks.silence, clicks.join, clicks.take) == ("unknown", "left", "all")
    assert clicks.window.before == timedelta(0)
    assert (pipeline.land_every, pipeline.catch_up) == (timedelta(minutes=2), 24)
    assert (pipeline.max_record_bytes, pipeline.max_labels_per_key) == (8_388_608, 1_000_000)
    assert pipeline.waiting.bounds == Bounds(None, None, None, "wait")


def test_bounds_of_what_waits_are_read_and_just_beyond_the_closing_is_long_enough(files: Any) -> None:
    section = "waiting: {max_rows: 5, max_bytes: 7, max_age: 32m1s, policy: force}"  # 30m window, 1m grace, 1m disorder
    pipeline = files.load(("grace: 1m", f"grace: 1m\n{section}"))
    assert pipeline.waiting.bounds == Bounds(5, 7, timedelta(minutes=32, seconds=1), "force")
    assert pipeline.config_hash == files.load().config_hash, "bounds decide when a row is published, not what it means"
    assert files.load(("grace: 1m", "grace: 1m\nwaiting: {policy: }")).waiting.policy == "wait"


def test_text_in_the_file_is_never_taken_for_something_else(files: Any) -> None:
    pipeline = files.load(
        ("    item_id: bigint", "    no: bigint"),
        ("key: [user_id, item_id]", "key: [user_id, no]"),
    )
    assert pipeline.left.key == ("user_id", "no")


def test_windows_and_topics_are_taken_over_all_streams(files: Any, likes: tuple[str, str]) -> None:
    before, second = likes
    second = second.replace("{after: 30m}", "{before: 2h, after: 5m}").replace("action: string, ", "")
    second = second.replace("columns: {", "columns: {rating: int, ")
    pipeline = files.load((before, second), ("topic: feed.served", "topic: [feed.web, feed.app]"))
    assert pipeline.topics == ("feed.app", "feed.engagements", "feed.web")
    assert (pipeline.before, pipeline.after) == (timedelta(hours=2), timedelta(minutes=30))
    assert [stream.name for stream in pipeline.streams_of("feed.engagements")] == ["clicks", "likes"]
    assert list(pipeline.topic_columns("feed.engagements")) == [
        *("event_id", "user_id", "item_id", "action", "engaged_at", "rating")
    ]
    assert pipeline.out_of_orderness("feed.engagements") == timedelta(minutes=1)
    with pytest.raises(KeyError, match=r"no stream of pipeline feed reads topic 'nope'; it has feed\.app"):
        pipeline.topic_columns("nope")


def test_the_left_topic_may_be_read_by_a_right_stream_too(files: Any) -> None:
    pipeline = files.load(
        ("topic: feed.engagements", "topic: feed.served"),
        ("    out_of_orderness: 1m", "    out_of_orderness: 30s"),
        ("engaged_at: timestamp", "served_at: timestamp"),
        ("event_time: engaged_at", "event_time: served_at"),
    )
    assert pipeline.topics == ("feed.served",)
    assert [stream.name for stream in pipeline.streams_of("feed.served")] == ["served", "clicks"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("grace: 1m", "grace: 60s"),
        ("interval: 10m", "interval: 600s"),
        ("00:00:00Z", "02:00:00+02:00"),
        ("user_id: bigint", "user_id: LONG"),
        ("topic: feed.served", "topic: [feed.served]"),
        ("    request_id: string\n    user_id: bigint\n", "    user_id: bigint\n    request_id: string\n"),
        ("before: 0s, ", ""),
        ("grace: 1m", "grace: 1m\nland_every: 30s"),
        ("grace: 1m", "grace: 1m\ncatch_up: 5"),
        ("grace: 1m", "grace: 1m\nmax_labels_per_key: 5"),
        ("role: label", "role: label\n    compacted: accept"),
        ("max_skew: 10m\n", ""),
        (": training_rows", ": other_rows"),
    ],
)
def test_the_hash_stays_where_rows_mean_the_same(files: Any, old: str, new: str) -> None:
    (files.suites / "other_rows.yaml").touch()
    assert files.load((old, new)).config_hash == files.load().config_hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: feed\n", "name: other\n"),
        ("start: 2026-11-01", "start: 2026-11-02"),
        ("interval: 10m", "interval: 5m"),
        ("grace: 1m", "grace: 1m1ms"),
        ("after: 30m", "after: 31m"),
        ("before: 0s", "before: 1ms"),
        ("orderness: 30s", "orderness: 31s"),
        ("array<float>", "array<double>"),
        ("key: [user_id, item_id]", "key: [item_id, user_id]"),
        ("  event_id: request_id\n", ""),
        ("action = 'click'", "action = 'like'"),
        ("topic: feed.served", "topic: feed.served2"),
        ("topic: feed.served", "topic: feed.served\n  format: avro"),
        ("role: label", "role: feature"),
        ("role: label", "role: label\n    silence: negative"),
        ("role: label", "role: label\n    join: inner"),
        ("role: label", "role: label\n    take: first"),
        ("mode: caught_up", "mode: wait"),
        ("after: 5m", "after: 6m"),
        ("max_skew: 10m", "max_skew: 11m"),
        ("size(clicks) > 0", "size(clicks) > 1"),
        ("grace: 1m", "grace: 1m\nmax_record_bytes: 1024"),
    ],
)
def test_the_hash_changes_where_rows_mean_something_else(files: Any, old: str, new: str) -> None:
    changes = [(old, new)]
    if new.startswith("key:"):  # both sides, so that the types still agree
        changes.append(("    key: [user_id, item_id]", "    key: [item_id, user_id]"))
    assert files.load(*changes).config_hash != files.load().config_hash


def test_a_format_is_spelled_as_the_file_has_it(files: Any) -> None:
    at = "  topic: feed.served"
    of = [files.load((at, f"{at}\n  format: {text}")).left.format for text in ("json", "avro", "{avro: {subject: s}}")]
    assert [one.spelled() for one in of] == ["json", "avro", {"avro": {"subject": "s"}}]
    assert [one.subject_of("t") for one in of[1:]] == ["t-value", "s"]
    assert files.load((at, f"{at}\n  format: json")).config_hash == files.load().config_hash


def test_the_hash_is_the_same_on_every_machine_and_day(files: Any) -> None:
    """A new hash marks every published interval as `config_changed`: change it only on purpose, with a note."""
    assert files.load().config_hash == "a3242dd329eb64f370284789ee4f153b3ba6a17f1e690f408ffcf9e531f0f3f8"


def test_the_order_of_right_streams_does_not_change_the_hash(files: Any, likes: tuple[str, str]) -> None:
    one = files.load(likes)
    other = one.model_copy(update={"right": one.right[::-1]})
    assert other.config_hash == one.config_hash


def test_a_pipeline_cannot_be_changed_and_travels_to_other_processes(files: Any) -> None:
    pipeline = files.load()
    with pytest.raises(ValidationError, match="frozen"):
        pipeline.grace = timedelta(0)
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline


def test_a_pipeline_made_in_code_is_checked_like_a_file(files: Any) -> None:
    made = files.load().model_dump()
    assert Pipeline.model_validate(made) == files.load()
    made["interval"] = timedelta(minutes=7)
    with pytest.raises(Inconsistent, match="interval: 7m does not divide 24 hours"):
        Pipeline.model_validate(made)
    with pytest.raises(ValidationError, match="no time zone"):
        Pipeline.model_validate({**made, "start": datetime(2026, 11, 1)})  # noqa: DTZ001 - the naive one is the test


def test_reading_pipelines_starts_neither_spark_nor_great_expectations() -> None:
    heavy = "pyspark", "great_expectations", "pandas", "deltalake", "airflow", "sqlglot"
    code = f"import sys, windrow.config; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
