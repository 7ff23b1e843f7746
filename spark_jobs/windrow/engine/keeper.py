"""The keeper of the engine: it takes jobs over a socket and forks a process for each.

    asker ── words, environment, where to write ──▶ keeper ── fork ──▶ job ──▶ Java, by a gateway of its own
          ◀── pid, then the exit code ─────────────

What it guarantees: a job whose asker goes away is killed, with all its processes; a job ends with the keeper; one job
leaves nothing to the next (environment, Spark settings, views, Delta's cached snapshots). It takes at most `AT_ONCE`
jobs. Once it is old, has run many jobs, or its code was changed, it takes no more, lets those that it has end, and
replaces itself. All modules that jobs need are imported before the first fork, and only imported: this process opens
nothing, connects to nothing and starts no thread (what allocators start for themselves survives a fork).
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from filelock import FileLock

from windrow.engine import spark
from windrow.engine.likeness import Likeness
from windrow.engine.spark import Java, JavaEnded
from windrow.io.delta.session import leave_with_parent
from windrow.jobs import MODULES, main_of
from windrow.jobs.run import keep_to_owner, leave
from windrow.outcomes import BadInput
from windrow.places import Places
from windrow.platform import engine

AT_ONCE = 8
"""Jobs at a time, more than Airflow runs on one machine by Windrow's settings: Spark gives each a fair share of the
cores, and as many of their tasks share its memory as there are cores. Further jobs start their own Spark."""
OLDEST = 12 * 3600.0
"""Seconds after which an engine is replaced."""
MOST = 10_000
"""Jobs after which it is replaced."""
SHORTEST = 60.0
"""Seconds that a Java lives at least, if it is worth being replaced."""
PRELOADED = (
    *(f"windrow.jobs.{module}" for module in MODULES.values()),
    "windrow.quality.gate",
    "windrow.quality.report",
    "windrow.config.sql",
    "great_expectations",
    "great_expectations.render.view",
    "great_expectations.render.renderer",
    "scipy.stats",
    "pandas",
)
"""What jobs import late, because a process that does not need it should not wait for it."""


@dataclass
class Job:
    """A job that runs."""

    pid: int
    asker: socket.socket
    tells: int
    """reading end of the pipe on which its process tells what has to be cleaned up"""
    began: float = field(default_factory=time.monotonic)


class Keeper:
    """The loop of the engine.

    Args:
        listener: the socket on which jobs are taken.
        java: the running Java.
        likeness: what jobs must be like.
    """

    def __init__(self, listener: socket.socket, java: Java, likeness: Likeness) -> None:
        self._listener = listener
        self._java = java
        self._likeness = likeness
        self._jobs: dict[int, Job] = {}
        self._taken = 0
        self._is_to_stop = False
        self._began = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._ended, self._wakes = socket.socketpair()
        for one in (self._ended, self._wakes):
            one.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        self._selector.register(listener, selectors.EVENT_READ, self._take)
        self._selector.register(self._ended, selectors.EVENT_READ, self._forget_signals)

    def serve(self) -> bool:
        """Take jobs until the engine has to be replaced and none is left, or it is told to stop.

        Returns:
            whether it has to be replaced.
        Raises:
            JavaEnded: Java ended less than `SHORTEST` after the start, so that another one would too.
        """
        while self._jobs or not self._why_no_more():
            for key, _ in self._selector.select(timeout=5.0):
                key.data()
            self._reap()
            if self._is_to_stop:
                self._end_jobs("the engine is stopped")
                return False
            if self._java.process.poll() is not None:
                self._end_jobs("Java ended")
                if self._age < SHORTEST:
                    raise JavaEnded(f"Java ended after {self._age:.0f} s; its own words are above")
                return True
        return True

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began

    def _why_no_more(self) -> str | None:
        """Why this engine takes no more jobs, or None."""
        if self._taken >= MOST or self._age > OLDEST:
            return "the engine is old and will be replaced"
        return "the engine has older code and will be replaced" if self._likeness.is_outdated else None

    def _take(self) -> None:
        with suppress(OSError):  # too many open files: whoever asks is told nothing, and starts its own Spark
            asker, _ = self._listener.accept()
            asker.settimeout(engine.PATIENCE)
            descriptors: list[int] = []
            try:
                _, descriptors, _, _ = socket.recv_fds(asker, 1, 1)
                request = json.loads(_line(asker))
                refusal = self._refusal(asker, request)
                if refusal:
                    _say(asker, refused=refusal)
                    asker.close()
                else:
                    self._start(asker, request, descriptors[0])
            except (OSError, ValueError, LookupError, TypeError):  # the asker has gone, or is none of ours
                asker.close()
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _refusal(self, asker: socket.socket, request: dict[str, Any]) -> str | None:
        if _user_of(asker) != os.getuid():
            return "it belongs to another user"
        if len(self._jobs) >= AT_ONCE:
            return f"the engine has {AT_ONCE} jobs"
        return self._why_no_more() or self._likeness.refusal(request)

    def _start(self, asker: socket.socket, request: dict[str, Any], output: int) -> None:
        keeper = os.getpid()
        tells, telling = os.pipe()
        os.set_blocking(tells, False)

        def be_a_job() -> None:
            self._become_a_fork(asker)
            os.close(tells)
            _run(self._java, request, output, telling, keeper)

        try:
            pid = _fork(be_a_job)
        except OSError:
            os.close(tells)
            raise
        finally:
            os.close(telling)
        self._taken += 1
        self._jobs[pid] = Job(pid, asker, tells)
        self._selector.register(asker, selectors.EVENT_READ, lambda: self._kill(pid))
        _say(asker, pid=pid)
        _log(f"job {pid}: {' '.join(request['words'])}")

    def _become_a_fork(self, keep: socket.socket | None = None) -> None:
        """Give up, in a fork, what is the keeper's: signals, sockets, Java's standard input."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        self._selector.close()
        for one in (self._listener, self._ended, self._wakes, *(job.asker for job in self._jobs.values()), keep):
            if one is not None:
                one.close()
        if self._java.process.stdin:
            self._java.process.stdin.close()

    def _kill(self, pid: int) -> None:
        """Kill a job and its processes: whoever asked for it is gone."""
        self._selector.unregister(self._jobs[pid].asker)
        _end_session(pid)

    def _reap(self) -> None:
        """Report jobs that have ended, and clean up behind them."""
        with suppress(ChildProcessError):  # not even Java is left
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                _end_session(ended.si_pid)  # what it has started; until it is waited for, nobody else has its number
                _, status = os.waitpid(ended.si_pid, 0)
                job = self._jobs.pop(ended.si_pid, None)
                if job is not None:
                    self._report(job, os.waitstatus_to_exitcode(status))

    def _report(self, job: Job, code: int) -> None:
        told: dict[str, str] = {}
        with suppress(KeyError):  # its asker is gone
            self._selector.unregister(job.asker)
        _say(job.asker, code=code)
        job.asker.close()
        with suppress(BlockingIOError):
            told |= dict(line.split() for line in os.read(job.tells, 4096).decode().splitlines())
        os.close(job.tells)
        _log(f"job {job.pid} ended with {code} after {time.monotonic() - job.began:.1f} s")
        if told:
            with suppress(OSError):  # no room for a process: what the job has left stays until Java is replaced
                _fork(lambda: self._clean_up(told))

    def _clean_up(self, told: dict[str, str]) -> None:
        """Clean up behind a job, in a fork."""
        self._become_a_fork()
        self._java.clean_up(told, is_idle=not self._jobs)

    def _end_jobs(self, why: str) -> None:
        _log(f"{why}: {len(self._jobs)} jobs end with it")
        for pid in self._jobs:
            _end_session(pid)
        while self._jobs:
            time.sleep(0.01)
            self._reap()

    def _ask_to_stop(self, *_: object) -> None:
        self._is_to_stop = True  # the signal wakes the loop

    def _forget_signals(self) -> None:
        self._ended.recv(4096)


def _fork(body: Callable[[], object]) -> int:
    """Fork a process that does `body` and nothing else, whatever happens in it; return its pid.

    An exception that got out of it would go on in a copy of the keeper, which would end the jobs of the real one.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        body()
        code = 0
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _run(java: Java, request: dict[str, Any], output: int, telling: int, keeper: int) -> NoReturn:
    """Be the process of a job, and end with its exit code.

    Args:
        output: where it writes.
        telling: where it tells what has to be cleaned up.
        keeper: pid of the keeper, with which it ends.
    """
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    words = request["words"]
    sys.argv = ["run_job.py", *words]

    def tell(what: str, id_: str) -> None:
        os.write(telling, f"{what} {id_}\n".encode())

    code = 1
    try:
        os.chdir(request["cwd"])
        keep_to_owner()
        leave_with_parent(keeper)
        java.open_gateway(tell)
        code = main_of(words[0] if words else "")(words[1:])
    except BadInput as wrong:
        print(wrong, file=sys.stderr)
        code = wrong.code
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    leave(code)


def _log(line: str) -> None:
    with suppress(OSError):  # a full disk is no reason to end
        print(line, flush=True)


def _say(asker: socket.socket, **answer: Any) -> None:
    with suppress(OSError):  # it is gone: its connection says so too
        asker.sendall(json.dumps(answer).encode() + b"\n")


def _line(asker: socket.socket) -> bytes:
    with asker.makefile("rb") as lines:
        return lines.readline()


def _user_of(asker: socket.socket) -> int:
    """Number of the user whose process is at the other end, as the kernel says it."""
    _, user, _ = struct.unpack("3i", asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


def _end_session(leader: int) -> None:
    """Kill a child and all processes of its session; a fork that has not made its session yet is killed alone."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(leader, signal.SIGKILL)


def main() -> None:
    """Run the engine of the home, and replace it when it has to be, until it is stopped."""
    keep_to_owner()
    places = Places.from_env(os.environ)
    folder = engine.folder(places)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with FileLock(folder / "engine.lock", timeout=0):
        likeness = Likeness.of(places.spark_master, os.environ)
        for module in PRELOADED:
            import_module(module)
        gc.freeze()  # a fork that collects garbage would otherwise copy all pages
        java = spark.start(places)
        try:
            if os.waitpid(_fork(lambda: java.start_spark(places)), 0)[1]:
                raise SystemExit("Spark did not start")
            with _listening(folder) as listener:
                _log("the engine takes jobs")
                if not Keeper(listener, java, likeness).serve():
                    raise SystemExit(0)
        finally:
            java.end()
    likeness.wait_until_settled()
    os.execv(sys.executable, [sys.executable, "-m", "windrow.engine"])


@contextmanager
def _listening(folder: Path) -> Iterator[socket.socket]:
    """The socket on which jobs are taken; it is there for as long as they are."""
    there = folder / engine.SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        there.unlink(missing_ok=True)
        with engine.address(folder) as where:
            listener.bind(where)
        listener.listen()
        try:
            yield listener
        finally:
            there.unlink(missing_ok=True)
