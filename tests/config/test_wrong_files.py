# ruff: noqa: E501 - a table: one row is one mistake and its message
"""A wrong file gets one message for each problem: the line, the field, what is wrong; what would be right."""

from __future__ import annotations

from typing import Any

import pytest

ONE_CHANGE = [
    # unknown, missing, empty and misplaced fields
    ("grace: 1m", "gracee: 1m", "33: gracee: is an unknown field; did you mean 'grace'?"),
    ("grace: 1m", "broker: x", "33: broker: is an unknown field; fields are: canary, catch_up, describe, "),
    ("    role: label", "    rolle: label", "18: right[0].role: is missing; write role: label, or feature"),
    ("    role: label", "    rolle: label", "19: right[0].rolle: is an unknown field; did you mean 'role'?"),
    ("after: 30m}", "aftr: 30m}", "32: right[0].window.aftr: is an unknown field; did you mean 'after'?"),
    ("mode: caught_up", "mod: caught_up", "34: idle.mod: is an unknown field; did you mean 'mode'?"),
    ("  topic: feed.served", "  topics: feed.served", "6: left.topics: is an unknown field; did you mean 'topic'?"),
    ("name: feed\n", "", "1: name: is missing; write name: feed"),
    ("start: 2026-11-01T00:00:00Z", "start:", "2: start: is missing; write start: 2026-11-01T00:00:00Z"),
    ("  out_of_orderness: 30s\n", "", "4: left.out_of_orderness: is missing; write out_of_orderness: 30s"),
    ("right:", "right: []\nwrong:", "17: right: is empty; write right: [{name: clicks, role: label"),
    ("  key: [user_id, item_id]", "  key: user_id", "13: left.key: must be a list, not the text 'user_id'; write"),
    ("  key: [user_id, item_id]", "  key: []", "13: left.key: is empty; write key: [user_id]"),
    ("  key: [user_id, item_id]", "  key: [user_id, ]", "28: right[0].key: has 2 columns, left.key has 1"),
    ("  topic: feed.served", "  topic: []", "6: left.topic: is empty; write topic: feed.served, or a list"),
    ("window: {before: 0s, after: 30m}", "window: 30m", "32: right[0].window: must be a mapping of fields, not"),
    ("idle: {mode: caught_up, after: 5m}", "idle: wait", "34: idle: must be a mapping of fields, not the text"),
    ("name: feed\n", "name: [feed]\n", "1: name: must be text, not a list; write one value"),
    ("  clicked:", "  bought:\n  clicked:", "37: labels.bought: has no value; write one"),
    ("grace: 1m", "grace: 1m\ncatch_up: many", "34: catch_up: 'many' is not a whole number; write digits, such as 24"),
    ("grace: 1m", "grace: 1m\ncatch_up: 0", "34: catch_up: '0' is too small; at least 1"),
    ("grace: 1m", "grace: 1m\ncatch_up: 1001", "34: catch_up: '1001' is too large; at most 1000"),
    ("grace: 1m", "grace: 1m\nmax_record_bytes: 1023", "34: max_record_bytes: '1023' is too small; at least 1024"),
    # columns that are compared with earlier intervals
    ("grace: 1m", "grace: 1m\ndrift: {columns: [item]}", "34: drift.columns[0]: 'item' is no column of stream served"),
    ("grace: 1m", "grace: 1m\ndrift: {columns: features}", "34: drift.columns[0]: 'features' is array<float>: numbers, string and boolean"),
    ("grace: 1m", "grace: 1m\ndrift: {reference: 0}", "34: drift.reference: '0' is too small; at least 1"),
    # how much may wait
    ("grace: 1m", "grace: 1m\nwaiting: force", "34: waiting: must be a mapping of fields, not the text 'force'; write waiting: {max_rows: "),
    ("grace: 1m", "grace: 1m\nwaiting: {max_row: 5}", "34: waiting.max_row: is an unknown field; did you mean 'max_rows'?"),
    ("grace: 1m", "grace: 1m\nwaiting: {max_rows: 0}", "34: waiting.max_rows: '0' is too small; at least 1"),
    ("grace: 1m", "grace: 1m\nwaiting: {max_bytes: 5GB}", "34: waiting.max_bytes: '5GB' is not a whole number; write digits"),
    ("grace: 1m", "grace: 1m\nwaiting: {max_age: 6}", "34: waiting.max_age: '6' has no unit; write 6s, 6m, 6h or 6ms"),
    ("grace: 1m", "grace: 1m\nwaiting: {max_rows: 5, policy: forced}", "34: waiting.policy: 'forced' is not known; did you mean 'force'?"),
    ("grace: 1m", "grace: 1m\nwaiting: {policy: force}", "34: waiting.policy: force without a bound; add max_rows, max_bytes or max_age"),
    ("grace: 1m", "grace: 1m\nwaiting: {max_age: 32m}", "34: waiting.max_age: 32m is exceeded by every interval: each waits for the window, the grace and the out-of-orderness; write more than 32m"),
    # canaries
    ("grace: 1m", "grace: 1m\ncanary: yes", "34: canary: must be a mapping of fields, not the text 'yes'; write canary: {keys: "),
    ("grace: 1m", "grace: 1m\ncanary: {every: 1m}", "34: canary.keys: is missing; write keys: {user_id: [9000000000, 9000000999]}"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [1, 2]}, delay: 1s}", "34: canary.delay: is an unknown field; did you mean 'delays'?"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [1]}}", "34: canary.keys.user_id: must be the first and the last value"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [a, b]}}", "34: canary.keys.user_id: [a, b] are not two whole numbers"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [9, 1]}}", "34: canary.keys.user_id: [9, 1] is empty; write the least value first"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {userid: [1, 2]}}", "34: canary.keys.userid: 'userid' is not in left.key; did you mean 'user_id'?"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: canary-}}", "34: canary.keys.user_id: column 'user_id' is bigint; write the first and the last"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [0, 9223372036854775808]}}", "34: canary.keys.user_id: column 'user_id' is bigint; its values are from -9223372036854775808 to 9223372036854775807"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [1, 2]}, delays: [1s, 31m]}", "34: canary.delays[1]: 31m is beyond the window of clicks; at most 30m"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [1, 2]}, delays: [1s, 1000ms]}", "34: canary.delays[1]: 1s is there twice; remove one"),
    ("grace: 1m", "grace: 1m\ncanary: {keys: {user_id: [1, 2]}, every: 0s}", "34: canary.every: 0s cannot be a schedule; write 1s to 1d"),
    # names that become folders, DAG ids, columns, topics
    ("name: feed\n", "name: ../..\n", "1: name: '../..' cannot be a name; write a lower-case letter, then"),
    ("name: feed\n", "name: Feed\n", "1: name: 'Feed' cannot be a name"),
    ("name: feed\n", "name: fe'ed\n", '1: name: "fe\'ed" cannot be a name'),
    ("name: feed\n", 'name: "{{ x }}"\n', "1: name: '{{ x }}' is a template; templates are not filled in here"),
    ("name: feed\n", 'name: "a\\0b"\n', "1: name: 'a\\x00b' holds a control character; remove it"),
    ("name: feed\n", "name: " + "a" * 65 + "\n", "1: name: '" + "a" * 60 + "…' cannot be a name"),
    ("- name: clicks", "- name: my clicks", "18: right[0].name: 'my clicks' cannot be a name"),
    ("topic: feed.served", "topic: feed/served", "6: left.topic[0]: 'feed/served' cannot be a Kafka topic; write"),
    ("topic: feed.served", "topic: [a, ..]", "6: left.topic[1]: '..' cannot be a Kafka topic"),
    ("topic: feed.served", "topic: [a, a]", "6: left.topic: names a topic twice; remove one"),
    ("topic: feed.served", "topic: __consumer_offsets", "6: left.topic[0]: '__consumer_offsets' is one of Kafka's"),
    ("topic: feed.served", "topic: " + "t" * 250, "6: left.topic[0]: '" + "t" * 60 + "…' cannot be a Kafka topic"),
    # choices
    ("  topic: feed.served", "  topic: t\n  format: csv", "7: left.format: 'csv' is not known; write one of: avro, json"),
    ("  topic: feed.served", "  topic: t\n  format: Avro", "7: left.format: 'Avro' is not known; did you mean 'avro'?"),
    ("  topic: feed.served", "  topic: t\n  format: {json: {}}", "7: left.format: json has no options; write format: json"),
    ("  topic: feed.served", "  topic: t\n  format: [avro]", "7: left.format: must be one format; write json, avro, or {"),
    ("  topic: feed.served", "  topic: t\n  format: {avro: x}", "7: left.format: avro must be a mapping of options; write"),
    ("  topic: feed.served", "  topic: t\n  format: {avro: {sub: x}}", "7: left.format: 'sub' is no option of avro; did you mean"),
    ("  topic: feed.served", "  topic: t\n  format: {avro: {message: x}}", "7: left.format: 'message' is no option of avro; options"),
    ("  topic: feed.served", "  topic: t\n  format: {protobuf: {message: 7a}}", "7: left.format: message '7a' cannot be read; write"),
    ("  topic: feed.served", "  topic: t\n  format: {avro: {registry: 'http://x'}}", "7: left.format: registry 'http://x' cannot be read; write"),
    ("role: label", "role: lable", "19: right[0].role: 'lable' is not known; did you mean 'label'?"),
    ("role: label", "role: label\n    join: outer", "20: right[0].join: 'outer' is not known; write one of: inner, left"),
    ("role: label", "role: label\n    take: lst", "20: right[0].take: 'lst' is not known; did you mean 'last'?"),
    ("role: label", "role: label\n    compacted: yes", "20: right[0].compacted: 'yes' is not known; write one of: accept, "),
    ("role: label", "role: label\n    silence: no", "20: right[0].silence: 'no' is not known; write one of: negative, "),
    ("mode: caught_up", "mode: caughtup", "34: idle.mode: 'caughtup' is not known; did you mean 'caught_up'?"),
    # times
    ("00:00:00Z", "00:00:00", "2: start: '2026-11-01T00:00:00' has no time zone; write 2026-11-01T00:00:00Z if UTC"),
    ("00:00:00Z", "00:05:00Z", "2: start: is not on the UTC grid of 10m intervals; write 2026-11-01T00:00:00Z or 2026-11-01T00:10:00Z"),
    ("00:00:00Z", "00:00:00.000001Z", "2: start: is not on the UTC grid of 10m intervals"),
    ("interval: 10m", "interval: 7m", "3: interval: 7m does not divide 24 hours; write 6m40s or 7m12s"),
    ("interval: 10m", "interval: 25h", "3: interval: 1d1h does not divide 24 hours; write 1d"),
    ("interval: 10m", "interval: 999ms", "3: interval: 999ms is too short; at least 1s"),
    ("interval: 10m", "interval: 0s", "3: interval: 0s is too short; at least 1s"),
    ("interval: 10m", "interval: 10", "3: interval: '10' has no unit; write 10s, 10m, 10h or 10ms"),
    ("grace: 1m", "grace: -1m", "33: grace: '-1m' is negative; a duration is 0s or more"),
    ("grace: 1m", "grace: 1m\nland_every: 0s", "34: land_every: 0s cannot be a schedule; write 1s to 1d"),
    ("grace: 1m", "grace: 1m\nland_every: 24h1s", "34: land_every: 1d1s cannot be a schedule; write 1s to 1d"),
    ("orderness: 30s", "orderness: -1s", "16: left.out_of_orderness: '-1s' is negative"),
    ("before: 0s", "before: -1ms", "32: right[0].window.before: '-1ms' is negative"),
    ("after: 30m", "after: 366d1ms", "32: right[0].window.after: '366d1ms' is too long; at most 366d"),
    ("after: 5m", "after: -5m", "34: idle.after: '-5m' is negative"),
    # columns
    ("    user_id: bigint", "    user_id: bigit", "9: left.columns.user_id: unknown type 'bigit'; did you mean 'bigint'?"),
    ("array<float>", "variant", "12: left.columns.features: variant is refused: published tables must be readable"),
    ("array<float>", "", "12: left.columns.features: has no type; write one, and put a type with a comma in quotes"),
    ("    features:", "    _features:", "12: left.columns._features: '_features' starts with _, which is kept for"),
    ("    features:", "    my-features:", "12: left.columns.my-features: 'my-features' cannot be a column"),
    ("    features:", "    _event_time:", "12: left.columns._event_time: '_event_time' starts with _"),
    ("  clicked:", "  _clicked:", "37: labels._clicked: '_clicked' starts with _"),
    # key, event time, event id
    ("key: [user_id, item_id]", "key: [user_id, itm_id]", "13: left.key[1]: 'itm_id' is not a column of served; did you mean 'item_id'?"),
    ("key: [user_id, item_id]", "key: [user_id, user_id]", "13: left.key[1]: 'user_id' is in the key twice; remove one"),
    ("event_time: served_at", "event_time: servd_at", "14: left.event_time: 'servd_at' is not a column of served; did you"),
    ("served_at: timestamp", "served_at: bigint", "14: left.event_time: column 'served_at' is bigint; an event time must be of type timestamp"),
    ("event_id: request_id", "event_id: requestid", "15: left.event_id: 'requestid' is not a column of served; did you mean 'request_id'?"),
    ("event_id: request_id", "event_id: features", "15: left.event_id: column 'features' is array<float>, which cannot be an event id"),
    ("user_id: bigint", "user_id: string", "28: right[0].key[0]: column 'user_id' is bigint, its partner 'user_id' in left.key is string; "),
    ("key: [user_id, item_id]", "key: [item_id]", "28: right[0].key: has 2 columns, left.key has 1; name one for each of: item_id"),
    # collisions
    ("    features:", "    clicks:", "18: right[0].name: 'clicks' is also a left column (upper and lower case are the same); rename one of them"),
    ("    features:", "    Clicks:", "18: right[0].name: 'clicks' is also a left column"),
    ("    features:", "    ITEM_ID:", "12: left.columns.ITEM_ID: 'ITEM_ID' is also a left column"),
    ("    features:", "    Label_State:", "12: left.columns.Label_State: 'Label_State' is also a column of every training"),
    ("  clicked:", "  label_reason:", "37: labels.label_reason: 'label_reason' is also a column of every training table"),
    ("  clicked:", "  clicks:", "37: labels.clicks: 'clicks' is also a right stream"),
    ("  clicked:", "  Features:", "37: labels.Features: 'Features' is also a left column"),
    ("      action: string", "      ACTION: string\n      action: string", "27: right[0].columns.action: 'action' is also 'ACTION'"),
    ("  name: served", "  name: clicks", "18: right[0].name: 'clicks' is also the name of the left stream; rename one"),
    # expressions
    ("action = 'click'", "acton = 'click'", "21: right[0].where: unknown column 'acton'; did you mean 'action'?"),
    ("action = 'click'", "size(clicks) > 0", "21: right[0].where: unknown column 'clicks'"),
    ("size(clicks) > 0", "size(cliks) > 0", "37: labels.clicked: unknown column 'cliks'; did you mean 'clicks'?"),
    ("size(clicks) > 0", "clicks[0].actoin = 'x'", "37: labels.clicked: 'clicks[0]' has no field 'actoin'; did you mean 'action'?"),
    ("size(clicks) > 0", "size(clicks) >", "37: labels.clicked: 'size(clicks) >' does not parse: something is missing"),
    ("size(clicks) > 0", "clicks[0]._arrived_at > now()", "37: labels.clicked: now() returns a different value on every call"),
    ("size(clicks) > 0", "_batch > 1", "37: labels.clicked: column '_batch': an audit column"),
    ("size(clicks) > 0", "clicks[0]._arrived_at > served_at", "37: labels.clicked: field '_arrived_at': an audit column"),
    ("size(clicks) > 0", "'{{ ds }}' = action", "37: labels.clicked: \"'{{ ds }}' = action\" is a template"),
    ('"size(clicks) > 0"', '"true"\n  both: "clicked"', "38: labels.both: column 'clicked': a label, and labels do not see each other"),
    # the suite
    (": training_rows", ": traning_rows", "38: expectations: there is no suite 'traning_rows' in "),
    (": training_rows", ": ../training_rows", "38: expectations: '../training_rows' cannot be a name"),
    # the file itself
    ("grace: 1m", "grace: 1m\ninterval: 5m", "34: interval: is there twice; the first is on line 3, remove one"),
    ("    item_id: bigint", "    user_id: int", "10: left.columns.user_id: is there twice; the first is on line 9, remove one"),
    ("grace: 1m", "grace: 1m\n<<: {a: b}", "34: merge keys (<<) are not read; write the fields out"),
    ("grace: 1m", "? [a, b]\n: 1m", "33: a field's name must be text"),
    ("grace: 1m", "grace: [1m", "34: is not valid YAML: "),
    ("  key:", "\tkey:", "13: is not valid YAML: "),
    ("grace: 1m", "---\ngrace: 1m", "33: a second document starts; one file is one pipeline"),
    ("grace: 1m", "grace: &a [*a]", "33: grace[0]: contains itself"),
    ("grace: 1m", "grace: " + "[" * 50 + "]" * 50, "33: is nested too deeply"),
    ("grace: 1m", "grace: " + "[" * 5_000 + "]" * 5_000, "33: is nested too deeply"),
    ("array<float>", "map<bigint,float>", "12: left.columns.features: 'map<bigint,float>' is not a column type: names in JSON are text; write map<string,float>"),
    ("array<float>", "decimal(10", "12: left.columns.features: 'decimal(10' is not a column type: it ends where ')' belongs; put a type"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "says"), ONE_CHANGE, ids=[f"{i}-{c[2][:40]}" for i, c in enumerate(ONE_CHANGE)])
def test_one_mistake_is_named_with_line_and_field(files: Any, old: str, new: str, says: str) -> None:
    found = files.problems((old, new))
    assert any(problem.startswith(says) for problem in found), "\n".join(found)
    assert all(len(problem) < 500 for problem in found)


@pytest.mark.parametrize("kind", ["float", "double", "array<bigint>", "map<string,int>", "struct<a:float>"])
def test_a_key_needs_types_that_are_equal_or_not(files: Any, kind: str) -> None:
    both = [
        ("    user_id: bigint", f"    user_id: {kind}"),
        ("      user_id: bigint", f"      user_id: {kind}"),
    ]
    found = files.problems(*both)
    assert [problem.partition(", which")[0] for problem in found if ".key[" in problem] == [
        f"13: left.key[0]: column 'user_id' is {kind}",
        f"28: right[0].key[0]: column 'user_id' is {kind}",
    ]


def test_a_right_stream_has_no_maps_yet(files: Any) -> None:
    found = files.problems(("      action: string", "      action: map<string,int>"))
    assert any("maps in right streams come later" in problem for problem in found), found


@pytest.mark.parametrize("kind", ["string", "binary", "date", "timestamp", "decimal(3,1)", "struct<a:int,b:string>"])
def test_a_key_may_have_any_type_with_equality(files: Any, kind: str) -> None:
    files.load(("    user_id: bigint", f"    user_id: {kind}"), ("      user_id: bigint", f"      user_id: {kind}"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("event_time: engaged_at", "event_time: seen_at", "38: right[1].event_time: is 'seen_at', in clicks it is 'engaged_at'; clicks reads topic feed.engagements too, make them equal"),
        ("out_of_orderness: 1m", "out_of_orderness: 1m\n    compacted: accept", "41: right[1].compacted: is accept, in clicks it is refuse; "),
        ("out_of_orderness: 1m", "out_of_orderness: 61s", "40: right[1].out_of_orderness: is 1m1s, in clicks it is 1m; "),
        ("action: string", "action: binary", "36: right[1].columns.action: is binary, in clicks it is string; "),
        ("action: string", "Action: string", "36: right[1].columns.Action: is written 'action' in clicks"),
    ],
)  # fmt: skip
def test_streams_that_share_a_topic_agree(files: Any, likes: tuple[str, str], old: str, new: str, says: str) -> None:
    before, second = likes
    changed = second.replace("engaged_at: timestamp", "engaged_at: timestamp, seen_at: timestamp").replace(old, new)
    found = files.problems((before, changed))
    assert len(found) == 1, found
    assert found[0].startswith(says)


def test_streams_that_share_a_topic_may_differ_in_everything_else(files: Any, likes: tuple[str, str]) -> None:
    before, second = likes
    other = second.replace("action: string", "rating: int").replace("event_id: event_id", "where: rating > 3")
    pipeline = files.load((before, other.replace("after: 30m", "after: 1d")))
    assert pipeline.topics == ("feed.engagements", "feed.served")


def test_a_right_stream_may_read_the_left_topic_where_they_agree(files: Any) -> None:
    found = files.problems(("topic: feed.engagements", "topic: [feed.engagements, feed.served]"))
    assert [problem.partition(",")[0] for problem in found] == [
        "29: right[0].event_time: is 'engaged_at'",
        "31: right[0].out_of_orderness: is 1m",
    ]


def test_every_problem_is_named_at_once_in_the_order_of_the_file(files: Any) -> None:
    found = files.problems(
        ("name: feed\n", "name: feed\nretries: 3\n"),
        ("interval: 10m", "interval: 7m"),
        ("event_time: served_at", "event_time: served"),
        ("size(clicks) > 0", "size(likes) > 0"),
        (": training_rows", ": nothing"),
    )
    assert [problem.split(": ")[:2] for problem in found] == [
        ["2", "retries"],
        ["4", "interval"],
        ["15", "left.event_time"],
        ["38", "labels.clicked"],
        ["39", "expectations"],
    ]


def test_a_list_with_a_wrong_entry_is_not_called_empty(files: Any) -> None:
    lines = files.problems(("    role: label", "    rolle: label"))
    assert any("right[0].rolle" in line for line in lines)
    assert not any("is empty" in line for line in lines)


def test_a_message_stands_behind_file_and_line(files: Any) -> None:
    path = files.write(("grace: 1m", "gracee: 1m"))
    from windrow.config import PipelineInvalid, load

    with pytest.raises(PipelineInvalid) as wrong:
        load(path, files.suites)
    assert str(wrong.value) == f"{path}:33: gracee: is an unknown field; did you mean 'grace'?"
    assert [(p.line, p.field) for p in wrong.value.problems] == [(33, "gracee")]
