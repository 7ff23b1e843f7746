# ruff: noqa: E501 - tables: one row is one file and its warnings
"""Pipeline files on disk: found by name among other files; warnings; files that are not pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windrow.config import PipelineInvalid, PipelineUnknown, check, files_by_name, find, load, parse
from windrow.places import PROJECT


def test_the_example_is_right_and_ready() -> None:
    pipeline, warnings = check(PROJECT / "dags" / "pipelines" / "feed.yaml")
    assert (pipeline.name, warnings) == ("feed", [])
    assert pipeline.start.isoformat() == "2026-11-01T00:00:00+00:00"


def test_text_at_hand_is_read_like_a_file(files: Any) -> None:
    assert parse(files.write().read_text(), expectations=files.suites) == files.load()
    with pytest.raises(PipelineInvalid, match=r"^draft\.yaml:1: name: is missing"):
        parse("start: 2026-11-01T00:00:00Z", "draft.yaml", files.suites)


@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ([], []),
        ([("after: 30m", "after: 190m")], []),
        ([("after: 30m", "after: 191m")], [(32, "right[0].window", "is read about 20 times")]),
        ([("after: 30m", "after: 190m"), ("before: 0s", "before: 10m")], [(32, "right[0].window", "about 21 times")]),
        ([("  event_id: request_id\n", "")], [(4, "left", "has no event_id; a producer's retry becomes a row")]),
        ([("    event_id: event_id\n", "")], [(18, "right[0]", "has no event_id")]),
        ([("mode: caught_up", "mode: wait")], [(34, "idle", "holds the clock")]),
        ([("role: label", "role: feature\n    silence: unknown")], [(17, "right", ""), (20, "right[0].silence", "has no effect")]),
        ([("role: label", "role: feature")], [(17, "right", "no stream has role: label")]),
        ([("name: feed\n", "name: shop\n")], [(1, "name", "the file is called feed.yaml; shop.yaml is where")]),
    ],
)  # fmt: skip
def test_a_valid_file_that_may_not_mean_what_it_says_gets_warnings(files: Any, changes: Any, warns: Any) -> None:
    found = files.warnings(*changes)
    assert [(w.line, w.field) for w in found] == [(line, field) for line, field, _ in warns]
    assert all(text in w.message for w, (_, _, text) in zip(found, warns, strict=True))


def test_a_missing_suite_names_the_ones_there_are(files: Any) -> None:
    (files.suites / "landing_rows.yaml").touch()
    found = files.problems((": training_rows", ": zzz"))
    assert found == [
        f"38: expectations: there is no suite 'zzz' in {files.suites}; suites are: landing_rows, training_rows"
    ]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty; must be a mapping of fields"),
        (b"# only a comment\n", "is empty; must be a mapping of fields"),
        (b"- a\n- b\n", "must be a mapping of fields"),
        (b"name: feed\nstart: \xff\n", ":2: is not UTF-8; save it as UTF-8"),
        (b"name: a\x00b\n", "is not valid YAML"),
        (b"a: &a [1]\n" + b"".join(b"b%d: &b%d [%s]\n" % (i, i, b"*a," * 9) for i in range(3)), "name: is missing"),
        (b"x" * 1_000_001, "is larger than 1000000 bytes"),
        (b"[" * 200_000, "is nested too deeply"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_pipeline_says_what_it_is(files: Any, raw: bytes, says: str) -> None:
    path = files.folder / "feed.yaml"
    path.write_bytes(raw)
    with pytest.raises(PipelineInvalid) as wrong:
        load(path, files.suites)
    assert str(wrong.value).startswith(str(path))
    assert says in str(wrong.value)


def test_an_alias_may_be_used_and_a_bomb_of_them_is_refused(files: Any) -> None:
    shared = ("key: [user_id, item_id]", "key: &key [user_id, item_id]")
    assert files.load(shared, ("    key: [user_id, item_id]", "    key: *key")) == files.load()
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for name, inner in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{inner}'] * 10)}]\n"
    path = files.write(("grace: 1m\n", "grace: 1m\n" + bomb))
    with pytest.raises(PipelineInvalid, match="repeats too much"):
        load(path, files.suites)


def test_a_file_that_is_not_there_or_is_a_folder_says_so(files: Any) -> None:
    with pytest.raises(PipelineInvalid, match=r"nope\.yaml: there is no such file"):
        load(files.folder / "nope.yaml")
    with pytest.raises(PipelineInvalid, match="cannot be read: Is a directory"):
        load(files.folder)


def _second(files: Any, name: str = "shop") -> Path:
    path: Path = files.write(("name: feed\n", f"name: {name}\n"), name="second.yml")
    return path


def test_pipelines_are_found_by_the_name_in_the_file(files: Any) -> None:
    feed, shop = files.write(), _second(files)
    (files.folder / "notes.txt").write_text("name: notes")
    folders = [files.folder, files.folder / "missing", files.folder]
    assert files_by_name(folders) == ({"feed": feed, "shop": shop}, [])
    assert find("shop", folders, files.suites).name == "shop"


def test_one_name_in_two_files_is_refused_with_both_places(files: Any) -> None:
    feed, second = files.write(), _second(files, "feed")
    _, (wrong,) = files_by_name([files.folder])
    assert str(wrong) == f"{second}:1: name: 'feed' is also the name in {feed}:1; rename one of them"


def test_a_broken_file_hides_no_other_and_says_why_when_it_is_asked_for(files: Any) -> None:
    feed = files.write()
    broken = files.folder / "broken.yaml"
    broken.write_text("name: [")
    assert files_by_name([files.folder]) == ({"broken": broken, "feed": feed}, [])
    with pytest.raises(PipelineInvalid, match=r"broken\.yaml:\d+: is not valid YAML"):
        find("broken", [files.folder])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fed", "there is no pipeline 'fed'; did you mean 'feed'?"),
        ("zzz", "there is no pipeline 'zzz'; pipelines are: feed, shop"),
        ("../..", "there is no pipeline '../..'; pipelines are: feed, shop"),
        ("x" * 1_000_000, "there is no pipeline 'xxx"),
    ],
)
def test_an_unknown_name_tells_the_known_ones_and_where_it_looked(files: Any, name: str, says: str) -> None:
    files.write()
    _second(files)
    with pytest.raises(PipelineUnknown) as wrong:
        find(name, [files.folder, files.folder / "missing", files.folder])
    assert str(wrong.value).startswith(says)
    assert f"(looked in {files.folder}, {files.folder / 'missing'} (no such folder))" in str(wrong.value)
    assert len(str(wrong.value)) < 1_000
