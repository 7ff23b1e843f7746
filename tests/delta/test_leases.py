"""A lease has one holder by everybody's clock; where clocks or sleepers lie, commits still have one winner."""

from __future__ import annotations

import json
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
from windrow.text import instant_text

SCHEMA = pa.schema([("n", pa.int64())])
NOW = datetime(2026, 11, 1, tzinfo=UTC)
ONE, TWO, THREE = ({"pid": n, "host": f"host {n}", "lock": "training.lock"} for n in (1, 2, 3))


@pytest.fixture
def lease(store: Store, request: pytest.FixtureRequest) -> str:
    return f"{store.url}/leases/{request.node.name}.json"


def test_a_lease_has_one_holder_and_passes_on_when_it_is_not_renewed(lease: str) -> None:
    first = leases.Waiter(lease, ONE).acquired(NOW)
    assert first is not None
    assert leases.Waiter(lease, TWO).acquired(NOW + leases.LENGTH - timedelta(seconds=1)) is None
    found = leases.holder_of(lease)
    assert found is not None
    assert found["pid"] == 1
    second = leases.Waiter(lease, TWO).acquired(NOW + leases.LENGTH)
    assert second is not None
    assert leases.Waiter(lease, THREE).acquired(NOW + leases.LENGTH) is None
    assert store.replace(lease, b"{}", first) is None  # the sleeper can neither renew nor give back what it has lost
    with leases.renewed(lease, ONE, first):
        pass
    found = leases.holder_of(lease)
    assert found is not None
    assert found["pid"] == 2


def test_a_holder_whose_clock_is_ahead_keeps_a_lease_no_longer_than_others_when_it_died(lease: str) -> None:
    assert leases.Waiter(lease, ONE).acquired(NOW + timedelta(hours=1))
    seconds = leases.LENGTH.total_seconds()
    passed = iter([0.0, 0.0, seconds - 1, seconds])
    waiter = leases.Waiter(lease, TWO, lambda: next(passed))
    assert waiter.acquired(NOW) is None
    assert waiter.acquired(NOW) is None
    assert waiter.acquired(NOW) is not None


def test_a_holder_whose_clock_is_ahead_keeps_its_lease_while_it_renews_it(lease: str) -> None:
    tag = leases.Waiter(lease, ONE).acquired(NOW + timedelta(hours=1))
    passed = 0.0
    waiter = leases.Waiter(lease, TWO, lambda: passed)
    for _ in range(10):
        passed += leases.RENEWAL.total_seconds()
        assert waiter.acquired(NOW) is None
        note = {"until": instant_text(NOW + timedelta(hours=1, seconds=passed))}
        tag = store.replace(lease, json.dumps(note).encode(), tag)
        assert tag is not None


def test_a_lease_that_was_given_back_is_free_at_once(lease: str) -> None:
    tag = leases.Waiter(lease, ONE).acquired()
    assert tag is not None
    with leases.renewed(lease, ONE, tag):
        assert leases.Waiter(lease, TWO).acquired() is None
    assert leases.holder_of(lease) is None
    assert leases.Waiter(lease, TWO).acquired() is not None


def test_what_a_killed_process_of_this_machine_left_is_taken_at_once(lease: str) -> None:
    """Its lock file is free, or the next process would not ask for the lease."""
    assert leases.Waiter(lease, ONE).acquired() is not None
    assert leases.Waiter(lease, {**ONE, "pid": 9}).acquired() is not None
    assert leases.Waiter(lease, {**ONE, "lock": "other.lock"}).acquired() is None


def test_a_lease_whose_note_cannot_be_read_is_taken(lease: str) -> None:
    assert store.replace(lease, b"{", None) is not None
    assert leases.holder_of(lease) is None
    assert leases.Waiter(lease, ONE).acquired() is not None


def test_a_lease_is_renewed_while_its_holder_works(lease: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEWAL", timedelta(milliseconds=50))
    tag = leases.Waiter(lease, ONE).acquired()
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


def test_equal_names_and_paths_on_two_machines_are_two_holders(
    lease: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = Lock(Path("training.lock"), lease)
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with held(lock):
        monkeypatch.chdir(tmp_path / "there")
        with pytest.raises(Locked), held(lock, wait_seconds=0.1):
            pass


def test_what_was_done_stays_done_where_a_lease_cannot_be_given_back(
    lease: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OSError("the store does not answer")

    tag = leases.Waiter(lease, ONE).acquired()
    assert tag is not None
    with leases.renewed(lease, ONE, tag):
        monkeypatch.setattr(store, "replace", away)
    monkeypatch.undo()
    assert leases.holder_of(lease) is not None


def test_of_two_holders_one_commits(store: Store, lease: str) -> None:
    """The clock of the second is a minute ahead, so both hold the lease; each does what the first began."""
    table = f"{store.url}/leases/table"
    assert leases.Waiter(lease, ONE).acquired(NOW)
    assert leases.Waiter(lease, TWO).acquired(NOW + leases.LENGTH)
    version = tables.version_of(table, "app") + 2
    tables.append_once(table, SCHEMA, [{"n": 2}], app_id="app", version=version)
    with pytest.raises(tables.WriteSkipped):
        tables.append_once(table, SCHEMA, [{"n": 1}], app_id="app", version=version)
    assert tables.read(table) == [{"n": 2}]
