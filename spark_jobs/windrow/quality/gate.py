"""The gate: each expectation of the suites about the measures of one interval, and the verdict on all of them.

    measures (name → number) ─▶ suites ─▶ Great Expectations ─┬▶ results, the worst of them is the verdict
                                                              └▶ the interval's report

What it guarantees:

- Only `passed` means passed, and an interval without a row is `empty`. A measure that is absent or not a number, an
  expectation that raises, and one that Great Expectations returns no result for are errors of the gate, and an error
  blocks.
- A null measure means "nothing to measure here" (a rate of no rows). Types that look at each value
  (`expect_column_values_…`) skip a null, types that look at the column (`expect_column_max_to_be_between`) fail on
  it: a suite chooses by its type whether a null passes.

Make one `Gate` for all intervals of a run, and a new one for the next run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isnan
from pathlib import Path
from typing import Any

from windrow.quality import pages, wording
from windrow.quality.expectations import Suite
from windrow.quality.suite_page import suite_page
from windrow.quality.validation import Item, Measures, Validator, bound_text, by_position, first_line, raised
from windrow.quality.verdicts import Judgement, Outcome, Result
from windrow.semantics.intervals import Interval
from windrow.semantics.judgement import worst

MANY = 50
"""If a pattern matches more measures than this, one expectation judges them all, as rows of one column.

One expectation per measure takes some 10 ms each, and nobody reads a page of thousands.
"""


class Gate:
    """The suites of one pipeline, ready to judge any number of its intervals.

    Raises:
        SuiteInvalid: an entry's kwargs do not fit its type.
        ValueError: no suite, or one suite twice.
    """

    def __init__(self, suites: Sequence[Suite]) -> None:
        names = [suite.name for suite in suites]
        if not suites or len(set(names)) < len(names):
            raise ValueError(f"a gate takes at least one suite, each once, not {names}")
        self._suites = tuple(suites)
        self._validator = Validator(self._suites)

    def judge(
        self,
        measures: Measures,
        *,
        pipeline: str,
        interval: Interval,
        plan: str,
        report_folder: Path,
        judged_at: datetime,
        is_listed: bool = True,
    ) -> Judgement:
        """Judge one interval and write its report under `report_folder`/data_docs.

        Args:
            measures: value by name of measure; None where it could not be taken.
            pipeline: its name, for the report.
            interval: what is judged.
            plan: id of the plan under which its candidate was made.
            report_folder: the pipeline's reports.
            judged_at: aware UTC; stands in the report and in the register.
            is_listed: whether the lists of reports are written too. Whoever judges many intervals calls
                `pages.write_lists` after the last one instead: each list names every interval of a day.

        Returns:
            The verdict with the result of every expectation. None is raised: look at `may_publish`.
        """
        numbers, unusable = _numbers(measures)
        results: list[Result] = []
        data_docs: dict[str, str] = {}
        for suite in self._suites:
            items = list(_items(suite, measures))
            found, failure = self._validated(suite, items, numbers, interval, judged_at, data_docs)
            for position, item in enumerate(items):
                for index, measure in enumerate(item.measures):
                    outcome, detail = _outcome(item, index, measures, unusable, found.get(position), failure)
                    results.append(_result(suite, item, measure, numbers, outcome, detail))
        judgement = Judgement(
            pipeline,
            interval,
            plan,
            worst(((result.verdict, result.severity) for result in results), is_empty=numbers.get("rows") == 0),
            tuple(results),
            pages.page_path(Path(report_folder), interval, plan),
            judged_at.astimezone(UTC),
        )
        pages.write(judgement, data_docs, numbers)
        if is_listed:
            pages.write_lists(pipeline, report_folder, [interval.start.astimezone(UTC).date()])
        return judgement

    def _validated(
        self,
        suite: Suite,
        items: Sequence[Item],
        numbers: Measures,
        interval: Interval,
        judged_at: datetime,
        data_docs: dict[str, str],
    ) -> tuple[dict[int, Any], str]:
        """Great Expectations' results by position of the item, and what it raised; its pages go into `data_docs`."""
        found: dict[int, Any] = {}
        try:
            for page, is_one in ((suite.name, True), (f"{suite.name}.patterns", False)):
                chosen = {position: item for position, item in enumerate(items) if item.is_one is is_one}
                if chosen or is_one:
                    validated = self._validator.validate(page, chosen, numbers, interval, judged_at)
                    found |= by_position(validated)
                    data_docs[page] = suite_page(validated, page)
        except Exception as error:  # whatever breaks inside is an error of the gate, never a pass
            return found, f"Great Expectations raised {type(error).__name__}: {first_line(error)}"
        return found, ""


def _items(suite: Suite, measures: Measures) -> Iterator[Item]:
    for entry in suite.expectations:
        columns = entry.columns(measures)
        # only this type judges each row of a column by itself, so only its rows can be measures
        judges_rows = entry.type == "expect_column_values_to_be_between" and "mostly" not in entry.kwargs
        if len(columns) > MANY and judges_rows and entry.where is None:
            yield Item(entry, columns)
        else:
            yield from (Item(entry, (column,)) for column in columns)


def _numbers(measures: Measures) -> tuple[dict[str, float | None], dict[str, str]]:
    """Measures as floats or None, and the reason for each that cannot be judged."""
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


def _outcome(
    item: Item, index: int, measures: Measures, unusable: Mapping[str, str], found: Any, failure: str
) -> tuple[Outcome, str]:
    """Outcome for one of the item's measures, with the reason of an error."""
    measure = item.measures[index]
    if measure not in measures:
        return "error", "no measure matches this pattern" if item.entry.is_pattern else "the measure is absent"
    if measure in unusable:
        return "error", unusable[measure]
    where = item.entry.where
    if where is not None and (where.measure in unusable or measures.get(where.measure) is None):
        return "error", f"it cannot be decided whether {where}: that measure is absent, null or not a number"
    if found is None:
        return "error", failure or "Great Expectations returned no result"
    if exception := raised(found.exception_info):
        return "error", f"the expectation raised: {exception}"
    if found.success is True:
        return "passed", ""
    if item.is_one:
        return "failed", ""
    failed = found.result.get("unexpected_index_list")
    if not failed:
        return "error", "the expectation failed without naming the measures"
    return ("failed", "") if index in failed else ("passed", "")


def _result(suite: Suite, item: Item, measure: str, numbers: Measures, outcome: Outcome, detail: str) -> Result:
    entry, observed, words = item.entry, numbers.get(measure), ""
    if outcome == "failed":
        words = wording.failure(measure, observed, entry.kwargs, entry.type, numbers)
    elif outcome == "error":
        words = f"{measure}: {detail}"
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
        why=words,
    )
