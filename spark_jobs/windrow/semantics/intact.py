"""Do the tables of a pipeline agree with each other? What each of them says of the others is compared, row by row.

    landing   ◀── clock                batches and positions (`semantics.landing.held`), rows
    clock     ◀── landing commits      offsets read, skipped and unexplained; the landing balance (rule 18)
    clock     ◀── plans                no plan was made at a pin that the clock has not seen
    training  ◀── publications         one number after the other; the rows of each day; the plan of each publication
    candidates ◀── measures, plans     a plan that can still be published has the rows that were measured
    late      ◀── its passes           the lines that each of them wrote

Every function returns sentences for people; none where all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any

from windrow.semantics.balance import landing_measures
from windrow.semantics.clock import ClockRow
from windrow.semantics.landing.undelivered import Committed
from windrow.semantics.plan import Plan, id_of
from windrow.text import counted

NONE_ERASED: Mapping[int, int] = MappingProxyType({})
OFFSETS = ("read", "skipped", "unexplained")
"""Columns of the clock that follow from the landing commits without a look at their rows."""


def row_faults(topic: str, clock: Sequence[ClockRow], held: int, erased: Mapping[int, int] = NONE_ERASED) -> list[str]:
    """Whether a landing table holds as many rows as the clock says.

    >>> row_faults("feed.clicks", [{"landed": 8, "quarantined": 1}], 7)
    ['the landing table of feed.clicks holds 7 rows, and 9 were landed']

    Args:
        clock: the topic's rows of one observation.
        held: rows of the clock's epoch up to its batch; a reconsidered row counts with the quarantined one.
        erased: batch → rows of it that recorded erasures have taken out of the table.
    """
    landed = sum(row["landed"] + row["quarantined"] for row in clock) - sum(erased.values())
    if held == landed:
        return []
    return [f"the landing table of {topic} holds {counted(held, 'row')}, and {landed:,} were landed"]


def offset_faults(
    topic: str, clock: Sequence[ClockRow], committed: Iterable[Committed], before: Sequence[ClockRow] = ()
) -> list[str]:
    """Whether the clock counts the offsets of a topic as its landing commits do, and whether they add up.

    Args:
        clock: the topic's rows of one observation.
        committed: its batches of the clock's epoch, up to that of the clock, without those up to `before`.
        before: the topic's rows of an earlier observation of the epoch; empty where `committed` is the whole epoch.
    """
    faults = []
    if imbalance := landing_measures(clock)["landing_imbalance"]:
        faults.append(
            f"the clock's counts of {topic} do not add up by {imbalance:,}: read is not landed + quarantined + skipped "
            "+ unexplained"
        )
    total = Counter({name: sum(row[name] for row in before) for name in OFFSETS})
    for batch, rows, account in committed:
        total["read"] += batch.size
        if account is not None:
            total["skipped"] += sum(account.skipped.values())
            total["unexplained"] += sum(account.unexplained.values())
        elif batch.reconsidered is None and rows is not None:  # an earlier version skipped what was not delivered
            total["skipped"] += batch.size - rows
    for name in OFFSETS:
        if (says := sum(row[name] for row in clock)) != total[name]:
            faults.append(
                f"the clock counts {says:,} offsets of {topic} as {name}, its landing commits {total[name]:,}"
            )
    return faults


def pin_faults(pins: Mapping[str, int], planned: Iterable[Mapping[str, int]]) -> list[str]:
    """Topics whose clock is behind a plan that was made from it.

    Args:
        pins: topic → batch of the newest observation, 0 without one; other topics are not looked at.
        planned: pins of plans that were published, measured or looked at by the ledger.
    """
    greatest: Counter[str] = Counter()
    for of_plan in planned:
        greatest |= Counter(of_plan)
    return [
        f"the clock of {topic} is at batch {pins[topic]}, and a plan was made at batch {greatest[topic]}"
        for topic in sorted(pins)
        if pins[topic] < greatest[topic]
    ]


def line_faults(written: int, held: int) -> list[str]:
    """Whether the late ledger holds the lines that its passes wrote, as far as its log goes back."""
    return [] if written == held else [f"the late ledger holds {counted(held, 'line')}, and {written:,} were written"]


def register_faults(
    plans: Iterable[tuple[int, str, str]],
    newest: Iterable[Mapping[str, Any]],
    committed: Iterable[Mapping[str, Any]],
) -> list[str]:
    """What is wrong within the register of publications.

    Args:
        plans: number, plan and plan id of each of its rows.
        newest: its rows whose commits are in the log of the training table.
        committed: the same rows as these commits carry them.
    """
    numbers, misnamed = set(), set()
    for number, plan, plan_id in plans:
        numbers.add(number)
        # making the plan takes sixty times as long as the hash of its text, so it is made only where the two differ
        if id_of(plan) != plan_id and Plan.from_json(plan).id != plan_id:
            misnamed.add(number)
    missing = sorted(set(range(1, max(numbers, default=0) + 1)) - numbers)
    faults = [f"publication {number} is not in the register" for number in missing]
    faults += [f"the plan of publication {number} is not the one that its id names" for number in sorted(misnamed)]
    rows = {row["number"]: row for row in newest}
    for commit in committed:
        known = rows.get(commit["number"], commit)
        if differ := sorted(name for name in commit.keys() & known.keys() if commit[name] != known[name]):
            faults.append(
                f"publication {commit['number']} has another {', '.join(differ)} in the register than in its commit"
            )
    return faults


def training_faults(
    standing: Iterable[Mapping[str, Any]], held: Mapping[date, int], remaining: Mapping[int, int] | None = None
) -> list[str]:
    """Days on which the training table does not hold as many rows as its publications say.

    Args:
        standing: register rows of the publications that readers see.
        held: day → rows in the files of the day.
        remaining: publication → rows that it has left, where rows of it were erased.
    """
    published: Counter[date] = Counter()
    for row in standing:
        published[row["interval"].date()] += (remaining or {}).get(row["number"], row["rows"])
    return [
        f"the training table holds {counted(held.get(day, 0), 'row')} of {day}, and {published[day]:,} were published"
        for day in sorted(published.keys() | held.keys())
        if held.get(day, 0) != published[day]
    ]


def candidate_faults(measured: Mapping[str, int], held: Mapping[str, int]) -> list[str]:
    """Plans whose candidate has not the rows that were measured.

    Args:
        measured: plan id → measured rows, paired or not, of plans that can still be published.
        held: plan id → rows in the candidates table.
    """
    return [
        f"the candidate of plan {plan} holds {counted(held.get(plan, 0), 'row')}, and {rows:,} were measured"
        for plan, rows in sorted(measured.items())
        if held.get(plan, 0) != rows
    ]
