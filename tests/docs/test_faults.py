"""docs/FAULTS.md: every fault has a promise, and names tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/FAULTS.md"
HEAD = "| # | what is done | what is promised | shown by |\n| --- | --- | --- | --- |\n"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def problems(page: str, faults: int = 54) -> list[str]:
    """Return what is wrong with the table of faults of a page."""
    lines = takewhile(lambda line: line.startswith("|"), page.partition(HEAD)[2].splitlines())
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    numbers = [row[0] for row in rows]
    if numbers != [str(n) for n in range(1, faults + 1)]:
        return [f"the rows are not 1 to {faults}: {', '.join(numbers)}"]
    return [problem for row in rows for problem in _problems_of(row)]


def _problems_of(row: list[str]) -> list[str]:
    if len(row) != 4 or not all(row):
        return [f"row {row[0]} does not have a fault, a promise and tests"]
    named = TEST.findall(row[3])
    missing = [f"row {row[0]}: no test {test} in {file}" for file, test in named if test not in _tests_in(file)]
    return missing if named else [f"row {row[0]} names no test"]


@cache
def _tests_in(file: str) -> set[str]:
    """Names of the tests of a file: functions, and the state machines that are assigned to a name."""
    path = ROOT / file
    body = ast.parse(path.read_text()).body if path.exists() else []
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    assigned = {t.id for node in body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)}
    return {name for name in functions | assigned if name.lower().startswith("test")}


def test_every_fault_names_the_tests_that_show_its_promise() -> None:
    assert problems(PAGE.read_text()) == []


HERE, THIS = "tests/docs/test_faults.py", "test_a_row_without_a_promise_or_a_test_is_seen"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (f"| 2 | a | b | `{HERE}::{THIS}` |", "the rows are not 1 to 1: 2"),
        ("| 1 | a | b | nothing yet |", "row 1 names no test"),
        (f"| 1 | a | b | `{HERE}::test_of_tomorrow` |", "row 1: no test test_of_tomorrow"),
        (f"| 1 | a | b | `{HERE[:-4]}_gone.py::{THIS}` |", f"row 1: no test {THIS}"),
        (f"| 1 | a | b | `{HERE}::problems` |", "row 1: no test problems"),
        (f"| 1 | a |  | `{HERE}::{THIS}` |", "row 1 does not have"),
    ],
)
def test_a_row_without_a_promise_or_a_test_is_seen(row: str, problem: str) -> None:
    (found,) = problems(f"{HEAD}{row}\n", faults=1)
    assert problem in found


def test_a_row_that_is_whole_is_no_problem() -> None:
    assert problems(f"{HEAD}| 1 | a | b | `{HERE}::{THIS}` |\n", faults=1) == []
