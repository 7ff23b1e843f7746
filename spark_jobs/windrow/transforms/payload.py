"""The payload of left rows stays out of a join: rows are joined with what decides about them, and with their place.

    left columns ─▶ key, and what a label names ─▶ read by Spark, joined ─▶ what the join adds ┐
                 └▶ all of them, by file and row ─────────▶ read when candidates are written ──┴▶ candidate rows

`where` and the search for repeated events read further columns, of landing rows and before the join.
"""

from __future__ import annotations

import re

from pyspark.sql.types import StructType

from windrow.columns import PLACE_TYPES
from windrow.config import Pipeline

_WORD = re.compile(r"\w+")


def without_payload(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline as a join of rows without payload sees it: its left stream has fewer columns, and the place.

    A column that a label names must be there. Each word of a label counts as a name, even one in a text: a column too
    many costs little.

    >>> from types import SimpleNamespace
    >>> class Part(SimpleNamespace):
    ...     def model_copy(self, update): return Part(**{**vars(self), **update})
    >>> left = Part(key=("user",), columns={"user": "bigint", "Price": "double", "features": "array<float>"})
    >>> narrow = without_payload(Part(left=left, labels={"dear": "size(clicks) > 0 and price > 9"}))
    >>> list(narrow.left.columns)
    ['user', 'Price', '_file', '_row']
    """
    named = {word.lower() for text in pipeline.labels.values() for word in _WORD.findall(text)}
    left = pipeline.left
    read = {name: kind for name, kind in left.columns.items() if name in left.key or name.lower() in named}
    narrow = left.model_copy(update={"columns": {**read, **PLACE_TYPES}})
    return pipeline.model_copy(update={"left": narrow})


def with_payload(joined: StructType, left: StructType, pipeline: Pipeline) -> StructType:
    """Return the columns of whole candidate rows, in their order.

    Args:
        joined: columns of the rows that were joined without payload, or with it.
        left: columns of the left rows that were read.
        pipeline: with all columns of its left stream.
    """
    own = {*pipeline.left.columns, *PLACE_TYPES}
    payload = [left[name] for name in pipeline.left.columns]
    return StructType([*payload, *[field for field in joined if field.name not in own]])
