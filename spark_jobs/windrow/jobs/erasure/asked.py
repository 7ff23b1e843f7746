"""The keys that a person asks to be erased: read from the command line or a file, and forgotten once they are hashed.

--key user_id=7 --key user_id=8          or          a file:   user_id
                                                               7
                                                               8
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from windrow.config import Pipeline
from windrow.config.streams import Erase
from windrow.jobs.run import BadRequest
from windrow.semantics.erasure.keys import hash_of

Key = Mapping[str, str | int]
"""Left column → value, of the column's type."""
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def erasable(pipeline: Pipeline) -> Erase:
    """Return what can be erased.

    Raises:
        BadRequest: the pipeline file does not say by which columns.
    """
    if pipeline.erase is None:
        raise BadRequest(
            f"{pipeline.name} has no field `erase`: write `erase: {{by: [user_id]}}` with the left columns by which "
            "rows can be erased (docs/PIPELINE.md)"
        )
    return pipeline.erase


def hashes_of(pipeline: Pipeline, secret: bytes, keys: Sequence[str], file: str | None) -> set[str]:
    """Return the hashes of the asked keys; the keys themselves are kept nowhere.

    Args:
        keys: each as `column=value`, or `column=value,column=value` where there are several columns.
        file: path of a CSV file whose first line names the columns.
    Raises:
        BadRequest: a key is not one of these columns, or not of their types. The message does not hold the key.
    """
    by = erasable(pipeline).by
    rows = [*_of_options(keys), *(_of_file(file) if file else ())]
    found = {hash_of(secret, _typed(pipeline, by, row, where)) for where, row in rows}
    return {one for one in found if one is not None}


def _of_options(keys: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for n, text in enumerate(keys, 1):
        pairs = (pair.partition("=") for pair in text.split(","))
        yield f"--key number {n}", {name.strip(): value for name, _, value in pairs}


def _of_file(file: str) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        with Path(file).open(newline="", encoding="utf-8") as lines:
            for n, row in enumerate(csv.DictReader(lines), 2):
                yield f"line {n} of {file}", {str(name).strip(): value or "" for name, value in row.items()}
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}. Name a CSV file of keys.") from None
    except UnicodeDecodeError:
        raise BadRequest(f"{file} is not UTF-8 text. Name a CSV file of keys.") from None


def _typed(pipeline: Pipeline, by: Sequence[str], row: Mapping[str, str], where: str) -> Key:
    if set(row) != set(by):
        raise BadRequest(f"{where} has not exactly the columns {', '.join(by)}, by which {pipeline.name} is erased")
    return {name: _value(pipeline.left.columns[name], row[name], name, where) for name in by}


def _value(kind: str, text: str, name: str, where: str) -> str | int:
    """Return a value as its column holds it, so that 007 is 7 in a bigint and stays 007 in a string."""
    if not text:
        raise BadRequest(f"{where}: {name} is empty; a record without it has no key and cannot be erased by it")
    if kind == "string":
        return text
    try:
        number = int(text)
    except ValueError:
        raise BadRequest(f"{where}: {name} is no whole number, and its column is {kind}") from None
    if not -(1 << _BITS[kind]) <= number < 1 << _BITS[kind]:
        raise BadRequest(f"{where}: {name} is beyond what a column of type {kind} holds")
    return number
