"""The suite is proven, second half: every deliberate break of the Spark and Delta code turns the agreement red."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proof.breaks import BreakOutdated, table
from proof.engine import BREAKS, Break, broken, prove
from windrow.places import Places
from windrow.transforms import streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2700)]


def test_every_deliberate_break_of_spark_and_delta_code_turns_the_agreement_red(
    spark: Any, places: Places, tmp_path: Path
) -> None:
    outcomes = prove(spark, lambda name: replace(places, home=tmp_path / name))
    assert [one for one in outcomes if not one.red] == [], f"\n{table(outcomes)}"


def test_a_break_is_mended_and_one_that_is_outdated_is_an_error() -> None:
    before = dict(vars(streams))
    with broken(Break("harmless", "transforms.streams", "def selected(", "def selected(")):
        assert streams.selected is not before["selected"]
    assert dict(vars(streams)) == before
    with pytest.raises(BreakOutdated), broken(Break("outdated", "transforms.streams", "no such text", "")):
        pass


def test_breaks_have_names_of_their_own_and_change_something() -> None:
    assert len({one.name for one in BREAKS}) == len(BREAKS)
    assert all(one.old != one.new for one in BREAKS)
