"""What the gate said about one interval, as frozen values, and how to say it at 3 a.m.

    error    the gate could not judge: a measure is absent or not a number, an expectation raised
    blocked  a critical expectation failed
    warned   a warning failed, nothing worse
    passed   none of these; a failed `info` is noted in the report and changes nothing

Only `passed` and `warned` may be published. An error never counts as a pass, whatever its severity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import Verdict, blocks, may_publish, worst

Outcome = Literal["passed", "failed", "error"]


@dataclass(frozen=True)
class Result:
    """One expectation about one measure. `detail` says what went wrong inside the gate, if it did."""

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
        """The value, or why there is none."""
        if self.verdict != "error":
            return number(self.observed)
        return f"{'nothing' if self.observed is None else number(self.observed)} ({self.detail})"

    @property
    def blocks(self) -> bool:
        """Whether it keeps the interval from being published."""
        return blocks(self.verdict, self.severity)

    @property
    def is_balance(self) -> bool:
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
        return may_publish(self.verdict)

    @property
    def blocking(self) -> tuple[Result, ...]:
        """What stands in the way, errors of the gate first."""
        return tuple(sorted((r for r in self.results if r.blocks), key=lambda r: r.verdict != "error"))

    @property
    def warnings(self) -> tuple[Result, ...]:
        return tuple(r for r in self.results if r.verdict == "failed" and r.severity == "warning")

    @property
    def may_override(self) -> bool:
        """Whether a person can let it through: never where the balance itself is in doubt."""
        return not self.may_publish and not any(r.is_balance for r in self.blocking)


class ExpectationsFailed(RuntimeError):
    """An interval that must not be published as it is. `str()` is the whole explanation."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement
        super().__init__(explain_failure(judgement))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.judgement,)


def verdict_of(results: Iterable[Result]) -> Verdict:
    """The worst of the results (see `semantics.judgement`)."""
    return worst((result.verdict, result.severity) for result in results)


def explain_failure(judgement: Judgement) -> str:
    """Expectation, observed and expected value, plan, interval, report, and the next move."""
    at = f"{judgement.interval.start:%Y-%m-%dT%H:%M:%SZ}"
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
