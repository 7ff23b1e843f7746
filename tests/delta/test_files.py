"""Null counts from footers equal those of the rows; a count that the footer cannot give exactly is left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.io.delta.files import DataFile

FLOATS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=3))
ROWS = st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 9)), FLOATS), max_size=12)
KIND = pa.schema([("flat", pa.int32()), ("of.several", pa.list_(pa.float32())), ("of", pa.int64())])


@settings(deadline=None, max_examples=40)
@given(ROWS, st.integers(1, 5))
def test_null_counts_are_those_of_the_rows(tmp_path_factory, rows, group) -> None:  # type: ignore[no-untyped-def]
    file: Path = tmp_path_factory.getbasetemp() / "footers.parquet"
    table = pa.Table.from_pylist([{"flat": n, "of.several": floats, "of": n} for n, floats in rows], KIND)
    pq.write_table(table, file, row_group_size=group)
    counts = DataFile.read(str(file)).null_counts
    assert {name: table[name].null_count for name in counts} == counts
    assert {"flat", "of"} <= set(counts)
    uncertain = [floats for _, floats in rows if not floats or None in floats]
    assert ("of.several" in counts) == (not uncertain)


def test_a_file_without_statistics_has_no_null_counts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "f.parquet", write_statistics=False)
    assert DataFile.read(str(tmp_path / "f.parquet")).null_counts == {}
