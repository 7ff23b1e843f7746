"""Writes to an Airflow on SQLite take turns; readers, and other databases, never wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windrow_airflow.one_write import OneWriteAtATime, middlewares


class Desk:
    """An application that answers when `may_answer` is set, and remembers which requests came in."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.may_answer = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inside.append(scope["path"])
        await self.may_answer.wait()
        if scope["path"] == "fails":
            raise RuntimeError("refused")


async def _until_all_wait() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def _came(*requests: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Paths of the requests that had come in before any was answered, and at the end."""

    async def run() -> tuple[list[str], list[str]]:
        desk = Desk()
        turns = OneWriteAtATime(desk)
        calls = [
            asyncio.create_task(turns({"type": "http", "method": method, "path": path}, None, None))
            for method, path in requests
        ]
        await _until_all_wait()
        early = list(desk.inside)
        desk.may_answer.set()
        await asyncio.gather(*calls, return_exceptions=True)
        return early, desk.inside

    return asyncio.run(run())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_write_waits_until_the_one_before_has_answered(method: str) -> None:
    early, late = _came(("PATCH", "first"), (method, "second"), ("POST", "third"))
    assert early == ["first"]
    assert late == ["first", "second", "third"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_reader_never_waits(method: str) -> None:
    early, _ = _came(("PATCH", "write"), (method, "read"), (method, "read too"))
    assert early == ["write", "read", "read too"]


def test_a_write_that_fails_gives_its_turn_away() -> None:
    assert _came(("POST", "fails"), ("POST", "next"))[1] == ["fails", "next"]


def test_what_is_no_request_passes() -> None:
    async def run() -> list[str]:
        desk = Desk()
        desk.may_answer.set()
        await OneWriteAtATime(desk)({"type": "lifespan", "path": "start"}, None, None)
        return desk.inside

    assert asyncio.run(run()) == ["start"]


def test_only_sqlite_needs_turns() -> None:
    (installed,) = middlewares("sqlite:////home/airflow.db")
    assert installed["middleware"] is OneWriteAtATime
    assert middlewares("postgresql+psycopg2://airflow@db/airflow") == []
