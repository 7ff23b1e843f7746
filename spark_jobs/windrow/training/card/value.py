"""The card as a value: what its pages and its Croissant file are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windrow.config import Pipeline
from windrow.io.registers.snapshots import KeptFiles
from windrow.training.card.delays import DelayCurve
from windrow.training.card.figures import Figures
from windrow.training.pin import Pin


@dataclass(frozen=True)
class Column:
    """A column of the training table, or a field of the elements of one (`clicks.engaged_at`).

    Args:
        ddl: its type as Spark writes it.
        kind: its type as Delta's JSON has it.
        values: rows, or elements.
        nulls: of these, the ones without a value.
        range: least and greatest value; None where a card shows none.
    """

    name: str
    ddl: str
    kind: Any
    meaning: str
    values: int
    nulls: int
    range: tuple[Any, Any] | None

    @property
    def null_rate(self) -> float:
        """Share of the values that are null."""
        return self.nulls / self.values if self.values else 0.0


@dataclass(frozen=True)
class Card:
    """What is known about the rows of a pin.

    Args:
        row: what one row is.
        limits: what a reader must know, as sentences.
        files: the files that hold the rows.
    """

    pipeline: Pipeline
    pin: Pin
    row: str
    columns: tuple[Column, ...]
    figures: Figures
    curves: tuple[DelayCurve, ...]
    limits: tuple[str, ...]
    files: KeptFiles
