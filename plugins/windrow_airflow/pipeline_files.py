"""All pipeline files, independently of each other: pipelines of the usable ones, problems of the others.

A wrong file or a duplicate name does not hide other pipelines. Of two files with the same name the first one counts, in
the order dags/pipelines, then the folders of WINDROW_PIPELINES.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from windrow.config import Pipeline, PipelineInvalid, discover, load
from windrow.places import Places


def usable(places: Places, wanted: str = "") -> Iterator[Pipeline]:
    """Yield the usable pipelines; with `wanted` only the one of that name."""
    for name, path in _found(places.pipelines).items():
        if wanted not in ("", name):
            continue
        try:
            yield load(path, places.expectations)
        except PipelineInvalid:
            continue  # reported by `problems`


def names(places: Places) -> set[str]:
    """Names of all pipelines, usable or not."""
    return set(_found(places.pipelines))


def problems(places: Places) -> list[str]:
    """All problems, each as a line `file:line: field: …`."""
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
    """Pipeline files by the name of their pipeline."""
    folders = tuple(folders)
    try:
        return discover(folders)
    except PipelineInvalid:  # a duplicate name: read each folder separately; the first file of a name counts
        found: dict[str, Path] = {}
        for folder in folders:
            try:
                there = discover([folder])
            except PipelineInvalid:
                continue
            found = {**there, **found}
        return found
