"""The suite is proven: every deliberate break of the source turns the fast tier red."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.breaks import BREAKS, Break, BreakOutdated, broken, copy_of, main, prove, table

MATCH = Path("spark_jobs/windrow/semantics/match.py")
HARMLESS = Break(
    "harmless",
    "semantics/match.py",
    "-before <= utc(right_at) - utc(left_at) <= after",
    "-before <= (utc(right_at) - utc(left_at)) <= after",
    ("tests/semantics/test_time.py",),
)
FATAL = Break("fatal", "semantics/match.py", "def matches(", "def matches(:", ("tests/semantics/test_time.py",))


@pytest.mark.timeout(2700)
def test_every_deliberate_break_turns_the_fast_tier_red() -> None:
    outcomes = prove(BREAKS)
    print(table(outcomes))
    assert [one for one in outcomes if not one.red] == [], f"\n{table(outcomes)}"


def test_a_break_that_stays_green_or_stops_the_tests_is_no_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], [HARMLESS, FATAL]) == 1
    said = capsys.readouterr().out
    assert "harmless  STAYED GREEN" in said
    assert "fatal     ERROR" in said
    assert "0 of 2 breaks" in said


def test_a_break_whose_text_is_not_in_the_source_is_an_error(tmp_path: Path) -> None:
    root = copy_of(Path(__file__).resolve().parents[2], tmp_path)
    before = (root / MATCH).read_text()
    for text in ("no such text", "utc"):
        with pytest.raises(BreakOutdated, match="edit tests/proof"):
            broken(root, Break("outdated", "semantics/match.py", text, "", ()))
    assert (root / MATCH).read_text() == before


def test_breaks_have_names_of_their_own_and_change_something() -> None:
    assert len({one.name for one in BREAKS}) == len(BREAKS)
    assert all(one.old != one.new for one in BREAKS)
    assert len({(one.file, one.old, one.new) for one in BREAKS}) == len(BREAKS)
