"""Schemas of producers for a batch: those that are kept; a registry is asked only about the ids of others.

kept schemas ─▶ decode ─▶ an id that is new? ─▶ all ids of the batch ─▶ registry ─▶ kept for good ─▶ decode again
                                                                         └ unknown there: quarantined, with its bytes
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import DataFrame

from windrow.home import Home
from windrow.io.landing.registry import Registry, with_descriptors
from windrow.io.registers import writer_schemas
from windrow.transforms.formats import framing
from windrow.transforms.formats.schemas import Schemas

MOST_IDS = 1_000
"""New ids of a batch that a registry is asked about, those of most records first; the others count as unknown."""

Write = Callable[[Schemas, bool], None]
"""Decodes and writes records by known schemas; whether these are all that can be known."""


def known(home: Home, topic: str) -> Schemas:
    """Return the kept schemas of a topic's registry; none where its format needs none."""
    of = home.pipeline.format(topic)
    if not of.needs_schemas:
        return {}
    return {number: with_descriptors(one) for number, one in writer_schemas.kept(home, of.registry).items()}


def asked(home: Home, topic: str, records: DataFrame, now: datetime) -> Schemas:
    """Return the schemas of records, of which new ones are asked for and kept.

    Args:
        records: has a column `value`.

    Raises:
        RegistryUnreachable: the registry does not answer.
        RegistryUnnamed: it has no address.
    """
    of, found = home.pipeline.format(topic), dict(known(home, topic))
    if not of.needs_schemas:
        return found
    new = [row["id"] for row in framing.ids(records, MOST_IDS + len(found)).collect() if row["id"] not in found]
    if new:
        registry = Registry(home.places, of.registry)
        answers = [one for number in new[:MOST_IDS] if (one := registry.schema(number)) is not None]
        writer_schemas.keep(home, of.registry, answers, now)
        found |= {one.id: one for one in answers}
    return found


def written(home: Home, topic: str, records: Callable[[], DataFrame], now: datetime, write: Write) -> None:
    """Have records written by the schemas of their producers.

    Nothing is committed at the first try where it meets the id of a schema that is not kept.

    Args:
        records: reads them; called again for each pass.
        write: does one try.

    Raises:
        RegistryUnreachable: the registry does not answer, and an id is new.
        RegistryUnnamed: it has no address.
    """
    of = home.pipeline.format(topic)
    there = known(home, topic)
    if there or not of.needs_schemas:
        try:
            return write(there, not of.needs_schemas)
        except Exception as problem:
            if framing.NEW_SCHEMA not in str(problem):
                raise
    return write(asked(home, topic, records(), now), True)
