"""Small tables: their rows as Python values, and the files that they consist of."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.generated import PIPELINE
from windrow.config import parse
from windrow.home import Home, Table
from windrow.io.delta import damage, files, store, tables
from windrow.io.delta.files import remove_action
from windrow.io.registers import publications
from windrow.places import Places
from windrow.semantics.intervals import EARLIEST, LATEST


def test_rows_are_those_that_arrow_makes() -> None:
    instants = [datetime(2026, 11, 1, 9, 30, 0, 1, UTC), None, datetime(1969, 12, 31, tzinfo=UTC), EARLIEST, LATEST]
    columns = {
        "at": pa.array(instants, pa.timestamp("us", "UTC")),
        "coarse": pa.array([*instants[1:4], None, None], pa.timestamp("ms", "UTC")),
        "local": pa.array([at and at.replace(tzinfo=None) for at in instants], pa.timestamp("us")),
        "day": pa.array([at and at.date() for at in instants], pa.date32()),
        "n": pa.array([1, None, 3, 4, 5], pa.int64()),
        "text": pa.array(["a", None, "", "é", "b"]),
        "list": pa.array([[instants[0]], [], None, [None], []], pa.list_(pa.timestamp("us", "UTC"))),
    }
    rows = pa.concat_tables([pa.table(columns), pa.table(columns).slice(2)])
    found = tables.dicts(rows)
    assert found == rows.to_pylist()
    assert [row["at"] for row in found[:5]] == instants
    assert {at.utcoffset() for row in found if (at := row["at"])} == {UTC.utcoffset(None)}
    assert tables.dicts(rows.slice(length=0)) == []


@pytest.mark.parametrize("was", [None, tables.CHECKPOINTS])
def test_small_files_of_a_register_are_merged_and_a_large_one_stays(
    was: dict[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_MERGED", 20_000)
    path, schema = str(tmp_path / "register"), pa.schema({"n": pa.int64()})
    if was is not None:  # made by an earlier release
        tables.create_if_missing(path, schema, was)
    tables.append_once(path, schema, [{"n": -n} for n in range(10_000)], app_id="app", version=1)
    [large] = tables.at(path).file_uris()
    most = len(tables.at(path).file_uris())
    for n in range(2, 60):
        tables.append_once(path, schema, [{"n": n}], app_id="app", version=n)
        most = max(most, len(tables.at(path).file_uris()))
    assert most <= 2 + tables.COMPACT_EVERY
    assert large in tables.at(path).file_uris()
    assert sorted(row["n"] for row in tables.read(path)) == [*range(-9_999, 1), *range(2, 60)]
    assert tables.at(path).metadata().configuration == tables.REGISTER


START = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
SCHEMA = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", "UTC"), "text": pa.string()})


def rows_of(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": n, "at": START + n * timedelta(microseconds=1), "text": None if n % 3 else "x" * n} for n in numbers]


@pytest.fixture
def register(tmp_path: Path) -> str:
    """Location of a register of five files."""
    path = str(tmp_path / "register")
    for n in range(5):
        tables.append_once(path, SCHEMA, rows_of(n), app_id="app", version=n)
    return path


@pytest.mark.both_roots
def test_of_many_that_create_a_table_at_once_one_does_and_all_see_its_first_version(places: Places) -> None:
    """A second commit of the creation would refuse whoever saw the first one, although nobody has written a row."""
    together = threading.Barrier(4, timeout=60)

    def create(path: str) -> int:
        together.wait()
        return tables.create_if_missing(path, SCHEMA).version()

    with ThreadPoolExecutor(4) as pool:
        for number in range(20):
            path = places.table("feed", f"t{number}")
            assert list(pool.map(create, [path] * 4)) == [0, 0, 0, 0]
            assert tables.at(path).version() == 0


def test_of_two_first_appends_of_a_version_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, digest = str(tmp_path / "register"), tables._digest

    def another_first(data: pa.Table) -> str:
        monkeypatch.setattr(tables, "_digest", digest)
        tables.append_once(path, SCHEMA, rows_of(2), app_id="app", version=1)
        return digest(data)

    monkeypatch.setattr(tables, "_digest", another_first)
    with pytest.raises(tables.WriteSkipped):
        tables.append_once(path, SCHEMA, rows_of(1), app_id="app", version=1)
    assert numbers(path) == [2]


@pytest.mark.parametrize("is_stale", [True, False])
def test_a_version_of_an_app_id_is_committed_once_whatever_the_writer_has_seen(register: str, is_stale: bool) -> None:
    seen = tables.at(register)
    tables.commit_files(register, tables.at(register), [], identity="one", transaction=("commits", 7))
    with pytest.raises(tables.WriteSkipped):
        tables.commit_files(
            register, seen if is_stale else tables.at(register), [], identity="two", transaction=("commits", 7)
        )


def test_a_pinned_commit_follows_what_its_writer_has_seen_or_is_not_made(register: str) -> None:
    seen = tables.at(register)
    tables.commit_files(register, tables.at(register), [], identity="one")
    tables.commit_files(register, seen, [], identity="later")
    with pytest.raises(tables.WriteSkipped):
        tables.commit_files(register, seen, [], identity="pinned", pinned=True)
    tables.commit_files(register, tables.at(register), [], identity="pinned", pinned=True)


def numbers(path: str) -> list[int]:
    return sorted(row["n"] for row in tables.read(path))


@pytest.mark.both_roots
def test_an_open_table_is_brought_up_to_date_without_being_opened_again(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = places.table("feed", "register")
    assert tables.refreshed(path, None) is None
    tables.append_once(path, SCHEMA, rows_of(0), app_id="app", version=0)
    known = tables.refreshed(path, None)
    for n in range(1, 25):  # past merges and checkpoints
        tables.append_once(path, SCHEMA, rows_of(n), app_id="app", version=n)
    with monkeypatch.context() as unopened:
        unopened.setattr(tables, "at", None)
        assert tables.refreshed(path, known) is known is tables.refreshed(path, known)
    newest = tables.at(path)
    assert known is not None
    assert (known.version(), tables.last_version(known, "app")) == (newest.version(), 24)
    assert sorted(known.file_uris()) == sorted(newest.file_uris())
    tables.append_once(path, SCHEMA, rows_of(25), app_id="app", version=25, table=known)
    assert tables.version_of(path, "app") == tables.last_version(known, "app") == 25


def test_tables_that_stay_open_have_the_credentials_of_now(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(parse(PIPELINE, "generated.yaml"), places)
    tables.append_once(home.table(Table.TRAINING), SCHEMA, rows_of(0), app_id="app", version=0)
    both = publications.Opened(home)
    both.refresh()
    first = both.training
    both.refresh()
    assert both.training is first
    monkeypatch.setattr(store, "options", lambda _: {"AWS_ACCESS_KEY_ID": "another"})
    both.refresh()
    assert both.training is not first
    second = both.training
    both.refresh()
    assert both.training is second


def test_a_log_that_was_put_in_place_of_another_is_opened_anew(register: str) -> None:
    known, log = tables.at(register), Path(register) / "_delta_log"
    for version in (3, 4, 5):
        (log / f"{version:020d}.json").unlink()
    found = tables.refreshed(register, known)
    assert found is not None
    assert (found.version(), tables.last_version(found, "app")) == (2, 1)


def test_damage_is_met_by_who_has_the_table_open(register: str) -> None:
    known = tables.at(register)
    tables.append_once(register, SCHEMA, rows_of(5), app_id="app", version=5)
    newest = Path(register) / "_delta_log" / f"{tables.at(register).version():020d}.json"
    newest.write_text("")
    with pytest.raises(damage.TableDamaged, match=newest.name):
        tables.refreshed(register, known)


@pytest.mark.parametrize("between", [0, 1, 2])
def test_the_same_files_are_merged_once(register: str, between: int) -> None:
    first, second = tables.at(register), tables.at(register)
    tables.merge(register, first)
    for n in range(5, 5 + between):
        tables.append_once(register, SCHEMA, rows_of(n), app_id="app", version=n)
    version = tables.at(register).version()
    tables.merge(register, second)  # finds the first one's commit, which is the same
    assert tables.at(register).version() == version
    assert numbers(register) == [*range(5 + between)]


def test_of_two_merges_with_a_file_in_common_the_later_one_is_refused(register: str) -> None:
    stale = tables.at(register)
    tables.append_once(register, SCHEMA, rows_of(5), app_id="app", version=5)
    tables.merge(register, tables.at(register))
    with pytest.raises(tables.WriteSkipped):
        tables.merge(register, stale)
    assert numbers(register) == [*range(6)]


@pytest.mark.parametrize("is_compaction", [False, True])
def test_a_file_that_was_merged_is_not_removed_again(register: str, is_compaction: bool) -> None:
    stale = tables.at(register)
    tables.merge(register, tables.at(register))
    old = tables.data_files(stale).to_pylist()[0]
    gone = remove_action(old["path"], old["size_bytes"], None, START, data_change=not is_compaction)
    with pytest.raises(tables.WriteSkipped):
        tables.commit_files(register, stale, [gone], identity="removal")
    assert numbers(register) == [*range(5)]


def test_a_merged_file_has_the_rows_and_the_bounds_of_its_parts(register: str) -> None:
    tables.append_once(
        register, pa.schema([*SCHEMA, pa.field("new", pa.int64())]), [{"n": 5, "new": 1}], app_id="app", version=5
    )
    before = sorted(tables.read(register), key=lambda row: row["n"])
    tables.merge(register, tables.at(register))
    assert sorted(tables.read(register), key=lambda row: row["n"]) == before
    [file] = tables.data_files(tables.at(register)).to_pylist()
    assert (file["num_records"], file["min.n"], file["max.n"]) == (6, 0, 5)
    assert (file["null_count.at"], file["null_count.new"], file["null_count.text"]) == (1, 5, 4)
    assert file["min.at"] <= START < file["max.at"]
    assert [row["n"] for row in tables.read(register, filters=[("at", ">=", rows_of(4)[0]["at"])])] == [4]


LONG = "scheduled__2026-11-01T09:30:00+00:00"
"""Longer than the bounds of a text in the log, as the run ids of Airflow are."""


@pytest.mark.parametrize("release", ["this", "before"])
def test_a_row_is_found_by_a_long_text_after_its_file_was_merged(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The release before left out the bounds of a long text, which delta-rs takes for bounds that hold nothing."""
    if release == "before":
        monkeypatch.setattr(files, "_bound_of_text", lambda value, up: value if len(value) <= 32 else None)
    path, texts = str(tmp_path / "register"), [f"{LONG}#{n}" for n in range(25)]
    for n, text in enumerate(texts):
        tables.append_once(path, SCHEMA, [{"n": n, "text": text}], app_id="app", version=n + 1)
        assert [row["n"] for row in tables.read(path, filters=[("text", "=", text)])] == [n]
    assert len(tables.at(path).file_uris()) < 12, "they were merged"
    for n, text in enumerate(texts):
        assert [row["n"] for row in tables.read(path, ["n"], [("text", "=", text)])] == [n]
        assert [row["n"] for row in tables.read(path, ["n"], [("text", "=", text), ("n", "in", [n])])] == [n]
    either = [[("text", "=", texts[3])], [("n", "=", 7)]]
    assert sorted(tables.matching(tables.at(path), ["n"], either)["n"].to_pylist()) == [3, 7]
    assert tables.read(path, filters=[("text", "=", LONG)]) == []


@given(st.text(min_size=0, max_size=70))
def test_the_bounds_of_a_text_have_it_between_them(text: str) -> None:
    low, high = files._bound_of_text(text, up=False), files._bound_of_text(text, up=True)
    assert low is not None
    assert low.encode() <= text.encode()
    assert high is None or text.encode() <= high.encode()
    assert all(one is None or len(one) <= 33 for one in (low, high))


def test_a_merge_that_would_lose_rows_is_refused(register: str) -> None:
    table = tables.at(register)
    one, other = (Path(register, file["path"]) for file in tables.data_files(table).to_pylist()[:2])
    size = other.stat().st_size
    pq.write_table(pq.read_table(one).slice(1), other)
    head, rest = other.read_bytes()[:4], other.read_bytes()[4:]  # without rows, nothing between them is read
    other.write_bytes(head + bytes(size - len(head + rest)) + rest)
    assert other.stat().st_size == size
    with pytest.raises(damage.TableDamaged, match=r"4 rows, and 5 were written"):
        tables.merge(register, table)
    assert tables.at(register).version() == table.version()


def test_a_row_is_there_once_where_the_merge_after_it_fails(register: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tables, "merge", full)
    for n in range(5, 25):
        assert tables.append_next(register, SCHEMA, rows_of(n), app_id="next")
    assert numbers(register) == [*range(25)]


def test_a_property_that_somebody_has_set_stays(register: str) -> None:
    table, mine = tables.at(register), {"delta.logRetentionDuration": "interval 90 days"}
    table.alter.set_table_properties(mine)
    tables.add_properties(table, tables.REGISTER)
    assert tables.at(register).metadata().configuration == {**tables.REGISTER, **mine}


@pytest.mark.both_roots
def test_a_register_has_few_files_on_either_root(places: Places) -> None:
    path = places.table("feed", "register")
    for n in range(25):
        tables.append_once(path, SCHEMA, rows_of(n), app_id="app", version=n)
    assert len(tables.at(path).file_uris()) <= 1 + tables.COMPACT_EVERY
    assert numbers(path) == [*range(25)]
