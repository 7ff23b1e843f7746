"""All pipeline files, independently of each other: pipelines of the usable ones, problems of the others.

A wrong file or a duplicate name does not hide other pipelines. Of two files with the same name the one that is called
so counts, then the first, in the order dags/pipelines, <home>/pipelines, the folders of WINDROW_PIPELINES.
"""

from __future__ import annotations

from collections.abc import Iterator

from windrow.config import Pipeline, PipelineInvalid, files_by_name, files_of, load
from windrow.places import Places


def usable(places: Places, wanted: str = "") -> Iterator[Pipeline]:
    """Yield the usable pipelines; with `wanted` only the one of that name, without reading the files of the others."""
    files = files_of(wanted, places.pipelines)[:1] if wanted else files_by_name(places.pipelines)[0].values()
    for path in files:
        try:
            yield load(path, places.expectations)
        except PipelineInvalid:
            continue  # reported by `problems`


def names(places: Places) -> set[str]:
    """Names of all pipelines, usable or not."""
    return set(files_by_name(places.pipelines)[0])


def problems(places: Places) -> list[str]:
    """All problems, each as a line `file:line: field: …`."""
    files, wrong = files_by_name(places.pipelines)
    for path in files.values():
        try:
            load(path, places.expectations)
        except PipelineInvalid as invalid:
            wrong.append(invalid)
    return [str(one) for one in wrong]
