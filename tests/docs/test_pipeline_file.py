"""docs/PIPELINE.md has every field of a pipeline file with its default; the commented example shows every field."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from windrow.config import Pipeline, load
from windrow.config.streams import LeftStream, RightStream, Waiting
from windrow.places import PROJECT
from windrow.text import duration_text

TEXT = (PROJECT / "docs/PIPELINE.md").read_text()
FEED = PROJECT / "dags" / "pipelines" / "feed.yaml"
COMPOSED = ("idle", "waiting", "window")
"""Their defaults are those of their own fields."""


def rows_of(heading: str) -> dict[str, str]:
    """Field → default, of the tables under a heading."""
    text = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return {name: default.strip().strip("`") for name, default in re.findall(r"^\| `(\w+)` \| ([^|]*)\|", text, re.M)}


def fields_of(model: type[BaseModel]) -> dict[str, str]:
    return {field.alias or name: _text(field.default) for name, field in model.model_fields.items()}


def _text(default: Any) -> str:
    if default is PydanticUndefined:
        return ""
    if default is None:
        return "none"
    return duration_text(default) if isinstance(default, timedelta) else str(default)


def test_every_field_is_in_the_tables_with_its_default() -> None:
    for written, known in (
        (rows_of("Pipeline"), fields_of(Pipeline)),
        (rows_of("Streams"), fields_of(LeftStream) | fields_of(RightStream)),
    ):
        assert set(written) == set(known)
        assert {k: v for k, v in written.items() if k not in COMPOSED} == {
            k: v for k, v in known.items() if k not in COMPOSED
        }


def test_a_field_that_gives_rows_their_meaning_is_called_so() -> None:
    text = TEXT.partition("## Pipeline\n")[2].partition("\n## ")[0]
    called = {name for name, last in re.findall(r"^\| `(\w+)` \|.*\| (yes)? *\|$", text, re.M) if last}
    pipeline = load(FEED)
    changed = {"expectations": "other", "land_every": timedelta(hours=1), "catch_up": 2, "max_labels_per_key": 3}
    changed["pool"] = "other"
    changed |= {"describe": None, "license": "MIT", "owner": "somebody else", "erase": None, "drift": None}
    changed |= {"waiting": Waiting(max_rows=1, policy="force")}
    without = {
        name
        for name, value in changed.items()
        if pipeline.model_copy(update={name: value}).config_hash == pipeline.config_hash
    }
    assert called == set(fields_of(Pipeline)) - without
    assert without == set(changed)


def test_the_commented_example_shows_every_field() -> None:
    tree = yaml.safe_load(FEED.read_text())
    assert set(fields_of(Pipeline)) == set(tree)
    assert set(fields_of(LeftStream)) | set(fields_of(RightStream)) == set(tree["left"]) | set(tree["right"][0])
