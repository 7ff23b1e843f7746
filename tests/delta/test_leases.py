"""A lease has one holder by everybody's clock; where clocks or sleepers lie, commits still have one winner."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from windrow.io.delta import leases, store, tables
from windrow.io.delta.locks import Locked, held
from windrow.places import Lock
from windrow.platform.servers.store import Store

SCHEMA = pa.schema([("n", pa.int64())])
NOW = datetime(2026, 11, 1, tzinfo=UTC)
ONE, TWO, THREE = ({"pid": n, "host": f"host {n}", "file": "training.lock"} for n in (1, 2, 3))


@pytest.fixture
def lease(store: Store, request: pytest.FixtureRequest) -> str:
    return f"{store.url}/leases/{request.node.name}.json"


def test_a_lease_has_one_holder_and_passes_on_when_it_is_not_renewed(lease: str) -> None:
    first = leases.acquired(lease, ONE, NOW)
    assert first is not None
    assert leases.acquired(lease, TWO, NOW + leases.LENGTH - timedelta(seconds=1)) is None
    found = leases.holder_of(lease)
    assert found is not None
    assert found["pid"] == 1
    second = leases.acquired(lease, TWO, NOW + leases.LENGTH)
    assert second is not None
    assert leases.acquired(lease, THREE, NOW + leases.LENGTH) is None
    assert store.replace(lease, b"{}", first) is None  # the sleeper can neither renew nor give back what it has lost
    with leases.renewed(lease, ONE, first):
        pass
    found = leases.holder_of(lease)
    assert found is not None
    assert found["pid"] == 2


def test_a_lease_that_was_given_back_is_free_at_once(lease: str) -> None:
    tag = leases.acquired(lease, ONE)
    assert tag is not None
    with leases.renewed(lease, ONE, tag):
        assert leases.acquired(lease, TWO) is None
    assert leases.holder_of(lease) is None
    assert leases.acquired(lease, TWO) is not None


def test_what_a_killed_process_of_this_machine_left_is_taken_at_once(lease: str) -> None:
    """Its lock file is free, or the next process would not ask for the lease."""
    assert leases.acquired(lease, ONE) is not None
    assert leases.acquired(lease, {**ONE, "pid": 9}) is not None
    assert leases.acquired(lease, {**ONE, "file": "other.lock"}) is None


def test_a_lease_whose_note_cannot_be_read_is_taken(lease: str) -> None:
    assert store.replace(lease, b"{", None) is not None
    assert leases.holder_of(lease) is None
    assert leases.acquired(lease, ONE) is not None


def test_a_lease_is_renewed_while_its_holder_works(lease: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEWAL", timedelta(milliseconds=50))
    tag = leases.acquired(lease, ONE)
    assert tag is not None
    renewed, replace = threading.Event(), store.replace

    def seen(location: str, content: bytes, old: str | None) -> str | None:
        new = replace(location, content, old)
        renewed.set() if new and old == tag else None
        return new

    monkeypatch.setattr(store, "replace", seen)
    with leases.renewed(lease, ONE, tag):
        assert renewed.wait(30)


def test_a_process_on_another_machine_waits_and_says_for_whom(
    lease: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Another machine has other lock files and the same lease."""
    here, there = Lock(tmp_path / "here" / "training.lock", lease), Lock(tmp_path / "there" / "training.lock", lease)
    with held(here), pytest.raises(Locked, match=f"held by pid {os.getpid()} on "), held(there, wait_seconds=0.1):
        pass
    with held(there, wait_seconds=0.1):
        pass


def test_of_two_holders_one_commits(store: Store, lease: str) -> None:
    """The clock of the second is a minute ahead, so both hold the lease; each does what the first began."""
    table = f"{store.url}/leases/table"
    assert leases.acquired(lease, ONE, NOW)
    assert leases.acquired(lease, TWO, NOW + leases.LENGTH)
    version = tables.version_of(table, "app") + 2
    tables.append_once(table, SCHEMA, [{"n": 2}], app_id="app", version=version)
    with pytest.raises(tables.WriteSkipped):
        tables.append_once(table, SCHEMA, [{"n": 1}], app_id="app", version=version)
    assert tables.read(table) == [{"n": 2}]
