"""What a trainer asks for: a range of served time and the filters on its rows. Frozen values that refuse to be wrong.

A request has no default that depends on the day it is read: start and end are instants, so that the same request on
the same state of the table gives the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, Self, cast

from windrow.outcomes import BadInput
from windrow.semantics.intervals import MICROSECOND, Interval, micros, utc
from windrow.text import instant_of, instant_text, parse_duration, parse_instant, short

Labels = Literal["complete", "known", "all"]
Unpublished = Literal["refuse", "skip"]
Attribute = Literal["all", "first_touch", "last_touch", "linear"]

LABELS: Mapping[str, str] = {
    "complete": "rows whose label side was complete, positive or not",
    "known": "rows whose state is known: keeps the positives of an outage and drops its negatives",
    "all": "every row, unknown ones too: what is unknown counts as no label",
}
UNPUBLISHED = ("refuse", "skip")
ATTRIBUTIONS = ("all", "first_touch", "last_touch", "linear")


class WrongRequest(BadInput):
    """An argument of a read that cannot be carried out; the message names it and what would be right."""


@dataclass(frozen=True)
class Share:
    """Rows whose hash of a column, as a share of all hashes, is in [low, high)."""

    column: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise WrongRequest(f"share of {self.column}: [{self.low}, {self.high}) is not part of [0, 1)")


@dataclass(frozen=True)
class Request:
    """Arguments of a read that decide which rows it gives.

    Args:
        start: first served time.
        end: end of the served times, not included.
        labels: `complete`, `known` or `all`; docs/TRAINING.md says what bias each brings.
        unpublished: whether intervals of the range that are not published are refused or left out.
        negatives: share of the negative rows that is kept, above 0 and at most 1; None keeps all, without a weight.
        seed: of the sample and of the share.
        share: the part of a split by hash.
        attribute: how each label is credited to the rows that it matched; None for no column of credits.
        matured: the longest time after serving that a label counts; None for the windows of the pipeline file.
        delays: whether rows get their label delays and observed ages.
        survival: a label stream whose first labels are survival data; None for none.
    """

    start: datetime
    end: datetime
    labels: Labels = "complete"
    unpublished: Unpublished = "refuse"
    negatives: float | None = None
    seed: int = 0
    share: Share | None = None
    attribute: Attribute | None = None
    matured: timedelta | None = None
    delays: bool = False
    survival: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", utc(self.start))
        object.__setattr__(self, "end", utc(self.end))
        if self.end <= self.start:
            raise WrongRequest(f"end {instant_text(self.end)} is not after start {instant_text(self.start)}")
        _one_of("labels", self.labels, tuple(LABELS))
        _one_of("unpublished", self.unpublished, UNPUBLISHED)
        if self.attribute is not None:
            _one_of("attribute", self.attribute, ATTRIBUTIONS)
        if self.matured is not None and self.matured < timedelta(0):
            raise WrongRequest(f"matured is {self.matured}; it is a time after serving, such as 24h")
        if self.negatives is not None and not 0 < self.negatives <= 1:
            raise WrongRequest(f"negatives is {self.negatives}; it is a share, above 0 and at most 1, such as 0.05")
        if not -(2**63) <= self.seed < 2**63:
            raise WrongRequest(f"seed is {self.seed}; it is a whole number of 64 bits")

    @property
    def range(self) -> Interval:
        """The served times."""
        return Interval(self.start, self.end)

    @property
    def needs_plans(self) -> bool:
        """Whether rows do not say enough by themselves: the plans of their publications are needed."""
        return self.delays or any(one is not None for one in (self.matured, self.survival, self.attribute))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the request that `to_dict` wrote.

        Raises:
            WrongRequest: it has fields that this version of the code does not know.
        """
        unknown = raw.keys() - {field.name for field in fields(cls)}
        if unknown:
            raise WrongRequest(f"a later version of Windrow wrote the request: {', '.join(sorted(unknown))} not known")
        read = {
            "start": instant_of(raw["start"]),
            "end": instant_of(raw["end"]),
            "share": Share(**raw["share"]) if raw.get("share") else None,
            "matured": None if raw.get("matured") is None else raw["matured"] * MICROSECOND,
        }
        return cls(**{**raw, **read})


def instant(name: str, value: datetime | str) -> datetime:
    """Return an argument as an instant in UTC.

    Raises:
        WrongRequest: the text is not an instant, or the value has no time zone.
    """
    try:
        return parse_instant(value) if isinstance(value, str) else utc(value)
    except ValueError as wrong:
        raise WrongRequest(f"{name}: {wrong}") from None


def duration(name: str, value: timedelta | str | None) -> timedelta | None:
    """Return an argument as a duration.

    Raises:
        WrongRequest: the text is not a duration.
    """
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError as wrong:
        raise WrongRequest(f"{name}: {wrong}") from None


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise WrongRequest(f"{name} is {short(cast(str, value))}; it may be {', '.join(allowed)}")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, timedelta):
        return micros(value)
    return asdict(value) if isinstance(value, Share) else value
