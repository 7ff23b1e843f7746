"""Pipeline files, found by name.

    feed.yaml    name: feed   the file of feed, because it is called so; nothing else is read to find feed
    copy.yaml    name: feed   an error when all files are listed, and not read to find feed
    other.yaml   name: shop   the file of shop while no file is called shop.yaml; all files are read to find shop

Two files that are called feed.yaml, in two folders, are an error when feed is wanted.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from windrow.config.fields import LONGEST_NAME, NAME
from windrow.config.files import load
from windrow.config.pipeline import Pipeline
from windrow.config.problems import PipelineInvalid, PipelineUnknown, Problem, near_miss
from windrow.config.yaml_file import read_document, read_text
from windrow.places import Folders, folders_of
from windrow.text import short

_SUFFIXES = (".yaml", ".yml")
_NAME_LINE = re.compile(r"^name:[ \t]+([a-z][a-z0-9_]*)[ \t]*$", re.MULTILINE)
_Stamp = tuple[int, int] | None
"""Time of change and size of a file or a folder; None where there is none."""


def files_by_name(folders: Iterable[Path | str]) -> tuple[dict[str, Path], list[PipelineInvalid]]:
    """Return the pipeline files in these folders by pipeline name, and an error for each file that repeats a name.

    Of files with the same name the one that is called so counts, then the first. A file that cannot be read is listed
    by its file name, so that it does not hide the others; loading it raises. A missing folder counts as empty.
    """
    named: dict[str, list[Path]] = {}
    for path in _files(folders):
        named.setdefault(_name_in(path)[0], []).append(path)
    ordered = {name: _in_order(name, paths) for name, paths in named.items()}
    clashes = [_clash(name, path, first) for name, (first, *others) in ordered.items() for path in others]
    return {name: paths[0] for name, paths in ordered.items()}, clashes


def clash_of(file: Path, name: str, folders: Iterable[Path | str]) -> PipelineInvalid | None:
    """Return the error of a file that is in these folders, and cannot be found there because of another one's name.

    Args:
        name: the pipeline's, in this file.
    """
    real, places = os.path.realpath(file), tuple(folders)
    if real not in map(os.path.realpath, _files(places)):
        return None
    others = [other for other in files_of(name, places) if os.path.realpath(other) != real]
    return _clash(name, file, others[0]) if others else None


def files_of(name: str, folders: Iterable[Path | str]) -> list[Path]:
    """Return the files that say this name, the one that counts first (see `files_by_name`).

    Where files are called `name`, only they are read: a hundred pipelines would otherwise read a hundred files for each
    task of each.
    """
    places = tuple(folders)
    there = [path for path in _files(places, name) if _name_in(path)[0] == name]
    return _in_order(name, there or [path for path in _files(places) if _name_in(path)[0] == name])


def find(name: str, folders: Iterable[Path | str], expectations: Folders | None = None) -> Pipeline:
    """Load the pipeline of this name.

    Raises:
        PipelineUnknown: no file has the name; the message lists the known ones.
        PipelineInvalid: its file cannot be used, or two files say the name and both or none of them are called so.
    """
    return load(_only_file(name, [Path(folder) for folder in folders]), expectations)


class Finder:
    """Finds pipelines as `find` does, again and again: a file is read again only after it, or its suite, has changed.

    It looks only at the files on which the pipeline depends, so a look costs the same however many pipelines there are.
    """

    def __init__(self) -> None:
        self._folders: tuple[Path, ...] = ()
        self._suites: tuple[Path, ...] = ()
        self._read: dict[str, tuple[dict[Path, _Stamp], Pipeline]] = {}
        """name → stamps of the files that the pipeline depends on, from before they were read, and the pipeline"""
        self._current: dict[str, Pipeline] = {}
        """what was found since `look_again` was called"""

    def look_again(self, folders: Iterable[Path | str], expectations: Folders) -> None:
        """Look again for a changed file of each pipeline, when it is next asked for."""
        places = tuple(map(Path, folders)), folders_of(expectations)
        if places != (self._folders, self._suites):
            self._folders, self._suites = places
            self._read = {}
        self._current = {}

    def find(self, name: str) -> Pipeline:
        """Return the pipeline of this name, as `find` does, in the folders that were last looked at."""
        if name not in self._current:
            before = self._read.pop(name, None)
            now = before if before and before[0] == _stamps(before[0]) else self._load(name)
            self._read[name], self._current[name] = now, now[1]
        return self._current[name]

    def _load(self, name: str) -> tuple[dict[Path, _Stamp], Pipeline]:
        called = _called(name, self._folders)
        stamps = _stamps(called)
        file = _only_file(name, self._folders)
        others = [] if file in called else self._folders  # a file that comes there may say the name too
        stamps = _stamps([file, *others]) | stamps
        pipeline = load(file, self._suites)
        return stamps | _stamps(folder / f"{pipeline.expectations}.yaml" for folder in self._suites), pipeline


def _stamps(files: Iterable[Path]) -> dict[Path, _Stamp]:
    """Time of change and size of each file; None where there is none."""
    found: dict[Path, _Stamp] = {}
    for file in files:
        found[file] = None
        with suppress(OSError):
            there = file.stat()
            found[file] = there.st_mtime_ns, there.st_size
    return found


def _only_file(name: str, folders: Sequence[Path]) -> Path:
    """The file of this pipeline.

    Raises:
        PipelineUnknown, PipelineInvalid: there is none, or more than one.
    """
    found = files_of(name, folders)
    if len(found) > 1:
        raise _clash(name, found[1], found[0])
    if not found:
        once = {folder.resolve(): folder for folder in reversed(folders)}  # a folder may be named twice, or linked
        there = [folder for folder in folders if folder is once[folder.resolve()]]
        looked = ", ".join(str(folder) if os.path.isdir(folder) else f"{folder} (no such folder)" for folder in there)
        hint = near_miss(name, files_by_name(folders)[0], "pipelines are")
        message = f"there is no pipeline {short(name)}; {hint} (looked in {looked})"
        raise PipelineUnknown(None, [Problem(0, "", message)])
    return found[0]


def _clash(name: str, path: Path, other: Path) -> PipelineInvalid:
    """The error for a file that has the name of another one."""
    message = f"{short(name)} is also the name in {other}:{_name_in(other)[1]}; rename one of them"
    return PipelineInvalid(path, [Problem(_name_in(path)[1], "name", message)])


def _called(name: str, folders: Iterable[Path | str]) -> list[Path]:
    """The paths at which files of this name would be; none for what cannot be a name, such as a path."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        return []
    return [Path(folder) / f"{name}{suffix}" for folder in folders for suffix in _SUFFIXES]


def _files(folders: Iterable[Path | str], name: str | None = None) -> Iterator[Path]:
    """YAML files in these folders, or those called `name`; none from a folder that this process may not look into."""
    for folder in filter(os.path.isdir, folders):
        for path in sorted(Path(folder).glob("*")) if name is None else _called(name, [folder]):
            is_called_so = path.suffix in _SUFFIXES and not path.name.startswith(".")
            if is_called_so and os.path.lexists(path) and not _never_ends(path):  # also one that cannot be read
                yield path


def _never_ends(path: Path) -> bool:
    """Whether who reads it waits for a writer."""
    with suppress(OSError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def _in_order(name: str, files: Iterable[Path]) -> list[Path]:
    """The files that say a name, those first that are called so; a file that is linked, or in a linked folder, once.

    A link to nothing, or a folder, counts only where no file says the name.
    """
    first: dict[Path, Path] = {}
    called = sorted(files, key=lambda file: file.stem != name)
    for path in list(filter(os.path.isfile, called)) or called:
        first.setdefault(Path(os.path.realpath(path)), path)
    return list(first.values())


def _name_in(path: Path) -> tuple[str, int]:
    """The pipeline's name in a file and its line; the file's own name if it cannot be read.

    A file that is called what it says in a line of its own is not parsed.
    """
    try:
        text = read_text(path)
        if (line := _NAME_LINE.search(text)) and line[1] == path.stem:
            return path.stem, text.count("\n", 0, line.start()) + 1
        document = read_document(text, path)
    except PipelineInvalid:
        return path.stem, 1
    name = document.tree.get("name")
    return name if isinstance(name, str) else path.stem, document.line(("name",))
