"""Protobuf schemas as registries have them, as descriptors: from text by protoc, or from a descriptor in base64."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

_OWN = "windrow_schema.proto"
_ONE_AT_A_TIME = Lock()
"""protoc runs in this process, and topics land in parallel."""
_LIBRARIES = {
    "google/protobuf/": "google.protobuf.",
    "google/type/": "google.type.",
    "confluent/": "confluent_kafka.schema_registry.confluent.",
}
"""Files that come with the libraries, by the beginning of their names, and the packages that have them."""
_FILES = {
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
}
"""Those that have no file that protoc could read."""


class NotProtobuf(ValueError):
    """A schema cannot be compiled."""


@cache
def descriptors(text: str, references: tuple[tuple[str, str], ...]) -> bytes:
    """Return a schema and all that it imports as a FileDescriptorSet, its own file last.

    Args:
        text: a .proto file, or a FileDescriptorProto in base64, as Confluent's clients register it.
        references: name and text of each file that it imports, in an order in which each imports earlier ones only.

    Raises:
        NotProtobuf: it cannot be compiled.
    """
    own = _described(text)
    if own is None:
        return _compiled(text, references)
    files: dict[str, FileDescriptorProto] = {}
    for name, content in references:
        found = _described(content)
        if found is None:
            raise NotProtobuf(f"{name} is text, and the schema that imports it is a descriptor")
        found.name = name
        _add_imports(found, files)
        files[name] = found
    _add_imports(own, files)
    return FileDescriptorSet(file=[*files.values(), own]).SerializeToString(deterministic=True)


def _described(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text is in base64; None for other text."""
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
    return found if found.message_type else None


def _add_imports(file: FileDescriptorProto, files: dict[str, FileDescriptorProto]) -> None:
    """Add the files that a file imports and no registry has a reference to, and theirs.

    Raises:
        NotProtobuf: it imports a file that is neither there nor one that comes with the libraries.
    """
    for name in file.dependency:
        if name not in files:
            found = _of_libraries(name)
            _add_imports(found, files)
            files[name] = found


def _of_libraries(name: str) -> FileDescriptorProto:
    """The descriptor of one of the files that every producer has, so that none registers them.

    Raises:
        NotProtobuf: it is another file.
    """
    for begins, package in _LIBRARIES.items():
        if name.startswith(begins) and name.endswith(".proto"):
            module = package + name.removeprefix(begins).removesuffix(".proto").replace("/", ".") + "_pb2"
            with suppress(ImportError):
                return FileDescriptorProto.FromString(import_module(module).DESCRIPTOR.serialized_pb)
    raise NotProtobuf(f"{name} is imported, and the registry has no reference to it")


def _compiled(text: str, references: Iterable[tuple[str, str]]) -> bytes:
    """Text by protoc, with Protobuf's own files and those of google.type in reach."""
    import google.type
    import grpc_tools
    from grpc_tools import protoc

    own = [str(Path(grpc_tools.__file__).parent / "_proto"), *(str(Path(p).parents[1]) for p in google.type.__path__)]
    with tempfile.TemporaryDirectory(prefix="windrow-protoc-") as folder:
        for name, content in (*_FILES.items(), *references, (_OWN, text)):
            file = Path(folder, name)
            if not file.resolve().is_relative_to(Path(folder).resolve()):
                raise NotProtobuf(f"{name} is no name of a file that can be imported")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        made = Path(folder, "made")
        reach = [f"-I{path}" for path in (folder, *own)]
        with _ONE_AT_A_TIME:
            failed = protoc.main(["protoc", *reach, "--include_imports", f"--descriptor_set_out={made}", _OWN])
        if failed:
            raise NotProtobuf("protoc cannot compile it; its own message is above")
        return made.read_bytes()
