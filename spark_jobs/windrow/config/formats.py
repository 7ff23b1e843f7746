"""The format of a stream's records: JSON, or bytes behind the frame of a schema registry.

    format: json                                           the record is one JSON object
    format: avro                                           \\
    format: {avro: {subject: feed.served-value}}            |  a zero byte, four bytes of a schema's id, then the record
    format: {protobuf: {message: feed.Served}}              |  as its writer's schema says
    format: {json_schema: {registry: orders}}              /

A registry is named here; its address is in the environment (`windrow.places`), so that one file runs everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args

from pydantic import PlainSerializer, PlainValidator

from windrow.config.problems import near_miss
from windrow.text import short

Kind = Literal["json", "json_schema", "avro", "protobuf"]
KINDS: tuple[str, ...] = get_args(Kind)
DEFAULT_REGISTRY = "default"
_REGISTRY = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SUBJECT = re.compile(r"[^\s\x00-\x1f\x7f]{1,255}")
_MESSAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True)
class Format:
    """How the bytes of a record are read.

    Args:
        kind: what the bytes are.
        registry: name of the registry that knows the schemas of the ids.
        subject: under which the registry has the topic's schemas; None: `<topic>-value`.
        message: full name of the only message that is read (Protobuf); None: whichever a record names.
    """

    kind: Kind = "json"
    registry: str = DEFAULT_REGISTRY
    subject: str | None = None
    message: str | None = None

    def __str__(self) -> str:
        """The format as a pipeline file has it."""
        written = {name: value for name, value in self._options().items() if value is not None}
        return f"{self.kind} ({', '.join(f'{n}: {v}' for n, v in written.items())})" if written else self.kind

    @property
    def is_framed(self) -> bool:
        """Whether a record begins with the id of its writer's schema."""
        return self.kind != "json"

    @property
    def needs_schemas(self) -> bool:
        """Whether a record cannot be read without its writer's schema."""
        return self.kind in ("avro", "protobuf")

    def subject_of(self, topic: str) -> str:
        """The subject under which the registry has the schemas of a topic."""
        return self.subject or f"{topic}-value"

    def spelled(self) -> str | dict[str, dict[str, str]]:
        """The format as YAML has it; a word where nothing but defaults is said."""
        options = {name: value for name, value in self._options().items() if value is not None}
        return {self.kind: options} if options else self.kind

    def _options(self) -> dict[str, str | None]:
        registry = None if self.registry == DEFAULT_REGISTRY else self.registry
        return {"registry": registry, "subject": self.subject, "message": self.message}


def _format(value: object) -> Format:
    """Read the field.

    Raises:
        ValueError: it names no format, or an option that the format has not.
    """
    if isinstance(value, Format):
        return value
    if isinstance(value, str):
        return Format(_kind(value))
    if not isinstance(value, Mapping) or len(value) != 1:
        raise ValueError("must be one format; write json, avro, or {avro: {subject: feed.served-value}}")
    ((name, options),) = value.items()
    kind = _kind(name)
    if kind == "json":
        raise ValueError(
            "json has no options; write format: json, or json_schema for records behind a registry's frame"
        )
    if options is not None and not isinstance(options, Mapping):
        raise ValueError(f"{kind} must be a mapping of options; write {{{kind}: {{subject: feed.served-value}}}}")
    return Format(kind, **_options(kind, options or {}))


def _kind(value: object) -> Any:
    if value not in KINDS:
        raise ValueError(f"{short(value)} is not known; {near_miss(str(value), KINDS, 'write one of')}")
    return value


def _options(kind: str, written: Mapping[Any, object]) -> dict[str, Any]:
    """The options of a format, each of a form that it may have."""
    known = [field.name for field in fields(Format) if field.name != "kind"]
    if kind != "protobuf":
        known.remove("message")
    forms = {
        "registry": (_REGISTRY, "a name of lower-case letters, digits and _; its address is in WINDROW_REGISTRY"),
        "subject": (_SUBJECT, "a subject of the registry, such as feed.served-value"),
        "message": (_MESSAGE, "the full name of a message, such as feed.Served"),
    }
    for name, value in written.items():
        if name not in known:
            raise ValueError(f"{short(name)} is no option of {kind}; {near_miss(str(name), known, 'options are')}")
        pattern, what = forms[name]
        if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
            raise ValueError(f"{name} {short(value)} cannot be read; write {what}")
    return {name: value for name, value in written.items() if value is not None}


FormatField = Annotated[
    Format, PlainValidator(_format), PlainSerializer(Format.spelled, return_type=str | dict[str, dict[str, str]])
]
