"""The register of erasures: hashes of erased keys, and what was done about them. No Spark, and no key.

    key           the hash of one erased key       from here on no join has a record of it (rule 22)
    candidate     a plan whose candidate was discarded, because it held rows of an erased key: it is not published
    publication   how many rows a publication has left in the training table
    holder        a right stream that has, or had, the columns of erased keys: it may not lose them
    done          the erasure has been through every table

The secret of the hashes is made once, in a file of its own that is for its owner only. It is in no table, no log and
no argument.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Any, NamedTuple

import pyarrow as pa

from windrow.home import Home, Table
from windrow.io.delta import store, tables
from windrow.outcomes import BadInput, NeedsPerson
from windrow.schemas import ERASURES
from windrow.semantics.erasure.keys import Holder, Mode, hash_of, holders, lost

KEY, CANDIDATE, PUBLICATION, HOLDER, DONE = "key", "candidate", "publication", "holder", "done"
APP_ID = "windrow.erasures"
_CHECKED = {"windrow": "secret of erased keys"}


class SecretLost(NeedsPerson):
    """Keys were erased, and the secret of their hashes is gone or another one. A person restores it."""


class ErasedColumnGone(NeedsPerson):
    """Keys were erased by a column that a stream of the pipeline file lacks now. A person puts the column back."""


class HoldsErased(BadInput):
    """A past state holds, or may hold, something of keys that were erased since. A retry does not help."""


def are_any(home: Home) -> bool:
    """Return whether a key was ever erased."""
    return tables.opened(home.table(Table.ERASURES)) is not None


class Known(NamedTuple):
    """What is needed to tell the rows of erased keys from others."""

    secret: bytes
    column_lists: list[tuple[str, ...]]
    """the lists of left columns by which keys were erased"""


def known(home: Home) -> Known | None:
    """Return the secret of the hashes and the columns of the keys, or None where no key was ever erased.

    Raises:
        SecretLost: keys were erased, and the secret is missing or not the one of their hashes.
    """
    rows = _distinct_keys(home, ["columns", "secret_check"])
    if not rows:
        return None
    location = home.places.erasure_secret(home.pipeline.name)
    try:
        secret = bytes.fromhex(store.read(location).decode())
    except (FileNotFoundError, ValueError):
        secret = b""
    if {row["secret_check"] for row in rows} != {hash_of(secret, _CHECKED)}:
        raise SecretLost(
            f"{location} is missing, or is not the secret of the keys that were erased: without it their rows cannot "
            "be told from others. Nothing was landed, joined or erased. Restore the file from a backup."
        )
    return Known(secret, sorted({tuple(json.loads(row["columns"])) for row in rows}))


def require_covered(home: Home) -> list[Holder]:
    """Check that records of every erased key can be told from others, as far as they ever could.

    Returns:
        Right streams that hold these keys, and are not on record for it (`note_holders`).

    Raises:
        ErasedColumnGone: the left stream lacks a column of the keys, or a right stream one that it has had since.
    """
    left = home.pipeline.left
    lists, noted = _coverage(home)
    by = {name for columns in lists for name in columns}
    if gone := sorted(by - left.columns.keys()):
        raise ErasedColumnGone(
            f"keys of {home.pipeline.name} were erased by {', '.join(gone)}, and the left stream {left.name} has no "
            "such column any more: records of these keys could not be told from others, and would come back. Nothing "
            "was written. Put the column back into `columns` of the left stream, under its old name."
        )
    if blind := lost(noted, home.pipeline.right, left):
        columns, topic, stream = blind[0]
        raise ErasedColumnGone(
            f"keys of {home.pipeline.name} were erased by {', '.join(columns)}, and the stream {stream}, which reads "
            f"{topic}, had these columns and lacks one now: its records of these keys would land, and could be matches "
            f"of other rows. Nothing was written. Put the column back into `columns` of {stream}."
        )
    return sorted(holders(home.pipeline.right, left, lists) - noted)


def unnoted_holders(home: Home) -> list[Holder]:
    """Return what `require_covered` returns, whether or not every key is covered."""
    lists, noted = _coverage(home)
    return sorted(holders(home.pipeline.right, home.pipeline.left, lists) - noted)


def note_holders(home: Home, fresh: Sequence[Holder], now: datetime, erasure: str | None = None) -> None:
    """Record right streams that hold erased keys: from here on they may not lose the columns.

    Args:
        fresh: streams that are not on record; the caller holds the landing lock since it has looked.
        erasure: the erasure that notes them; None for a landing, which notes streams that have gained the columns.
    """
    if fresh:
        rows = [{"columns": json.dumps(list(one.columns)), "topic": one.topic, "stream": one.stream} for one in fresh]
        _append(home, erasure, HOLDER, rows, now)


def _coverage(home: Home) -> tuple[set[tuple[str, ...]], set[Holder]]:
    """Return the lists of left columns by which keys were erased, and the streams on record as holding such keys."""
    lists = {tuple(json.loads(row["columns"])) for row in _distinct_keys(home, ["columns"])}
    rows = _rows(home, HOLDER) if lists else []
    return lists, {Holder(tuple(json.loads(row["columns"])), row["topic"], row["stream"]) for row in rows}


def watch(home: Home) -> Callable[[], None]:
    """Return a function that fails where keys were recorded since this call; a writer of rows asks twice by it.

        writer    this call ─ keys read, rows written ─ table looked at ─ the function ─ commit on that version, or none
        erasure   keys recorded ─ a commit in the table (`tables.fence`) ─ rows of the keys looked for

    So a writer that slept for longer than its lease either fails, or has committed before the erasure looks.

    Returns:
        The function; it raises WriteSkipped.
    """
    before = recorded(home)

    def require_no_more() -> None:
        if recorded(home) != before:
            raise tables.WriteSkipped(
                f"keys of {home.pipeline.name} were erased while rows were written. Nothing was committed. Start the "
                "job again: it will write them without these keys."
            )

    return require_no_more


def recorded(home: Home) -> int:
    """Return how many keys are on record as erased."""
    found = _keys(home, ["kind"])
    return 0 if found is None else found.num_rows


def made_secret(home: Home) -> bytes:
    """Return the secret of the hashes, made where there is none.

    Raises:
        SecretLost: keys were erased, and the secret is missing or not the one of their hashes.
    """
    if (found := known(home)) is not None:
        return found.secret
    location = home.places.erasure_secret(home.pipeline.name)
    if not store.is_remote(location):
        os.makedirs(os.path.dirname(location), exist_ok=True)
    if store.create(location, secrets.token_bytes(32).hex().encode()) and not store.is_remote(location):
        os.chmod(location, 0o600)
    return bytes.fromhex(store.read(location).decode())


def add_keys(
    home: Home,
    erasure: str,
    hashes: Iterable[str],
    columns: Iterable[str],
    mode: Mode,
    *,
    who: str,
    why: str | None,
    now: datetime,
    secret: bytes,
) -> int:
    """Record the hashes of keys that are not there yet; return how many these are.

    Args:
        columns: the left columns of the keys.
    """
    named = json.dumps(list(columns))
    there = {row["hash"] for row in _rows(home, KEY, ["hash", "columns"]) if row["columns"] == named}
    shared = {"columns": named, "mode": mode, "asked_by": who, "reason": why}
    shared["secret_check"] = hash_of(secret, _CHECKED)
    fresh = [{"hash": one, **shared} for one in sorted(set(hashes) - there)]
    if fresh:
        _append(home, erasure, KEY, fresh, now)
    return len(fresh)


def add_candidates(home: Home, erasure: str, plan_ids: Iterable[str], now: datetime) -> None:
    """Record plans whose candidates hold rows of an erased key. They are not published from now on."""
    fresh = sorted(set(plan_ids) - discarded(home))
    if fresh:
        _append(home, erasure, CANDIDATE, [{"plan": plan_id} for plan_id in fresh], now)


def discarded(home: Home) -> set[str]:
    """Return the ids of the plans whose candidates were discarded."""
    return {row["plan"] for row in _rows(home, CANDIDATE, ["plan"])}


def add_publications(home: Home, erasure: str, rows: Iterable[Mapping[str, Any]], now: datetime) -> None:
    """Record how many rows publications keep, before the others leave: `publication`, `interval`, `rows`."""
    recorded = remaining(home)
    fresh = [row for row in rows if recorded.get(row["publication"]) != row["rows"]]
    if fresh:
        _append(home, erasure, PUBLICATION, fresh, now)


def remaining(home: Home) -> dict[int, int]:
    """Return publication number → rows that it has left, of publications from which rows were erased.

    The least number counts: a publication only loses rows, and a run that was killed and repeated records them twice.
    """
    least: dict[int, int] = {}
    for row in _rows(home, PUBLICATION, ["publication", "rows"]):
        least[row["publication"]] = min(row["rows"], least.get(row["publication"], row["rows"]))
    return least


def unfinished(home: Home) -> list[str]:
    """Return the erasures that have not been through every table, oldest first."""
    done = {row["erasure"] for row in _rows(home, DONE, ["erasure"])}
    began = {row["erasure"]: row["recorded_at"] for row in _rows(home, KEY, ["erasure", "recorded_at"])}
    return sorted(began.keys() - done, key=lambda name: (began[name], name))


def are_covered(home: Home) -> bool:
    """Return whether records of every erased key can be told from others under this pipeline file."""
    try:
        require_covered(home)
    except ErasedColumnGone:
        return False
    return True


def finish(home: Home, erasures: Iterable[str], now: datetime) -> None:
    """Record that these erasures have been through every table."""
    for erasure in erasures:
        _append(home, erasure, DONE, [{}], now)


def _rows(home: Home, kind: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a kind; None for all columns, of which a table of an earlier release lacks some."""
    return tables.read(home.table(Table.ERASURES), columns, [("kind", "=", kind)])


def _keys(home: Home, columns: list[str]) -> pa.Table | None:
    return tables.arrow(home.table(Table.ERASURES), columns, [("kind", "=", KEY)])


def _distinct_keys(home: Home, columns: list[str]) -> list[dict[str, Any]]:
    """Return what the erased keys have in these columns, each combination once: a few rows for millions of keys."""
    found = _keys(home, columns)
    return [] if found is None else found.group_by(columns).aggregate([]).to_pylist()


def _append(home: Home, erasure: str | None, kind: str, rows: Iterable[Mapping[str, Any]], now: datetime) -> None:
    shared = {"erasure": erasure, "kind": kind, "recorded_at": now, "code_version": version("windrow")}
    tables.append_next(home.table(Table.ERASURES), ERASURES, [{**row, **shared} for row in rows], app_id=APP_ID)
