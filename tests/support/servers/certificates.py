"""Certificates for tests: an authority, and what it signs, as the PEM files that brokers and clients read."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """A certificate authority; `name` is its subject."""

    name: str

    @cached_property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        return ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def _certificate(self) -> x509.Certificate:
        builder = _builder(_named(self.name), _named(self.name), self._key, datetime.now(UTC) + 30 * DAY)
        return builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def pem(self) -> str:
        """Its own certificate, which those who trust it keep."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def signed(self, name: str, *, until: datetime | None = None) -> str:
        """Return a new key and its certificate for 127.0.0.1, followed by the authority's."""
        key = ec.generate_private_key(ec.SECP256R1())
        local = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = _builder(_named(name), _named(self.name), key, until or datetime.now(UTC) + DAY)
        made = builder.add_extension(local, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode() + made.public_bytes(serialization.Encoding.PEM).decode() + self.pem

    def write(self, file: Path) -> Path:
        """Write what trusts it."""
        file.write_text(self.pem)
        return file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - 60 * DAY)
        .not_valid_after(until)
    )
