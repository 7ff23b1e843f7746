"""The suite is proven: every deliberate break of the source turns the fast tier red."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proof.breaks import BREAKS, PROJECT, TIME, broken, copy_of, main, prove, table
from proof.mutations import Break, BreakOutdated, becomes, returns, statement

HARMLESS = Break("harmless", "semantics.clock:PartitionClock.lag", becomes("0", "-0"), TIME)
FATAL = Break("fatal", "semantics.match:matches", statement("break", "before"), TIME)
NAMELESS = Break("nameless", "semantics.match:matches", returns("no_such_name"), TIME)
OUTDATED = Break("outdated", "semantics.match:matches", becomes("no_such_name", "None"), TIME)


@pytest.mark.timeout(2700)
def test_deliberate_breaks_turn_the_fast_tier_red() -> None:
    """One break of each package at the top; `make breaks` makes all."""
    outcomes = prove(list({one.file.partition("/")[0]: one for one in reversed(BREAKS)}.values()))
    print(table(outcomes))
    assert [one for one in outcomes if not one.red] == [], f"\n{table(outcomes)}"


def test_a_break_that_stays_green_or_stops_the_tests_is_no_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], [HARMLESS, FATAL, NAMELESS]) == 1
    output = capsys.readouterr().out
    assert "harmless  STAYED GREEN" in output
    assert "fatal     ERROR tests/semantics/test_time.py" in output
    assert re.search("nameless  ERROR .* - NameError", output)
    assert "0 of 3 breaks" in output


def test_a_break_that_is_not_in_the_source_is_an_error_and_breaks_nothing(tmp_path: Path) -> None:
    root = copy_of(PROJECT, tmp_path)
    before = (root / "spark_jobs/windrow" / OUTDATED.file).read_text()
    with pytest.raises(BreakOutdated, match="edit the break in tests/proof"):
        broken(root, OUTDATED)
    assert (root / "spark_jobs/windrow" / OUTDATED.file).read_text() == before
