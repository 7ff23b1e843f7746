"""Pipeline files found by name: which file counts, and that finding one pipeline looks at no file of another."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windrow.config import Finder, PipelineInvalid, PipelineUnknown, clash_of, files_by_name, files_of, find

_MANY = 30
_record: list[str] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _record is not None and event in ("open", "os.scandir", "os.listdir"):
        _record.append(str(arguments[0]))


sys.addaudithook(_hook)


@pytest.fixture
def touched(files: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was opened, listed or asked for its size and time in the folder of pipeline files: names, `.` for itself."""
    global _record
    stat, found = os.stat, []

    class Names(list[str]):
        def append(self, path: str) -> None:
            if path == str(files.folder) or Path(path).parent == files.folder:
                found.append(os.path.relpath(path, files.folder))

    def noted(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if _record is not None:
            _record.append(os.fsdecode(path) if not isinstance(path, int) else "")
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", noted)
    _record = Names()
    yield found
    _record = None


def _write(files: Any, name: str, called: str | None = None, folder: Path | None = None) -> Path:
    made: Path = files.write(("name: feed\n", f"name: {name}\n"), name=f"{called or name}.yaml")
    if folder is not None:
        folder.mkdir(exist_ok=True)
        made = made.rename(folder / made.name)
    return made


def _many(files: Any) -> list[str]:
    names = [f"p{number}" for number in range(_MANY)]
    for name in names:
        _write(files, name)
    return names


def test_a_pipeline_is_found_without_a_look_at_the_files_of_others(files: Any, touched: list[str]) -> None:
    for name in _many(files):
        touched.clear()
        assert find(name, [files.folder], files.suites).name == name
        assert set(touched) - {"suites"} <= {f"{name}.yaml", f"{name}.yml", "."}
        assert touched.count(f"{name}.yaml") < 8
        assert touched.count(".") < 3


def test_a_look_at_a_pipeline_asks_for_its_own_files_only_and_opens_none(files: Any, touched: list[str]) -> None:
    names, finder = _many(files), Finder()
    for round_ in range(2):
        for name in names:
            finder.look_again([files.folder], files.suites)
            touched.clear()
            found = finder.find(name)
            assert finder.find(name) is found
            if round_:
                assert sorted(touched) == [f"{name}.yaml", f"{name}.yml"]


def test_the_file_that_is_called_by_the_name_counts_and_another_one_is_an_error_of_its_own(files: Any) -> None:
    copy, feed, shop = _write(files, "feed", "copy"), _write(files, "feed"), _write(files, "shop")
    feed.write_text(feed.read_text().replace("grace: 1m", "grace: 2m"))
    assert find("feed", [files.folder], files.suites).grace.total_seconds() == 120
    assert find("shop", [files.folder], files.suites).name == "shop"
    found, (clash,) = files_by_name([files.folder])
    assert found == {"feed": feed, "shop": shop}
    assert str(clash) == f"{copy}:1: name: 'feed' is also the name in {feed}:1; rename one of them"


def test_all_who_look_agree_on_the_file_where_the_one_that_is_called_so_is_a_link(files: Any) -> None:
    first, second = _write(files, "feed", "feed_v1"), _write(files, "feed", "feed_v2")
    link = files.folder / "feed.yaml"
    link.symlink_to(second)
    found, (clash,) = files_by_name([files.folder])
    assert found == {"feed": link}
    assert str(clash).startswith(f"{first}:1: name: 'feed' is also the name in {link}:1")
    assert files_of("feed", [files.folder]) == [link]


def test_a_folder_that_nobody_may_look_into_has_no_files(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    too_long = files.folder / ("x" * 300)  # refused with another error than a missing one, as a closed folder is
    feed = _write(files, "feed")
    assert files_by_name([too_long, files.folder]) == ({"feed": feed}, [])
    assert find("feed", [too_long, files.folder], files.suites).name == "feed"
    with pytest.raises(PipelineUnknown, match=r"x \(no such folder\)"):
        find("shop", [too_long, files.folder], files.suites)


@pytest.mark.parametrize("called", ["feed", "other"])
def test_two_files_that_count_alike_are_refused_for_their_pipeline_only(files: Any, called: str) -> None:
    second = _write(files, "feed", called, files.folder / "more")
    first, _ = _write(files, "feed", called if called == "feed" else "another"), _write(files, "shop")
    folders = [files.folder, files.folder / "more"]
    for finding in (find, _by_finder):
        with pytest.raises(PipelineInvalid) as wrong:
            finding("feed", folders, files.suites)
        assert str(wrong.value) == f"{second}:1: name: 'feed' is also the name in {first}:1; rename one of them"
        assert finding("shop", folders, files.suites).name == "shop"


def test_what_is_no_file_takes_no_name_from_a_file_and_an_editors_lock_is_none(files: Any) -> None:
    feed = _write(files, "feed")
    (files.folder / ".#feed.yaml").symlink_to("somebody@host.1:2")
    (files.folder / "feed.yml").symlink_to("gone")
    assert files_by_name([files.folder]) == ({"feed": feed}, [])
    assert clash_of(feed, "feed", [files.folder]) is None
    assert find("feed", [files.folder], files.suites).name == "feed"


def test_a_link_into_a_folder_that_nobody_may_enter_hides_no_other_file(
    files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, lost, real = _write(files, "feed"), files.folder / "lost.yaml", os.stat
    lost.symlink_to("closed/x.yaml")

    def refused(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if os.fspath(path) == str(lost) and options.get("follow_symlinks", True):
            raise PermissionError(13, "Permission denied", str(lost))  # as for anybody but root
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert files_by_name([files.folder]) == ({"feed": feed, "lost": lost}, [])
    assert find("feed", [files.folder], files.suites).name == "feed"


@pytest.mark.parametrize("kind", ["a link to nothing", "a link to itself", "a folder", "a pipe"])
def test_what_is_called_like_a_pipeline_file_and_cannot_be_read_is_not_left_out(files: Any, kind: str) -> None:
    feed, lost = _write(files, "feed"), files.folder / "lost.yaml"
    if kind == "a pipe":  # whoever reads it waits for ever
        os.mkfifo(lost)
        assert files_by_name([files.folder]) == ({"feed": feed}, [])
        return
    lost.mkdir() if kind == "a folder" else lost.symlink_to("gone" if kind == "a link to nothing" else lost)
    assert files_by_name([files.folder]) == ({"feed": feed, "lost": lost}, [])
    assert find("feed", [files.folder], files.suites).name == "feed"
    for finding in (find, _by_finder):
        with pytest.raises(PipelineInvalid, match=f"{lost}: "):
            finding("lost", [files.folder], files.suites)


def test_a_file_is_told_whose_name_another_one_has(files: Any, tmp_path: Path) -> None:
    copy, feed, twin = _write(files, "feed", "copy"), _write(files, "feed"), files.folder / "feed.yml"
    folders = [files.folder]
    assert (
        str(clash_of(copy, "feed", folders))
        == f"{copy}:1: name: 'feed' is also the name in {feed}:1; rename one of them"
    )
    assert clash_of(feed, "feed", folders) is None
    assert clash_of(_write(files, "feed", "feed", tmp_path / "elsewhere"), "feed", folders) is None
    feed = _write(files, "feed")
    twin.write_text(feed.read_text())
    for mine, other in ((feed, twin), (twin, feed)):
        assert str(clash_of(mine, "feed", folders)).startswith(f"{mine}:1: name: 'feed' is also the name in {other}:1")


def _by_finder(name: str, folders: list[Path], suites: Path) -> Any:
    finder = Finder()
    finder.look_again(folders, suites)
    return finder.find(name)


def test_a_file_that_is_called_so_and_says_another_name_is_not_the_pipelines(files: Any) -> None:
    _write(files, "feed", "shop")
    _write(files, "shop", "feed")
    assert {name: find(name, [files.folder], files.suites).name for name in ("feed", "shop")} == {
        "feed": "feed",
        "shop": "shop",
    }


def test_who_looks_again_sees_every_change_and_reads_nothing_without_one(files: Any) -> None:
    finder, path = Finder(), _write(files, "feed", "other")

    def look() -> Any:
        finder.look_again([files.folder], files.suites)
        return finder.find("feed")

    first = look()
    assert look() is first
    _write(files, "shop")
    assert look() == first  # read again, because the new file could say the name of one that is not called so
    path.write_text(path.read_text().replace("grace: 1m", "grace: 20m"))
    assert finder.find("feed") == first  # one look sees one pipeline
    assert look().grace.total_seconds() == 1200
    path.write_text("name: [")
    with pytest.raises(PipelineUnknown):
        look()
    called = _write(files, "feed")
    assert look() == first
    os.utime(called, ns=(0, 0))
    assert look() == first
    suite = files.suites / "training_rows.yaml"
    suite.unlink()
    with pytest.raises(PipelineInvalid, match="there is no suite"):
        look()
    suite.touch()
    assert look() == first
    called.unlink()
    with pytest.raises(PipelineUnknown, match="there is no pipeline 'feed'; pipelines are: other, shop"):
        look()
    other = _write(files, "feed", "other")
    assert look() == first
    _write(files, "feed", "another")
    with pytest.raises(PipelineInvalid, match=f"{other}:1: name: 'feed' is also the name in"):
        look()


def test_another_folder_has_other_pipelines(files: Any) -> None:
    finder, more = Finder(), files.folder / "more"
    _write(files, "feed", folder=more)
    finder.look_again([more], files.suites)
    assert finder.find("feed").name == "feed"
    finder.look_again([files.folder], files.suites)
    with pytest.raises(PipelineUnknown):
        finder.find("feed")
    finder.look_again([more, more], files.suites)
    assert finder.find("feed").name == "feed"
