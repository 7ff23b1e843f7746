"""Rows of the `quality` table: one row per judged measure of an interval."""

from __future__ import annotations

from typing import Any

from windrow.quality.verdicts import Judgement


def rows(judgement: Judgement) -> list[dict[str, Any]]:
    """Return a judgement as rows of `schemas.QUALITY`.

    Returns:
        One row per expectation.
    """
    return [
        {
            "plan": judgement.plan,
            "interval": judgement.interval.start,
            "suite": result.suite,
            "expectation": result.expectation,
            "metric": result.metric,
            "value": result.observed,
            "bound": result.bound,
            "severity": result.severity,
            "verdict": result.verdict,
            "report": str(judgement.report),
            "judged_at": judgement.judged_at,
            "why": result.why or None,
        }
        for result in judgement.results
    ]
