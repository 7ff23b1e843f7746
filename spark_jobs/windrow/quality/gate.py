"""Great Expectations judges the measures of one interval: one row, one batch, one validation for each suite.

    measures (name → number)                      ┌▶ results, worst of them the verdict
        │  one pandas row      validate           │
        └──────────────────▶  landing_rows   ─────┤
           or, of a pattern,  training_rows       └▶ Data Docs: a page for each suite, and their index
           one column

What it guarantees:

- Only `passed` means passed. A measure that is absent or not a number, an expectation that raises, one that
  Great Expectations gives no answer about: each is an error of the gate, and an error blocks.
- A null measure says "nothing to measure here" (a rate of no rows). Types that look at each value
  (`expect_column_values_…`) skip a null, types that look at the column (`expect_column_max_to_be_between`)
  fail on it: a suite says by its type whether a null is right.
- The context lives in memory, belongs to the gate and is never shared. Nothing leaves the machine.

The import of Great Expectations takes seconds, judging an interval a fraction of one: make one `Gate` for
all intervals of a run. A gate keeps its results in memory, so make a new one for the next run.
"""

from __future__ import annotations

import logging
import operator
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import Any

from windrow.config.problems import Problem
from windrow.quality import docs, pages
from windrow.quality.suites import Expectation, Suite, SuiteInvalid, Where
from windrow.quality.verdicts import (
    ExpectationsFailed,
    Judgement,
    Outcome,
    Result,
    Verdict,
    explain_failure,
    number,
    verdict_of,
)
from windrow.semantics.intervals import Interval

__all__ = [
    "ExpectationsFailed",
    "Gate",
    "Judgement",
    "Outcome",
    "Result",
    "Verdict",
    "explain_failure",
    "judge",
]

Measures = Mapping[str, float | None]

_SHOWN = {"result_format": "SUMMARY", "partial_unexpected_count": 1}
"""A value in the report is a measure, never a row's: the batch holds nothing else."""

_TOLD = {"result_format": "COMPLETE", "partial_unexpected_count": 20, "return_unexpected_index_query": False}
"""Of many measures in one column: which of them failed."""

MANY = 50
"""More measures of one pattern than these stand below each other in one column, judged by one expectation.

One expectation for each takes 15 ms, and nobody reads a page of thousands.
"""


@dataclass(frozen=True)
class _Item:
    """An entry of a suite file about a measure, or about all the many that its pattern matches."""

    entry: Expectation
    measures: tuple[str, ...]

    @property
    def is_one(self) -> bool:
        return len(self.measures) == 1

    @property
    def column(self) -> str:
        """Where its numbers stand in the batch."""
        return self.measures[0] if self.is_one else self.entry.column


class Gate:
    """The suites of one pipeline, ready to judge any number of its intervals.

    Raises SuiteInvalid where an entry's kwargs are not what its type takes.
    """

    def __init__(self, suites: Sequence[Suite]) -> None:
        names = [suite.name for suite in suites]
        if not suites or len(set(names)) < len(names):
            raise ValueError(f"a gate takes at least one suite, each once, not {names}")
        self._suites = tuple(suites)
        self._context = _context()
        self._validations: dict[tuple[str, tuple[tuple[int, str], ...]], Any] = {}
        for suite in suites:
            _check_kwargs(suite)

    def judge(
        self,
        measures: Measures,
        *,
        pipeline: str,
        interval: Interval,
        plan: str,
        report_folder: Path,
        judged_at: datetime,
    ) -> Judgement:
        """Judge one interval; its report goes under `report_folder`/data_docs. No verdict is raised."""
        numbers, unusable = _numbers(measures)
        results: list[Result] = []
        shown: dict[str, str] = {}
        for suite in self._suites:
            items = list(_items(suite, measures))
            answers: dict[int, Any] = {}
            trouble = ""
            try:
                for page, is_one in ((suite.name, True), (f"{suite.name}.patterns", False)):
                    mine = {n: item for n, item in enumerate(items) if item.is_one is is_one}
                    if mine or is_one:
                        answered = self._validated(page, mine, numbers, interval, judged_at)
                        answers |= _by_position(answered)
                        shown[page] = docs.data_docs(answered, page)
            except Exception as broken:  # whatever broke inside is an error of the gate, never a pass
                trouble = f"Great Expectations raised {type(broken).__name__}: {_first_line(broken)}"
            for position, item in enumerate(items):
                for place, measure in enumerate(item.measures):
                    outcome, detail = _outcome(item, place, measures, unusable, answers.get(position), trouble)
                    results.append(_result(suite, item.entry, measure, numbers.get(measure), outcome, detail))
        judgement = Judgement(
            pipeline,
            interval,
            plan,
            verdict_of(results),
            tuple(results),
            pages.place(Path(report_folder), interval, plan),
            judged_at.astimezone(UTC),
        )
        pages.write(judgement, shown, numbers, Path(report_folder))
        return judgement

    def _validated(
        self, name: str, items: Mapping[int, _Item], numbers: Measures, interval: Interval, judged_at: datetime
    ) -> Any:
        """The answers about items that each have one measure, or each have many; `items`: by position."""
        import pandas as pd
        from great_expectations.core.run_identifier import RunIdentifier

        many = {
            item.column: pd.Series([numbers[m] for m in item.measures]) for item in items.values() if not item.is_one
        }
        frame = pd.DataFrame(many or [dict(numbers)], dtype="float64")
        key = (name, tuple((position, item.column) for position, item in items.items()))
        if key not in self._validations:
            self._validations[key] = self._validation(name, items)
        return self._validations[key].run(
            batch_parameters={"dataframe": frame},
            result_format=_TOLD if many else _SHOWN,
            run_id=RunIdentifier(run_name=f"{interval.start:%Y-%m-%dT%H:%M:%SZ}", run_time=judged_at),
        )

    def _validation(self, page: str, items: Mapping[int, _Item]) -> Any:
        """A suite of the context about exactly these measures.

        Answers come shuffled: the position in `meta` ties each to its entry.
        """
        import great_expectations as gx

        known = sum(1 for name, _ in self._validations if name == page)
        name = f"{page}-{known + 1}" if known else page
        expectations = [_expectation(item.entry, item.column, n) for n, item in items.items()]
        batch = (
            self._context.data_sources.add_pandas(name)
            .add_dataframe_asset("measures")
            .add_batch_definition_whole_dataframe("interval")
        )
        added = self._context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations))
        return self._context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=added))


def load_beside() -> None:
    """Begin to import Great Expectations beside other work: that takes as long as a small join."""
    threading.Thread(target=_great_expectations, name="import of Great Expectations", daemon=True).start()


def judge(
    suites: Sequence[Suite],
    measures: Measures,
    *,
    pipeline: str,
    interval: Interval,
    plan: str,
    report_folder: Path,
    judged_at: datetime,
) -> Judgement:
    """Judge one interval. For several, make a `Gate` and keep it."""
    return Gate(suites).judge(
        measures,
        pipeline=pipeline,
        interval=interval,
        plan=plan,
        report_folder=report_folder,
        judged_at=judged_at,
    )


def bound_text(kwargs: Mapping[str, Any], type_: str) -> str:
    """What an expectation allows, as people write it.

    >>> bound_text({"min_value": 0, "max_value": 0}, "expect_column_max_to_be_between")
    '= 0'
    """
    if not type_.endswith("_to_be_between"):
        words = [type_.removeprefix("expect_column_").replace("_", " ")]
        return " ".join(words + [f"{name} {value}" for name, value in kwargs.items()])
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if low is not None and low == high:
        return f"= {_plain(low)}"
    above = ">" if kwargs.get("strict_min") else ">="
    below = "<" if kwargs.get("strict_max") else "<="
    sides = [f"{above} {_plain(low)}"] if low is not None else []
    sides += [f"{below} {_plain(high)}"] if high is not None else []
    return " and ".join(sides)


def _plain(value: Any) -> str:
    return number(float(value)) if isinstance(value, int | float) else str(value)


def _great_expectations() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations

    return great_expectations


def _context() -> Any:
    gx = _great_expectations()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(enable=False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _expectation(entry: Expectation, column: str, position: int) -> Any:
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    condition = {"row_condition": _condition(entry.where)} if entry.where else {}
    return ExpectationConfiguration(
        type=entry.type,
        kwargs={**entry.kwargs, **condition, "column": column},
        severity=FailureSeverity(entry.severity),
        meta={"position": position},
        notes=entry.notes,
    ).to_domain_obj()


def _condition(where: Where) -> Any:
    from great_expectations.expectations.row_conditions import Column

    compare = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}
    return compare[where.operator](Column(where.measure), where.value)


def _items(suite: Suite, measures: Measures) -> Iterator[_Item]:
    for entry in suite.expectations:
        found = entry.columns(measures)
        by_itself = entry.type == "expect_column_values_to_be_between" and "mostly" not in entry.kwargs
        if len(found) > MANY and by_itself and entry.where is None:
            yield _Item(entry, found)
        else:
            yield from (_Item(entry, (measure,)) for measure in found)


def _check_kwargs(suite: Suite) -> None:
    problems = []
    for entry in suite.expectations:
        try:
            _expectation(entry, entry.column, 0)
        except Exception as wrong:
            text = "; ".join(line.strip() for line in str(wrong).splitlines()[1:5]) or str(wrong)
            problems.append((entry.path, Problem(entry.line, f"{entry.type} about {entry.column}", text)))
    if problems:
        path = problems[0][0]
        raise SuiteInvalid(path, [problem for at, problem in problems if at == path])


def _numbers(measures: Measures) -> tuple[dict[str, float | None], dict[str, str]]:
    """Measures as floats or None, and why the others cannot be judged."""
    numbers: dict[str, float | None] = {}
    unusable: dict[str, str] = {}
    for name, value in measures.items():
        try:
            numbers[name] = None if value is None else float(value)
        except (TypeError, ValueError):
            numbers[name], unusable[name] = None, f"a {type(value).__name__}, not a number"
        if isinstance(numbers[name], float) and isnan(numbers[name] or 0.0):
            numbers[name], unusable[name] = None, "NaN, not a number (nothing to measure is null)"
    return numbers, unusable


def _by_position(answered: Any) -> dict[int, Any]:
    return {answer.expectation_config.meta["position"]: answer for answer in answered.results}


def _outcome(
    item: _Item, place: int, measures: Measures, unusable: Mapping[str, str], answer: Any, trouble: str
) -> tuple[Outcome, str]:
    """What is said of the item's measure at a place."""
    measure = item.measures[place]
    if measure not in measures:
        what = "no measure matches this pattern" if item.entry.is_pattern else "the measure is absent"
        return "error", what
    if measure in unusable:
        return "error", unusable[measure]
    where = item.entry.where
    if where is not None and (where.measure in unusable or measures.get(where.measure) is None):
        return "error", f"nobody can say whether {where}: that measure is absent, null or no number"
    if answer is None:
        return "error", trouble or "Great Expectations gave no answer"
    raised = _raised(answer.exception_info)
    if raised:
        return "error", f"the expectation raised: {raised}"
    if answer.success is True:
        return "passed", ""
    if item.is_one:
        return "failed", ""
    failed = answer.result.get("unexpected_index_list")
    if not failed:
        return "error", "the expectation failed and did not say for which measures"
    return ("failed", "") if place in failed else ("passed", "")


def _raised(info: Mapping[str, Any] | None) -> str:
    """The first exception of an answer: it stands at the top or one level down, by metric."""
    info = info or {}
    if "raised_exception" in info:
        return _first_line(info.get("exception_message") or "unknown") if info["raised_exception"] else ""
    inner: Iterable[Any] = info.values()
    return next((text for one in inner if isinstance(one, Mapping) for text in [_raised(one)] if text), "")


def _first_line(what: object) -> str:
    return (str(what).strip().splitlines() or ["no message"])[0][:300]


def _result(
    suite: Suite, entry: Expectation, measure: str, observed: float | None, outcome: Outcome, detail: str
) -> Result:
    return Result(
        suite=suite.name,
        expectation=entry.type,
        metric=measure,
        observed=observed,
        bound=bound_text(entry.kwargs, entry.type) + (f" where {entry.where}" if entry.where else ""),
        severity=entry.severity,
        verdict=outcome,
        notes=entry.notes,
        detail=detail,
    )
