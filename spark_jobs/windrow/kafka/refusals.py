"""What a broker's refusal means: a login, a certificate or a right that a person must mend. No retry mends it.

librdkafka and Java say it in their own words. Both keep trying to connect, and librdkafka's calls only say that there
was no answer.

A client with tokens asks their issuer first. What the issuer refuses is a refusal too; an issuer that does not answer
is like a broker that does not: a retry helps.
"""

from __future__ import annotations

import json
import re
from typing import Any

from windrow.kafka.client import VARIABLE, Kafka
from windrow.outcomes import NotReady, Refused


class LoginRefused(Refused):
    """The broker does not accept the name, the password or the token of this client."""


class CertificateRefused(Refused):
    """The broker does not accept the certificate of this client, or the client does not accept the broker's."""


class AccessDenied(Refused):
    """The broker knows this client, and an ACL for what it asked is missing."""


class TokenUnavailable(NotReady):
    """The issuer of tokens does not answer, or not with an answer. A retry helps once it does."""


NotLetIn = Refused | TokenUnavailable
"""Why a client has no access: the broker or the issuer refuses it, or the issuer does not answer."""

_LOGIN = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE")
_CERTIFICATE = ("_SSL",)
_RIGHTS = {
    "TOPIC_AUTHORIZATION_FAILED": "topic",
    "GROUP_AUTHORIZATION_FAILED": "group",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "cluster",
}
_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "
"""How librdkafka begins to say why it has no token: the body of the issuer's answer, or what curl says."""
_BUSY = ("temporarily_unavailable", "server_error")
"""Errors of an issuer that are not about the client."""
_UNTRUSTED = re.compile(r"certificate|trust anchors|PKIX", re.IGNORECASE)
"""Part of what curl and Java say about a certificate that they do not accept."""
_NO_TOKEN_OF_JAVA = re.compile(r"javax\.security\.auth\.login\.LoginException: (?P<why>[^\n]*)")
_ISSUER_OF_JAVA = re.compile(
    r"response code 40[013] and error response \{(?P<denied>(?!.(?:temporarily_unavailable|server_error))[^\n}]*)\}|"
    r"(?P<other>javax\.net\.ssl\.SSL\w+: [^\n]*|java\.net\.\w+: [^\n]*|response code \d+ and [^\n]*)"
)
_OF_JAVA = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?P<kind>SaslAuthentication|UnsupportedSaslMechanism|IllegalSaslState|"
    r"SslAuthentication|TopicAuthorization|GroupAuthorization|TransactionalIdAuthorization|ClusterAuthorization)"
    r"Exception(?::\s*(?P<why>[^\n]*))?"
)
_ALERT = re.compile(r"SSL alert number (4\d|51|116)\b")
"""How librdkafka passes on that a broker refuses a certificate: TLS 1.3 tells it after the handshake. The numbers are
those of RFC 8446 from handshake_failure to access_denied, decrypt_error and certificate_required."""


def of_error(brokers: Kafka | str, error: Any, subject: str = "") -> NotLetIn | None:
    """Return the refusal that an error of librdkafka stands for, or why there is no token; None for other errors.

    Args:
        error: a `confluent_kafka.KafkaError`.
        subject: what was asked about, where it is known: a topic, a group.
    """
    name, why = error.name(), error.str()
    if name in _RIGHTS:
        return _denied(brokers, _RIGHTS[name], subject, why)
    if name in _LOGIN and why.startswith(_NO_TOKEN):
        answer = why.removeprefix(_NO_TOKEN)
        return _without_token(brokers, _refused_by_issuer(answer), answer)
    if name in _LOGIN:
        return _login(brokers, why)
    if name in _CERTIFICATE or _ALERT.search(why):
        return _certificate(brokers, why)
    return None


def of_java(brokers: Kafka | str, text: str) -> NotLetIn | None:
    """Return the condition named in the text of a Java error, such as a failed Spark job's; None without one."""
    found = _OF_JAVA.search(text)
    if found is None:
        return _token_of_java(brokers, text)
    kind, why = found["kind"], (found["why"] or "").strip()
    if kind.endswith("Authorization"):
        return _denied(brokers, re.sub("(?<=l)Id$", " id", kind.removesuffix("Authorization")).lower(), "", why)
    return _certificate(brokers, why) if kind == "SslAuthentication" else _login(brokers, why)


def _token_of_java(brokers: Kafka | str, text: str) -> NotLetIn | None:
    failed = _NO_TOKEN_OF_JAVA.search(text)
    if failed is None:
        return None
    issuer = _ISSUER_OF_JAVA.search(text)
    return _without_token(brokers, issuer and issuer["denied"], issuer["other"] if issuer else failed["why"])


def _refused_by_issuer(answer: str) -> str | None:
    """Return the error of an answer as RFC 6749 writes it; None where it is no such answer."""
    try:
        body = json.loads(answer)
    except ValueError:
        return None
    if not isinstance(body, dict) or body.get("error", _BUSY[0]) in _BUSY:
        return None
    return ": ".join(str(body[name]) for name in ("error", "error_description") if name in body)


def _without_token(brokers: Kafka | str, denied: str | None, why: str) -> NotLetIn:
    if denied:
        return LoginRefused(
            f"the issuer of tokens for Kafka at {brokers} does not accept this client: {_one_line(denied)}. Correct "
            f"`clientId`, `clientSecret` and `scope` of `sasl.jaas.config` in {_file(brokers)}, then run again."
        )
    if _UNTRUSTED.search(why):
        return CertificateRefused(
            f"no TLS connection with the issuer of tokens for Kafka at {brokers}: {_one_line(why)}. Name the authority "
            f"that has signed its certificate in `sasl.jaas.config` of {_file(brokers)} (`ssl.truststore.location`, "
            "docs/SECURITY.md), then run again."
        )
    return TokenUnavailable(
        f"the issuer of tokens for Kafka at {brokers} gave none: {_one_line(why)}. Nothing was landed and no clock "
        f"moved. Is it up, and is `sasl.oauthbearer.token.endpoint.url` of {_file(brokers)} its address? Then run "
        "again."
    )


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
