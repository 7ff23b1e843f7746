"""Damages of a Delta table, made by hand: commits and files that are lost, emptied or cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

from windrow.io.delta import tables


def newest_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("[0-9]*.json"))


def lose_commit(table: Path) -> None:
    """Remove the newest commit with its checksums, those of Delta and of Hadoop."""
    commit = newest_commit(table)
    for file in (commit, commit.with_suffix(".crc"), commit.with_name(f".{commit.name}.crc")):
        file.unlink(missing_ok=True)


def empty_commit(table: Path) -> None:
    newest_commit(table).write_text("")


def cut_lines(table: Path) -> None:
    """Remove the last line of the newest commit that names a data file."""
    commit = newest_commit(table)
    lines = commit.read_text().splitlines(keepends=True)
    lines.remove([line for line in lines if line.startswith('{"add"')][-1])
    commit.write_text("".join(lines))


def without(*kinds: str) -> Callable[[Path], None]:
    """Take the lines of these kinds (`add`, `txn`, …) out of the newest commit."""

    def act(table: Path) -> None:
        commit = newest_commit(table)
        lines = commit.read_text().splitlines(keepends=True)
        left = [line for line in lines if not any(line.startswith(f'{{"{kind}"') for kind in kinds)]
        assert len(left) < len(lines)
        commit.write_text("".join(left))

    act.__name__ = f"without {', '.join(kinds)}"
    return act


def data_file(table: Path) -> Path:
    return table / str(tables.data_files(DeltaTable(str(table)))["path"][0].as_py())


def lose_file(table: Path) -> None:
    data_file(table).unlink()


def cut_file(table: Path) -> None:
    file = data_file(table)
    file.write_bytes(file.read_bytes()[:-100])
