# ruff: noqa: E501 - a table: one row is one mistake and its message
"""Columns that come from a record's key, headers or timestamp: named by a prefix, and read only where that makes sense."""

from __future__ import annotations

from typing import Any

import pytest

from windrow.config.origins import Origin
from windrow.io.registers import configs

COLUMNS = "    user_id: bigint\n"
KEY = (COLUMNS, "    $key.user_id: bigint\n")
FORMAT = ("  topic: feed.served\n", "  topic: feed.served\n  key_format: {}\n")


def keyed(key_format: str, *columns: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Changes that read the left stream's keys, and declare these columns in place of `user_id`."""
    text = "".join(f"    {column}\n" for column in columns)
    return (FORMAT[0], FORMAT[1].format(key_format)), (COLUMNS, text)


def test_a_column_has_its_name_without_the_prefix_everywhere(files: Any) -> None:
    changes = keyed("json", "$key.user_id: bigint", "$header.trace-id: string", "$header.b3: string")
    pipeline = files.load(
        *changes,
        ("    served_at: timestamp\n", "    $timestamp.served_at: timestamp\n"),
        ("  event_id: request_id\n", "  event_id: trace_id\n  where: b3 is not null and user_id > 0\n"),
        ("size(clicks) > 0", "size(clicks) > 0 and trace_id <> ''"),
    )
    left = pipeline.left
    assert list(left.columns) == ["request_id", "user_id", "trace_id", "b3", "item_id", "served_at", "features"]
    assert left.origins["trace_id"] == Origin("trace_id", "header", "trace-id")
    assert {name: origin.part for name, origin in pipeline.origins("feed.served").items()} == {
        "user_id": "key",
        "trace_id": "header",
        "b3": "header",
        "served_at": "timestamp",
    }
    assert (pipeline.key_format("feed.served"), pipeline.key_format("feed.engagements")) == ("json", None)
    assert pipeline.takes_envelope("feed.served")
    assert not pipeline.takes_envelope("feed.engagements")
    assert configs.from_text(configs.to_text(pipeline)) == pipeline


def test_where_a_column_comes_from_changes_the_hash(files: Any) -> None:
    plain = files.load()
    changed = [files.load(*keyed(kind, "$key.user_id: bigint")) for kind in ("json", "string", "long")]
    changed += [files.load((COLUMNS, "    $header.user_id: bigint\n"))]
    assert all(one.left.columns == plain.left.columns for one in changed)
    assert len({one.config_hash for one in (plain, *changed)}) == 5


WRONG = [
    ([(COLUMNS, "    $of.user_id: bigint\n")], "9: left.columns.$of.user_id: '$of.user_id' has no prefix that is known; prefixes are: $header., $key., $timestamp."),
    ([(COLUMNS, "    $headers.user_id: bigint\n")], "9: left.columns.$headers.user_id: '$headers.user_id' has no prefix that is known; did you mean '$header.'?"),
    ([(COLUMNS, "    $timestamp: timestamp\n")], "9: left.columns.$timestamp: '$timestamp' has no prefix that is known; did you mean '$timestamp.'? A name follows it"),
    ([(COLUMNS, "    $key._user: bigint\n")], "9: left.columns.$key._user: '_user' starts with _"),
    ([(COLUMNS, "    $key.user-id: bigint\n")], "9: left.columns.$key.user-id: 'user-id' cannot be a column; write a letter"),
    ([(COLUMNS, '    "$header.user id": bigint\n')], "9: left.columns.$header.user id: 'user id' cannot be a header; write a letter"),
    ([KEY], "9: left.columns.$key.user_id: comes from the key; write what the key is, key_format: one of json, string, int, long"),
    ([(FORMAT[0], FORMAT[1].format("json"))], "7: left.key_format: is json, and no column comes from the key; name one, such as $key.user_id, or leave it out"),
    ([(FORMAT[0], FORMAT[1].format("jsn")), KEY], "7: left.key_format: 'jsn' is not known; did you mean 'json'?"),
    ([(COLUMNS, COLUMNS + "    $header.user_id: bigint\n")], "10: left.columns.$header.user_id: is column 'user_id', as user_id is; remove one"),
    ([(COLUMNS, COLUMNS + "    $header.a-b: string\n    $header.a.b: string\n")], "11: left.columns.$header.a.b: is column 'a_b', as $header.a-b is; remove one"),
    ([(COLUMNS, COLUMNS + "    $header.User_id: bigint\n")], "10: left.columns.$header.User_id: 'User_id' is also a left column (upper and lower case are the same)"),
    ([(COLUMNS, COLUMNS + "    $header.tags: array<string>\n")], "10: left.columns.$header.tags: is array<string>; a header is one text; write a simple type, or string"),
    ([(COLUMNS, COLUMNS + "    $timestamp.sent_at: bigint\n")], "10: left.columns.$timestamp.sent_at: is bigint; the record's timestamp is of type timestamp"),
    (keyed("string", "$key.user_id: bigint", "$key.more: string"), "11: left.columns.$key.more: a key that is string is one value, which $key.user_id takes already; remove one"),
    (keyed("long", "user_id: bigint", "$key.more: string"), "11: left.columns.$key.more: is string; a key that is long is a whole number; write one of tinyint, smallint, int, bigint"),
    (keyed("string", "user_id: bigint", "$key.more: array<int>"), "11: left.columns.$key.more: is array<int>; a key that is a string is one text; write a simple type, or key_format: json"),
    ([("  key: [user_id, item_id]", "  key: [$key.user_id, item_id]")], "13: left.key[0]: '$key.user_id' is not a column of served; did you mean 'user_id'?"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), WRONG, ids=[says.partition(";")[0] for _, says in WRONG])
def test_a_wrong_column_of_the_envelope_has_one_message(files: Any, changes: Any, says: str) -> None:
    found = files.problems(*changes)
    assert len(found) == 1, found
    assert found[0].startswith(says)


def test_a_stream_reads_the_value_too(files: Any) -> None:
    columns = "{$header.id: string, $header.user_id: bigint, $header.item_id: bigint, $timestamp.at: timestamp}"
    found = files.problems(
        ("grace: 1m", f"  - {{name: likes, role: label, topic: likes, columns: {columns}, key: [user_id, item_id], event_time: at, event_id: id, out_of_orderness: 1m, window: {{after: 1m}}}}\ngrace: 1m")
    )  # fmt: skip
    assert found == ["33: right[1].columns: come from the envelope alone; name at least one field of the value"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("action: string", "$header.action: string", "36: right[1].columns.$header.action: is action in clicks; "),
        ("user_id: bigint", "$key.user_id: bigint", "36: right[1].columns.$key.user_id: is user_id in clicks; "),
    ],
)
def test_streams_that_share_a_topic_agree_where_a_column_comes_from(
    files: Any, likes: tuple[str, str], old: str, new: str, says: str
) -> None:
    before, second = likes
    more = "\n    key_format: json" if "$key" in new else ""
    found = files.problems(
        (before, second.replace(old, new).replace("event_id: event_id", f"event_id: event_id{more}"))
    )
    assert len(found) == 1, found
    assert found[0].startswith(says)


def test_canaries_are_sent_only_where_the_value_alone_is_read(files: Any) -> None:
    canary = "grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [1, 2]}, every: 1m}"
    assert files.load(canary).canary
    found = files.problems(canary, ("      action: string\n", "      action: string\n      $header.trace: string\n"))
    says = "canaries are sent as values alone, and clicks takes $header.trace; leave it out"
    assert found == [f"35: canary.every: {says}"]
