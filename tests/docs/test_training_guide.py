"""Each Python snippet of docs/TRAINING.md runs, one after the other, on a table that the platform has written."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from support.training.feed import feed_home
from support.training.table import empty_places
from windrow.jobs.run import Context
from windrow.jobs.upkeep import snapshot

PAGE = Path(__file__).resolve().parents[2] / "docs/TRAINING.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_every_snippet_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = feed_home(empty_places(tmp_path / "feed"))
    snapshot.take(Context(home.pipeline, home.places), "ranker-7", who="a person", why="training set of ranker 7")
    monkeypatch.setenv("WINDROW_HOME", str(home.places.home))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    page, names = PAGE.read_text(), dict[str, object]()
    snippets = list(SNIPPET.finditer(page))
    assert len(snippets) == page.count("```") / 2, "a block is no snippet"
    for snippet in snippets:
        lines = page.count("\n", 0, snippet.start(1))
        exec(compile("\n" * lines + snippet[1], str(PAGE), "exec"), names)
