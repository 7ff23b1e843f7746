"""Schema registries, by Confluent's API: the schema of an id, with all that it refers to. Asked by the driver alone.

A registry that does not answer is a broker that does not answer: nothing lands, and a retry goes on where it stopped.
An id that it does not know is an answer.
"""

from __future__ import annotations

import re
from typing import Any

from windrow.io.landing import registry_client
from windrow.outcomes import BadInput, NotReady, Refused
from windrow.places import REGISTRY_CLIENT, Places
from windrow.transforms.formats.schemas import PROTOBUF, WriterSchema

_TIMEOUT = 10.0
"""Seconds that a registry has for an answer."""
_RETRIES = {"max.retries": 2, "retries.wait.ms": 300, "retries.max.wait.ms": 2_000}
_NOT_THERE = 404
_NOT_LET_IN = (401, 403)
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""Part of what OpenSSL says about a certificate that it does not accept."""
_ALERT = re.compile(
    r"ALERT_(CERTIFICATE_(REQUIRED|EXPIRED|REVOKED|UNKNOWN)|BAD_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED|HANDSHAKE_FAILURE)"
)
"""How OpenSSL passes on that the other side does not accept this client's certificate, or misses one."""


class RegistryUnreachable(NotReady):
    """A schema registry does not answer, or not with an answer. A retry helps once it does; nothing was landed."""


class RegistryRefused(Refused):
    """A schema registry does not accept the login or certificate of this client, or this client not the registry's."""


class RegistryUnnamed(BadInput):
    """The pipeline file names a registry that has no address."""


class SubjectMissing(BadInput):
    """A registry does not have a subject."""


class Registry:
    """A client of one registry."""

    def __init__(self, places: Places, name: str) -> None:
        """Connect at the first question.

        Args:
            name: of the registry in the pipeline file.

        Raises:
            RegistryUnnamed: the environment has no address for the name.
            BadInput: the file that says who this client is cannot be used.
        """
        address = places.registry(name)
        if address is None:
            raise RegistryUnnamed(
                f"the pipeline file needs schema registry {name!r}, and WINDROW_REGISTRY has no address for it; set it "
                f"to an address, or to {name}=http://host:8081 where there are several"
            )
        self.name, self.address = name, address
        self._proof = registry_client.settings(places.registry_client, name, address)
        self._client: Any = None

    def schema(self, number: int) -> WriterSchema | None:
        """Return the schema of an id; None if the registry does not know it.

        Raises:
            RegistryUnreachable: no answer.
            RegistryRefused: a person must mend who this client is.
        """
        found = self._asked("get_schema", number)
        return None if found is None else self._resolved(number, found)

    def latest(self, subject: str) -> WriterSchema:
        """Return the newest schema of a subject.

        Raises:
            RegistryUnreachable, RegistryRefused: as for `schema`.
            SubjectMissing: the registry does not have the subject.
        """
        found = self._asked("get_latest_version", subject)
        if found is None:
            raise SubjectMissing(
                f"{self.address} has no subject {subject!r}; has a producer registered its schema, and is `subject` "
                "in `format` its name?"
            )
        by_id = self.schema(found.schema_id)  # Apicurio says of a version what kind the first one had
        return by_id or self._resolved(found.schema_id, found.schema)

    def _resolved(self, number: int, schema: Any) -> WriterSchema:
        """A schema with those that it refers to, the first of which refer to none."""
        known: dict[str, str] = {}
        self._add_references(schema, known)
        kind = schema.schema_type or "AVRO"
        return with_descriptors(WriterSchema(number, kind, schema.schema_str, tuple(known.items())))

    def _add_references(self, schema: Any, known: dict[str, str]) -> None:
        for one in schema.references or ():
            if one.name in known:
                continue
            found = self._asked("get_version", one.subject, one.version)
            if found is None:
                raise RegistryUnreachable(
                    f"{self.address} has a schema that refers to version {one.version} of {one.subject}, which it does "
                    "not have. Nothing was landed. Register it there again."
                )
            self._add_references(found.schema, known)
            known[one.name] = found.schema.schema_str

    def _asked(self, question: str, *arguments: Any) -> Any:
        """The answer to a question; None for "there is none"."""
        from confluent_kafka.schema_registry import SchemaRegistryClient
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            if self._client is None:
                settings = {"url": self.address, "timeout": _TIMEOUT, **_RETRIES, **self._proof}
                self._client = SchemaRegistryClient(settings)
            return getattr(self._client, question)(*arguments)
        except SchemaRegistryError as problem:
            if problem.http_status_code == _NOT_THERE:
                return None
            if problem.http_status_code in _NOT_LET_IN:
                raise RegistryRefused(_refused(self, f"status {problem.http_status_code}")) from None
            raise RegistryUnreachable(_unreachable(self, problem)) from problem
        except Exception as problem:  # errors of its HTTP library, which is not the same in all of its versions
            if _UNTRUSTED in str(problem):
                raise RegistryRefused(_refused(self, "its certificate is not accepted")) from None
            if alert := _ALERT.search(str(problem)):
                why = f"it does not accept this client's certificate ({alert[1].lower().replace('_', ' ')})"
                raise RegistryRefused(_refused(self, why)) from None
            raise RegistryUnreachable(_unreachable(self, problem)) from problem


def _refused(registry: Registry, why: str) -> str:
    return (
        f"schema registry {registry.name!r} at {registry.address} and this client do not accept each other: {why}. "
        f"Nothing was landed. Mend the file that {REGISTRY_CLIENT} names (docs/SECURITY.md), then run again."
    )


def _unreachable(registry: Registry, problem: Exception) -> str:
    return (
        f"schema registry {registry.name!r} at {registry.address} did not answer: {problem}. Nothing was landed. Is it "
        "up, and is WINDROW_REGISTRY its address, with the path of its API? Then run again: the same offsets will land."
    )


def with_descriptors(schema: WriterSchema) -> WriterSchema:
    """Return a schema as executors need it: of Protobuf, its descriptors too.

    A schema that cannot be compiled has none: its records are quarantined (`other_schema:<id>`).
    """
    if schema.kind != PROTOBUF:
        return schema
    from windrow.io.landing import protoc  # most pipelines need none of its libraries

    try:
        return schema._replace(descriptors=protoc.descriptors(schema.text, schema.references))
    except protoc.NotProtobuf:
        return schema
