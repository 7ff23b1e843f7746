"""health: what the tables of pipelines say about their state. No Spark, no lock; nothing is written.

read      clock, register, judgements of intervals without a publication
compute   findings in words                                                   (`semantics.health`)
"""

from __future__ import annotations

from collections.abc import Iterable

from windrow.config import PipelineInvalid, find
from windrow.home import Home
from windrow.io.registers import clocks, judgements, publications, snapshots
from windrow.outcomes import Condition
from windrow.places import Places
from windrow.semantics.health import Seen
from windrow.semantics.intervals import DAY

_REGISTER = ("number", "interval", "interval_end", "verdict", "why")


def look(names: Iterable[str], places: Places) -> list[Seen]:
    """Return what is seen of each pipeline, in the order of the names; an unusable file or table is in `broken`."""
    return [_of(name, places) for name in names]


def _of(name: str, places: Places) -> Seen:
    try:
        return seen(Home(find(name, places.pipelines, places.expectations), places))
    except PipelineInvalid as invalid:
        return Seen(name, DAY, broken=f"its file cannot be used: {invalid}")
    except Condition as condition:
        return Seen(name, DAY, broken=str(condition))


def seen(home: Home) -> Seen:
    """Return what the tables of a pipeline say.

    Raises:
        TableDamaged: a table cannot be read.
    """
    clock = clocks.observe(home)
    register = publications.registered(home, _REGISTER)
    holes = publications.holes(home.pipeline, register, clock.frontier(home.pipeline))
    newest, held = register[-1] if register else None, snapshots.held(home)
    return Seen(
        name=home.pipeline.name,
        interval=home.pipeline.interval,
        landed_at=max((row["landed_at"] for row in clock.rows), default=None),
        watermark=clock.watermark,
        published_until=max((row["interval_end"] for row in register), default=None),
        verdict=newest["verdict"] if newest else None,
        why=newest["why"] if newest else None,
        unpublished=holes,
        blocked=judgements.blocked(home, holes),
        snapshots=held.number,
        snapshot_bytes=held.bytes,
    )
