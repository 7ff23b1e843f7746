"""What judged measures mean for their interval: which of them block it, and the verdict on all of them.

    error    a measure could not be judged: it is absent, is not a number, or its expectation raised
    blocked  a critical expectation failed
    warned   a warning failed, nothing worse
    passed   none of these; a failed `info` is noted in the report and changes nothing

Only `passed` and `warned` may be published. An error never counts as a pass, whatever its severity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Severity = Literal["critical", "warning", "info"]
"""How much a failed expectation matters; the suite file says it."""

Outcome = Literal["passed", "failed", "error"]
"""What one expectation found about one measure; `error`: it could not be judged."""

Verdict = Literal["passed", "warned", "blocked", "error"]


def blocks(outcome: str, severity: str) -> bool:
    """Whether one judged measure keeps its interval from being published.

    >>> blocks("failed", "critical"), blocks("failed", "warning"), blocks("error", "info")
    (True, False, True)
    """
    return outcome == "error" or (outcome == "failed" and severity == "critical")


def warns(outcome: str, severity: str) -> bool:
    """Whether one judged measure lets its interval be published, with a warning."""
    return outcome == "failed" and severity == "warning"


def verdict_of(judged: Iterable[tuple[str, str]]) -> Verdict:
    """Verdict on an interval, from the (outcome, severity) of each of its judged measures: the worst of them.

    Without any measure the verdict is `error`: a gate that judged nothing lets nothing through.

    >>> verdict_of([("passed", "critical"), ("failed", "warning")]), verdict_of([])
    ('warned', 'error')
    """
    judged = tuple(judged)
    if not judged or any(outcome == "error" for outcome, _ in judged):
        return "error"
    if any(blocks(*one) for one in judged):
        return "blocked"
    return "warned" if any(warns(*one) for one in judged) else "passed"


def may_publish(verdict: Verdict) -> bool:
    """Whether an interval with this verdict is published without an override."""
    return verdict in ("passed", "warned")
