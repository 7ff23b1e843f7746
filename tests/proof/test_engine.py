"""The suite is proven, second half: every deliberate break of the Spark and Delta code turns the agreement red."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proof.breaks import table
from proof.engine import BREAKS, broken, prove
from proof.mutations import Break, BreakOutdated, becomes, never
from windrow.io.delta import locks
from windrow.places import Lock, Places
from windrow.semantics import publication
from windrow.semantics.publication import refuse_superseded


@pytest.mark.spark
@pytest.mark.timeout(2700)
def test_deliberate_breaks_of_spark_and_delta_code_turn_the_agreement_red(
    spark: Any, places: Places, tmp_path: Path
) -> None:
    """One break of each package; `make breaks` makes all."""
    first = {one.where.partition(":")[0].rpartition(".")[0]: one for one in reversed(BREAKS)}
    outcomes = prove(spark, lambda name: replace(places, home=tmp_path / name), list(first.values()))
    assert [one for one in outcomes if not one.red] == [], f"\n{table(outcomes)}"


def test_a_break_is_seen_wherever_the_function_was_imported_and_is_restored() -> None:
    plan = type("Plan", (), {"supersedes": 1, "interval": "", "id": ""})
    with broken(Break("no fence", "semantics.publication:refuse_superseded", never(), ())):
        refuse_superseded(plan, 2)  # imported by name before it was broken
    with pytest.raises(publication.Superseded):
        refuse_superseded(plan, 2)


def test_a_decorated_function_is_broken_too(tmp_path: Path) -> None:
    with broken(Break("dead", "io.delta.locks:held", becomes("path.parent.mkdir", "no_such_name"), ())):
        with pytest.raises(NameError), locks.held(Lock(tmp_path / "lock")):
            pass
        assert not (tmp_path / "lock").exists()
    with locks.held(Lock(tmp_path / "lock")):
        pass


def test_a_break_that_is_not_in_the_source_is_an_error() -> None:
    with pytest.raises(BreakOutdated), broken(Break("outdated", "io.delta.locks:held", becomes("a", "b"), ())):
        pass
