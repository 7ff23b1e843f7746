"""Values of decoded records as columns of the declared types: each as it is, or named as unfit.

    decoder ─▶ Python values ─▶ Arrow array of the declared type; rows whose value is of another type, or not finite

A value that would have to change to fit is unfit: 200 in a tinyint, 1.555 in a decimal(5,2), a text in a number, a
number in a text. What Avro and Protobuf promote fits: a whole number in a double, a double in a float (rounded to the
nearest). Whole columns are converted at once where all values are of one kind, and one by one otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.config.column_types import ColumnType

_YEARS_1_TO_9999 = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS = (-719_162, 2_932_896)
_INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_SIMPLE = {
    **_INTEGERS,
    "string": pa.string(),
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
}


class Instant(int):
    """Microseconds since 1970, of a value that is an instant and no number."""


class Day(int):
    """Days since 1970, of a value that is a date and no number."""


class Unfit(ValueError):
    """A value is not of its column's type."""


class Fitted(NamedTuple):
    """An array of the declared type; null in the rows whose value is unfit or not finite."""

    array: pa.Array
    unfit: set[int]
    not_finite: set[int]


def arrow_type(kind: ColumnType) -> pa.DataType:
    """The Arrow type of a declared type.

    >>> arrow_type(ColumnType("array", inner=(ColumnType("float"),)))
    ListType(list<item: float>)
    """
    if kind.name == "array":
        return pa.list_(arrow_type(kind.inner[0]))
    if kind.name == "map":
        return pa.map_(pa.string(), arrow_type(kind.inner[1]))
    if kind.name == "struct":
        return pa.struct([(name, arrow_type(part)) for name, part in zip(kind.fields, kind.inner, strict=True)])
    if kind.name == "decimal":
        return pa.decimal128(*kind.arguments)
    return _SIMPLE[kind.name]


def fitted(values: Sequence[Any], kind: ColumnType) -> Fitted:
    """Convert values to a declared type.

    Args:
        values: None, bool, int, float, str, bytes, Decimal, `Instant`, `Day`, lists and dicts of them.

    >>> found = fitted([1, 200, None, "x"], ColumnType("tinyint"))
    >>> found.array.to_pylist(), found.unfit
    ([1, None, None, None], {1, 3})
    """
    if kind.inner:
        return _CONTAINERS[kind.name](values, kind)
    kinds = set(map(type, values)) - {type(None)}
    array = _at_once(values, kinds, kind)
    unfit: set[int] = set()
    if array is None:
        array, unfit = _one_by_one(values, kind)
    if kind.name in ("float", "double"):
        return _finite(array, unfit)
    return Fitted(array, unfit, set())


def _at_once(values: Sequence[Any], kinds: set[type], kind: ColumnType) -> pa.Array | None:
    """All values as an array; None where one may be unfit."""
    if not kinds <= _OF.get(kind.name, set()):
        return None
    try:
        if kind.name == "timestamp":
            return _within(pa.array(values, pa.int64()), _YEARS_1_TO_9999).cast(_SIMPLE["timestamp"])
        if kind.name == "date":
            return _within(pa.array(values, pa.int32()), _DAYS).cast(pa.date32())
        return pa.array(values, _SIMPLE[kind.name])
    except (pa.ArrowInvalid, OverflowError, Unfit, UnicodeEncodeError):
        return None


_OF: dict[str, set[type]] = {
    **{name: {int} for name in _INTEGERS},
    "float": {float},
    "double": {float},
    "string": {str},
    "boolean": {bool},
    "binary": {bytes},
    "timestamp": {Instant},
    "date": {Day},
}
"""Python types of the values that a column takes as they are, unless they are too large."""


def _within(array: pa.Array, bounds: tuple[int, int]) -> pa.Array:
    least, most = pc.min_max(array).as_py().values()
    if least is not None and (least < bounds[0] or most > bounds[1]):
        raise Unfit
    return array


def _one_by_one(values: Sequence[Any], kind: ColumnType) -> tuple[pa.Array, set[int]]:
    unfit: set[int] = set()
    one = _decimal if kind.name == "decimal" else _simple
    found = []
    for row, value in enumerate(values):
        try:
            found.append(None if value is None else one(value, kind))
        except Unfit:
            unfit.add(row)
            found.append(None)
    return pa.array(found, arrow_type(kind)), unfit


def _simple(value: Any, kind: ColumnType) -> Any:
    """A value of a type without parts.

    Raises:
        Unfit: it is of another type, or out of its range.
    """
    if kind.name in ("float", "double") and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Unfit from None
    if type(value) not in _OF[kind.name] or _at_once([value], {type(value)}, kind) is None:
        raise Unfit
    return value


def _decimal(value: Any, kind: ColumnType) -> Decimal:
    """A number as a decimal of a declared precision and scale.

    Raises:
        Unfit: it is no decimal or whole number, or not that number then.
    """
    if type(value) is int:
        value = Decimal(value)
    if type(value) is not Decimal or not value.is_finite():
        raise Unfit
    precision, scale = kind.arguments
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    shift = int(exponent) + scale
    if shift < 0:
        text, cut = (text[:shift], text[shift:]) if -shift < len(text) else ("", text)
        if cut.strip("0"):
            raise Unfit
    elif text:
        text += "0" * min(shift, precision + 1)
    if len(text) > precision:
        raise Unfit
    return Decimal((sign, tuple(map(int, text or "0")), -scale))


def _finite(array: pa.Array, unfit: set[int]) -> Fitted:
    """Numbers without the infinite ones and those that are none."""
    is_bad = pc.fill_null(pc.invert(pc.is_finite(array)), False)
    if not pc.any(is_bad).as_py():
        return Fitted(array, unfit, set())
    bad = set(np.flatnonzero(is_bad.to_numpy(zero_copy_only=False)).tolist())
    return Fitted(pc.if_else(is_bad, pa.scalar(None, array.type), array), unfit, bad)


def _arrays(values: Sequence[Any], kind: ColumnType) -> Fitted:
    """Lists, all of whose items are converted at once."""
    lists, unfit = _only(values, list)
    offsets = _offsets(lists)
    items = fitted(list(chain.from_iterable(one for one in lists if one)), kind.inner[0])
    array = pa.ListArray.from_arrays(_nullable(offsets, lists), items.array)
    return _of_parts(array, offsets, [items], unfit)


def _maps(values: Sequence[Any], kind: ColumnType) -> Fitted:
    """Mappings with keys of text."""
    maps, unfit = _only(values, dict)
    offsets = _offsets(maps)
    keys = fitted([key for one in maps if one for key in one], ColumnType("string"))
    if keys.unfit:
        raise TypeError("the keys of a map are text")
    items = fitted([item for one in maps if one for item in one.values()], kind.inner[1])
    array = pa.MapArray.from_arrays(_nullable(offsets, maps), keys.array, items.array)
    return _of_parts(array, offsets, [items], unfit)


def _structs(values: Sequence[Any], kind: ColumnType) -> Fitted:
    """Records by the names of their fields; a field that a record lacks is null."""
    records, unfit = _only(values, dict)
    parts = [
        fitted([None if one is None else one.get(name) for one in records], part)
        for name, part in zip(kind.fields, kind.inner, strict=True)
    ]
    mask = pa.array([one is None for one in records], pa.bool_())
    fields = list(arrow_type(kind))
    array = pa.StructArray.from_arrays([part.array for part in parts], fields=fields, mask=mask)
    return _of_parts(array, list(range(len(values) + 1)), parts, unfit)


_CONTAINERS: dict[str, Callable[[Sequence[Any], ColumnType], Fitted]] = {
    "array": _arrays,
    "map": _maps,
    "struct": _structs,
}


def _only(values: Sequence[Any], of: type) -> tuple[list[Any], set[int]]:
    """Values of a Python type, None for others, and the rows of the others."""
    unfit = {row for row, value in enumerate(values) if value is not None and type(value) is not of}
    return [value if type(value) is of else None for value in values], unfit


def _offsets(values: Sequence[Any]) -> list[int]:
    """Where the items of each value begin, and where the last ends."""
    lengths = np.fromiter((len(one) if one else 0 for one in values), np.int64, len(values))
    return [0, *np.cumsum(lengths).tolist()]


def _nullable(offsets: list[int], values: Sequence[Any]) -> pa.Array:
    """Offsets as Arrow has them: null where a value is."""
    mask = np.fromiter((one is None for one in (*values, ())), bool, len(offsets))
    return pa.array(offsets, pa.int32(), mask=mask)


def _of_parts(array: pa.Array, offsets: list[int], parts: Sequence[Fitted], unfit: set[int]) -> Fitted:
    """Containers; null where a part is unfit or not finite."""

    def rows(items: set[int]) -> set[int]:
        return set((np.searchsorted(offsets, sorted(items), side="right") - 1).tolist()) if items else set()

    unfit = unfit.union(*(rows(part.unfit) for part in parts))
    not_finite = set().union(*(rows(part.not_finite) for part in parts)) - unfit
    if unfit or not_finite:
        is_bad = np.zeros(len(array), bool)
        is_bad[[*unfit, *not_finite]] = True
        array = pc.if_else(pa.array(is_bad), pa.scalar(None, array.type), array)
    return Fitted(array, unfit, not_finite)
