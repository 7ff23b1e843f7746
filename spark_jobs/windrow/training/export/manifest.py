"""The manifest of an export, and the journal from which a killed one goes on.

    <target>/part-000000.parquet …     shards, each whole
    <target>/manifest.json             written last: pin, arguments, schema, and rows and hash of each shard
    <work>/begun.json, journal         arguments and pin; one line per finished shard, with where the next one begins
    <target>/.windrow-export-shards/   of an export by Spark instead of the journal: one object per finished shard

The work folder is in the target, or below `WINDROW_HOME` for a target in an object store, where an object of its name
keeps other machines away; all of it goes with the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from windrow.files import write_whole
from windrow.io.delta import store
from windrow.outcomes import AnotherWriter, BadInput, NeedsPerson, NothingToDo
from windrow.places import Places
from windrow.training.export.formats import KINDS

NAME = "manifest.json"
WORK = ".windrow-export"
"""Names of what an export needs on its way begin with this."""
_CHUNK = 1 << 20


class TargetInUse(AnotherWriter):
    """Another process exports to the same place."""


class TargetTaken(BadInput):
    """The target holds something else."""


class ExportDamaged(NeedsPerson):
    """Files of an export are missing, changed or unknown to its manifest. Export again to another place."""


class Shard(NamedTuple):
    """A file of an export."""

    name: str
    rows: int
    bytes: int
    sha256: str


class Next(NamedTuple):
    """Where the shard after a finished one begins: a part of the order, and a row of it."""

    part: int
    row: int


class Begun(NamedTuple):
    """What the tries of an export share."""

    pin: str
    rows_at_once: int
    erased: int | None
    """keys that were on record as erased when the rows were looked for; None where an earlier release began"""


@dataclass(frozen=True)
class Manifest:
    """What an export holds.

    Args:
        asked: the arguments, as they were given.
        pin: the pin of the rows (`windrow.training.read_pinned` reads them again).
        columns: column → Arrow type.
    """

    asked: Mapping[str, Any]
    pin: Mapping[str, Any]
    columns: Mapping[str, str]
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(shard.rows for shard in self.shards)

    def to_json(self) -> str:
        """Return the text of the file."""
        shards = [shard._asdict() for shard in self.shards]
        return json.dumps({"windrow": "export", **vars(self), "rows": self.rows, "shards": shards}, indent=1)

    @classmethod
    def read(cls, target: str) -> Manifest | None:
        """Return the manifest of a target, or None.

        Raises:
            ExportDamaged: the file is not a manifest.
        """
        try:
            raw = json.loads(store.read(f"{target}/{NAME}"))
            shards = tuple(Shard(**shard) for shard in raw["shards"])
            return cls(raw["asked"], raw["pin"], raw["columns"], shards)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ExportDamaged(f"{target}/{NAME} is not the manifest of an export: {error}") from error


class Work:
    """The unfinished export of a target."""

    def __init__(self, target: str, places: Places) -> None:
        digest = hashlib.sha256(target.encode()).hexdigest()[:16]
        remote = places.home / "exports" / digest
        self.target, self.folder = target, remote if store.is_remote(target) else Path(target) / WORK
        self._begun, self._journal = self.folder / "begun.json", self.folder / "journal"
        self.records = f"{target}/{WORK}-shards"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the target for the body.

        Raises:
            TargetInUse: another process of this machine exports to it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(str(self.folder / "lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise TargetInUse(f"another process exports to {self.target}; try again when it is done") from None
        try:
            yield
        finally:
            lock.release()
            if not self._begun.exists():
                shutil.rmtree(self.folder, ignore_errors=True)

    def begun(self, asked: Mapping[str, Any]) -> Begun | None:
        """Return an export that was begun with these arguments, or None.

        Raises:
            NothingToDo: it is complete.
            TargetTaken: the target holds another export, or other files.
        """
        done = Manifest.read(self.target)
        if done is not None:
            self._require_same(done.asked, asked)
            raise NothingToDo(f"{self.target} holds this export, {done.rows:,} rows; `--verify` looks at every file")
        if self._begun.exists():
            raw = json.loads(self._begun.read_text())
            self._require_same(raw["asked"], asked)
            return Begun(raw["pin"], raw["rows_at_once"], raw.get("erased"))
        others = [file.name for file in store.listed(self.target) if not file.name.startswith(WORK)]
        if others:
            raise TargetTaken(f"{self.target} is not empty ({others[0]}): choose an empty place")
        return None

    def _require_same(self, held: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        if held != asked:
            raise TargetTaken(
                f"{self.target} holds another export: {json.dumps(held, sort_keys=True)}. Choose an empty place, or "
                "remove it"
            )

    def begin(self, asked: Mapping[str, Any], begun: Begun) -> None:
        """Record what is exported; in a store, mark the target for other machines.

        Raises:
            TargetTaken: another machine has marked it.
        """
        mark = f"{self.target}/{WORK}"
        me = f"{socket.gethostname()}:{self.folder}"
        if store.is_remote(mark) and not store.create(mark, me.encode()) and store.read(mark) != me.encode():
            raise TargetTaken(
                f"{store.read(mark).decode()} has begun an export to {self.target}: go on with it there, or delete "
                f"{mark} and what is next to it"
            )
        write_whole(self._begun, json.dumps({"asked": asked, **begun._asdict()}))

    def finished(self) -> list[tuple[Shard, Next]]:
        """Return the finished shards, and where the one after each begins; a line that a kill has cut is left out."""
        lines = self._journal.read_bytes().split(b"\n")[:-1] if self._journal.exists() else []
        raw = [json.loads(line) for line in lines]
        return [(Shard(*shard), Next(*following)) for shard, following in raw]

    def finish(self, file: Path, rows: int, following: Next) -> Shard:
        """Move a whole file to the target, and record it."""
        shard = moved(file, self.target, rows)
        known = self._journal.read_bytes() if self._journal.exists() else b""
        with self._journal.open("r+b" if known else "wb") as journal:
            journal.truncate(known.rfind(b"\n") + 1)  # what a kill has cut
            journal.seek(0, os.SEEK_END)
            journal.write(json.dumps([shard, following]).encode() + b"\n")
            journal.flush()
            os.fsync(journal.fileno())
        return shard

    def recorded(self) -> dict[int, Shard]:
        """Return number → shard of those that `record` has on record."""
        found = store.listed(self.records)
        return {int(one.name.removesuffix(".json")): _recorded(f"{self.records}/{one.name}") for one in found}

    def complete(self, manifest: Manifest) -> Manifest:
        """Write the manifest, remove what the export needed on its way, and return the manifest."""
        file = self.folder / NAME
        file.write_text(manifest.to_json())
        store.put(str(file), f"{self.target}/{NAME}")
        if store.is_remote(self.target):
            store.remove(self.target, [WORK])
        store.remove_all(self.records)
        self._begun.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
        return manifest


def moved(file: Path, target: str, rows: int) -> Shard:
    """Move a whole file of this machine to the target, and return it as a shard."""
    with file.open("rb") as content:
        os.fsync(content.fileno())
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    shard = Shard(file.name, rows, file.stat().st_size, sha256)
    store.put(str(file), f"{target}/{file.name}")
    return shard


def record(shard: Shard, number: int, records: str, folder: Path) -> None:
    """Put a shard that is in its place on record, from any machine.

    Args:
        records: `Work.records`.
        folder: of this machine, for the file on its way.
    """
    file = folder / f"{number:06d}.json"
    file.write_text(json.dumps(shard))
    store.put(str(file), f"{records}/{file.name}")


def _recorded(location: str) -> Shard:
    return Shard(*json.loads(store.read(location)))


def verify(target: str) -> Manifest:
    """Compare the files of an export with its manifest: name, bytes, hash and rows. Every byte is read.

    Returns:
        the manifest.
    Raises:
        ExportDamaged: lists what differs.
    """
    manifest = Manifest.read(target)
    if manifest is None:
        raise ExportDamaged(f"{target} has no {NAME}: the export is not finished, and the same command goes on with it")
    there = {
        file.name: file.size for file in store.listed(target) if file.name != NAME and not file.name.startswith(WORK)
    }
    known = {shard.name for shard in manifest.shards}
    faults = [f"{name} is not in the manifest" for name in sorted(there.keys() - known)]
    for shard in manifest.shards:
        faults += _faults(target, shard, there, KINDS[manifest.asked["format"]].count)
    if faults:
        more = f" and {len(faults) - 20} more" if len(faults) > 20 else ""
        raise ExportDamaged(f"{target}: {'; '.join(faults[:20])}{more}. Export to another place again.")
    return manifest


def _faults(target: str, shard: Shard, there: Mapping[str, int], count: Any) -> Sequence[str]:
    if shard.name not in there:
        return [f"{shard.name} is missing"]
    if there[shard.name] != shard.bytes:
        return [f"{shard.name} has {there[shard.name]:,} bytes, and {shard.bytes:,} were written"]
    folder, digest = store.filesystem(target), hashlib.sha256()
    with folder.open_input_stream(shard.name) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != shard.sha256:
        return [f"{shard.name} was changed: its hash is {digest.hexdigest()}, and {shard.sha256} was written"]
    with folder.open_input_file(shard.name) as file:
        found = count(file)
    return [] if found == shard.rows else [f"{shard.name} has {found:,} rows, and {shard.rows:,} were written"]
