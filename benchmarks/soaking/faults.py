"""The nemesis: two threads that draw faults from shuffled decks, so that each kind comes before any comes again.

    machine   freeze the broker, kill it, fill the disk of the tables, kill the producer
    jobs      kill or freeze a process of a job: its Python, its JVM, or both

Where nothing gets done, there is nothing to break: a machine fault waits for a commit after the last one, though not
for long, and the process that follows a killed one is spared.

The seed decides the order of the faults and how long they last; what they meet is decided by the machine.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil
from soaking.work import Journal

from windrow.platform.servers.broker import Broker

KILLED = ("land", "join", "check", "publish", "rebuild", "maintenance", "late")
FROZEN = ("land", "join", "check", "publish", "rebuild", "maintenance", "late")
PATIENCE_S = 20
"""How long a fault waits for work that it can meet."""
FIRST_S = 60
"""How long the first faults wait for the first publication."""


class Disk:
    """A small file system for the tables, which can be full: memory, so that its size can change while it is used."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder, self._size = folder, megabytes * 2**20
        self.is_there = False

    def mount(self) -> str:
        """Mount it; returns why not, or an empty text."""
        self._folder.mkdir(parents=True, exist_ok=True)
        done = self._call("mount", "-t", "tmpfs", "-o", f"size={self._size},mode=700", "tmpfs", str(self._folder))
        self.is_there = not done
        return done

    def fill(self, spare: int) -> bool:
        """Leave `spare` bytes; returns whether the system lets it."""
        use = psutil.disk_usage(str(self._folder)).used + spare
        return not self._call("mount", "-o", f"remount,size={use}", str(self._folder))

    def free(self) -> None:
        """Give it its size again."""
        if self.is_there and (why := self._call("mount", "-o", f"remount,size={self._size}", str(self._folder))):
            raise OSError(why)

    def commits(self, table: str) -> int:
        """Number of commits in the logs of a table."""
        return sum(1 for _ in self._folder.glob(f"*/{table}/_delta_log/*.json"))

    def unmount(self) -> None:
        """Remove it with all that is on it. Also one that a killed run has left."""
        if self._folder.is_mount():
            self._call("umount", "--lazy", str(self._folder))
        self.is_there = False

    def _call(self, *command: str) -> str:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as missing:
            return str(missing)
        return (done.stderr.strip() or f"{command[0]} ended with {done.returncode}") if done.returncode else ""


class Work(Protocol):
    """What is under attack."""

    harmed: set[int]
    """process ids that the nemesis has killed"""

    def process(self, job: str) -> psutil.Process | None:
        """The running process of a job."""


class Nemesis:
    """Faults until `stop`, which undoes those that last."""

    def __init__(
        self,
        seed: int,
        journal: Journal,
        work: Work,
        broker: Broker,
        disk: Disk,
        kill_producer: Callable[[], None],
        more: Sequence[Callable[[random.Random], None]] = (),
    ) -> None:
        """`more`: further faults of the machine."""
        self._journal, self._work = journal, work
        self._broker, self._disk, self._kill_producer = broker, disk, kill_producer
        self._stop = threading.Event()
        self._spared: dict[str, set[int]] = {}
        """by job: pids of the last killed process and of the one after it"""
        machine = [self._freeze_broker, self._kill_broker, self._producer, *more]
        if disk.is_there:
            machine.append(self._fill_disk)
        kinds = [(self._kill_job, job) for job in KILLED] + [(self._freeze_job, job) for job in FROZEN]
        self._threads = [
            threading.Thread(target=self._machine, args=(random.Random(f"{seed}/machine"), machine)),
            threading.Thread(target=self._job, args=(random.Random(f"{seed}/jobs"), kinds)),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let the present faults end."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _machine(self, rng: random.Random, kinds: Sequence[Callable[[random.Random], None]]) -> None:
        self._wait(self._has_published, FIRST_S)
        while not self._stop.is_set():
            for fault in rng.sample(kinds, len(kinds)):
                before = self._disk.commits("clock")
                if self._stop.wait(rng.uniform(4, 12)):
                    return
                self._wait(lambda before=before: self._disk.commits("clock") > before, PATIENCE_S)
                if not self._stop.is_set():
                    fault(rng)

    def _wait(self, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until it holds, for some seconds at most, or until `stop`."""
        until = time.monotonic() + seconds
        while not holds() and time.monotonic() < until and not self._stop.wait(0.5):
            pass

    def _has_published(self) -> bool:
        return self._disk.commits("training") > 0

    def _job(self, rng: random.Random, kinds: Sequence[tuple[Callable[[random.Random, str], None], str]]) -> None:
        """The next fault of the deck whose job runs now has its turn; a deck ends when nothing fits for a while."""
        self._wait(self._has_published, FIRST_S)
        while not self._stop.is_set():
            deck, until = rng.sample(kinds, len(kinds)), time.monotonic() + PATIENCE_S
            while deck and time.monotonic() < until and not self._stop.wait(rng.uniform(0, 2)):
                fits = next((one for one in deck if self._may_meet(one[1])), None)
                if fits:
                    deck.remove(fits)
                    fits[0](rng, fits[1])
                    until = time.monotonic() + PATIENCE_S

    def _may_meet(self, job: str) -> bool:
        """Whether the job runs, and its process is not the one after a killed one."""
        found, spared = self._work.process(job), self._spared.setdefault(job, set())
        if found is not None and len(spared) == 1:
            spared.add(found.pid)
        return found is not None and found.pid not in spared

    def _freeze_broker(self, rng: random.Random) -> None:
        frozen, lasting = self._broker.process.process(), rng.uniform(3, 12)
        if frozen is None:
            return
        self._journal.fault("freeze the broker", f"{lasting:.0f} s")
        frozen.suspend()
        self._stop.wait(lasting)
        frozen.resume()

    def _kill_broker(self, rng: random.Random) -> None:
        killed = self._broker.process.process()
        if killed is not None:
            self._journal.fault("kill the broker")
            killed.kill()
            killed.wait(30)
        self._stop.wait(rng.uniform(0, 4))
        self._broker.start()

    def _producer(self, _rng: random.Random) -> None:
        self._journal.fault("kill the producer")
        self._kill_producer()

    def _fill_disk(self, rng: random.Random) -> None:
        spare, lasting = rng.choice([2**14, 2**17, 2**20]), rng.uniform(4, 12)
        if not self._disk.fill(spare):
            self._journal.say("the disk could not be filled")
            return
        self._journal.fault("fill the disk", f"{spare // 1024} KiB left, {lasting:.0f} s")
        self._stop.wait(lasting)
        self._disk.free()

    def _tree(self, rng: random.Random, job: str) -> tuple[int, list[psutil.Process]]:
        """The pid of a running job, at some moment of its work, and its processes; none where it does not run."""
        self._stop.wait(rng.uniform(0, {"publish": 2, "check": 3, "land": 25, "rebuild": 14}.get(job, 8)))
        with suppress(psutil.Error):
            if self._may_meet(job) and (found := self._work.process(job)):
                return found.pid, [found, *found.children(recursive=True)]
        return 0, []

    def _kill_job(self, rng: random.Random, job: str) -> None:
        part = rng.choice(("all", "all", "Python", "JVM"))
        pid, tree = self._tree(rng, job)
        if not tree:
            return
        if len(tree) > 1:  # with Spark
            tree = {"all": tree, "Python": tree[:1], "JVM": tree[1:]}[part]
        else:
            part = "all"
        self._work.harmed.add(pid)
        self._spared[job] = {pid}
        self._journal.fault(f"kill {job}", {"all": "all its processes"}.get(part, f"its {part} alone"))
        for process in tree:
            with suppress(psutil.Error):
                process.kill()

    def _freeze_job(self, rng: random.Random, job: str) -> None:
        lasting = rng.uniform(2, 8)
        _, tree = self._tree(rng, job)
        if not tree:
            return
        self._journal.fault(f"freeze {job}", f"{lasting:.0f} s")
        for process in tree:
            with suppress(psutil.Error):
                process.suspend()
        self._stop.wait(lasting)
        for process in tree:
            with suppress(psutil.Error):
                process.resume()
