"""Balance: nothing disappears. Every count adds up to the input, exactly, or nothing is published.

    landing, by topic partition    offsets read  =  landed  + quarantined + skipped
    left, by interval              rows landed   =  emitted + duplicate   + unpaired
    right, by interval and stream  labels read   =  matched + unmatched   + duplicate + filtered

A right stream is read for the windows of the whole interval, `[start - before, end + after]`, both ends in;
what stands there without being in the window of any left row is `unmatched`. `matched` is a right row that
matches at least one left row of the interval, before `inner` or `take` remove anything: what they remove is
counted apart, as `unpaired` left rows and as `not_taken` matches. Quarantined records are counted at landing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from windrow.outcomes import NeedsPerson


class BalanceBroken(NeedsPerson):
    """Some count does not add up. Retrying the same plan gives the same: a person must look."""


@dataclass(frozen=True)
class LandingBalance:
    """One topic partition, from the first offset ever read. `skipped`: offsets without a record (markers)."""

    topic: str
    partition: int
    read: int
    landed: int
    quarantined: int = 0
    skipped: int = 0

    @property
    def imbalance(self) -> int:
        return self.read - self.landed - self.quarantined - self.skipped

    def check(self) -> None:
        if self.imbalance:
            raise BalanceBroken(
                f"landing {self.topic}/{self.partition}: read {self.read} != landed {self.landed} "
                f"+ quarantined {self.quarantined} + skipped {self.skipped} ({self.imbalance:+d}); rows are "
                "missing or doubled in the landing table, a retry does not help"
            )


@dataclass(frozen=True)
class LeftBalance:
    """Left rows of one interval, at the pins. `landed` is after `where`; `filtered` is what that left out."""

    landed: int
    emitted: int
    duplicate: int = 0
    unpaired: int = 0

    @property
    def imbalance(self) -> int:
        return self.landed - self.emitted - self.duplicate - self.unpaired


@dataclass(frozen=True)
class RightBalance:
    """Rows of one right stream that were read for one interval, at the pins."""

    read: int
    matched: int
    unmatched: int = 0
    duplicate: int = 0
    filtered: int = 0

    @property
    def imbalance(self) -> int:
        return self.read - self.matched - self.unmatched - self.duplicate - self.filtered


@dataclass(frozen=True)
class Balance:
    """All counts of one interval."""

    left: LeftBalance
    right: Mapping[str, RightBalance] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[str, ...]:
        """One sentence for every equation that does not hold."""
        found = []
        if self.left.imbalance:
            side = self.left
            found.append(
                f"left: landed {side.landed} != emitted {side.emitted} + duplicate {side.duplicate} "
                f"+ unpaired {side.unpaired} ({side.imbalance:+d})"
            )
        for name, side_of in self.right.items():
            if side_of.imbalance:
                found.append(
                    f"{name}: read {side_of.read} != matched {side_of.matched} "
                    f"+ unmatched {side_of.unmatched} + duplicate {side_of.duplicate} "
                    f"+ filtered {side_of.filtered} ({side_of.imbalance:+d})"
                )
        found += [f"negative count in {name}" for name in self._negative()]
        return tuple(found)

    def check(self) -> None:
        """Raises BalanceBroken, naming every count that is off."""
        if self.broken:
            raise BalanceBroken(
                f"{'; '.join(self.broken)}. The interval is not published; a retry of the same plan gives "
                "the same counts: compare the candidate with the landing tables at the plan's pins"
            )

    def measures(self) -> dict[str, int]:
        """The counts by their names in the `measures` table."""
        named = {
            "rows": self.left.emitted,
            "left_landed": self.left.landed,
            "left_duplicate": self.left.duplicate,
            "left_unpaired": self.left.unpaired,
            "left_imbalance": self.left.imbalance,
        }
        for name, side in self.right.items():
            named |= {f"{name}.{count}": value for count, value in asdict(side).items()}
            named[f"{name}.imbalance"] = side.imbalance
        named["right_imbalance"] = sum(abs(side.imbalance) for side in self.right.values())
        return named

    @classmethod
    def from_measures(cls, measures: Mapping[str, float | None], streams: Iterable[str]) -> Balance:
        """The balance that a candidate's measures state; a count that is absent breaks it."""

        def count(name: str) -> int:
            value = measures.get(name)
            if value is None or value != int(value):
                raise BalanceBroken(f"the candidate does not state `{name}` as a whole number, but {value!r}")
            return int(value)

        left = LeftBalance(
            landed=count("left_landed"),
            emitted=count("rows"),
            duplicate=count("left_duplicate"),
            unpaired=count("left_unpaired"),
        )
        counts = ("read", "matched", "unmatched", "duplicate", "filtered")
        right = {s: RightBalance(**{c: count(f"{s}.{c}") for c in counts}) for s in streams}
        return cls(left, right)

    def to_json(self) -> str:
        return json.dumps(self.measures(), sort_keys=True, separators=(",", ":"))

    def _negative(self) -> list[str]:
        sides = {"left": asdict(self.left)} | {n: asdict(s) for n, s in self.right.items()}
        return [name for name, counts in sides.items() if min(counts.values()) < 0]
