"""A damaged table is named, with the file and the next move; no older view passes for the newest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from windrow.io.delta import damage, tables
from windrow.io.delta.damage import TableDamaged

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
