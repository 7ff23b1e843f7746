"""The warm engine: it takes jobs that are like it, tells their output and end, and leaves nothing of them behind.

That jobs in it make the rows that they make elsewhere, killed at any point, is in tests/faults.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from support.broken.faults import FIRST, asleep, check_against_oracle, joining, prepared, until
from support.world import World
from windrow.engine.likeness import Likeness
from windrow.engine.spark import Java
from windrow.home import Table
from windrow.io.delta.locks import held
from windrow.outcomes import ExitCode
from windrow.places import Places
from windrow.platform import PlatformNotReady, engine, jars, jobs_side
from windrow.platform.servers.engine import Engine

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ENVIRON = {"PATH": os.defpath, "AWS_REGION": "here", "WINDROW_HOME": "/one", "AWS_SECRET_ACCESS_KEY": "planted"}


def environment_of(places: Places) -> dict[str, str]:
    side = jobs_side.here(places).environment(places, os.environ)
    return {**os.environ, **jars.environment(places), **side, "WINDROW_SPARK_MASTER": "local[2]"}


def asked(places: Places, *words: str, **environ: str) -> engine.Job:
    return engine.start(places, words, {**environment_of(places), **environ}, "local[2]")


def ended(job: engine.Job) -> tuple[int, str]:
    output = job.output.read()
    return job.wait(), output


def test_a_job_tells_its_output_and_its_exit_code(engine_places: Places) -> None:
    code, output = ended(asked(engine_places, "join", "--help"))
    assert code == 0
    assert "Usage: run_job.py JOB" in output
    assert ended(asked(engine_places, "join", "feed", "--mode", "nonsense"))[0] == ExitCode.BAD_INPUT
    assert ended(asked(engine_places, "nonsense"))[0] == ExitCode.BAD_INPUT
    code, output = ended(asked(engine_places, "join", "no_such_pipeline", "--run", "one"))
    assert code == ExitCode.BAD_INPUT
    assert "no_such_pipeline" in output


def test_what_java_read_at_its_start_must_be_equal_and_the_reason_shows_no_value() -> None:
    one = Likeness.of("local[2]", ENVIRON)
    job = {"master": "local[2]", "environ": ENVIRON}
    assert one.refusal(job) is None
    assert one.refusal({**job, "master": None}) is None
    assert one.refusal({**job, "environ": {**ENVIRON, "WINDROW_HOME": "/two", "CRASH_AT": "x"}}) is None
    assert "local[2], not yarn" in str(one.refusal({**job, "master": "yarn"}))
    why = one.refusal({**job, "environ": {**ENVIRON, "AWS_SECRET_ACCESS_KEY": "other", "SPARK_LOCAL_DIRS": "/tmp"}})
    assert why == "the engine was started with another AWS_SECRET_ACCESS_KEY, SPARK_LOCAL_DIRS"
    assert not one.is_outdated
    assert replace(one, code=one.code[1:]).is_outdated


def test_a_job_that_no_engine_takes_is_told_why(engine_places: Places, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(engine.NotTaken, match="another AWS_REGION"):
        asked(engine_places, "join", "--help", AWS_REGION="elsewhere")
    with pytest.raises(engine.NotTaken, match="no engine runs"):
        asked(replace(engine_places, home=tmp_path), "join", "--help")
    with pytest.raises(engine.NotTaken, match="WINDROW_ENGINE=off"):
        asked(engine_places, "join", "--help", WINDROW_ENGINE="off")
    with pytest.raises(PlatformNotReady, match="no engine runs"):
        asked(replace(engine_places, home=tmp_path), "join", "--help", WINDROW_ENGINE="only")
    with pytest.raises(PlatformNotReady, match="choose one of auto, off, only"):
        asked(engine_places, "join", "--help", WINDROW_ENGINE="perhaps")


@pytest.mark.kafka
def test_a_job_whose_asker_goes_away_is_killed_and_its_lock_is_free(warm_engine: World) -> None:
    world = warm_engine
    ctx, _ = prepared(world, seed=31)
    world.land(ctx)
    run = (ctx.pipeline.name, "--run", "gone")
    words = ("join", *run, "--interval", FIRST, "--along", "24")
    assert world.engine
    environ = world.environment({"PAUSE_AT": "join.before_commit"})
    job = engine.start(world.engine, words, environ, "local[2]")
    with asleep() as stopped:
        assert stopped.pid == job.pid
        job.end()
        assert job.wait() == -signal.SIGKILL
        until(lambda: not psutil.pid_exists(job.pid), "the job to be gone")
    with held(ctx.home.lock(Table.CANDIDATES), wait_seconds=0.1):
        pass
    for step in (words, ("check", *run), ("publish", *run)):
        done = world.warm(*step, WINDROW_PAYLOAD="files")
        assert done.returncode == ExitCode.DONE, done.stdout[-3000:]
    check_against_oracle(world, ctx)


def test_askers_that_go_away_at_any_moment_harm_nobody_else(engine_places: Places) -> None:
    for pause in (0, 0.005, 0.02, 0.05) * 2:
        job = asked(engine_places, "join", "--help")
        time.sleep(pause)  # the moment is what varies; nothing is waited for
        job.output.close()
        job.end()
        assert ended(asked(engine_places, "join", "--help"))[0] == 0


SETS = """
from windrow.io.delta.session import session
spark = session("one", "local[2]")
spark.conf.set("a.setting", "1")
spark.range(1).createTempView("seen")
print(spark.conf.get("a.setting"), spark.catalog.tableExists("seen"))
"""
LOOKS = """
from windrow.io.delta.session import session
spark = session("two", "local[2]")
print(spark.conf.get("a.setting", None), spark.catalog.tableExists("seen"))
"""


ASKS_IN_THREADS = """
import os
from windrow.io.delta.session import session, threads
spark = session("three", "local[2]")
def pool(_): return spark.sparkContext.getLocalProperty("spark.scheduler.pool")
with threads(2) as at_once:
    print({pool(0), *at_once.map(pool, range(4))} == {f"job-{os.getpid() % 32}"})
"""


def printed(spark: SparkSession, program: str) -> str:
    """The last line that a program prints, as a process that joins the Spark of these tests."""
    environ = {**os.environ, **joining(spark)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_sessions_in_one_spark_have_nothing_of_each_other(spark: SparkSession) -> None:
    assert printed(spark, SETS) == "1 True"
    assert printed(spark, LOOKS) == "None False"
    assert spark.conf.get("a.setting", None) is None


def test_threads_of_a_job_have_its_share_of_the_cores(spark: SparkSession) -> None:
    assert printed(spark, ASKS_IN_THREADS) == "True"


def test_spark_is_told_to_stop_what_a_killed_job_has_left_running(spark: SparkSession) -> None:
    """As the keeper says it behind a job, to the Spark of these tests."""
    gateway = spark.sparkContext._gateway.gateway_parameters
    first: Any = spark._jsparkSession
    own = SparkSession(spark.sparkContext, first.newSession())
    failed: list[str] = []

    def endless() -> None:
        try:
            own.range(10**13).selectExpr("sum(id % 7)").collect()
        except Exception as error:
            failed.append(str(error))

    def clean_up() -> bool:
        java = Java(None, gateway.port, gateway.auth_token)  # type: ignore[arg-type]
        java.clean_up({"session": own._jsparkSession.sessionUUID()})
        return bool(failed)

    running = threading.Thread(target=endless)
    running.start()
    until(clean_up, "the query to be cancelled", seconds=60)
    running.join(30)
    assert "cancelled" in failed[0]


@pytest.fixture(scope="module")
def own_engine(engine_places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that is old after five jobs; the last test breaks it."""
    started = Engine(replace(engine_places, home=tmp_path_factory.mktemp("own")))
    program = "from windrow.engine import keeper\nkeeper.MOST = 5\nkeeper.main()"
    started.process.start([sys.executable, "-c", program], environment_of(started.places), started.folder)
    started.wait()
    yield started
    started.stop()


def test_an_old_engine_replaces_itself(own_engine: Engine) -> None:
    leader = own_engine.process.process()
    assert leader
    java = leader.children()
    for _ in range(5):
        assert ended(asked(own_engine.places, "join", "--help"))[0] == 0
    until(lambda: not any(one.is_running() for one in java), "the old Java to be gone")
    own_engine.wait()
    assert own_engine.process.process() == leader
    assert ended(asked(own_engine.places, "join", "--help"))[0] == 0
    assert ended(asked(own_engine.places, "join", "--help"))[0] == 0


def test_an_engine_that_is_killed_takes_java_and_its_jobs_along(own_engine: Engine) -> None:
    leader = own_engine.process.process()
    assert leader
    own = leader.children(recursive=True)
    job = asked(own_engine.places, "land", "no_such_pipeline", "--for", "1h")
    assert ended(job)[0] == ExitCode.BAD_INPUT
    leader.kill()
    until(lambda: not any(one.is_running() for one in own), "Java to be gone")
    with pytest.raises(engine.NotTaken, match="no engine runs"):
        asked(own_engine.places, "join", "--help")
