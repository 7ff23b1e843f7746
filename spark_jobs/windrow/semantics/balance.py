"""Balance: every count adds up to its input exactly, or nothing is published.

    landing, over all partitions   offsets read  =  landed  + quarantined + skipped   + unexplained
    left, by interval              rows landed   =  emitted + duplicate   + unpaired  + canary + erased
    right, by interval and stream  labels read   =  matched + unmatched   + duplicate + filtered + canary + erased

A right stream is read for the windows of the whole interval, `[start - before, end + after]`, both ends inside.
A right row that is in no left row's window is `unmatched`. `matched` counts the right rows that match at least one
left row of the interval, before `inner` or `take` remove anything; left rows that `inner` removes are `unpaired`.
Quarantined records are counted at landing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields

from windrow.outcomes import NeedsPerson


class BalanceBroken(NeedsPerson):
    """A count does not add up. Retrying the same plan gives the same counts: a person must look."""


def landing_measures(partitions: Iterable[Mapping[str, int]]) -> dict[str, float | None]:
    """Measures of the landing balance, summed over topic partitions since their first offset.

    Args:
        partitions: the counts of each partition. Where they add up to more than was read, row ids are in the table
            twice.
            `unreadable` is a part of `landed`, and absent in rows of an earlier version.
    """
    partitions = list(partitions)
    parts = ("landed", "quarantined", "skipped", "unexplained")
    total = {name: sum(one[name] for one in partitions) for name in ("read", *parts)}
    total["unreadable"] = sum(one.get("unreadable") or 0 for one in partitions)
    unaccounted = [one["read"] - sum(one[name] for name in parts) for one in partitions]
    stored = total["landed"] + total["quarantined"]
    return {
        **{f"landing_{name}": value for name, value in total.items()},
        "landing_imbalance": sum(map(abs, unaccounted)),
        "landing_quarantine_rate": rate(total["quarantined"], stored),
        "landing_duplicate_row_ids": sum(max(0, -one) for one in unaccounted),
    }


def rate(part: float, whole: float) -> float | None:
    """`part / whole`; None where there is nothing to take a part of."""
    return part / whole if whole else None


@dataclass(frozen=True)
class LeftBalance:
    """Left rows of one interval, at the pins. `landed` counts rows that passed `where`, and those that were erased."""

    landed: int
    emitted: int
    duplicate: int = 0
    unpaired: int = 0
    canary: int = 0
    erased: int = 0

    @property
    def imbalance(self) -> int:
        """Rows landed that are not accounted for; 0 where the counts add up."""
        out = self.emitted + self.duplicate + self.unpaired + self.canary + self.erased
        return self.landed - out


@dataclass(frozen=True)
class RightBalance:
    """Rows of one right stream that were read for one interval, at the pins."""

    read: int
    matched: int
    unmatched: int = 0
    duplicate: int = 0
    filtered: int = 0
    canary: int = 0
    erased: int = 0

    @property
    def imbalance(self) -> int:
        """Rows read that are not accounted for; 0 where the counts add up."""
        out = self.matched + self.unmatched + self.duplicate + self.filtered + self.canary + self.erased
        return self.read - out


RIGHT_COUNTS = tuple(one.name for one in fields(RightBalance))


@dataclass(frozen=True)
class Balance:
    """All counts of one interval."""

    left: LeftBalance
    right: Mapping[str, RightBalance] = field(default_factory=dict)

    @property
    def broken(self) -> tuple[str, ...]:
        """One sentence for each equation that does not hold."""
        found = []
        if self.left.imbalance:
            side = self.left
            found.append(
                f"left: landed {side.landed} != emitted {side.emitted} + duplicate {side.duplicate} "
                f"+ unpaired {side.unpaired} + canary {side.canary} + erased {side.erased} ({side.imbalance:+d})"
            )
        for name, side_of in self.right.items():
            if side_of.imbalance:
                found.append(
                    f"{name}: read {side_of.read} != matched {side_of.matched} "
                    f"+ unmatched {side_of.unmatched} + duplicate {side_of.duplicate} "
                    f"+ filtered {side_of.filtered} + canary {side_of.canary} + erased {side_of.erased} "
                    f"({side_of.imbalance:+d})"
                )
        found += [f"negative count in {name}" for name in self._negative()]
        return tuple(found)

    def check(self) -> None:
        """Check every equation.

        Raises:
            BalanceBroken: at least one does not hold; the message names each of them.
        """
        if self.broken:
            raise BalanceBroken(
                f"{'; '.join(self.broken)}. The interval is not published; a retry of the same plan gives "
                "the same counts: compare the candidate with the landing tables at the plan's pins"
            )

    def measures(self) -> dict[str, int]:
        """Return the counts by their names in the `measures` table."""
        named = {
            "rows": self.left.emitted,
            "left_landed": self.left.landed,
            "left_duplicate": self.left.duplicate,
            "left_unpaired": self.left.unpaired,
            "left_canary": self.left.canary,
            "left_erased": self.left.erased,
            "left_imbalance": self.left.imbalance,
        }
        for name, side in self.right.items():
            named |= {f"{name}.{count}": value for count, value in asdict(side).items()}
            named[f"{name}.imbalance"] = side.imbalance
        named["right_imbalance"] = sum(abs(side.imbalance) for side in self.right.values())
        return named

    @classmethod
    def from_measures(cls, measures: Mapping[str, float | None], streams: Iterable[str]) -> Balance:
        """Return the balance that a candidate's measures state; those of an earlier version count no canaries, and
        nothing erased.

        Raises:
            BalanceBroken: a count is absent or not a whole number.
        """

        streams = tuple(streams)
        without = {"left_canary", *(f"{stream}.canary" for stream in streams)}

        def count(name: str) -> int:
            value = measures.get(name, 0 if name in without or name.endswith("erased") else None)
            if value is None or value != int(value):
                raise BalanceBroken(f"the candidate does not state `{name}` as a whole number, but {value!r}")
            return int(value)

        left = LeftBalance(
            landed=count("left_landed"),
            emitted=count("rows"),
            duplicate=count("left_duplicate"),
            unpaired=count("left_unpaired"),
            canary=count("left_canary"),
            erased=count("left_erased"),
        )
        right = {s: RightBalance(**{c: count(f"{s}.{c}") for c in RIGHT_COUNTS}) for s in streams}
        return cls(left, right)

    def to_json(self) -> str:
        """Return the measures as JSON with sorted keys."""
        return json.dumps(self.measures(), sort_keys=True, separators=(",", ":"))

    def _negative(self) -> list[str]:
        sides = {"left": asdict(self.left)} | {n: asdict(s) for n, s in self.right.items()}
        return [name for name, counts in sides.items() if min(counts.values()) < 0]
