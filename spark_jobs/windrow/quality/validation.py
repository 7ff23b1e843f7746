"""Great Expectations, driven in memory: measures in, its validation result out.

    measures (name → number)         one pandas row, a column per measure
    many measures of one pattern     one pandas column, a row per measure

The context lives in memory, belongs to one `Validator` and is never shared. Nothing leaves the machine. The import
of Great Expectations takes seconds, a validation a fraction of one. A context keeps its results in memory, so a
`Validator` serves one run.
"""

from __future__ import annotations

import logging
import operator
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windrow.config.problems import Problem
from windrow.quality.expectations import Expectation, Suite, SuiteInvalid, Where
from windrow.quality.verdicts import number
from windrow.semantics.intervals import Interval
from windrow.text import short_instant_text

Measures = Mapping[str, float | None]

_SUMMARY = {"result_format": "SUMMARY", "partial_unexpected_count": 1}
_COMPLETE = {"result_format": "COMPLETE", "partial_unexpected_count": 20, "return_unexpected_index_query": False}
"""With the index of each failed row: of many measures in one column, it tells which of them failed."""


@dataclass(frozen=True)
class Item:
    """An entry of a suite file with the measures that it is judged about: one, or all that its pattern matches."""

    entry: Expectation
    measures: tuple[str, ...]

    @property
    def is_one(self) -> bool:
        """Whether it is about a single measure."""
        return len(self.measures) == 1

    @property
    def column(self) -> str:
        """Column of the batch that holds its numbers."""
        return self.measures[0] if self.is_one else self.entry.column


class Validator:
    """Runs expectations about measures in a context of its own.

    Raises:
        SuiteInvalid: an entry's kwargs do not fit its type.
    """

    def __init__(self, suites: tuple[Suite, ...]) -> None:
        self._context = _context()
        self._definitions: dict[tuple[str, tuple[tuple[int, str], ...]], Any] = {}
        for suite in suites:
            _check_kwargs(suite)

    def validate(
        self, page: str, items: Mapping[int, Item], numbers: Measures, interval: Interval, judged_at: datetime
    ) -> Any:
        """Return Great Expectations' result for items (by position) that all are about one measure, or all about many.

        Args:
            page: name of the Data Docs page that shows the result.
            numbers: the measures, without NaN.
        """
        import pandas as pd
        from great_expectations.core.run_identifier import RunIdentifier

        many = {
            item.column: pd.Series([numbers[m] for m in item.measures]) for item in items.values() if not item.is_one
        }
        frame = pd.DataFrame(many or [dict(numbers)], dtype="float64")
        key = (page, tuple((position, item.column) for position, item in items.items()))
        if key not in self._definitions:
            self._definitions[key] = self._define(page, items)
        return self._definitions[key].run(
            batch_parameters={"dataframe": frame},
            result_format=_COMPLETE if many else _SUMMARY,
            run_id=RunIdentifier(run_name=short_instant_text(interval.start), run_time=judged_at),
        )

    def _define(self, page: str, items: Mapping[int, Item]) -> Any:
        """Add a suite about exactly these items to the context; results come shuffled, `meta` has the position."""
        import great_expectations as gx

        known = sum(1 for name, _ in self._definitions if name == page)
        name = f"{page}-{known + 1}" if known else page
        expectations = [_expectation(item.entry, item.column, n) for n, item in items.items()]
        batch = (
            self._context.data_sources.add_pandas(name)
            .add_dataframe_asset("measures")
            .add_batch_definition_whole_dataframe("interval")
        )
        added = self._context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations))
        return self._context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=added))


def by_position(validated: Any) -> dict[int, Any]:
    """Return the results of the single expectations by the position of their items."""
    return {result.expectation_config.meta["position"]: result for result in validated.results}


def raised(info: Mapping[str, Any] | None) -> str:
    """First exception in a result's `exception_info`, which has it at the top or by metric; empty without one."""
    info = info or {}
    if "raised_exception" in info:
        return first_line(info.get("exception_message") or "unknown") if info["raised_exception"] else ""
    return next((text for inner in info.values() if isinstance(inner, Mapping) and (text := raised(inner))), "")


def first_line(text: object) -> str:
    """First line of a message, cut to 300 characters."""
    return (str(text).strip().splitlines() or ["no message"])[0][:300]


def preload() -> None:
    """Begin to import Great Expectations in a background thread, which takes as long as a small join."""
    threading.Thread(target=_great_expectations, name="import of Great Expectations", daemon=True).start()


def bound_text(kwargs: Mapping[str, Any], type_: str) -> str:
    """Values that an expectation allows, as people write them.

    >>> bound_text({"min_value": 0, "max_value": 0}, "expect_column_max_to_be_between")
    '= 0'
    """
    if not type_.endswith("_to_be_between"):
        words = [type_.removeprefix("expect_column_").replace("_", " ")]
        return " ".join(words + [f"{name} {value}" for name, value in kwargs.items()])
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if low is not None and low == high:
        return f"= {_number_text(low)}"
    above = ">" if kwargs.get("strict_min") else ">="
    below = "<" if kwargs.get("strict_max") else "<="
    sides = [f"{above} {_number_text(low)}"] if low is not None else []
    sides += [f"{below} {_number_text(high)}"] if high is not None else []
    return " and ".join(sides)


def _number_text(value: Any) -> str:
    return number(float(value)) if isinstance(value, int | float) else str(value)


def _great_expectations() -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read when the package is imported
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


def _check_kwargs(suite: Suite) -> None:
    problems = []
    for entry in suite.expectations:
        try:
            _expectation(entry, entry.column, 0)
        except Exception as wrong:
            text = "; ".join(line.strip() for line in str(wrong).splitlines()[1:5]) or str(wrong)
            problems.append((entry.path, Problem(entry.line, f"{entry.type} about {entry.column}", text)))
    if problems:
        path = problems[0][0]  # inherited entries have the path of another file
        raise SuiteInvalid(path, [problem for at, problem in problems if at == path])
