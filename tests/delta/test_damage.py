"""A damaged table is named, with the file and the next move; no older view passes for the newest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from support.broken.damage import without
from windrow.io.delta import damage, files, tables
from windrow.io.delta.damage import TableDamaged
from windrow.io.delta.files import DataFile
from windrow.io.delta.lookup import Range
from windrow.io.registers.recent import Recent
from windrow.places import Places

NEWEST = 12


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """13 commits of a row each, with checkpoints after the fifth and the tenth."""
    path = tmp_path_factory.mktemp("damage") / "table"
    for number in range(NEWEST + 1):
        write_deltalake(
            str(path),
            pa.table({"x": [number]}),
            mode="append",
            configuration={"delta.checkpointInterval": "5"} if number == 0 else None,
            commit_properties=CommitProperties(app_transactions=[Transaction("rows", number)]),
        )
    return path


@pytest.fixture
def table(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "table"))


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def checkpoint(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.checkpoint.parquet"))


def pointer(table: Path) -> Path:
    return table / "_delta_log" / "_last_checkpoint"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def data_file(table: Path) -> Path:
    return min(table.glob("*.parquet"))


STOPPED: dict[str, tuple[Callable[[Path], object], Callable[[Path], Path], str]] = {
    "the newest commit is emptied": (lambda t: commit(t, NEWEST).write_text(""), lambda t: commit(t, NEWEST), "empty"),
    "the newest commit is cut": (lambda t: cut(commit(t, NEWEST)), lambda t: commit(t, NEWEST), "cannot be read"),
    "a commit before it is emptied": (lambda t: commit(t, 11).write_text(""), lambda t: commit(t, 11), "is empty"),
    "a commit before it is lost": (lambda t: commit(t, 11).unlink(), lambda t: commit(t, 11), "is missing"),
    "the checkpoint is cut": (lambda t: cut(checkpoint(t)), checkpoint, "they are all there: move it"),
    "the checkpoint is emptied": (lambda t: checkpoint(t).write_bytes(b""), checkpoint, "they are all there: move it"),
    "a data file is cut": (lambda t: cut(data_file(t)), data_file, "missing or cut"),
    "a data file is lost": (lambda t: data_file(t).unlink(), data_file, "missing or cut"),
}


def lose_newest_but_its_sums(table: Path) -> None:
    commit(table, NEWEST).unlink()
    commit(table, NEWEST).with_name(f".{NEWEST:020d}.json.crc").write_bytes(b"sum")


STOPPED["the newest commit is lost, and its checksum is there"] = (
    lose_newest_but_its_sums,
    lambda t: commit(t, NEWEST),
    r"is missing, and its checksums.*Without a backup, move .*\.crc",
)
HARMLESS: dict[str, Callable[[Path], object]] = {
    "the pointer to the checkpoint is cut": lambda t: cut(pointer(t)),
    "the pointer to the checkpoint is emptied": lambda t: pointer(t).write_text(""),
    "the pointer to the checkpoint is lost": lambda t: pointer(t).unlink(),
    "a commit before the checkpoint is lost": lambda t: commit(t, 3).unlink(),
    "a commit before the checkpoint is emptied": lambda t: commit(t, 3).write_text(""),
}


@pytest.mark.parametrize("name", STOPPED)
def test_what_cannot_be_read_is_named(name: str, table: Path) -> None:
    act, file, words = STOPPED[name]
    named = file(table)
    act(table)
    with pytest.raises(TableDamaged, match=words) as refused:
        tables.read(str(table))
    assert named.name in str(refused.value)
    assert str(table) in str(refused.value)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_readers_can_do_without_changes_nothing(name: str, table: Path) -> None:
    HARMLESS[name](table)
    assert sorted(row["x"] for row in tables.read(str(table))) == list(range(NEWEST + 1))


CUT: dict[str, tuple[tuple[str, ...], str]] = {
    "its transaction": (("txn",), "does not name its transaction"),
    "its files": (("add",), "and it names 0"),
    "both": (("add", "txn"), "and it names 0"),
    "what it did": (("commitInfo",), "does not say what it did"),
}
SCHEMA = pa.schema([("x", pa.int64())])


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("after", ["nothing", "compaction", "a write"])
def test_a_commit_without_some_of_its_lines_is_no_older_view(name: str, after: str, tmp_path: Path) -> None:
    """A reader would see fewer rows, or the number of the write before, without a word."""
    kinds, words = CUT[name]
    path = str(tmp_path / "table")
    for number in (1, 2):
        tables.append_once(path, SCHEMA, [{"x": number}], app_id="rows", version=number)
    assert tables.version_of(path, "rows") == 2  # the whole commit is known to this process
    known = Recent()
    assert len(known.rows(path, ["x"], Range("x", 0))) == 2
    tables.append_once(path, SCHEMA, [{"x": 3}], app_id="rows", version=3)
    damaged = commit(tmp_path / "table", 3)
    without(*kinds)(tmp_path / "table")
    if after == "compaction":
        DeltaTable(path).optimize.compact()
    elif after == "a write":
        write_deltalake(path, pa.table({"x": [4]}), mode="append")
    with pytest.raises(TableDamaged, match=f"{damaged.name} was cut: .*({words})"):
        tables.opened(path)
    for _ in range(2):
        known.look_again(Places(tmp_path, tmp_path))
        with pytest.raises(TableDamaged, match=damaged.name):
            known.rows(path, ["x"], Range("x", 0))


@pytest.mark.parametrize("kind", ["add", "remove", "txn"])
def test_a_commit_of_files_that_were_there_says_how_many_lines_it_has(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    tables.append_once(path, SCHEMA, [{"x": 1}], app_id="rows", version=1)
    table = DeltaTable(path)
    (old,) = tables.data_files(table)["path"].to_pylist()
    shutil.copyfile(tmp_path / "table" / old, tmp_path / "table" / "new.parquet")
    new = files.add_action(path, "new.parquet", DataFile.read(f"{path}/new.parquet"), ["x"], None, data_change=False)
    gone = files.remove_action(old, 1, None, datetime(2026, 11, 1, tzinfo=UTC), data_change=False)
    tables.commit_files(path, table, [new, gone], identity="swap", transaction=("swap", 1))
    assert tables.read(path) == [{"x": 1}]
    without(kind)(tmp_path / "table")
    with pytest.raises(TableDamaged, match="it had 3 actions, and it has 2"):
        tables.read(path)


def test_a_write_without_rows_names_no_file_and_is_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    tables.append_once(path, SCHEMA, [], app_id="rows", version=1)
    assert tables.version_of(path, "rows") == 1


def test_a_table_without_its_cut_checkpoint_has_all_its_rows(table: Path) -> None:
    """The move that the message proposes works."""
    lost = checkpoint(table)
    cut(lost)
    for file in (lost, pointer(table)):
        file.unlink()
    assert len(tables.read(str(table))) == NEWEST + 1


def test_a_lost_checkpoint_is_needed_where_commits_before_it_were_cleaned(table: Path) -> None:
    """There the message does not propose to do without it."""
    lost = checkpoint(table)
    commit(table, 2).unlink()
    lost.unlink()
    with pytest.raises(TableDamaged, match=r"is missing.*Restore the folder") as refused:
        tables.opened(str(table))
    assert lost.name in str(refused.value)


def test_files_that_are_missing_or_of_another_size_are_named(table: Path) -> None:
    files = tables.data_files(DeltaTable(str(table)))
    assert list(damage.wrong_files(str(table), files)) == []
    first, second = sorted(table.glob("*.parquet"))[:2]
    first.unlink()
    cut(second)
    missing, other = sorted(damage.wrong_files(str(table), files), key=lambda text: "bytes" in text)
    assert missing == f"{first} is missing"
    assert other.startswith(f"{second} has ")
