"""The demo on a cluster whose parts are killed while it runs: at the end no row may be lost or doubled.

    .venv/bin/python benchmarks/failover.py                    make failover
    .venv/bin/python benchmarks/failover.py --keep             leave the cluster's home behind, to look at it

    windrow demo:  produce ──▶ land ─────────▶ join, check, publish ──────▶ every figure is checked
                      ▲          ▲               ▲  ▲  ▲
                   a broker   a worker with      │  │  └ Spark's master
                              its executors      │  └ the scheduler, and then its tasks
                                                 └ the JVM of the driver

Everything is killed with SIGKILL, at a moment that is waited for: records have come and more are coming; executors have
computed; the driver's application runs; a task runs. `windrow up --cluster` then starts what died. Broker and worker
stay dead until landing has ended, so that it ends with two brokers and one worker.

Workers and their executors have a view of their own, in which the home holds nothing but the cluster's folder: no
table, staged file, lock or report of the drivers is there, as on another machine. It takes a user who may mount;
--shared does without, and then does not try whether workers need the home.

Judged by the demo itself (every count, every row of the training table), and here once more by what a plain consumer
reads in the topics: each offset is in the landing table exactly once, each served row is published exactly once. The
secrets of store, Spark, PostgreSQL and Airflow are searched in every file that the run has left (logs of Airflow and
Spark, the database of Airflow, reports, objects of the store) and in the arguments of every process.
Exit code 1 and the evidence otherwise. It takes about a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from soaking import truth

from windrow.cli.demo.preparation import Demo, prepare
from windrow.places import PROJECT, Places
from windrow.platform import Airflow, Broker, SparkCluster
from windrow.platform.java import find_java
from windrow.platform.processes import Background, free_port
from windrow.platform.servers import cluster
from windrow.simulate import open_bandit

NAME = "open_bandit"
PATIENCE_S = 900.0
WORKED_S = 6.0
"""CPU seconds after which an executor has more than started."""


_JAVA = """\
#!/bin/sh
case " $* " in *" org.apache.spark.deploy.worker.Worker "*)
  exec unshare --mount sh -ec '
    home=$1; java=$2; shift 2
    mount --bind "$home/platform/cluster" /mnt
    mount -t tmpfs none "$home"
    mkdir -p "$home/platform/cluster"
    mount --move /mnt "$home/platform/cluster"
    cd "$home/platform/cluster"
    exec "$java" "$@"' view {home} {java} "$@" ;;
esac
exec {java} "$@"
"""
"""A Java that takes the home away from Spark's workers before it starts them; executors inherit what they see."""


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S', time.gmtime())}  {text}", flush=True)


def until(holds: Callable[[], Any], what: str, demo: subprocess.Popen[bytes] | None = None) -> Any:
    """Wait until `holds` returns something, and return it.

    Args:
        demo: give up as soon as it has ended.
    """
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        if time.monotonic() > end or (demo is not None and demo.poll() is not None):
            raise SystemExit(f"waited in vain until {what}")
        time.sleep(0.05)
    return found


class Killing:
    """Kills parts of a cluster while the demo runs on it."""

    def __init__(self, places: Places, demo: subprocess.Popen[bytes]) -> None:
        self.places, self.demo = places, demo
        self.brokers, self.spark, self.airflow = Broker(places), SparkCluster(places, {}), Airflow(places)
        self.kills: list[str] = []

    def run(self) -> None:
        """Kill each kind of part once, and start it again."""
        self.a_broker()
        self.a_worker()
        self._until(lambda: self._application("land") is None, "landing has ended")
        up()
        self.a_driver()
        self.the_scheduler()
        up()
        self.the_master()
        up()

    def a_broker(self) -> None:
        """Kill the leader of a partition that is being written to."""
        topic = f"{NAME}.impressions"
        leader = self._until(lambda: self._leader(topic), f"{topic} is there")
        with closing(Consumer({"bootstrap.servers": self.places.kafka, "group.id": "look", "log_level": 0})) as look:
            records = self._until(lambda: _end(look, topic), f"{topic} has records")
        node = self.brokers.nodes[leader - 1]
        self._kill(
            f"broker {leader}, which led a partition, after {records:,} records", _tree(node.process, alone=True)
        )

    def a_worker(self) -> None:
        """Kill a worker and its executors in the middle of landing."""
        worker = self.spark.processes["spark-worker-1"]
        self._until(lambda: self._application("land"), "landing runs")
        executors = self._until(lambda: _busy(worker), "executors have worked")
        require_apart(self.places.home, [*_tree(worker), *executors])
        self._kill(f"worker 1 with {len(executors)} executor(s), while landing", _tree(worker))

    def a_driver(self) -> None:
        """Kill the JVM of the driver of a join."""
        self._until(lambda: self._application("join"), "a join runs")
        self._kill("the driver of a join", self._until(lambda: self._driver("join"), "its JVM is there"))

    def the_scheduler(self) -> None:
        """Kill the scheduler while a task of another application runs."""
        self._until(lambda: self._application("join"), "a join runs")
        self._kill("the scheduler, while a join runs", _tree(self.airflow.processes["scheduler"], alone=True))

    def the_master(self) -> None:
        """Kill Spark's master while an application runs, which must not notice."""
        self._until(lambda: self._application("join"), "a join runs")
        self._kill("Spark's master, while a join runs", _tree(self.spark.processes["spark-master"], alone=True))

    def _kill(self, what: str, processes: list[psutil.Process]) -> None:
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=20)
        if not processes or self.demo.poll() is not None:
            raise SystemExit(f"nothing was killed: {what}")
        self.kills.append(what)
        say(f"KILLED {what}")

    def _until(self, holds: Callable[[], Any], what: str) -> Any:
        return until(holds, what, self.demo)

    def _leader(self, topic: str) -> int | None:
        """Number of the node that leads partition 0."""
        try:
            known = AdminClient({"bootstrap.servers": self.places.kafka, "log_level": 0}).list_topics(timeout=5).topics
        except KafkaException:
            return None
        partitions = known[topic].partitions if topic in known else {}
        return partitions[0].leader if 0 in partitions and partitions[0].leader > 0 else None

    def _application(self, job: str) -> dict[str, Any] | None:
        """A running application of a job, as the master shows it."""
        with suppress(OSError, ValueError):
            page = f"http://{self.spark.page('spark-master')}/json/"
            with build_opener(ProxyHandler({})).open(page, timeout=5) as answer:
                running = json.load(answer)["activeapps"]
            return next(
                (one for one in running if job in re.split(r"[ .]", one["name"]) and one["state"] == "RUNNING"), None
            )
        return None

    def _driver(self, job: str) -> list[psutil.Process]:
        """The JVM of a job's driver."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                is_driver = "org.apache.spark.deploy.SparkSubmit" in words and job in words
                if is_driver and process.environ().get("WINDROW_HOME") == str(self.places.home):
                    found.append(process)
        return found


def _tree(part: Background, alone: bool = False) -> list[psutil.Process]:
    leader = part.process()
    return [leader] if alone and leader else list(part.tree())


def _busy(worker: Background) -> list[psutil.Process]:
    """Executors of a worker that have worked."""
    busy = []
    for process in worker.tree():
        with suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in process.cmdline()):
                busy += [process] if sum(process.cpu_times()[:2]) > WORKED_S else []
    return busy


def _end(consumer: Consumer, topic: str) -> int:
    with suppress(KafkaException):
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)[1])
    return 0


def take_home_from_workers(home: Path) -> None:
    """Let the processes that are started from here on use a Java that does."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        raise SystemExit(
            "this user may not mount: run it as root, or with --shared, where workers see the drivers' home"
        )
    java = home / "platform" / "cluster" / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(home=shlex.quote(str(home)), java=shlex.quote(str(find_java(os.environ)))))
    java.chmod(0o700)
    os.environ["JAVA_HOME"] = str(java.parent.parent)


def require_apart(home: Path, processes: list[psutil.Process]) -> None:
    """Fail where a worker's process sees more of the home than the cluster's folder; unless it is shared."""
    if not os.environ.get("JAVA_HOME", "").startswith(str(home)):
        say("workers see the drivers' home: whether they need it was not tried")
        return
    for process in processes:
        view = Path(f"/proc/{process.pid}/root{home}")
        if seen := {*view.iterdir(), *view.glob("platform/*")} - {view / "platform", view / "platform/cluster"}:
            raise SystemExit(f"a process of a worker sees {', '.join(sorted(path.name for path in seen))} of the home")
    say(f"{len(processes)} processes of a worker see nothing of the drivers' home but the cluster's folder")


def windrow(*words: str) -> list[str]:
    """A command line of the command."""
    return [sys.executable, "-c", "from windrow.cli import main; main()", *words]


def up() -> None:
    """Start what does not run."""
    say("windrow up --cluster")
    subprocess.run(windrow("up", "--cluster"), check=True)


def wrong(demo: Demo) -> Iterator[str]:
    """Compare topics, landing tables and training table row by row; yield what is lost, doubled or extra."""
    for topic, partitions in demo.moved.topics.items():
        there = {(one.partition, one.offset) for one in truth.contents(demo.places.kafka, topic, partitions)}
        landed = _ids(demo.places.landing(NAME, topic))
        yield from _difference(topic, there, landed)
    served = {(row.partition, row.offset) for row in demo.truth.rows()}
    published = _ids(demo.places.table(NAME, "training"), demo)
    yield from _difference("training table", served, published)


def _ids(table: str, demo: Demo | None = None) -> Counter[tuple[int, int]]:
    """How often each partition and offset is in a table; with `demo` only in the intervals of its input."""
    columns = ["_partition", "_offset", *(["_interval"] if demo else [])]
    rows = DeltaTable(table).to_pyarrow_table(columns=columns).to_pylist()
    kept = [row for row in rows if demo is None or row["_interval"] in demo.truth.counts.intervals]
    return Counter((row["_partition"], row["_offset"]) for row in kept)


def _difference(what: str, wanted: set[tuple[int, int]], found: Counter[tuple[int, int]]) -> Iterator[str]:
    lost, extra = wanted - found.keys(), found.keys() - wanted
    doubled = [one for one, many in found.items() if many > 1]
    say(f"{what}: {len(wanted):,} expected, {found.total():,} found, {len(lost)} lost, {len(doubled)} doubled")
    for kind, ids in (("lost", lost), ("doubled", doubled), ("extra", extra)):
        if ids:
            yield f"{what}: {len(ids)} {kind}, for example {sorted(ids)[:5]}"


def secrets_of(home: Path) -> dict[str, tuple[str, set[Path]]]:
    """Every secret that the cluster has made: what it is → its text, and the files that are made for it."""
    platform = home / "platform"
    cluster, airflow, store = platform / "cluster", platform / "airflow", platform / "store"
    spark, postgres = cluster / "spark-secrets.conf", cluster / "postgres.secret"
    keys, passwords, cfg = airflow / "secrets.json", airflow / "passwords.json", airflow / "airflow.cfg"
    known = {line.split(" ")[0]: line.split(" ")[1] for line in spark.read_text().splitlines()}
    made_for_store = {cluster / "env", *(store / name for name in ("env", "secret", "s3proxy.properties"))}
    return {
        "the store's secret": (os.environ["AWS_SECRET_ACCESS_KEY"], made_for_store),
        "the secret of Spark's processes": (known["spark.authenticate.secret"], {spark}),
        "PostgreSQL's password": (postgres.read_text().strip(), {postgres, cfg}),
        **{f"Airflow's {name}": (text, {keys, cfg}) for name, text in json.loads(keys.read_text()).items()},
        **{f"the password of {user}": (text, {passwords}) for user, text in json.loads(passwords.read_text()).items()},
    }


def leaks(home: Path) -> Iterator[str]:
    """Search files and arguments of processes for every secret; yield where one is, beside files made for it."""
    known, files, processes = secrets_of(home), 0, 0
    for path in home.rglob("*"):
        if path.is_file():
            files, content = files + 1, path.read_bytes()
            for what, (secret, made_for_it) in known.items():
                if path not in made_for_it and secret.encode() in content:
                    yield f"{what} is in {path}"
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words, processes = " ".join(process.cmdline()), processes + 1
            yield from (f"{what} is an argument of process {process.pid}" for what in known if known[what][0] in words)
    say(f"{len(known)} secrets: searched {files:,} files and the arguments of {processes} processes")


def addresses() -> dict[str, str]:
    """Free ports for every part, unless the environment names them."""
    chosen = {
        "WINDROW_KAFKA": ",".join(f"127.0.0.1:{free_port()}" for _ in range(3)),
        "WINDROW_STORE": f"127.0.0.1:{free_port()}",
        "WINDROW_SPARK_MASTER": f"spark://127.0.0.1:{free_port(2)}",
        "WINDROW_POSTGRES": f"127.0.0.1:{free_port()}",
        "WINDROW_AIRFLOW_PORT": str(free_port()),
    }
    return {name: os.environ.get(name) or value for name, value in chosen.items()}


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=PROJECT / ".windrow" / "failover", help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="leave the home behind, to look at it")
    parser.add_argument("--shared", action="store_true", help="let workers see the drivers' home")
    options = parser.parse_args()
    home = options.home.resolve()
    shutil.rmtree(home, ignore_errors=True)
    os.umask(0o077)
    os.environ |= {"WINDROW_HOME": str(home), "WINDROW_TABLES": "", **addresses()}
    os.environ |= {"PYTHONPATH": os.pathsep.join([str(PROJECT / "spark_jobs"), os.environ.get("PYTHONPATH", "")])}
    if not options.shared:
        take_home_from_workers(home)
    try:
        up()
        os.environ |= cluster.environment(os.environ)
        places = Places.from_env(os.environ)
        with subprocess.Popen(windrow("demo")) as demo:
            killing = Killing(places, demo)
            try:
                killing.run()
                say("no more kills; the demo goes on")
                demo.wait()
            finally:
                demo.terminate() if demo.poll() is None else None
        found = [f"the demo ended with {demo.returncode}"] if demo.returncode else []
        found += wrong(prepare(places, open_bandit.fetch(places.cache)))
        found += leaks(home)
    finally:
        subprocess.run(windrow("down"), check=False)
    for kill in killing.kills:
        say(f"survived: {kill}")
    for line in found:
        say(f"WRONG {line}")
    if not options.keep and not found:
        shutil.rmtree(home)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
