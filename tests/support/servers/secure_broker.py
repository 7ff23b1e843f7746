"""A real broker that asks who its clients are: SCRAM, PLAIN and tokens over TLS, client certificates, and ACLs.

BROKER   no authentication, on the loopback: the tests themselves, who may do everything
SECURE   SASL_SSL, SCRAM-SHA-512, PLAIN and OAUTHBEARER; the principal of a token is its `sub`
MUTUAL   TLS with a client certificate; the principal is its common name
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.servers.certificates import Authority
from support.servers.token_issuer import AUDIENCE, TokenIssuer
from windrow.files import write_whole
from windrow.places import Places
from windrow.platform.processes import free_port
from windrow.platform.servers.broker import Broker, Node

PLAIN_USER, PLAIN_PASSWORD = "petra", "planted-plain-8f1e02"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_TOKENS = "org.apache.kafka.common.security.oauthbearer"
OAUTH = f"{_TOKENS}.OAuthBearerLoginModule"


class SecureBroker(Broker):
    """The broker of a home, with two more listeners."""

    def __init__(self, places: Places, authority: Authority, issuer: TokenIssuer) -> None:
        super().__init__(places)
        self.authority, self.issuer = authority, issuer
        self.secure, self.mutual = (f"127.0.0.1:{free_port()}" for _ in range(2))

    @staticmethod
    def free_address() -> str:
        """An address for its first listener."""
        return f"127.0.0.1:{free_port()}"

    @property
    def trusted(self) -> Path:
        """The authority's certificate."""
        return self.folder / "authority.pem"

    def _write_configuration(self, node: Node) -> None:
        super()._write_configuration(node)
        key = node.folder / "broker.pem"
        write_whole(key, self.authority.signed("broker"), private=True)
        self.authority.write(self.trusted)
        settings = {
            "listeners": f"BROKER://{node.address},CONTROLLER://{node.controller},"
            f"SECURE://{self.secure},MUTUAL://{self.mutual}",
            "advertised.listeners": f"BROKER://{node.address},SECURE://{self.secure},MUTUAL://{self.mutual}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": key,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.trusted,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "listener.name.secure.plain.sasl.jaas.config": f'{PLAIN} required user_{PLAIN_USER}="{PLAIN_PASSWORD}";',
            **self._of_tokens,
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?)$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "connection.failed.authentication.delay.ms": 50,
        }
        with node.properties.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())

    @property
    def _of_tokens(self) -> dict[str, Any]:
        listener, trusts = "listener.name.secure.oauthbearer", _trusts(self.trusted)
        return {
            f"{listener}.sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="broker" {trusts};',
            f"{listener}.sasl.server.callback.handler.class": f"{_TOKENS}.OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": self.issuer.keys,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": self.issuer.address,
        }

    @cached_property
    def _java(self) -> list[str]:
        """The command of its JVM, which may ask the issuer for keys."""
        java, *options = super()._java
        return [java, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.issuer.keys}", *options]

    @property
    def admin(self) -> AdminClient:
        """A client that may do everything."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def set_password(self, user: str, password: str) -> None:
        """Give a user a password for SCRAM; the one before it is no longer accepted."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = self.admin
        for future in admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(user, info, password.encode())]
        ).values():
            future.result(30)

    def allow(self, user: str, *rights: tuple[ResourceType, str, AclOperation]) -> None:
        """Let a user do something with what begins with a name."""
        admin = self.admin
        for future in admin.create_acls([_binding(user, *right) for right in rights]).values():
            future.result(30)

    @staticmethod
    def login(user: str, password: str, mechanism: str) -> dict[str, str]:
        """Client properties for a name and a password."""
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
        }

    def tokens(self, client: str, secret: str, trusts: Path | None = None, where: str | None = None) -> dict[str, str]:
        """Client properties for tokens of the issuer.

        Args:
            trusts: file of the authority that must have signed the issuer's certificate; the broker's by default.
            where: another address than the issuer's.
        """
        login = f'clientId="{client}" clientSecret="{secret}" scope="kafka"'
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": where or self.issuer.tokens,
            "sasl.jaas.config": f"{OAUTH} required {login} {_trusts(trusts or self.trusted)};",
        }


def _trusts(file: Path) -> str:
    """JAAS options of who trusts the authorities of a file."""
    return f'ssl.truststore.type="PEM" ssl.truststore.location="{file}"'


def _binding(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePatternType.LITERAL if kind is ResourceType.BROKER else ResourcePatternType.PREFIXED
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def landing_rights(topics: str, group: str = "windrow") -> Iterable[tuple[ResourceType, str, AclOperation]]:
    """What landing needs for topics that begin with a name."""
    yield ResourceType.TOPIC, topics, AclOperation.READ
    yield ResourceType.TOPIC, topics, AclOperation.DESCRIBE_CONFIGS
    yield ResourceType.GROUP, group, AclOperation.READ


def client_file(file: Path, settings: dict[str, Any]) -> Path:
    """Write a file of client properties."""
    write_whole(file, "".join(f"{name}={value}\n" for name, value in settings.items()), private=True)
    return file
