"""Verdicts: which judged measures keep an interval from being published. The one rule for gate, register and pages.

    error    the gate could not judge a measure, or judged none at all
    blocked  a critical expectation failed
    warned   a warning failed, nothing worse
    passed   none of these; a failed `info` is noted in the report and changes nothing

Only `passed` and `warned` may be published.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Verdict = Literal["passed", "warned", "blocked", "error"]


def blocks(verdict: str, severity: str) -> bool:
    """Whether one judged measure keeps its interval from being published. An error does, whatever its severity."""
    return verdict == "error" or (verdict == "failed" and severity == "critical")


def worst(judged: Iterable[tuple[str, str]]) -> Verdict:
    """Verdict on an interval: the worst of its (verdict, severity) pairs.

    >>> worst([("passed", "critical"), ("failed", "warning"), ("failed", "info")])
    'warned'
    >>> worst([])
    'error'
    """
    judged = list(judged)
    if not judged or any(verdict == "error" for verdict, _ in judged):
        return "error"
    if any(blocks(verdict, severity) for verdict, severity in judged):
        return "blocked"
    return "warned" if ("failed", "warning") in judged else "passed"


def may_publish(verdict: Verdict) -> bool:
    """Whether an interval with this verdict becomes visible without an override."""
    return verdict in ("passed", "warned")
