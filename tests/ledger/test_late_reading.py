"""The reading rule of the late ledger, on a table written by hand. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.generated import INTERVAL, PIPELINE, START
from windrow.config import load
from windrow.home import Home, Table
from windrow.io.delta import tables
from windrow.io.ledger import table as ledger_table
from windrow.places import Places
from windrow.schemas import LATE, PUBLICATIONS
from windrow.semantics.records import RowId

ROW = {"event_time": START, "topic": "t.served", "epoch": 0, "partition": 0}


@pytest.fixture
def home(places: Places) -> Home:
    path = Path(places.pipelines[0]) / "generated.yaml"
    path.write_text(PIPELINE)
    return Home(load(path, places.expectations), places)


def line(number: int, kind: str, subject: str, publication: int = 1, **values: Any) -> dict[str, Any]:
    return {
        **ROW,
        "interval": START,
        "publication": publication,
        "pass": number,
        "kind": kind,
        "subject": subject,
        **values,
    }


def written(home: Home, *lines: dict[str, Any]) -> None:
    rows = [{name: one.get(name) for name in LATE.names} for one in lines]
    write_deltalake(ledger_table.path_of(home), pa.Table.from_pylist(rows, LATE), mode="append")


def kinds(home: Home, config_hash: str = "", number: int = 1) -> list[tuple[str, str]]:
    standing = {START: {"number": number, "config_hash": config_hash or home.pipeline.config_hash}}
    found = ledger_table.lines(home, standing=standing)
    return sorted(zip(found["subject"], found["kind"], strict=True))


def test_there_is_no_line_where_there_is_no_ledger(home: Home) -> None:
    assert kinds(home) == []
    assert ledger_table.last_pass(home) is None
    assert ledger_table.of_row(home, RowId("t.served", 0, 0, 1)) == []
    assert ledger_table.summary(home, [START]) == {}


def test_the_newest_pass_over_a_subject_counts_and_other_subjects_keep_their_lines(home: Home) -> None:
    written(home, line(1, "late_label", "a"), line(1, "state_changed", "b"), line(1, "late_left", "c"))
    written(home, line(2, "late_label", "a"), line(2, "late_feature", "a"), line(3, "as_published", "b"))
    assert kinds(home) == [("a", "late_feature"), ("a", "late_label"), ("c", "late_left")]


def test_lines_of_a_replaced_publication_do_not_count(home: Home) -> None:
    written(home, line(1, "late_label", "a"), line(2, "late_left", "b", publication=2))
    assert kinds(home, number=1) == [("a", "late_label")]
    assert kinds(home, number=2) == [("b", "late_left")]
    assert kinds(home, number=3) == []


def test_a_publication_of_another_config_has_that_line_alone_and_only_then(home: Home) -> None:
    written(home, line(1, "late_label", "a"), line(2, "config_changed", ""), line(3, "config_changed", ""))
    assert kinds(home, config_hash="another") == [("", "config_changed")]
    assert kinds(home) == [("a", "late_label")]


def test_that_line_is_about_every_row_of_its_interval(home: Home) -> None:
    published = {"number": 1, "interval": START, "config_hash": "another"}
    tables.append_once(home.table(Table.PUBLICATIONS), PUBLICATIONS, [published], app_id="test", version=1)
    written(home, line(1, "config_changed", ""), line(1, "config_changed", "", interval=START + INTERVAL))
    row = RowId("t.served", 0, 0, 1)
    assert [found["interval"] for found in ledger_table.of_row(home, row, START)] == [START]
    assert ledger_table.of_row(home, row) == []


def test_intervals_that_were_not_asked_for_are_left_out(home: Home) -> None:
    later = START + INTERVAL
    written(home, line(1, "late_label", "a"), line(1, "late_left", "b", interval=later, publication=2))
    standing = {at: {"number": n, "config_hash": home.pipeline.config_hash} for n, at in ((1, START), (2, later))}
    found = ledger_table.lines(home, [later, later + INTERVAL], standing=standing, columns=("kind",))
    assert found.to_dicts() == [{"kind": "late_left"}]
