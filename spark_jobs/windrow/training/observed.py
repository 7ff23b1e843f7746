"""What each publication knew about the labels of its rows: windows, and how far the label side had been heard.

    row of the register ──▶ its plan (clocks of all partitions) and its pipeline file ──▶ Observed

                  window of a row
              |<------- after ------------->|
    ----------+---------------+-------------+------------> event time
             l.t           heard            |
              |<-- observed ->|  only idling closed the rest (`side_silent`, rule 10)

The rows themselves carry only the reason; the instant is in the plan that the register keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from windrow.columns import PUBLICATION
from windrow.config import Pipeline, RightStream
from windrow.semantics.intervals import EARLIEST, LATEST, shifted
from windrow.semantics.plan import Plan
from windrow.transforms.facts import facts_of


@dataclass(frozen=True)
class Observed:
    """A publication: its number, the pipeline file that it was made under, and what its plan says of its labels.

    Args:
        heard: label stream → its newest event clock; None without an event. A window that ends before it is complete,
            as far as rule 10 tells: partitions without records may be idle.
    """

    number: int
    pipeline: Pipeline
    heard: Mapping[str, datetime | None]

    @classmethod
    def of(cls, number: int, plan: Plan, pipeline: Pipeline) -> Observed:
        """What a plan says."""
        return cls(number, pipeline, facts_of(pipeline, [plan], ()).heard_until)

    def stream(self, name: str) -> RightStream | None:
        """The label stream of this name, if the pipeline file has it."""
        return next((stream for stream in self.pipeline.label_streams if stream.name == name), None)

    def after(self, name: str, matured: timedelta | None) -> timedelta:
        """How long after a row its labels of a stream count."""
        stream = self.stream(name)
        after = stream.window.after if stream else timedelta(0)
        return after if matured is None else min(after, matured)

    def silent_from(self, matured: timedelta | None) -> datetime:
        """Served time from which on a label side is silent: its window ends where only idling closed it."""
        doubting = (stream for stream in self.pipeline.label_streams if stream.silence == "unknown")
        return min((self._silent_from(stream.name, matured) for stream in doubting), default=LATEST)

    def _silent_from(self, name: str, matured: timedelta | None) -> datetime:
        heard = self.heard[name]
        return EARLIEST if heard is None else shifted(heard, -self.after(name, matured))


def label_streams(observed: Iterable[Observed]) -> list[str]:
    """Names of the label streams of all these publications."""
    return list(dict.fromkeys(stream.name for one in observed for stream in one.pipeline.label_streams))


def of_publication(values: Mapping[int, Any], kind: pl.DataType | type[pl.DataType]) -> pl.Expr:
    """Return the value of a row's publication; a literal where all have the same.

    Args:
        values: publication number → value.
        kind: type of the values.
    """
    different = set(values.values())
    if len(different) <= 1:
        return pl.lit(next(iter(different), None), dtype=kind)
    old, new = pl.Series(list(values), dtype=pl.Int64), pl.Series(list(values.values()), dtype=kind)
    return pl.col(PUBLICATION).replace_strict(old, new, default=None, return_dtype=kind)


def numbers_by(values: Mapping[int, Any]) -> dict[Any, Sequence[int]]:
    """Return value → numbers of the publications that have it."""
    found: dict[Any, list[int]] = {}
    for number, value in values.items():
        found.setdefault(value, []).append(number)
    return {value: tuple(numbers) for value, numbers in found.items()}
