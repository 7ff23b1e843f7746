"""Delta logs of tables whose history was never written: one checkpoint, and the commits before it that a log keeps.

    …  V-2.json  V-1.json  V.json  V.checkpoint.parquet        later commits, by whatever writer
    └───────── tail ───────────┘   └ the live files, those removed lately, the transactions

Readers begin at the checkpoint, which delta-rs writes; of the tail they read what each commit says of itself. Older
checkpoints are left out: only a reader of a past version would look for them. Files that a log names are holes of the
right size, or are given.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

Action = Mapping[str, Any]
"""A line of a commit."""


def head_of(path: str) -> list[Action]:
    """Return protocol and newest metadata of a table that is there."""
    newest: dict[str, Action] = {}
    for commit in sorted(Path(path, "_delta_log").glob("*.json")):
        for line in actions_of(commit):
            newest.update({kind: line for kind in ("protocol", "metaData") if kind in line})
    return [newest["protocol"], newest["metaData"]]


def actions_of(commit: Path) -> list[dict[str, Any]]:
    """Return the lines of a commit file."""
    return [json.loads(line) for line in commit.read_text().splitlines() if line.strip()]


def newest_with(path: str, kind: str) -> dict[str, Any]:
    """Return the newest line of a kind (`add`, `commitInfo`, …) in the log of a table."""
    for commit in sorted(Path(path, "_delta_log").glob("*.json"), reverse=True):
        for line in actions_of(commit):
            if kind in line:
                found: dict[str, Any] = line[kind]
                return found
    raise SystemExit(f"{path} has no {kind}")


def write(path: str, state: Iterable[Action], tail: Sequence[Sequence[Action]], version: int) -> None:
    """Write the log of a table that is not there yet.

    Args:
        state: protocol, metadata, live files, files that were removed lately, transactions.
        tail: the newest commits, oldest first; the last one is that of `version`.
        version: of the checkpoint.
    """
    log, made = Path(path, "_delta_log"), Path(f"{path}.made")
    _commit(made / "_delta_log", 0, [*state, {"commitInfo": {"timestamp": 0, "operation": "WRITE"}}])
    DeltaTable(made).create_checkpoint()
    log.mkdir(parents=True, exist_ok=True)
    pointed = json.loads((made / "_delta_log" / "_last_checkpoint").read_text())
    (log / "_last_checkpoint").write_text(json.dumps({**pointed, "version": version}))
    shutil.move(made / "_delta_log" / f"{0:020}.checkpoint.parquet", log / f"{version:020}.checkpoint.parquet")
    for number, actions in enumerate(tail, version - len(tail) + 1):
        _commit(log, number, actions)
    shutil.rmtree(made)


def _commit(log: Path, number: int, actions: Iterable[Action]) -> None:
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{number:020}.json").write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in actions))


def make_holes(path: str, added: Iterable[Action]) -> None:
    """Give each added file its place: a file of its size without content."""
    for one in added:
        file = Path(path, one["path"])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.truncate(file, one["size"])
