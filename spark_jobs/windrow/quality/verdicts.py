"""Results of the gate for one interval as frozen values, and their explanation for a person at 3 a.m.

`semantics.judgement` defines the verdicts and decides which results block.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from windrow.semantics import judgement as rules
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import Verdict
from windrow.text import short_instant_text

Outcome = Literal["passed", "failed", "error"]
"""Result of one expectation about one measure; `error` if it could not be judged."""


@dataclass(frozen=True)
class Result:
    """Result of one expectation about one measure; `detail` explains an error."""

    suite: str
    expectation: str
    metric: str
    observed: float | None
    bound: str
    severity: str
    verdict: Outcome
    notes: str = ""
    detail: str = ""
    why: str = ""
    """in a few words why it did not pass; empty where it did"""

    @property
    def observed_text(self) -> str:
        """The observed value; for an error, with the reason why it could not be judged."""
        if self.verdict != "error":
            return number(self.observed)
        return f"{'nothing' if self.observed is None else number(self.observed)} ({self.detail})"

    @property
    def blocks(self) -> bool:
        """Whether it keeps the interval from being published."""
        return rules.blocks(self.verdict, self.severity)

    @property
    def warns(self) -> bool:
        """Whether it lets the interval be published, with a warning."""
        return self.verdict == "failed" and self.severity == "warning"

    @property
    def is_balance(self) -> bool:
        """Whether it is about rows that went in against rows that came out."""
        return self.metric.endswith("imbalance")


@dataclass(frozen=True)
class Judgement:
    """The verdict on one interval under one plan."""

    pipeline: str
    interval: Interval
    plan: str
    verdict: Verdict
    results: tuple[Result, ...]
    report: Path
    judged_at: datetime

    @property
    def may_publish(self) -> bool:
        """Whether the interval is published without an override."""
        return rules.may_publish(self.verdict)

    @property
    def why(self) -> str | None:
        """Why the verdict is not `passed`, in one line; None where it is."""
        judged = ((one.verdict, one.severity, one.why) for one in self.results)
        return rules.why(judged, is_empty=self.verdict == "empty")

    @property
    def line(self) -> str:
        """The verdict, with its reason."""
        return rules.with_reason(self.verdict, self.why)

    @property
    def blocking(self) -> tuple[Result, ...]:
        """Results that keep the interval from being published, errors first."""
        return tuple(sorted((r for r in self.results if r.blocks), key=lambda r: r.verdict != "error"))

    @property
    def warnings(self) -> tuple[Result, ...]:
        """Failed results of severity `warning`."""
        return tuple(r for r in self.results if r.warns)

    @property
    def may_override(self) -> bool:
        """Whether a person may publish the interval all the same: never where a balance is in doubt."""
        return not self.may_publish and not any(r.is_balance for r in self.blocking)


def explain_failure(judgement: Judgement) -> str:
    """Explain why an interval is not published: each blocking result, plan, report, and the next move.

    Args:
        judgement: one that may not publish.

    Returns:
        Several lines.
    """
    lines = [
        f"{judgement.pipeline} {judgement.interval} is not published, {judgement.line}",
        *(line for result in judgement.blocking for line in _explained(result)),
        f"Plan {judgement.plan}. Report: {judgement.report}",
        "The candidate is kept, earlier publications stand, other intervals go on.",
    ]
    return "\n".join([*lines, *next_moves(judgement)])


def next_moves(judgement: Judgement) -> list[str]:
    """Return what a person can do about a blocked interval, one line each: in Airflow, or with a command."""
    name, at = judgement.pipeline, short_instant_text(judgement.interval.start)
    if judgement.verdict == "error":
        first = "The gate itself could not judge. Correct the suite file or the measure, then join and judge again:"
    else:
        first = (
            "The same plan gives the same numbers. Once the cause is gone, join what has landed by then, and judge it:"
        )
    moves = [
        first,
        f"  in Airflow: Clear `join` with downstream, in the run of this interval in {name}.training",
        f"  or: windrow train {name} --interval {at}",
    ]
    if judgement.may_override:
        moves += [
            "If its rows are right all the same, publish them as they are; who and why are recorded with them:",
            f"  in Airflow: the form of {name}.override (Trigger), with interval {at} and a reason",
            f'  or: windrow override {name} --interval {at} --reason "…"',
        ]
    elif any(result.is_balance for result in judgement.blocking):
        moves.append("A balance that is off or not counted cannot be overridden: rows may be missing or doubled.")
    return moves


def number(value: float | None) -> str:
    """A measure as people read it.

    >>> number(3.0), number(0.0123456789), number(None)
    ('3', '0.0123457', 'null')
    """
    if value is None:
        return "null"
    if value == int(value) if abs(value) < 1e15 else False:
        return str(int(value))
    return f"{value:.6g}"


def _explained(result: Result) -> list[str]:
    what = f"  {result.metric}: observed {result.observed_text}, expected {result.bound}"
    lines = [f"{what}   [{result.suite}: {result.expectation}]"]
    return [*lines, f"      {result.notes}"] if result.notes else lines
