"""The tables of docs/SCALE.md are those that `benchmarks/scale.py` computes from the measured figures."""

from __future__ import annotations

import subprocess
import sys

from windrow.places import PROJECT


def test_the_page_has_the_tables_of_the_measured_figures() -> None:
    printed = subprocess.run(
        [sys.executable, str(PROJECT / "benchmarks/scale.py")], capture_output=True, text=True, check=True
    ).stdout
    tables = [part.strip() for part in printed.split("\n\n") if part.startswith("|")]
    # unit costs of two steps and needs of five variants, of which the page has two; the same of daily work, of two
    assert len(tables) == 12
    page = (PROJECT / "docs/SCALE.md").read_text()
    assert [table in page for table in tables] == [
        *[True, True, False, True, False, False, True],
        *[True, True, True, True, False],
    ]
