"""Canaries in a pipeline file: what marks them, and that a record can be made that every `where` selects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from windrow.config.canary import values_of
from windrow.config.conditions import predicate
from windrow.io.registers import configs
from windrow.text import instant_text

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
CANARY = ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [900, 909]}, delays: [1s, 10m]}")


def where(condition: str) -> tuple[str, str]:
    return ("where: \"action = 'click'\"", f'where: "{condition}"')


def test_a_stream_marks_canaries_by_its_own_name_of_the_key(files: Any) -> None:
    key = ("    key: [user_id, item_id]", "    key: [viewer, item_id]")
    pipeline = files.load(CANARY, ("      user_id: bigint", "      viewer: bigint"), key)
    left, right = pipeline.mark_of(pipeline.left), pipeline.mark_of(pipeline.right[0])
    assert [left.holds({"user_id": user, "viewer": 0}) for user in (899, 900, 909, 910)] == [False, True, True, False]
    assert right.holds({"viewer": 900})
    assert not right.holds({"user_id": 900})
    assert files.load().mark_of(files.load().left) is None


def test_canaries_are_sent_to_json_alone_and_marked_in_any_format(files: Any) -> None:
    avro = ("  topic: feed.served", "  topic: feed.served\n  format: avro")
    sent = ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [900, 909]}, every: 1m}")
    (problem,) = files.problems(avro, sent)
    assert "canary.every: canaries are sent as JSON, and served is avro; leave it out" in problem
    assert files.load(avro, CANARY).canary is not None


def test_a_canary_has_its_key_its_time_its_id_and_a_value_of_each_type(files: Any) -> None:
    pipeline = files.load(CANARY)
    assert values_of(pipeline, pipeline.left, 13, AT, 7) == {
        "request_id": "windrow-canary-7",
        "user_id": 903,
        "item_id": 0,
        "served_at": instant_text(AT),
        "features": [],
    }
    assert values_of(pipeline, pipeline.right[0], 13, AT, 8)["action"] == "click"


@pytest.mark.parametrize(
    "condition",
    [
        "action in ('like', 'click') and item_id > 3",
        "not (action = 'canary')",
        "action is null",
        "item_id between 10 and 20 and action <> 'canary'",
        "user_id >= 900 and action = 'x' or item_id = -5",
    ],
)
def test_constants_of_a_condition_make_it_true(files: Any, condition: str) -> None:
    pipeline = files.load(CANARY, where(condition))
    stream = pipeline.right[0]
    is_selected = predicate(condition, stream.columns)
    assert is_selected is not None
    for number in (0, 9, 10):
        assert is_selected(values_of(pipeline, stream, number, AT, 1)) is True


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("lower(action) = 'click'", "can only be evaluated by Spark, and canaries must satisfy it"),
        ("user_id < 900", "is true for no canary that can be made of its constants"),
        ("action = 'a' and action = 'b'", "is true for no canary that can be made of its constants"),
    ],
)
def test_a_condition_that_no_canary_satisfies_is_named_with_its_line(files: Any, condition: str, says: str) -> None:
    assert [line for line in files.problems(CANARY, where(condition)) if line.startswith(f"21: right[0].where: {says}")]
    files.load(where(condition))  # it is right where there are no canaries


def test_an_event_id_or_a_key_that_a_canary_cannot_have_is_named(files: Any) -> None:
    found = files.problems(CANARY, ("    request_id: string", "    request_id: int"))
    assert found == ["15: left.event_id: is int; canaries need an event id of type string or bigint"]
    both = [("    user_id: bigint", "    user_id: string"), ("      user_id: bigint", "      user_id: string")]
    (found,) = files.problems(CANARY, *both)
    assert found.startswith("34: canary.keys.user_id: column 'user_id' is string; write the text with which")
    pipeline = files.load(("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: canary-}}"), *both)
    assert values_of(pipeline, pipeline.left, 1_003, AT, 7)["user_id"] == "canary-3"
    assert pipeline.mark_of(pipeline.left).holds({"user_id": "canary-3"})


def test_a_pair_needs_a_label(files: Any) -> None:
    found = files.problems(CANARY, ("role: label", "role: feature"))
    assert found == ["34: canary: needs a right stream of role label: a pair is a left row and a label"]


def test_a_recorded_file_keeps_its_range(files: Any) -> None:
    """An old publication is made again under the file of its plan."""
    pipeline = files.load((CANARY[0], CANARY[1].replace("[1s, 10m]", "[1s, 10m], every: 30s")))
    again = configs.from_text(configs.to_text(pipeline))
    assert again == pipeline
    assert again.config_hash == pipeline.config_hash


def test_keys_are_part_of_the_hash_and_the_rhythm_is_not(files: Any) -> None:
    with_keys = files.load(CANARY).config_hash
    assert with_keys != files.load().config_hash
    assert files.load((CANARY[0], CANARY[1].replace("[1s, 10m]", "[2s], every: 30s"))).config_hash == with_keys
    assert files.load((CANARY[0], CANARY[1].replace("909", "908"))).config_hash != with_keys
