"""Suite files: the shipped ones load, a wrong one is refused with the line and what would be right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from windrow.quality.expectations import SuiteInvalid
from windrow.quality.suites import load, suites_for

EXPECTATIONS = Path(__file__).parents[2] / "expectations"

GOOD = """\
description: mine
expectations:
  - type: expect_column_max_to_be_between
    kwargs: {column: rows, min_value: 1}
    severity: warning
    notes: an empty interval is worth a look
"""


def problems(folder: Path, text: str, name: str = "mine") -> list[tuple[int, str]]:
    (folder / f"{name}.yaml").write_text(text)
    with pytest.raises(SuiteInvalid) as refused:
        load(folder, name)
    return [(problem.line, f"{problem.field}: {problem.message}") for problem in refused.value.problems]


def test_a_pipeline_is_judged_by_the_landing_suite_and_by_the_one_it_names() -> None:
    assert [suite.name for suite in suites_for(EXPECTATIONS, "training_rows")] == [
        "landing_rows",
        "training_rows",
    ]


def test_the_landing_suite_named_by_a_pipeline_judges_once() -> None:
    assert [suite.name for suite in suites_for(EXPECTATIONS, "landing_rows")] == ["landing_rows"]


def test_an_own_folder_comes_first_and_its_suite_may_extend_the_one_whose_place_it_takes(tmp_path: Path) -> None:
    (tmp_path / "training_rows.yaml").write_text("extends: training_rows\n" + GOOD)
    ours, both = load(EXPECTATIONS, "training_rows"), load((tmp_path, EXPECTATIONS), "training_rows")
    assert both.path == tmp_path / "training_rows.yaml"
    assert both.expectations[: len(ours.expectations)] == ours.expectations
    assert len(both.expectations) > len(ours.expectations)
    assert load((tmp_path, EXPECTATIONS), "landing_rows") == load(EXPECTATIONS, "landing_rows")


def test_a_suite_extends_another_and_adds_to_it(tmp_path: Path) -> None:
    (tmp_path / "training_rows.yaml").write_text(GOOD)
    (tmp_path / "mine.yaml").write_text("extends: training_rows\n" + GOOD.replace("warning", "info"))

    assert [entry.severity for entry in load(tmp_path, "mine").expectations] == ["warning", "info"]


def test_suites_load_without_importing_great_expectations() -> None:
    code = (
        "import sys; from pathlib import Path; import windrow.quality.gate; "
        "from windrow.quality.suites import suites_for; "
        f"suites_for(Path({str(EXPECTATIONS)!r}), 'training_rows'); "
        "sys.exit('great_expectations' in sys.modules or 'pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("right", "wrong", "line", "message"),
    [
        (
            "expect_column_max_to_be_between",
            "expect_column_max_to_be_betwen",
            3,
            "did you mean 'expect_column_max_to",
        ),
        (
            "expect_column_max_to_be_between",
            "ExpectColumnMaxToBeBetween",
            3,
            "expect_column_max_to_be_between",
        ),
        ("expect_column_max_to_be_between", "expect_table_row_count_to_equal", 3, "not about one measure"),
        ("severity: warning", "severity: fatal", 5, "critical, warning, info"),
        ("notes: an empty interval is worth a look", "notes: ''", 6, "what to do when it fails"),
        ("column: rows, ", "", 4, "'column' is missing"),
        ("column: rows", "column: 7", 4, "name of a measure"),
        ("min_value: 1", "min_value: 1, result_format: COMPLETE", 4, "the gate decides this"),
        ("    severity: warning\n", "", 3, "'severity' is missing"),
        ("severity: warning", "severity: info\n    severity: warning", 6, "twice"),
        ("severity: warning", "severity: info\n    sevrity: warning", 6, "did you mean 'severity'"),
        (
            "severity: warning",
            "severity: info\n    may_be_absent: true",
            6,
            "only if the column is a pattern",
        ),
        ("description: mine", "descripton: mine", 1, "did you mean 'description'"),
        ("expectations:", "expectations: []\nextends:", 2, "at least one expectation"),
        ("description: mine", "extends: mine", 1, "extend each other"),
        ("description: mine", "extends: nobody", 1, "there is no suite 'nobody'"),
        ("kwargs: {", "kwargs: {{", 5, "not valid YAML"),
        ("severity: warning", "severity: info\n    where: rows over 5", 6, "is not a condition"),
        (
            "min_value: 1",
            "min_value: 1, row_condition: rows > 5",
            4,
            "a field of the entry: `where: rows >= 100`",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_would_be_right(
    tmp_path: Path, right: str, wrong: str, line: int, message: str
) -> None:
    assert right in GOOD
    found = problems(tmp_path, GOOD.replace(right, wrong))

    assert any(at == line and message in text for at, text in found), found


def test_every_mistake_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, GOOD.replace("warning", "fatal").replace("expect_column_max", "expect_colum_max"))

    assert [line for line, _ in found] == [3, 5]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert "expectations" in problems(tmp_path, "")[0][1]


def test_a_missing_suite_is_refused_with_the_near_miss(tmp_path: Path) -> None:
    (tmp_path / "training_rows.yaml").write_text(GOOD)
    with pytest.raises(SuiteInvalid, match=r"training_row\.yaml: there is no suite .*did you mean 'training_rows'"):
        load(tmp_path, "training_row")


@pytest.mark.parametrize("name", ["../training_rows", "a/b", "", ".", "a b"])
def test_a_suite_name_never_leaves_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(SuiteInvalid, match="is not a suite name"):
        load(tmp_path, name)


def test_every_entry_of_the_shipped_suites_says_what_it_protects() -> None:
    for suite in suites_for(EXPECTATIONS, "training_rows"):
        assert suite.expectations
        assert all(len(entry.notes) > 40 for entry in suite.expectations)
