"""Schemas by which producers wrote their records, as a registry knows them by id. A schema of an id never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
"""Kinds of schemas, as registries call them."""
KIND_OF = {"avro": AVRO, "json_schema": JSON, "protobuf": PROTOBUF}
"""Kind of schema by the format of a pipeline file."""


class WriterSchema(NamedTuple):
    """A schema with everything that it refers to."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """name and text of each schema that it uses, in an order in which each uses earlier ones only"""
    descriptors: bytes = b""
    """Protobuf: the schema and its references as a FileDescriptorSet, its own file last; empty if it cannot be used"""


Schemas = Mapping[int, WriterSchema]
"""Known schemas by id."""
