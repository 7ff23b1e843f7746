"""Background processes: they outlive the command that starts them, and `stop` ends all of them.

A process is identified by its pid *and* by its start time or the mark in its environment, so that a pid which the
system has reused is never signalled. Each process leads its own session, so that Ctrl-C in a terminal does
not reach it. It is stopped with all its descendants, orphans included: they carry the same mark.

    <folder>/<name>.pid    {"pid": …, "created": …, "started_at": …}, written as soon as the process exists
    <folder>/<name>.log    its standard output and error, appended
"""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from shlex import quote
from time import monotonic, sleep
from typing import Any

import psutil

from windrow.files import write_whole
from windrow.places import umask_of
from windrow.platform.conditions import DidNotStart, PortTaken

MARK = "WINDROW_PLATFORM_PART"
"""Environment variable that every process of a part inherits: `<folder>/<name>`."""
_FIRST_PORT, _PORTS = 10_000, 20_000
_given = count()


@dataclass(frozen=True)
class Address:
    """Where a part listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """The first of comma-separated `host:port`s; raises ValueError where it is not one."""
        host, _, port = text.split(",")[0].strip().rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"{text!r} is not host:port")
        return cls(host, int(port))

    @classmethod
    def all_of(cls, text: str) -> tuple[Address, ...]:
        """All of comma-separated `host:port`s; raises ValueError where one of them is not."""
        return tuple(cls.parse(one) for one in text.split(",") if one.strip()) or (cls.parse(text),)

    @property
    def is_local(self) -> bool:
        """Whether it is on the loopback of this machine."""
        return self.host in ("127.0.0.1", "localhost")

    def next(self, many: int = 1) -> Address:
        """The address whose port is `many` ports after this one."""
        return Address(self.host, self.port + many)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Background:
    """One background process, known by its pid and log files in `folder`."""

    folder: Path
    name: str

    @property
    def log(self) -> Path:
        """Output of the process, one start after the other."""
        return self.folder / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        """File with its pid; exists exactly while the process should be running."""
        return self.folder / f"{self.name}.pid"

    @property
    def mark(self) -> str:
        """Value of MARK in the environment of the process and of its descendants."""
        return str(self.folder / self.name)

    def process(self) -> psutil.Process | None:
        """The running process, or None where there is none or its pid has been reused."""
        try:
            record = json.loads(self.pid_file.read_text())
            process = psutil.Process(record["pid"])
            same = abs(process.create_time() - record["created"]) < 1.0 or _mark_of(process) == self.mark
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except (OSError, ValueError, KeyError, TypeError, psutil.Error):
            return None

    def uptime(self) -> timedelta | None:
        """How long it has been running; None where it is not."""
        process = self.process()
        if process is None:
            return None
        return datetime.now(UTC) - datetime.fromtimestamp(process.create_time(), UTC)

    def start(
        self, command: Sequence[str | Path], environ: Mapping[str, str], cwd: Path, user: str | None = None
    ) -> None:
        """Start it unless it runs; orphans of a crashed predecessor are stopped first.

        What it writes is for its owner only, unless WINDROW_UMASK in its environment says otherwise.

        Args:
            user: name of the user it runs as, with no other group than that user's; None for the present one.
        """
        if self.process() is not None:
            return
        self.stop()
        self.folder.mkdir(parents=True, exist_ok=True)
        _keep_log_small(self.log)
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environ, MARK: self.mark},
                cwd=cwd,
                start_new_session=True,
                umask=umask_of(environ),
                **as_user(user),
            )
        record = {
            "pid": started.pid,
            "created": psutil.Process(started.pid).create_time(),
            "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_whole(self.pid_file, json.dumps(record))

    def stop(self, patience: timedelta = timedelta(seconds=20), kill_children_after: timedelta | None = None) -> bool:
        """Terminate it with all its descendants, kill them after `patience`, and return whether anything ran.

        Args:
            kill_children_after: after this time its children are killed while the leader may still end by itself. A
                killed task cannot report the interruption as a failure.
        """
        leader = self.process()
        tree = self.tree()
        if leader is not None:
            with suppress(psutil.Error):
                leader.terminate()
            if kill_children_after is not None:
                psutil.wait_procs([leader], timeout=kill_children_after.total_seconds())
                _kill(self.tree() - {leader})
            psutil.wait_procs([leader], timeout=patience.total_seconds())
        _end({*tree, *self.tree()}, timedelta(seconds=5))
        self.pid_file.unlink(missing_ok=True)
        return bool(tree)

    def tree(self) -> set[psutil.Process]:
        """All its live processes: the leader, its descendants, and orphans that carry its mark."""
        found = set(_marked(self.mark))
        leader = self.process()
        if leader is not None:
            found.add(leader)
            with suppress(psutil.Error):
                found.update(leader.children(recursive=True))
        return {one for one in found if _alive(one)}

    def wait(self, answers: Callable[[], bool], patience: timedelta, hint: str) -> None:
        """Wait until `answers` returns True.

        Args:
            hint: what a person should do if it does not start.

        Raises:
            DidNotStart: it ended, or did not answer within `patience`; the message shows the end of its log.
        """
        deadline = monotonic() + patience.total_seconds()
        while not answers():
            if self.process() is None:
                raise DidNotStart(f"{self.name} ended while starting:\n{self.last_words()}", hint)
            if monotonic() > deadline:
                seconds = int(patience.total_seconds())
                raise DidNotStart(f"{self.name} did not answer within {seconds} s:\n{self.last_words()}", hint)
            sleep(0.2)

    def last_words(self, lines: int = 12) -> str:
        """Last lines of its log, indented."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return f"    (no log at {self.log})"
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])


def as_user(user: str | None) -> dict[str, Any]:
    """Arguments for `subprocess` that start a process as another user, without the groups of the present one.

    Args:
        user: name of the user; None for the present one.
    """
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}


def require_port(address: Address, part: str, variable: str) -> None:
    """Check that nobody listens on the port.

    Raises:
        PortTaken: the message names the port, its holder, the variable that moves our port, and the other home where
            the holder is part of a platform.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError:
            holder = _listening(address.port)
            mark = _mark_of(holder) if holder else None
            home = (mark or "").rpartition("/platform/")[0]
            stop = f"`WINDROW_HOME={quote(home)} windrow down` stops that platform" if home else "stop that process"
            raise PortTaken(
                f"Port {address.port}, wanted by {part}, is in use by {_named(holder)}.",
                f"{stop}, or set {variable} to a free one.",
            ) from None


def free_port(pairs: int = 1) -> int:
    """The first of free neighbouring ports of this machine: broker and Airflow use a pair each, Spark's cluster two.

    Never one of the ports that kernels give to outgoing connections (32768 and above by default): such a port can be
    taken between this answer and the server's start. Processes begin at different places, by their pid, and a process
    gets no port twice.
    """
    for _ in range(_PORTS // 2):
        first, *_ = [_FIRST_PORT + (os.getpid() * 64 + 2 * next(_given)) % _PORTS for _ in range(pairs)]
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + 2 * pairs):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise PortTaken(
        f"No {2 * pairs} neighbouring ports from {_FIRST_PORT} to {_FIRST_PORT + _PORTS} are free.",
        "stop servers that are not needed.",
    )


def _listening(port: int) -> psutil.Process | None:
    """The process that listens on a port, as far as this user may see it."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                return psutil.Process(connection.pid) if connection.pid is not None else None
    return None


def _named(process: psutil.Process | None) -> str:
    if process is not None:
        with suppress(psutil.Error, OSError):
            command = " ".join(process.cmdline())
            return f"{process.name()} (pid {process.pid}: {command[:90]}{'…' if len(command) > 90 else ''})"
    return "a process of another user"


def _marked(mark: str) -> Iterable[psutil.Process]:
    return (process for process in psutil.process_iter() if _mark_of(process) == mark)


def _mark_of(process: psutil.Process) -> str | None:
    """Value of MARK in a process's environment. Unlike a start time, it survives a change of the system clock."""
    with suppress(psutil.Error, OSError):
        return process.environ().get(MARK)
    return None


def _alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _end(processes: Iterable[psutil.Process], patience: timedelta) -> None:
    living = [one for one in processes if _alive(one) and one.pid != os.getpid()]
    for process in living:
        with suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs(living, timeout=patience.total_seconds())
    _kill(stubborn)


def _kill(processes: Iterable[psutil.Process]) -> None:
    doomed = list(processes)
    for process in doomed:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(doomed, timeout=5)


def _keep_log_small(log: Path, limit: int = 20 * 2**20) -> None:
    """Rotate a log above `limit` bytes, keeping one older file, so that a long-lived home does not fill the disk."""
    with suppress(OSError):
        if log.stat().st_size > limit:
            log.replace(log.with_suffix(".log.1"))
