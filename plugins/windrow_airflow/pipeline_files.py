"""Every pipeline file, each on its own: the usable ones as pipelines, the others as sentences.

One wrong file, or one name used twice, hides no other pipeline: of two files with a name the first stands, in
the order dags/pipelines, then the folders of WINDROW_PIPELINES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from windrow.config import Pipeline, PipelineInvalid, discover, load
from windrow.places import Places


def usable(places: Places, wanted: str = "") -> Iterator[Pipeline]:
    """The pipelines that DAGs can be made of; with `wanted` only the one of that name."""
    for name, path in _found(places.pipelines).items():
        if wanted not in ("", name):
            continue
        try:
            yield load(path, places.expectations)
        except PipelineInvalid:
            continue  # `problems` says so


def names(places: Places) -> set[str]:
    """Names of all files, usable or not."""
    return set(_found(places.pipelines))


def problems(places: Places) -> list[str]:
    """What is wrong, a line `file:line: field: …` each."""
    wrong = []
    try:
        discover(places.pipelines)
    except PipelineInvalid as twice:
        wrong.append(str(twice))
    for path in _found(places.pipelines).values():
        try:
            load(path, places.expectations)
        except PipelineInvalid as invalid:
            wrong.append(str(invalid))
    return wrong


def _found(folders: Iterable[Path]) -> dict[str, Path]:
    folders = tuple(folders)
    try:
        return discover(folders)
    except PipelineInvalid:  # a name twice: look into each folder on its own, the first one of a name stands
        found: dict[str, Path] = {}
        for folder in folders:
            try:
                there = discover([folder])
            except PipelineInvalid:
                continue
            found = {**there, **found}
        return found
