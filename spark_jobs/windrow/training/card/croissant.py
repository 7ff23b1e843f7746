"""A card for programs: Croissant 1.0, the JSON-LD of MLCommons. `mlcroissant` validates it and loads its records.

    distribution   the folder of the training table, and the files in it that hold the rows
    recordSet      one field per column; a stream of labels has one sub-field per field of its elements

The table lives, so no hashes are stated (`isLiveDataset`). Columns of maps, and of structs in structs, are left out: a
Croissant field cannot say what they are. Rows of other times are in a file too where the range ends within it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windrow.columns import DATE
from windrow.io.delta import store
from windrow.text import instant_text
from windrow.training.card.value import Card, Column

_PARQUET = "application/x-parquet"
_FOLDER = "git+https"
"""Croissant has no format for a folder; with this one `mlcroissant` reads files below a path, and clones nothing."""
_TABLE, _FILES, _ROWS = "table", "files", "rows"
_TYPES = {
    "string": "sc:Text",
    "binary": "sc:Text",
    "boolean": "sc:Boolean",
    "byte": "sc:Integer",
    "short": "sc:Integer",
    "integer": "sc:Integer",
    "long": "sc:Integer",
    "float": "sc:Float",
    "double": "sc:Float",
    "date": "sc:Date",
    "timestamp": "sc:DateTime",
}
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "equivalentProperty": "cr:equivalentProperty",
    "samplingRate": "cr:samplingRate",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def metadata(card: Card, folder: Path) -> dict[str, Any]:
    """Return the Croissant metadata of a card.

    Args:
        folder: where the file will be; the table is named relative to it, unless it is in an object store.
    """
    pipeline, span = card.pipeline, card.pin.request.range
    owner = {"@type": "sc:Organization", "name": pipeline.owner} if pipeline.owner else None
    optional = {"license": pipeline.license, "creator": owner}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": pipeline.name,
        "description": "\n\n".join([card.row, "Known limits:", *(f"* {limit}" for limit in card.limits)]),
        "url": f"urn:windrow:{pipeline.name}",
        "version": f"0.{card.pin.version}.0",
        "temporalCoverage": f"{instant_text(span.start)}/{instant_text(span.end)}",
        "isLiveDataset": True,
        **{name: value for name, value in optional.items() if value},
        "distribution": _distribution(card, folder),
        "recordSet": [_record_set(card)],
    }


def _distribution(card: Card, folder: Path) -> list[dict[str, Any]]:
    path = card.files.path
    location = path if store.is_remote(path) else os.path.relpath(path, folder.resolve())
    return [
        {
            "@type": "cr:FileObject",
            "@id": _TABLE,
            "name": _TABLE,
            "description": f"Folder of the Delta table, version {card.pin.version}.",
            "contentUrl": location,
            "encodingFormat": _FOLDER,
        },
        {
            "@type": "cr:FileSet",
            "@id": _FILES,
            "name": _FILES,
            "description": "The Parquet files of this version that hold the rows.",
            "containedIn": {"@id": _TABLE},
            "encodingFormat": _PARQUET,
            "includes": [glob.escape(file.path) for file in card.files.files],
        },
    ]


def _record_set(card: Card) -> dict[str, Any]:
    fields = [field for column in card.columns if "." not in column.name for field in _field(column, card)]
    return {"@type": "cr:RecordSet", "@id": _ROWS, "name": _ROWS, "description": card.row, "field": fields}


def _field(column: Column, card: Card) -> Iterator[dict[str, Any]]:
    """Yield the field of a column; none where Croissant has no type for it."""
    made = _described(f"{_ROWS}/{column.name}", column)
    kind, is_list = column.kind, False
    while isinstance(kind, dict) and kind["type"] == "array":
        kind, is_list = kind["elementType"], True
    if is_list:
        made["repeated"] = True
    if isinstance(kind, dict):
        if kind["type"] == "struct" and is_list and column.kind["elementType"] == kind:
            inner = (one for one in card.columns if one.name.startswith(f"{column.name}."))
            yield made | {"subField": [sub for one in inner for sub in _sub_field(column, one)]}
        return
    if column.name == DATE:  # stands in the name of the folder, not in the files
        day = {"regex": f".*{DATE}=([0-9-]+)/.*"}
        source = {"fileSet": {"@id": _FILES}, "extract": {"fileProperty": "fullpath"}, "transform": day}
    else:
        source = {"fileSet": {"@id": _FILES}, "extract": {"column": column.name}}
    yield made | {"dataType": _type(kind), "source": source}


def _sub_field(column: Column, inner: Column) -> Iterator[dict[str, Any]]:
    name = inner.name.removeprefix(f"{column.name}.")
    if isinstance(inner.kind, str):
        path = {"jsonPath": name}
        source = {"fileSet": {"@id": _FILES}, "extract": {"column": column.name}, "transform": path}
        made = _described(f"{_ROWS}/{column.name}/{name}", inner)
        yield made | {"dataType": _type(inner.kind), "repeated": True, "source": source}


def _described(identifier: str, column: Column) -> dict[str, Any]:
    made = {"@type": "cr:Field", "@id": identifier, "name": identifier}
    return made | ({"description": column.meaning} if column.meaning else {})


def _type(kind: str) -> str:
    return _TYPES.get(kind, "sc:Float")  # what is left is a decimal
