"""Verdicts: which judged measures keep an interval from being published. The one rule for gate, register and pages.

    error    the gate could not judge a measure, or judged none at all
    blocked  a critical expectation failed
    warned   a warning failed, nothing worse
    empty    none of these, and the interval has no row
    passed   none of these; a failed `info` is noted in the report and changes nothing

`passed`, `empty` and `warned` may be published.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["passed", "empty", "warned", "blocked", "error"]

REASONS = 3
"""Most reasons that the line about a verdict lists."""


def blocks(verdict: str, severity: str) -> bool:
    """Whether one judged measure keeps its interval from being published. An error does, whatever its severity."""
    return verdict == "error" or (verdict == "failed" and severity == "critical")


def worst(judged: Iterable[tuple[str, str]], *, is_empty: bool = False) -> Verdict:
    """Verdict on an interval: the worst of its (verdict, severity) pairs.

    Args:
        is_empty: the interval has no row, so there was nothing that could fail.

    >>> worst([("passed", "critical"), ("failed", "warning"), ("failed", "info")])
    'warned'
    >>> worst([("passed", "critical")], is_empty=True)
    'empty'
    >>> worst([])
    'error'
    """
    judged = list(judged)
    if not judged or any(verdict == "error" for verdict, _ in judged):
        return "error"
    if any(blocks(verdict, severity) for verdict, severity in judged):
        return "blocked"
    if ("failed", "warning") in judged:
        return "warned"
    return "empty" if is_empty else "passed"


def why(judged: Iterable[tuple[str, str, str]], *, is_empty: bool = False) -> str | None:
    """Return in one line why a verdict is not `passed`: what blocks, or else what warns; None where nothing does.

    Args:
        judged: (verdict, severity, words) of each judged measure.
        is_empty: the interval has no row.

    >>> why([("failed", "warning", "unknown rate 24 % > 20 %"), ("passed", "critical", "")])
    'unknown rate 24 % > 20 %'
    >>> why([("passed", "critical", "")], is_empty=True)
    'no row'
    """
    judged = list(judged)
    errors = [words for verdict, _, words in judged if verdict == "error"]
    failed = [words for verdict, severity, words in judged if verdict == "failed" and severity == "critical"]
    warnings = [words for verdict, severity, words in judged if verdict == "failed" and severity == "warning"]
    reasons = list(dict.fromkeys([*errors, *failed] or warnings))
    if len(reasons) > REASONS:
        reasons = [*reasons[:REASONS], f"and {len(reasons) - REASONS} more"]
    return "; ".join(reasons) or ("no row" if is_empty else None)


def with_reason(verdict: str, reason: str | None) -> str:
    """Return a verdict with its reason.

    >>> with_reason("warned", "unknown rate 24 % > 20 %"), with_reason("passed", None)
    ('warned: unknown rate 24 % > 20 %', 'passed')
    """
    return f"{verdict}: {reason}" if reason else verdict


def may_publish(verdict: Verdict) -> bool:
    """Whether an interval with this verdict becomes visible without an override."""
    return verdict in ("passed", "empty", "warned")
