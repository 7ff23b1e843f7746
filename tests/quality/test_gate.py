"""The gate: each critical expectation fails when its measure is broken, and passes at its boundary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from great_expectations.datasource.fluent.interfaces import Batch

from windrow.quality import gate, validation
from windrow.quality.expectations import SuiteInvalid
from windrow.quality.gate import Gate
from windrow.quality.suites import load, suites_for
from windrow.quality.tails import least_share
from windrow.quality.validation import bound_text
from windrow.quality.verdicts import Judgement, explain_failure

from .conftest import EXPECTATIONS

Measures = dict[str, float | None]
Judge = Callable[..., Judgement]

# measure, the last value that passes, the first that does not
CRITICAL = [
    ("rows", 0.0, -1.0),
    ("left_imbalance", 0.0, 1.0),
    ("left_imbalance", 0.0, -1.0),
    ("right_imbalance", 0.0, 1.0),
    ("clicks.imbalance", 0.0, 1.0),
    ("buys.imbalance", 0.0, -1.0),
    ("duplicate_row_ids", 0.0, 1.0),
    ("schema_differences", 0.0, 1.0),
    ("null_row_id", 0.0, 1.0),
    ("null_event_time", 0.0, 1.0),
    ("null_arrays", 0.0, 1.0),
    ("rows_outside_interval", 0.0, 1.0),
    ("labels_outside_window", 0.0, 1.0),
    ("labels_out_of_order", 0.0, 1.0),
    ("state_contradictions", 0.0, 1.0),
    ("label_rate", 1.0, 1.01),
    ("label_rate", 0.0, -0.01),
    ("label_rate_z", -8.0, -8.01),
    ("label_rate_z", 20.0, 20.01),
    ("null_rate_max", 0.999, 1.0),
    ("landing_imbalance", 0.0, 1.0),
    ("landing_duplicate_row_ids", 0.0, 1.0),
    ("landing_read", 1000.0, -1.0),
    ("landing_landed", 0.0, -1.0),
    ("landing_quarantined", 0.0, -1.0),
    ("landing_skipped", 0.0, -1.0),
    ("quarantine_least.feed.clicks", 0.5, 0.51),
]
WARNING = [
    ("label_rate_z", -4.0, -4.01),
    ("label_rate_z", 4.0, 4.01),
    ("unknown_rate", 0.2, 0.21),
    ("left_key_null_rate", 0.05, 0.06),
    ("null_rate_max", 0.5, 0.51),
    ("quarantine_least.feed.served", 0.01, 0.011),
    ("drift_psi_max", 0.25, 0.26),
    ("drift_ks_max", 0.15, 0.16),
    ("volume_z.clicks", -4.0, -4.01),
    ("volume_z.served", 6.0, 6.01),
    ("first_empty.served", 0.0, 1.0),
    ("partition_z.feed.clicks/3", -5.0, -5.01),
]
COUNTS = [name for name, *_ in CRITICAL if "rate" not in name and "least" not in name]


def names(judgement: Judgement) -> set[str]:
    return {result.metric for result in judgement.blocking}


def test_a_sound_candidate_passes_and_every_expectation_was_answered(judged: Judge, measures: Measures) -> None:
    judgement = judged(measures)

    assert judgement.verdict == "passed"
    assert judgement.may_publish
    assert {result.verdict for result in judgement.results} == {"passed"}
    entries = sum(len(suite.expectations) for suite in suites_for(EXPECTATIONS, "training_rows"))
    # a pattern is one for each: two right streams, two left columns, two topics; no partition is silent
    assert len(judgement.results) == entries + 5 - 1


@pytest.mark.parametrize(("measure", "_", "fails"), CRITICAL)
def test_a_critical_expectation_blocks_beyond_its_boundary(
    judged: Judge, measures: Measures, measure: str, _: float, fails: float
) -> None:
    broken = judged({**measures, measure: fails})

    assert broken.verdict == "blocked"
    assert not broken.may_publish
    assert names(broken) == {measure}
    assert {result.observed for result in broken.blocking} == {fails}


@pytest.mark.parametrize("table", [CRITICAL, CRITICAL[::-1]], ids=["last boundary", "first boundary"])
def test_a_critical_expectation_lets_its_boundary_pass(
    judged: Judge, measures: Measures, table: list[tuple[str, float, float]]
) -> None:
    at_boundary = {**measures, **{measure: passes for measure, passes, _ in table}, "rows": 1000.0}

    assert names(judged(at_boundary)) == set()


def test_the_table_above_names_every_critical_expectation_of_both_suites() -> None:
    entries = [e for suite in suites_for(EXPECTATIONS, "training_rows") for e in suite.expectations]
    critical = {entry.column for entry in entries if entry.severity == "critical"}

    patterns = {"*.imbalance", "quarantine_least.*"}
    assert critical == {m for m, *_ in CRITICAL if not m.endswith((".imbalance", ".clicks"))} | patterns


@pytest.mark.parametrize(("measure", "passes", "warns"), WARNING)
def test_a_failed_warning_is_published_and_named(
    judged: Judge, measures: Measures, measure: str, passes: float, warns: float
) -> None:
    assert judged({**measures, measure: passes}).verdict == "passed"

    judgement = judged({**measures, measure: warns})

    assert judgement.verdict == "warned"
    assert judgement.may_publish
    assert [result.metric for result in judgement.warnings] == [measure]


def test_a_failed_info_is_noted_and_changes_nothing(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, "null_rate.position": 0.9})

    assert judgement.verdict == "passed"
    assert [r.metric for r in judgement.results if r.verdict == "failed"] == ["null_rate.position"]
    with_gap = judged({**measures, "landing_unexplained": 1.0})
    assert with_gap.verdict == "passed"
    assert [r.metric for r in with_gap.results if r.verdict == "failed"] == ["landing_unexplained"]


def test_many_measures_of_a_pattern_are_judged_as_each_would_be_by_itself(
    judged: Judge, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [0.0, 0.5, 0.51, None, 1.0, float("nan"), -0.1]
    wide = measures | {f"null_rate.f{n:03}": values[n % len(values)] for n in range(2 * gate.MANY)}

    together = judged(wide)
    monkeypatch.setattr(gate, "MANY", len(wide))
    one_by_one = judged(wide)

    assert together.results == one_by_one.results
    verdicts = {result.metric: result.verdict for result in together.results if result.metric in wide}
    assert [verdicts[f"null_rate.f{n:03}"] for n in range(len(values))] == [
        "passed", "passed", "failed", "passed", "failed", "error", "failed",
    ]  # fmt: skip
    pages = {path.name for path in together.report.parent.glob("*.html")}
    assert "training_rows.patterns.html" in pages


@pytest.mark.parametrize("measure", ["left_imbalance", "label_rate_z", "unknown_rate", "clicks.imbalance"])
def test_an_absent_measure_is_an_error_and_never_a_pass(judged: Judge, measures: Measures, measure: str) -> None:
    del measures[measure]
    if measure == "clicks.imbalance":
        del measures["buys.imbalance"]
        measure = "*.imbalance"  # a pattern without any measure

    judgement = judged(measures)

    assert judgement.verdict == "error"
    assert not judgement.may_publish
    assert measure in names(judgement)


def test_without_measures_every_expectation_is_an_error(judged: Judge) -> None:
    judgement = judged({})

    assert judgement.verdict == "error"
    assert {result.verdict for result in judgement.results} == {"error"}
    may_be_absent = {"drift_psi_max", "drift_ks_max"}  # an earlier release did not compare columns
    assert {m for m, *_ in [*CRITICAL, *WARNING] if "." not in m} - may_be_absent < names(judgement)
    assert {"volume_z.*", "first_empty.*", "quarantine_least.*"} < names(judgement)


def test_a_pattern_that_may_be_absent_passes_without_a_measure(judged: Judge, measures: Measures) -> None:
    without = {name: value for name, value in measures.items() if not name.startswith("null_rate.")}

    assert judged(without).verdict == "passed"


def test_an_interval_without_rows_is_empty_and_never_passed(judged: Judge, empty_measures: Measures) -> None:
    assert empty_measures["label_rate"] is None

    judgement = judged(empty_measures)
    assert judgement.verdict == "empty"
    assert judgement.may_publish
    assert 'class="verdict empty"' in judgement.report.read_text()
    assert "1 empty" in (judgement.report.parents[3] / "index.html").read_text()


def test_a_topic_that_is_empty_for_the_first_time_is_warned(judged: Judge, empty_measures: Measures) -> None:
    assert judged({**empty_measures, "first_empty.served": 1.0}).verdict == "warned"


@pytest.mark.parametrize("measure", ["left_imbalance", "right_imbalance", "clicks.imbalance", "landing_imbalance"])
def test_an_interval_without_left_rows_must_balance_all_the_same(
    judged: Judge, empty_measures: Measures, measure: str
) -> None:
    assert judged({**empty_measures, measure: 1.0}).verdict == "blocked"


def test_a_count_that_is_null_does_not_pass(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, **dict.fromkeys(COUNTS)})

    assert set(COUNTS) <= names(judgement)


def test_one_count_that_is_null_blocks(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, "left_imbalance": None})

    assert judgement.verdict == "blocked"
    assert names(judgement) == {"left_imbalance"}


def test_without_history_the_label_rate_passes(judged: Judge, measures: Measures) -> None:
    assert judged({**measures, "label_rate_history": None, "label_rate_z": None}).verdict == "passed"


@pytest.mark.parametrize(("rows", "verdict"), [(99.0, "passed"), (100.0, "blocked")])
def test_a_column_that_is_all_null_blocks_only_with_enough_rows_to_decide(
    judged: Judge, measures: Measures, rows: float, verdict: str
) -> None:
    assert judged({**measures, "rows": rows, "null_rate_max": 1.0}).verdict == verdict


@pytest.mark.parametrize(
    ("bad", "records", "verdict"),
    [
        (1, 20, "passed"),  # 5 %, and chance
        (23, 1000, "passed"),  # 2.3 %, and chance may do that
        (69, 3000, "warned"),  # 2.3 %
        (31, 3000, "passed"),  # 1.03 %
        (13, 13, "warned"),  # all of them, and too few to be sure of the half
        (16, 16, "blocked"),
        (0, 0, "passed"),
    ],
)
def test_quarantine_is_judged_beyond_chance(
    judged: Judge, measures: Measures, bad: int, records: int, verdict: str
) -> None:
    share = least_share(bad, records)
    assert judged({**measures, "quarantine_least.feed.clicks": share}).verdict == verdict


def test_old_poison_of_other_intervals_and_topics_is_noted_and_does_not_warn(judged: Judge, measures: Measures) -> None:
    assert judged({**measures, "landing_quarantined": 4000.0, "landing_quarantine_rate": 0.8}).verdict == "passed"


@pytest.mark.parametrize("value", [float("nan"), "many"])
@pytest.mark.parametrize("measure", ["label_rate", "left_imbalance"])
def test_a_measure_that_is_not_a_number_is_an_error_and_not_a_null(
    judged: Judge, measures: dict[str, Any], measure: str, value: object
) -> None:
    judgement = judged({**measures, measure: value})

    assert judgement.verdict == "error"
    assert names(judgement) == {measure}


def test_infinity_is_beyond_every_boundary(judged: Judge, measures: Measures) -> None:
    assert judged({**measures, "label_rate_z": float("inf")}).verdict == "blocked"


def test_an_error_outranks_a_failure_and_both_are_named(judged: Judge, measures: Measures) -> None:
    del measures["null_row_id"]
    judgement = judged({**measures, "rows_outside_interval": 3.0})

    assert judgement.verdict == "error"
    assert [r.metric for r in judgement.blocking] == ["null_row_id", "rows_outside_interval"]


def own_suite(folder: Path, *entries: str) -> Gate:
    text = "".join(f"  - {{type: {e}, notes: n}}\n" for e in entries)
    (folder / "mine.yaml").write_text("expectations:\n" + text)
    return Gate([load(folder, "mine")])


def test_two_bounds_on_one_measure_are_both_judged(judged: Judge, tmp_path: Path) -> None:
    gate = own_suite(
        tmp_path,
        "expect_column_max_to_be_between, kwargs: {column: rows, max_value: 100}, severity: critical",
        "expect_column_max_to_be_between, kwargs: {column: rows, max_value: 10}, severity: warning",
    )

    assert [judged({"rows": n}, by=gate).verdict for n in (10.0, 11.0, 101.0)] == [
        "passed",
        "warned",
        "blocked",
    ]


def test_another_type_of_expectation_is_judged_too(judged: Judge, tmp_path: Path) -> None:
    gate = own_suite(
        tmp_path,
        "expect_column_values_to_be_in_set, kwargs: {column: rows, value_set: [5, 6]}, severity: critical",
        "expect_column_values_to_not_be_null, kwargs: {column: label_rate}, severity: critical",
    )

    assert judged({"rows": 5.0, "label_rate": 0.0}, by=gate).verdict == "passed"
    assert names(judged({"rows": 7.0, "label_rate": None}, by=gate)) == {"rows", "label_rate"}


def test_an_expectation_that_raises_is_an_error(judged: Judge, tmp_path: Path) -> None:
    gate = own_suite(
        tmp_path,
        "expect_column_values_to_match_regex, kwargs: {column: rows, regex: '['}, severity: info",
    )
    judgement = judged({"rows": 0.0}, by=gate)

    assert judgement.verdict == "error"
    assert "raised" in judgement.results[0].detail


@pytest.mark.parametrize("rows", [None, float("nan")])
def test_a_condition_that_cannot_be_decided_is_an_error(judged: Judge, tmp_path: Path, rows: float | None) -> None:
    gate = own_suite(
        tmp_path,
        "expect_column_max_to_be_between, kwargs: {column: a, max_value: 1}, where: rows > 1, severity: info",
    )

    assert judged({"a": 2.0, "rows": rows}, by=gate).verdict == "error"
    assert judged({"a": 2.0}, by=gate).verdict == "error"


@pytest.mark.parametrize(
    ("where", "judged_at", "not_at"),
    [("rows >= 5", 5, 4), ("rows > 5", 6, 5), ("rows < 5", 4, 5), ("rows <= 5", 5, 6), ("rows == 5", 5, 4)],
)
def test_an_expectation_is_judged_only_under_its_condition(
    judged: Judge, tmp_path: Path, where: str, judged_at: int, not_at: int
) -> None:
    gate = own_suite(
        tmp_path,
        f"expect_column_values_to_be_between, kwargs: {{column: a, max_value: 1}}, severity: critical, where: {where}",
    )

    assert judged({"a": 2.0, "rows": float(judged_at)}, by=gate).verdict == "blocked"
    assert judged({"a": 2.0, "rows": float(not_at)}, by=gate).verdict == "passed"


def test_a_crash_of_great_expectations_is_an_error_of_every_expectation(
    judged: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = "expect_column_max_to_be_between, kwargs: {column: rows, min_value: 0}, severity: info"
    gate = own_suite(tmp_path, entry)

    def crash(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(gate._validator, "validate", crash)
    judgement = judged({"rows": 1.0}, by=gate)

    assert judgement.verdict == "error"
    assert "MemoryError: no room" in explain_failure(judgement)
    assert judgement.report.exists()


def test_wrong_kwargs_are_refused_when_the_gate_is_made_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(SuiteInvalid, match=r"mine\.yaml:2: .*min_valu") as refused:
        own_suite(tmp_path, "expect_column_max_to_be_between, kwargs: {column: a, min_valu: 0}, severity: info")
    assert refused.value.problems[0].line == 2


def test_a_gate_without_a_suite_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one suite"):
        Gate([])


def test_one_gate_judges_pipelines_with_other_columns(judged: Judge, measures: Measures) -> None:
    other = {name.replace("clicks", "likes"): value for name, value in measures.items()}

    assert judged(measures).verdict == "passed"
    assert names(judged({**other, "likes.imbalance": 2.0})) == {"likes.imbalance"}
    assert names(judged({**measures, "clicks.imbalance": 2.0})) == {"clicks.imbalance"}


def test_the_same_measures_get_the_same_judgement_from_a_new_gate(judged: Judge, measures: Measures) -> None:
    broken = {**measures, "rows_outside_interval": 3.0}
    again = Gate(suites_for(EXPECTATIONS, "training_rows"))

    assert judged(broken) == judged(broken, by=again)


def test_a_number_is_given_to_great_expectations_once_and_every_judgement_is_that_of_a_new_gate(
    judged: Judge, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a condition turns, a measure is null or absent, a balance fails and what failed passes again."""
    suites = suites_for(EXPECTATIONS, "training_rows")
    absent = {name: value for name, value in measures.items() if name != "null_row_id"}
    changes: list[Measures] = [
        {}, {}, {"null_rate_max": 1.0}, {"null_rate_max": 1.0, "rows": 99.0}, {"null_rate_max": 1.0, "rows": None},
        {"left_imbalance": 2.0}, {"left_imbalance": None}, {"left_imbalance": -0.0}, {}, {"label_rate_z": 30.0},
        {"label_rate_z": None}, {"label_rate_z": float("inf")},
    ]  # fmt: skip
    series = [*({**measures, **change} for change in changes), absent, absent, measures]
    asked: list[int] = []
    validate = Batch.validate

    def counted(self: Any, suite: Any, **more: Any) -> Any:
        asked.append(len(suite.expectations))
        return validate(self, suite, **more)

    monkeypatch.setattr(Batch, "validate", counted)
    together = Gate(suites)
    found, counts = [], []
    for one in series:
        asked.clear()
        found.append(judged(one, by=together))
        counts.append(sum(asked))
    assert found == [judged(one, by=Gate(suites)) for one in series]
    assert counts[0] == len(found[0].results)
    assert counts[1:] == [0, 2, 3, 3, 1, 1, 1, 0, 2, 2, 2, 1, 1, 0]


def test_results_that_are_kept_are_bounded(judged: Judge, measures: Measures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "REMEMBERED", 50)
    gate = Gate(suites_for(EXPECTATIONS, "training_rows"))
    for n in range(30):
        assert judged({**measures, "rows": float(1000 + n), "left_imbalance": float(n == 20)}, by=gate).may_publish is (
            n != 20
        )
        assert all(len(group._results) <= 100 for group in gate._validator._groups.values())


def test_the_explanation_has_the_figures_the_interval_and_the_next_move(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, "rows_outside_interval": 3.0})
    text = explain_failure(judgement)

    assert "rows_outside_interval: observed 3, expected = 0" in text
    assert "expect_column_max_to_be_between" in text
    assert "0123456789abcdef" in text
    assert "[2026-11-01T00:00:00Z, 2026-11-01T00:10:00Z)" in text
    assert str(judgement.report) in text
    assert "windrow train feed --interval 2026-11-01T00:00:00Z" in text
    assert "windrow override feed --interval 2026-11-01T00:00:00Z" in text


def test_a_broken_balance_is_never_offered_for_override(judged: Judge, measures: Measures) -> None:
    judgement = judged({**measures, "clicks.imbalance": 2.0})

    assert not judgement.may_override
    assert "windrow override" not in explain_failure(judgement)
    assert "cannot be overridden" in explain_failure(judgement)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"min_value": 0, "max_value": 0}, "= 0"),
        ({"min_value": -8, "max_value": 20}, ">= -8 and <= 20"),
        ({"max_value": 1, "strict_max": True}, "< 1"),
        ({"min_value": 0.5, "strict_min": True}, "> 0.5"),
    ],
)
def test_a_bound_reads_as_people_write_it(kwargs: dict[str, Any], text: str) -> None:
    assert bound_text(kwargs, "expect_column_values_to_be_between") == text
