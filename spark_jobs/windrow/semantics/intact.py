"""Do the tables of a pipeline agree with each other? What each of them says of the others is compared, row by row.

    landing   ◀── clock                batches and positions (`semantics.landing.held`); erased rows are the ledger's
    training  ◀── publications         one number after the other; the rows of each day; the plan of each publication
    candidates ◀── measures, plans     a plan that can still be published has the rows that were measured

Every function returns sentences for people; none where all is well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from windrow.semantics.plan import Plan
from windrow.text import counted


def register_faults(register: Iterable[Mapping[str, Any]], committed: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is wrong within the register of publications.

    Args:
        register: its rows, by number.
        committed: the same rows as the commits of the training table carry them, as far as its log goes back.
    """
    rows = {row["number"]: row for row in register}
    missing = sorted(set(range(1, max(rows, default=0) + 1)) - rows.keys())
    faults = [f"publication {number} is not in the register" for number in missing]
    for row in rows.values():
        if Plan.from_json(row["plan"]).id != row["plan_id"]:
            faults.append(f"the plan of publication {row['number']} is not the one that its id names")
    for commit in committed:
        known = rows.get(commit["number"], commit)
        if differ := sorted(name for name in commit.keys() & known.keys() if commit[name] != known[name]):
            faults.append(
                f"publication {commit['number']} has another {', '.join(differ)} in the register than in its commit"
            )
    return faults


def training_faults(standing: Iterable[Mapping[str, Any]], held: Mapping[date, int]) -> list[str]:
    """Days on which the training table does not hold as many rows as its publications say.

    Args:
        standing: register rows of the publications that readers see.
        held: day → rows in the files of the day.
    """
    published: Counter[date] = Counter()
    for row in standing:
        published[row["interval"].date()] += row["rows"]
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
