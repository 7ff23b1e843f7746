"""What a broker's refusal means: a login, a certificate or a right that a person must mend. No retry mends it.

librdkafka and Java say it in their own words. Both keep trying to connect, and librdkafka's calls only say that there
was no answer.
"""

from __future__ import annotations

import re
from typing import Any

from windrow.kafka.client import VARIABLE, Kafka
from windrow.outcomes import Refused


class LoginRefused(Refused):
    """The broker does not accept the name, the password or the token of this client."""


class CertificateRefused(Refused):
    """The broker does not accept the certificate of this client, or the client does not accept the broker's."""


class AccessDenied(Refused):
    """The broker knows this client, and an ACL for what it asked is missing."""


_LOGIN = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
_CERTIFICATE = ("_SSL",)
_RIGHTS = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}
_OF_JAVA = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?P<kind>SaslAuthentication|UnsupportedSaslMechanism|IllegalSaslState|"
    r"SslAuthentication|TopicAuthorization|GroupAuthorization|TransactionalIdAuthorization|ClusterAuthorization)"
    r"Exception(?::\s*(?P<why>[^\n]*))?"
)
_ALERT = re.compile(r"SSL alert number (4\d|51|116)\b")
"""How librdkafka passes on that a broker refuses a certificate: TLS 1.3 tells it after the handshake. The numbers are
those of RFC 8446 from handshake_failure to access_denied, decrypt_error and certificate_required."""


def of_error(brokers: Kafka | str, error: Any, subject: str = "") -> Refused | None:
    """Return the refusal that an error of librdkafka stands for; None where it is not one.

    Args:
        error: a `confluent_kafka.KafkaError`.
        subject: what was asked about, where it is known: a topic, a group.
    """
    name, why = error.name(), error.str()
    if name in _RIGHTS:
        return _denied(brokers, _RIGHTS[name], subject, why)
    if name in _LOGIN:
        return _login(brokers, why)
    if name in _CERTIFICATE or _ALERT.search(why):
        return _certificate(brokers, why)
    return None


def of_java(brokers: Kafka | str, text: str) -> Refused | None:
    """Return the refusal that is named in the text of a Java error, such as a failed Spark job's; None without one."""
    found = _OF_JAVA.search(text)
    if found is None:
        return None
    kind, why = found["kind"], (found["why"] or "").strip()
    if kind.endswith("Authorization"):
        return _denied(brokers, re.sub("(?<=l)Id$", " id", kind.removesuffix("Authorization")).lower(), "", why)
    return _certificate(brokers, why) if kind == "SslAuthentication" else _login(brokers, why)


def _file(brokers: Kafka | str) -> str:
    client = Kafka.of(brokers).client
    return str(client) if client else f"(none: {VARIABLE} is not set)"


def _login(brokers: Kafka | str, why: str) -> LoginRefused:
    return LoginRefused(
        f"Kafka at {brokers} does not accept this client's login: {_one_line(why)}. Correct `sasl.mechanism` and "
        f"`sasl.jaas.config` in {_file(brokers)}, then run again."
    )


def _certificate(brokers: Kafka | str, why: str) -> CertificateRefused:
    return CertificateRefused(
        f"no TLS connection with Kafka at {brokers}: {_one_line(why)}. Has a certificate expired, or is it signed by "
        f"another authority than the other side trusts? Look at `security.protocol`, `ssl.keystore.…` and "
        f"`ssl.truststore.…` in {_file(brokers)}, then run again."
    )


def _denied(brokers: Kafka | str, kind: str, subject: str, why: str) -> AccessDenied:
    what = f"{kind} {subject}" if subject else kind
    return AccessDenied(
        f"Kafka at {brokers} does not let this client use the {what}: {_one_line(why)}. Give the user of "
        f"{_file(brokers)} the missing ACL (docs/SECURITY.md lists all that are needed), then run again."
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400].rstrip(".")
