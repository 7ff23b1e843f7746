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
    """Explain why an interval is not published: each blocking result, plan, report, and the next move."""
    at = short_instant_text(judgement.interval.start)
    blocking = judgement.blocking
    lines = [
        f"{judgement.pipeline} {judgement.interval} is not published: {_headline(judgement)}",
        *(line for result in blocking for line in _explained(result)),
        f"Plan {judgement.plan}. Report: {judgement.report}",
        "The candidate is kept, earlier publications stand, other intervals go on.",
    ]
    train = f"windrow train {judgement.pipeline} --interval {at}"
    if judgement.verdict == "error":
        lines.append("The gate itself could not judge. Correct the suite file or the measure, then")
    else:
        lines.append("The same plan gives the same numbers. Once the cause is gone:")
    lines.append(f"  {train}    joins again with all that has landed, and judges again")
    if judgement.may_override:
        lines.append(f'  windrow override {judgement.pipeline} --interval {at} --reason "…"')
        lines.append("    publishes it as it is; who and why are recorded with the publication")
    elif any(r.is_balance for r in blocking):
        lines.append("  A balance that is off or not counted cannot be overridden: rows may be missing or doubled.")
    return "\n".join(lines)


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


def _headline(judgement: Judgement) -> str:
    errors = sum(1 for r in judgement.blocking if r.verdict == "error")
    failed = len(judgement.blocking) - errors
    parts = [f"{failed} critical expectation{'s' * (failed != 1)} failed"] if failed else []
    parts += [f"{errors} could not be judged"] if errors else []
    return ", ".join(parts) or "nothing was judged"


def _explained(result: Result) -> list[str]:
    what = f"  {result.metric}: observed {result.observed_text}, expected {result.bound}"
    lines = [f"{what}   [{result.suite}: {result.expectation}]"]
    return [*lines, f"      {result.notes}"] if result.notes else lines
