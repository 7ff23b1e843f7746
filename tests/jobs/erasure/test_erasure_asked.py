"""The keys of an erasure are read strictly, and no message holds one."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from support.training.table import empty_places, home_of
from windrow.config import PipelineInvalid, parse
from windrow.home import Table
from windrow.io.delta import tables
from windrow.io.registers import erasures
from windrow.jobs.erasure import report
from windrow.jobs.erasure.asked import hashes_of
from windrow.jobs.run import BadRequest
from windrow.outcomes import ExitCode, exit_code
from windrow.semantics.erasure.keys import hash_of

SECRET = b"s" * 32
TEXT = """\
name: small
start: 2026-11-01T00:00:00Z
interval: 1m
left: {name: served, topic: served, columns: {shop: string, user: bigint, age: double, t: timestamp}, key: [user],
       event_time: t, out_of_orderness: 0s, event_id: shop}
right:
  - {name: likes, role: label, topic: likes, columns: {who: bigint, shop: string, t: timestamp}, key: [who],
     event_time: t, out_of_orderness: 0s, window: {after: 1m}}
erase: {by: [user, shop]}
"""


def hashes(*keys: str, file: str | None = None, text: str = TEXT) -> set[str]:
    return hashes_of(parse(text), SECRET, keys, file)


def test_a_value_is_what_its_column_holds(tmp_path: Path) -> None:
    wanted = hash_of(SECRET, {"user": 7, "shop": "007"})
    assert hashes("user=007,shop=007") == {wanted}
    file = tmp_path / "keys.csv"
    file.write_text('shop,user\n007,7\n"a,b",8\n')
    assert hashes(file=str(file)) == {wanted, hash_of(SECRET, {"user": 8, "shop": "a,b"})}


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("user=4711", "--key number 1 has not exactly the columns user, shop"),
        ("4711", "has not exactly the columns"),
        ("user=4711,shop=", "shop is empty"),
        ("user=4711x,shop=4711", "user is not a whole number, and its column is bigint"),
        ("user=47_11,shop=4711", "user is not a whole number"),
        ("user=4711,user=4712,shop=a", "--key number 1 names a column twice"),
        ("user=47110000000000000000,shop=4711", "beyond what a column of type bigint holds"),
    ],
)
def test_a_wrong_key_is_refused_without_being_repeated(key: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as refused:
        hashes(key)
    assert "4711" not in str(refused.value)


def test_a_wrong_file_is_refused_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "keys.csv"
    file.write_text("user,shop\n1,a\nsomebody,b\n")
    with pytest.raises(BadRequest, match=r"line 3 of .*keys.csv: user is not a whole number") as refused:
        hashes(file=str(file))
    assert "somebody" not in str(refused.value)
    with pytest.raises(BadRequest, match="cannot be read"):
        hashes(file=str(tmp_path / "none.csv"))
    with pytest.raises(BadRequest, match="has no field `erase`"):
        hashes("user=1,shop=a", text=TEXT.replace("erase: {by: [user, shop]}\n", ""))


def test_a_header_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.csv"
    file.write_text("user,shop,user\n1,a,2\n")
    with pytest.raises(BadRequest, match="names a column twice"):
        hashes(file=str(file))


def test_a_canary_is_nobodys_and_cannot_be_erased() -> None:
    text = TEXT + "canary: {keys: {user: [900, 999]}}\n"
    assert len(hashes("user=899,shop=a", text=text)) == 1
    with pytest.raises(BadRequest, match="in the range of the canaries"):
        hashes("user=899,shop=a", "user=900,shop=a", text=text)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("{by: [usr]}", "is not a left column; did you mean 'user'"),
        ("{by: [age]}", "column 'age' of served is double; keys are erased by text or whole numbers"),
        ("{by: [user, user]}", "stands there twice"),
        ("{by: [user], mode: null}", "null does not go with left.event_id"),
    ],
)
def test_a_pipeline_file_that_cannot_erase_says_why(by: str, says: str) -> None:
    with pytest.raises(PipelineInvalid, match=says):
        parse(TEXT.replace("{by: [user, shop]}", by))


def test_a_pipeline_file_without_the_column_of_erased_keys_is_refused_until_it_has_it_again(tmp_path: Path) -> None:
    places = empty_places(tmp_path)
    home = home_of(places, TEXT)
    erasures.require_covered(home)
    for by in (["user", "shop"], ["user"]):
        hashed, secret = {hash_of(SECRET, dict.fromkeys(by, 7)) or ""}, erasures.made_secret(home)
        erasures.add_keys(home, "e", hashed, by, "delete", who="ann", why=None, now=datetime.now(UTC), secret=secret)
    erasures.require_covered(home_of(places, TEXT.replace("erase: {by: [user, shop]}\n", "")))
    without = TEXT.replace("shop: string, user", "item: string, user").replace("event_id: shop", "event_id: item")
    blind = home_of(places, without.replace("[user, shop]}\n", "[user]}\n"))
    with pytest.raises(erasures.ErasedColumnGone, match="by shop, and the left stream served") as refused:
        erasures.require_covered(blind)
    assert exit_code(refused.value) == ExitCode.NEEDS_PERSON


def test_a_right_stream_that_has_had_the_columns_of_erased_keys_may_not_lose_them(tmp_path: Path) -> None:
    places, now = empty_places(tmp_path), datetime.now(UTC)
    has, lacks = TEXT, TEXT.replace("{who: bigint, shop: string, t", "{who: bigint, t")
    secret = erasures.made_secret(home_of(places, has))
    key = {hash_of(SECRET, {"user": 7, "shop": "a"}) or ""}

    def note(text: str) -> None:
        erasures.note_holders(home_of(places, text), erasures.unnoted_holders(home_of(places, text)), now)

    note(has)
    assert not erasures.are_any(home_of(places, has))  # nothing is noted where no key was erased
    erasures.add_keys(
        home_of(places, lacks), "e", key, ["user", "shop"], "delete", who="ann", why=None, now=now, secret=secret
    )
    table = home_of(places, lacks).table(Table.ERASURES)
    before = DeltaTable(table).to_pyarrow_table().drop_columns(["topic", "stream"])
    shutil.rmtree(table)
    write_deltalake(table, before)  # as an earlier release made it
    note(lacks)
    erasures.require_covered(home_of(places, lacks))  # it never had the column
    note(has)  # a landing after it gained it
    note(has)
    with pytest.raises(erasures.ErasedColumnGone, match=r"erased by user, shop, and the stream likes, .* lacks one"):
        erasures.require_covered(home_of(places, lacks))
    erasures.require_covered(home_of(places, has))
    renamed = lacks.replace("name: likes", "name: hearts")
    with pytest.raises(erasures.ErasedColumnGone):  # the topic is still read, and its records cannot be told
        erasures.require_covered(home_of(places, renamed))
    held = tables.read(table, filters=[("kind", "=", "holder")])
    assert [(row["stream"], row["erasure"]) for row in held] == [("likes", None)]


def test_the_report_says_what_remains_until_when(tmp_path: Path) -> None:
    found: dict[str, Any] = {
        "erasure": "erase__../x",
        "pipeline": "small",
        "at": datetime(2026, 11, 1, tzinfo=UTC),
        "columns": ["user"],
        "mode": "delete",
        "keys": 1,
        "landing": {"served": {"rows": 3, "unsearchable": 2}},
        "candidates": 1,
        "training": {"rows": 2, "intervals": 1},
        "other_rows": {"2026-11-01T00:10:00.000000Z": 4},
        "snapshots": {"ranker": 2},
        "exports": [{"location": "/out", "exported_at": datetime(2026, 11, 1, tzinfo=UTC), "rows": 9}],
        "not_covered": ["likes"],
        "unknown_tables": ["views"],
        "gone_after": datetime(2026, 12, 1, tzinfo=UTC),
        "retention_days": 30,
    }
    page = report.write(found, tmp_path)
    assert page.parent.parent == tmp_path / "erasures"
    text = page.read_text()
    for words in (
        "the first maintenance after 2026-12-01 00:00:00Z",
        "<td>2026-11-01 00:10:00Z</td><td>4</td>",
        "<td>ranker</td><td>2</td>",
        "<td>/out</td>",
        "2 records of served that kept their bytes: a key could not be read",
        "the stream likes: it has no column of the key",
        "the table landing/views, whose topic left the pipeline file: delete its folder, or put the stream back",
    ):
        assert words in text, words
    assert (page.parent / "report.json").exists()
