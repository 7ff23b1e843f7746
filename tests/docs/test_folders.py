"""The section Folders of docs/ARCHITECTURE.md names every folder of the product, below its layer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "spark_jobs" / "windrow"
PAGE = (ROOT / "docs/ARCHITECTURE.md").read_text()


def missing(page: str) -> list[str]:
    """Folders of the package that the section does not name."""
    section = page.partition("## Folders")[2]
    layers = dict(re.findall(r"^ {4}(\w+)/ (.*\n(?: {18}.*\n)*)", section, re.MULTILINE))
    folders = sorted(path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py"))
    return [str(path) for path in folders if path.parts and not _is_named(layers, path)]


def _is_named(layers: dict[str, str], folder: Path) -> bool:
    layer, *below = folder.parts
    return layer in layers and all(re.search(rf"\b{name}/", layers[layer]) for name in below)


def test_every_folder_is_named_below_its_layer() -> None:
    assert missing(PAGE) == []


@pytest.mark.parametrize(("was", "folder"), [("upkeep/", "jobs/upkeep"), ("    scenarios/", "scenarios")])
def test_a_folder_that_is_left_out_is_seen(was: str, folder: str) -> None:
    assert folder in missing(PAGE.replace(was, ""))
