"""How a job gets into the warm engine, and why one does not.

An engine (`windrow.engine`) is a process with one Spark that stays. A job in it is a process of its own, with its own
environment and output, that starts neither Java nor Python. Whoever wants a job run asks here first; where no engine
takes it, `NotTaken` says why, and the job starts its own Spark.

WINDROW_ENGINE says what is wanted: `auto` (the default) as above; `off`, no job asks for an engine; `only`, a job that
none takes is not run.

    <home>/platform/engine/engine.sock    where jobs are taken: only the owner of the home may connect
    request    one line of JSON, with the file descriptor of the output: words, environment, folder, Spark master
    answers    {"pid": 1} or {"refused": "why"}, then {"code": 0}; a job whose asker closes the connection is killed
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from windrow.places import Places
from windrow.platform.conditions import PlatformNotReady

VARIABLE = "WINDROW_ENGINE"
PATIENCE = 10.0
"""Seconds in which an engine answers whether it takes a job."""
SOCKET = "engine.sock"
GONE = -int(signal.SIGKILL)
"""Exit code of a job whose engine is gone: it was killed with it."""


class Wanted(StrEnum):
    """What WINDROW_ENGINE may say."""

    AUTO = "auto"
    OFF = "off"
    ONLY = "only"


class NotTaken(Exception):
    """No engine takes the job; the message says why."""


def wanted(environ: Mapping[str, str]) -> Wanted:
    """What WINDROW_ENGINE says.

    Raises:
        PlatformNotReady: it is another word.
    """
    text = environ.get(VARIABLE) or Wanted.AUTO
    if text not in set(Wanted):
        raise PlatformNotReady(f"{VARIABLE}={text!r} is unknown.", f"choose one of {', '.join(Wanted)}.")
    return Wanted(text)


def folder(places: Places) -> Path:
    """Folder of a home's engine."""
    return places.home / "platform" / "engine"


class Job:
    """A job that an engine has taken.

    Args:
        connection: to the engine.
        pid: of the job.
        output: what the job writes, to its end.
    """

    def __init__(self, connection: socket.socket, pid: int, output: TextIO) -> None:
        self._connection = connection
        self.pid = pid
        self.output = output

    def wait(self) -> int:
        """Wait for its end and return its exit code, negative for a signal as `subprocess` has it.

        Read the output to its end before: a full pipe would stop the job.
        """
        with self._connection, self.output:
            return int(_answer(self._connection).get("code", GONE))

    def end(self) -> None:
        """Have the engine kill it; `wait` returns."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def start(places: Places, words: Sequence[str], environ: Mapping[str, str], master: str | None) -> Job:
    """Start a job in the home's engine.

    Args:
        words: arguments of run_job.py.
        environ: environment of the job.
        master: the Spark that it is meant to use; None where it needs none.

    Raises:
        NotTaken: WINDROW_ENGINE is `off`, no engine answers, or it refuses the job.
        PlatformNotReady: the same where WINDROW_ENGINE is `only`.
    """
    want = wanted(environ)
    try:
        if want is Wanted.OFF:
            raise NotTaken(f"{VARIABLE}=off")
        return _start(places, {"words": list(words), "environ": dict(environ), "master": master})
    except NotTaken as why:
        if want is Wanted.ONLY:
            raise PlatformNotReady(f"{VARIABLE}=only, but {why}.", "start an engine: `windrow up`.") from None
        raise


def _start(places: Places, request: Mapping[str, Any]) -> Job:
    """Start a job; whatever goes wrong before the engine has taken it is `NotTaken`."""
    connection = connect(places)
    reading, writing = os.pipe()
    output = open(reading, encoding="utf-8", errors="replace")  # noqa: SIM115 - the job's reader closes it
    try:
        socket.send_fds(connection, [b"\n"], [writing])
        connection.sendall(json.dumps({**request, "cwd": os.getcwd()}).encode() + b"\n")
        answer = _answer(connection)
        if "pid" not in answer:
            raise NotTaken(str(answer.get("refused", "the engine ended")))
    except (OSError, ValueError, NotTaken) as why:
        output.close()
        connection.close()
        raise why if isinstance(why, NotTaken) else NotTaken(f"the engine does not answer: {why}") from None
    finally:
        os.close(writing)
    connection.settimeout(None)
    return Job(connection, int(answer["pid"]), output)


def connect(places: Places) -> socket.socket:
    """Connect to the home's engine.

    Raises:
        NotTaken: nobody answers there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(PATIENCE)
    try:
        with address(folder(places)) as where:
            connection.connect(where)
    except OSError:
        connection.close()
        raise NotTaken("no engine runs") from None
    return connection


@contextmanager
def address(where: Path) -> Iterator[str]:
    """Address of the socket in a folder: a short one, because a path of more than about 100 bytes is none.

    Raises:
        OSError: there is no such folder, or the system is not Linux.
    """
    descriptor = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def _answer(connection: socket.socket) -> dict[str, Any]:
    """The next line of an engine; empty where the connection was closed."""
    text = b""
    with suppress(ConnectionError):
        while not text.endswith(b"\n") and (byte := connection.recv(1)):
            text += byte
    return dict(json.loads(text)) if text.endswith(b"\n") else {}
