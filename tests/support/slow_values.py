"""Values of a record as the contract reads them, one by one and in plain Python: as they are, or not at all.

text of a record ─▶ JSON, every number kept as its text ─▶ by type: a value, or why it cannot be read
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from windrow.config.column_types import ColumnType

WRONG, NOT_FINITE = "wrong_type", "not_finite"
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
MOST = 99
"""Digits of a decimal, and its largest exponent."""


class Number(str):
    """A number as it stands in a record."""


class Unreadable(Exception):
    """A value that its type cannot hold as it is."""


def parsed(text: str, object_of: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """JSON with every number as a `Number`, and every object as `object_of` makes it of its pairs."""
    return json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=object_of)


def value_of(given: Any, kind: ColumnType) -> Any:
    """Return a value of its type.

    Raises:
        Unreadable: with the reason.
    """
    if given is None:
        return None
    if kind.name == "string":
        return _text(given)
    if kind.name == "decimal":
        return _decimal(given, *kind.arguments)
    if kind.name == "array" and isinstance(given, list):
        return [value_of(one, kind.inner[0]) for one in given]
    if kind.name == "map" and isinstance(given, dict):
        return {name: value_of(one, kind.inner[1]) for name, one in given.items()}
    if kind.name == "struct" and isinstance(given, dict):
        return {n: value_of(given.get(n), part) for n, part in zip(kind.fields, kind.inner, strict=True)}
    if kind.name == "boolean" and isinstance(given, bool):
        return given
    if kind.name in ("float", "double") and isinstance(given, Number):
        read = float(given)
        if read in (float("inf"), float("-inf")):
            raise Unreadable(NOT_FINITE)
        return read
    if kind.name in _INTEGERS and isinstance(given, Number) and re.fullmatch("-?[0-9]+", given):
        half = 2 ** (_INTEGERS[kind.name] - 1)
        if -half <= int(given) < half:
            return int(given)
    raise Unreadable(WRONG)


def is_slow(given: Any) -> bool:
    """Whether a decimal is refused before it is read: very long, or with a large exponent."""
    text = str(given) if isinstance(given, str) else ""
    return bool(_DECIMAL.fullmatch(text)) and (len(text) > MOST or abs(int(_exponent(text))) > MOST)


def is_changed(given: Any, kind: ColumnType) -> bool:
    """Whether a number within a value stands where its type has a string, and is not a plain whole number."""
    if kind.name == "string":
        return isinstance(given, list | dict) or (
            isinstance(given, Number) and not re.fullmatch("0|-?[1-9][0-9]*", given)
        )
    if isinstance(given, list) and kind.name == "array":
        return any(is_changed(one, kind.inner[0]) for one in given)
    if isinstance(given, dict) and kind.name == "map":
        return any(is_changed(one, kind.inner[1]) for one in given.values())
    if isinstance(given, dict) and kind.name == "struct":
        return any(is_changed(given.get(n), part) for n, part in zip(kind.fields, kind.inner, strict=True))
    return False


def _decimal(given: Any, precision: int, scale: int) -> Decimal:
    if not isinstance(given, str) or not _DECIMAL.fullmatch(given) or is_slow(given):
        raise Unreadable(WRONG)
    read = Decimal(given)
    shifted = read.scaleb(scale, Context(prec=1000))
    if shifted != shifted.to_integral_value() or abs(shifted) >= 10**precision:
        raise Unreadable(WRONG)
    return read


def _exponent(text: str) -> str:
    return re.split("[eE]", text)[1] if re.search("[eE]", text) else "0"


def _text(given: Any) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    return str(given) if isinstance(given, str) else _json(given)


def _json(given: Any) -> str:
    if isinstance(given, Number):
        return str(given)
    if isinstance(given, list):
        return f"[{','.join(map(_json, given))}]"
    if isinstance(given, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_json(one)}" for name, one in given.items()) + "}"
    return json.dumps(given)
