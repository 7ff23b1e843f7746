"""Great Expectations, driven in memory: measures in, its validation result out.

    measures (name → number)         one pandas row, a column per measure
    many measures of one pattern     one pandas column, a row per measure

Great Expectations alone decides what passes. It judges an expectation about one measure once per number: in a run of
many intervals most measures are alike (nothing doubled, nothing missing), and an expectation takes it some 10 ms.

The context lives in memory, belongs to one `Validator` and is never shared. Nothing leaves the machine. The import
of Great Expectations takes seconds, a validation a fraction of one. A `Validator` keeps results in memory and serves
one run.
"""

from __future__ import annotations

import logging
import operator
import os
import threading
from collections.abc import Callable, Mapping, Sequence
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

REMEMBERED = 2_000
"""Results that are kept for later intervals. Beyond it all of them are dropped, so that memory stays bounded."""

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


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
        self._groups: dict[tuple[str, tuple[tuple[int, str], ...]], _Group] = {}
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
        from great_expectations.constants import DATAFRAME_REPLACEMENT_STR
        from great_expectations.core.run_identifier import RunIdentifier

        key = (page, tuple((position, item.column) for position, item in items.items()))
        if key not in self._groups:
            self._groups[key] = self._group(page, items)
        validated = self._groups[key].validate(items, numbers)
        validated.meta |= {
            "run_id": RunIdentifier(run_name=short_instant_text(interval.start), run_time=judged_at),
            "validation_time": judged_at,
            "batch_parameters": {"dataframe": DATAFRAME_REPLACEMENT_STR},
        }
        return validated

    def _group(self, page: str, items: Mapping[int, Item]) -> _Group:
        """Add a batch definition for exactly these items to the context; results have the position in `meta`."""
        known = sum(1 for name, _ in self._groups if name == page)
        name = f"{page}-{known + 1}" if known else page
        asset = self._context.data_sources.add_pandas(name).add_dataframe_asset("measures")
        return _Group(name, asset.add_batch_definition_whole_dataframe("interval"), items)


class _Group:
    """Expectations that are judged together, and the results that Great Expectations has returned about them so far.

    A result about one measure follows from its number and its condition, so it also holds for a later interval with the
    same ones. An expectation that raised is judged again.
    """

    def __init__(self, name: str, batches: Any, items: Mapping[int, Item]) -> None:
        self._name = name
        self._batches = batches
        self._expectations = {n: _expectation(item.entry, item.column, n) for n, item in items.items()}
        self._results: dict[tuple[object, ...], Any] = {}

    def validate(self, items: Mapping[int, Item], numbers: Measures) -> Any:
        """Return Great Expectations' result for all items.

        Args:
            items: those of the group; of a pattern, the measures may be others.
        """
        from great_expectations.core import ExpectationSuite
        from great_expectations.validator.validation_statistics import calc_validation_statistics

        questions = {n: (n, *_question(item, numbers)) for n, item in items.items()}
        results = {n: self._results[question] for n, question in questions.items() if question in self._results}
        new = [n for n in items if n not in results]
        suite = ExpectationSuite(name=self._name, expectations=[self._expectations[n] for n in new])
        batch = self._batches.get_batch({"dataframe": _frame([items[n] for n in new], numbers)})
        is_one = all(item.is_one for item in items.values())
        validated = batch.validate(suite, result_format=_SUMMARY if is_one else _COMPLETE)
        results |= by_position(validated)
        if len(self._results) > REMEMBERED:
            self._results.clear()
        self._results |= {questions[n]: results[n] for n in new if items[n].is_one and not _has_raised(results[n])}
        # what raised comes first, as Great Expectations lists it
        validated.results = sorted(results.values(), key=lambda result: (not _has_raised(result), _position(result)))
        statistics = calc_validation_statistics(validated.results)
        validated.success = statistics.success
        validated.statistics = {name: getattr(statistics, name) for name in validated.statistics}
        return validated


def _question(item: Item, numbers: Measures) -> tuple[object, ...]:
    """Return all that the result about an item follows from: its number, and whether its condition holds."""
    asked: list[object] = [repr(numbers.get(name, "absent")) for name in item.measures]
    if where := item.entry.where:
        other = numbers.get(where.measure, "absent")
        asked.append(_COMPARE[where.operator](other, where.value) if isinstance(other, float) else other)
    return tuple(asked)


def _frame(items: Sequence[Item], numbers: Measures) -> Any:
    """Return the batch of an interval: one row with the measures asked for; for items about many, a column per item.

    Great Expectations looks through all columns of a batch for each condition, so each column takes time.
    """
    import pandas as pd

    many = {item.column: pd.Series([numbers[m] for m in item.measures]) for item in items if not item.is_one}
    named = {item.column for item in items} | {where.measure for item in items if (where := item.entry.where)}
    return pd.DataFrame(many or [{name: value for name, value in numbers.items() if name in named}], dtype="float64")


def by_position(validated: Any) -> dict[int, Any]:
    """Return the results of the single expectations by the position of their items."""
    return {_position(result): result for result in validated.results}


def _position(result: Any) -> int:
    return int(result.expectation_config.meta["position"])


def raised(info: Mapping[str, Any] | None) -> str:
    """First exception in a result's `exception_info`, which has it at the top or by metric; empty without one."""
    info = info or {}
    if "raised_exception" in info:
        return first_line(info.get("exception_message") or "unknown") if info["raised_exception"] else ""
    return next((text for inner in info.values() if isinstance(inner, Mapping) and (text := raised(inner))), "")


def _has_raised(result: Any) -> bool:
    return bool(raised(result.exception_info))


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

    return _COMPARE[where.operator](Column(where.measure), where.value)


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
