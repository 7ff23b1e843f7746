"""The keys that a person asks to be erased: read from the command line or a file, and forgotten once they are hashed.

--key user_id=7 --key user_id=8          or          a file:   user_id
                                                               7
                                                               8
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from windrow.config import Pipeline
from windrow.config.streams import Erase
from windrow.jobs.run import BadRequest
from windrow.semantics.erasure.keys import hash_of

Key = Mapping[str, str | int]
"""Left column → value, of the column's type."""
_WHOLE = re.compile(r" *[+-]?[0-9]{1,20} *")
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
    typed = [_typed(pipeline, by, row, where) for where, row in rows]
    mark = pipeline.mark_of(pipeline.left)
    if mark and any(mark.holds(key) for key in typed):
        raise BadRequest("a key is in the range of the canaries, which are nobody's; nothing was erased")
    found = {hash_of(secret, key) for key in typed}
    return {one for one in found if one is not None}


def _of_options(keys: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for n, text in enumerate(keys, 1):
        pairs = [pair.partition("=") for pair in text.split(",")]
        names = [name.strip() for name, _, _ in pairs]
        if len({*names}) < len(names):
            raise BadRequest(f"--key number {n} names a column twice; give each key an option of its own")
        yield f"--key number {n}", dict(zip(names, (value for _, _, value in pairs), strict=True))


def _of_file(file: str) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        with Path(file).open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            if len({*(reader.fieldnames or ())}) < len(reader.fieldnames or ()):
                raise BadRequest(f"the first line of {file} names a column twice")
            for n, row in enumerate(reader, 2):
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
    if not _WHOLE.fullmatch(text):  # Python also reads 1_0 and the digits of other scripts
        raise BadRequest(f"{where}: {name} is not a whole number, and its column is {kind}")
    number = int(text)
    if not -(1 << _BITS[kind]) <= number < 1 << _BITS[kind]:
        raise BadRequest(f"{where}: {name} is beyond what a column of type {kind} holds")
    return number
