"""Erased keys on paper: which records are theirs, and the hash by which they are known."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import Any

import pytest

from support.scenario import L, R, join_at, landed, right, seconds, spec, states_of
from windrow.semantics.erasure.keys import Erased, columns_in, hash_of, message_of
from windrow.semantics.records import JoinSpec, Left, emptied

SECRET = b"s" * 32


def erased(*keys: Any, columns: tuple[str, ...] = ("key",), **more: Any) -> Erased:
    hashes = (hash_of(SECRET, dict(zip(columns, key if len(columns) > 1 else (key,), strict=True))) for key in keys)
    return Erased(SECRET, columns, frozenset(filter(None, hashes)), **more)


def test_the_hash_is_hmac_sha256_of_a_text_that_no_other_key_has() -> None:
    assert hash_of(SECRET, {"user": 7}) == hmac.new(SECRET, b"user=1:7", hashlib.sha256).hexdigest()
    assert message_of({"a": "1", "b": "2"}) != message_of({"a": "1b=1:2", "b": ""})
    assert hash_of(SECRET, {"a": "1", "b": "12"}) != hash_of(SECRET, {"a": "11", "b": "2"})
    assert hash_of(SECRET, {"user": "é"}) == hmac.new(SECRET, b"user=2:\xc3\xa9", hashlib.sha256).hexdigest()
    assert hash_of(b"another", {"user": 7}) != hash_of(SECRET, {"user": 7})
    assert hash_of(SECRET, {"user": None}) is None


def test_a_column_of_the_left_key_is_paired_by_place_and_any_other_by_name() -> None:
    left = Left("served", ("left",), ("user", "item"), columns=frozenset({"user", "item", "device"}))
    clicks = right(key=("who", "what"), columns=frozenset({"who", "what", "device"}))
    assert columns_in(clicks, left, ["user"]) == {"user": "who"}
    assert columns_in(clicks, left, ["device", "item"]) == {"device": "device", "item": "what"}
    assert columns_in(replace(clicks, columns=frozenset({"who", "what"})), left, ["device"]) is None


def test_a_record_keeps_its_place_and_time_and_nothing_else() -> None:
    (record,) = landed(L("k", 3, values={"name": "somebody"}, unreadable={"price": "wrong_type"}))
    gone = emptied(record, spec(erased=(erased("k"),)))
    assert (gone.row_id, gone.event_at, gone.batch) == (record.row_id, record.event_at, record.batch)
    assert (gone.values, gone.unreadable, gone.quarantined) == ({}, {}, "erased")
    bad = replace(record, quarantined="wrong_type")
    assert emptied(bad, spec(erased=(erased("k"),))).quarantined == "wrong_type"
    assert emptied(record, spec(erased=(erased("j"),))) is record


def rows(by: JoinSpec) -> Any:
    return join_at(0, landed(L("k", 0), L("j", 0.5), R("k", 1), R("k", 2), R("j", 3)), by)


def test_erased_records_are_in_no_row_and_in_the_balance() -> None:
    before, after = rows(spec()), rows(spec(erased=(erased("k"),)))
    assert [row.values["key"] for row in after.rows] == ["j"]
    assert after.rows[0] == before.rows[1]
    left, labels = after.balance.left, after.balance.right["labels"]
    assert (left.landed, left.emitted, left.erased) == (2, 1, 1)
    assert (labels.read, labels.matched, labels.unmatched, labels.erased) == (3, 1, 0, 2)
    assert not after.balance.broken


@pytest.mark.parametrize("offset", [0, 1])
def test_with_mode_null_the_row_stays_and_says_nothing(offset: int) -> None:
    after = rows(spec(erased=(erased("kj"[offset], mode="null"),)))
    assert states_of(after)[offset] == ("unknown", "null_key")
    assert (after.rows[offset].values, after.rows[offset].matches) == ({}, {"labels": ()})
    assert states_of(after)[1 - offset] == ("positive", None)
    assert after.balance.left.erased == 0


def test_an_erased_label_of_another_columns_key_counts_as_never_given() -> None:
    """Where the column is not in the key, a row of another person may have had the label."""
    given = landed(L("k", 0, values={"user": "a"}), R("k", 1, values={"user": "b"}))
    assert states_of(join_at(0, given, spec())) == [("positive", None)]
    after = join_at(0, given, spec(right(before=seconds(0)), erased=(erased("b", columns=("user",)),)))
    assert states_of(after) == [("negative", None)]
    assert after.balance.right["labels"].erased == 1
