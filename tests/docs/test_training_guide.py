"""Each block of docs/TRAINING.md runs, one after the other, on a table that the platform has written.

Those with Spark run in tests/training/test_spark.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from support.guide import PAGE, blocks
from support.training.feed import feed_home
from support.training.table import empty_places

TORCH = os.environ.get("WINDROW_TORCH_PYTHON")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, object]]:
    """What the Python blocks have defined, after all blocks without Spark and PyTorch have run."""
    folder, names = tmp_path_factory.mktemp("guide"), dict[str, object]()
    home = feed_home(empty_places(folder / "feed"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WINDROW_HOME", str(home.places.home))
        patched.setenv("WINDROW_TABLES", "")
        patched.setattr(tempfile, "tempdir", str(folder))
        for block in blocks():
            if block.kind in ("python", "sh"):
                block.run(names, folder / "data")
        yield names


def test_every_block_of_the_guide_runs(names: dict[str, object]) -> None:
    assert "manifest" in names
    assert {block.kind for block in blocks()} == {"python", "sh", "python spark", "sh spark", "python torch"}
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r"(?<=\n\n) {4}.*", prose), "a block that is indented only never runs"


@pytest.mark.skipif(not TORCH, reason="WINDROW_TORCH_PYTHON names no Python with torch; `make torch` prepares one")
def test_the_pytorch_recipe_runs(names: dict[str, object]) -> None:
    (block,) = (block for block in blocks() if block.kind == "python torch")
    command = [str(TORCH), "-c", block.text, str(names["folder"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"torch .*: \d+ rows, \d+ before the kill and \d+ after it\n", done.stdout)
    print(done.stdout)
