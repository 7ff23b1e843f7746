"""Publications: the numbers they get, and the fence that keeps an outdated plan from replacing newer rows.

training table at number 6       plan A ─▶ 7       foreseen when candidates are written; the commit decides
                                 plan B ─▶ 8

plan made when its interval had publication 5       still 5 ─▶ published       now 6 ─▶ Superseded
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from windrow.outcomes import AnotherWriter
from windrow.semantics.plan import Plan


class Superseded(AnotherWriter):
    """The interval was published by another run after this plan was made. A new plan is needed."""


class CandidateErased(AnotherWriter):
    """A key was erased after the candidate was joined, and it held rows of the key. A new plan is needed."""


def refuse_erased(plan: Plan, discarded: Collection[str]) -> None:
    """Check that the candidate of a plan was not discarded by an erasure.

    Args:
        discarded: ids of the plans whose candidates were.

    Raises:
        CandidateErased: it was.
    """
    if plan.id in discarded:
        raise CandidateErased(
            f"{plan.interval}: the candidate of plan {plan.id} held rows of a key that was erased since, and was "
            "discarded. Nothing was published; clear the run or run the command again for a new plan."
        )


def foreseen_numbers(plans: Iterable[Plan], last: int) -> dict[Plan, int]:
    """Publication number that each plan gets if no other run publishes first; `last` is the newest number so far."""
    return {plan: number for number, plan in enumerate(plans, last + 1)}


def refuse_superseded(plan: Plan, standing: int | None) -> None:
    """Check that the interval's standing publication is the one that the plan knew.

    Raises:
        Superseded: it has another one.
    """
    if standing != plan.supersedes:
        raise Superseded(
            f"{plan.interval} has publication {standing}, but plan {plan.id} was made when it had "
            f"{plan.supersedes}: another run was faster. Nothing was written; clear the run or run the "
            "command again for a new plan."
        )


def ranges_of(numbers: Sequence[int]) -> list[list[int]]:
    """Return first and last of each run of consecutive numbers, as stored texts have them.

    Args:
        numbers: ascending.

    >>> ranges_of((1, 2, 3, 7, 9, 10))
    [[1, 3], [7, 7], [9, 10]]
    """
    breaks = [n for n, (one, other) in enumerate(pairwise(numbers), 1) if other != one + 1]
    return [[numbers[begin], numbers[end - 1]] for begin, end in pairwise([0, *breaks, len(numbers)]) if begin < end]


def numbers_of(ranges: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the numbers that `ranges_of` wrote.

    >>> numbers_of([[1, 3], [7, 7]])
    (1, 2, 3, 7)
    """
    return tuple(number for first, last in ranges for number in range(first, last + 1))
