"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.files import write_whole


def test_a_file_is_replaced_in_one_step_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "first")
    write_whole(path, "zweites, größer")
    assert path.read_text(encoding="utf-8") == "zweites, größer"
    write_whole(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "old")
    monkeypatch.setattr("windrow.files.os.replace", _refuse)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def _refuse(*_: object) -> None:
    raise OSError("no space")
