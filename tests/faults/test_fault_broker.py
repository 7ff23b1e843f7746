"""The broker freezes, or is killed and started again, between planning the offsets and reading them: nothing is lost.

land   describe ─ plan the offsets ─ broker freezes or dies ─ read ─ …   broker goes on
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import psutil
import pytest

from support.broken.faults import until
from support.small_pipeline import PIPELINE, event, made
from support.world import World
from windrow.io.delta import crash_points
from windrow.io.registers import clocks
from windrow.jobs.run import Context
from windrow.outcomes import ExitCode, exit_code
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.processes import free_port
from windrow.platform.servers.broker import Broker
from windrow.semantics.landing.replaced import OffsetsReplaced

Fault = Callable[[Broker], Callable[[], None]]
"""Hurts a broker, and returns what heals it."""

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def broker(session_places: Places, spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of these tests' own, because it is killed; each test has topics of its own, and heals it."""
    own = replace(session_places, home=tmp_path_factory.mktemp("broker"), kafka=f"127.0.0.1:{free_port()}")
    jars.ensure(own)
    broker = Broker(own)
    broker.start()
    yield broker
    broker.stop()


def test_landing_goes_on_when_the_broker_freezes_or_dies_under_it(
    broker: Broker, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(replace(places, kafka=broker.bootstrap), "hurt")
    ctx = made(world, PIPELINE, {"served": 2, "likes": 1})
    landed = {"served": 0, "likes": 0}
    for fault in (_freeze, _kill):
        world.produce(event("served", n % 2, 10 + n, name=f"{n}") for n in range(200))
        world.produce(event("likes", 0, 10 + n) for n in range(50))
        landed = {"served": landed["served"] + 200, "likes": landed["likes"] + 50}
        _land_under(world, ctx, broker, fault, monkeypatch)
        seen = clocks.observe(ctx.home)
        for topic, count in landed.items():
            rows = world.table(ctx, f"landing/{world.name}.{topic}")
            assert len({(row["_partition"], row["_offset"]) for row in rows}) == len(rows) == count
            of_topic = seen.of_topic(f"{world.name}.{topic}")
            sums = [sum(row[name] for row in of_topic) for name in ("read", "landed", "quarantined", "skipped")]
            assert sums == [count, count, 0, 0]


def test_a_broker_that_gave_landed_offsets_to_other_records_is_refused(broker: Broker, places: Places) -> None:
    """Its volume is restored from a copy, as after a disk is lost; an unclean election does the same to a partition."""
    world = World(replace(places, kafka=broker.bootstrap), "older")
    ctx = made(world, PIPELINE, {"served": 1, "likes": 1})
    world.produce([event("served", 0, 10), event("likes", 0, 10)])
    likes = broker.folder / "data" / f"{world.name}.likes-0"
    copy = shutil.copytree(likes, broker.folder / "copy")
    world.produce([event("likes", 0, 20)])
    seen = world.land(ctx)
    heal = _kill(broker)
    shutil.rmtree(likes)
    shutil.move(copy, likes)
    heal()
    world.produce([event("likes", 0, 30), event("likes", 0, 40), event("served", 0, 50)])

    with pytest.raises(OffsetsReplaced, match=r"older\.likes partition 0: the record at offset 1 .* 00:00:20Z"):
        world.land(ctx)
    assert clocks.observe(ctx.home) == seen
    assert len(world.table(ctx, f"landing/{world.name}.likes")) == 2


def _land_under(world: World, ctx: Context, broker: Broker, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Land while the broker suffers, and once more when it is well: the first landing may have failed."""
    healing: list[threading.Thread] = []

    def strike(point: str) -> None:
        if point == "land.offsets_planned" and not healing:
            heal = fault(broker)
            healing.append(threading.Thread(target=heal))
            healing[0].start()

    monkeypatch.setattr(crash_points, "point", strike)
    assert _code_of(world, ctx) in (ExitCode.DONE, ExitCode.FAILED, ExitCode.NOT_READY)
    healing[0].join()
    assert _code_of(world, ctx) == ExitCode.DONE


def _code_of(world: World, ctx: Context) -> ExitCode:
    """Return the exit code of a landing."""
    try:
        world.land(ctx)
    except Exception as failed:
        return exit_code(failed)
    return ExitCode.DONE


def _freeze(broker: Broker) -> Callable[[], None]:
    process = _process(broker)
    process.suspend()

    def heal() -> None:
        until(lambda: not broker.is_up(), "a question to be left without an answer")
        process.resume()

    return heal


def _kill(broker: Broker) -> Callable[[], None]:
    process = _process(broker)
    process.kill()
    process.wait(30)
    return broker.start


def _process(broker: Broker) -> psutil.Process:
    process = broker.process.process()
    assert process is not None
    return process
