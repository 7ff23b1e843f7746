"""WINDROW_KAFKA_CLIENT: one file becomes the settings of both clients; a wrong one is refused, and no value shown."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from support.servers.certificates import Authority
from windrow.files import write_whole
from windrow.kafka.client import ClientFileWrong, Kafka, librdkafka, properties
from windrow.kafka.properties import parse
from windrow.outcomes import BadInput, ExitCode, exit_code
from windrow.places import Places
from windrow.platform.conditions import OtherPlatform
from windrow.platform.servers import cluster
from windrow.platform.servers.airflow import Airflow
from windrow.platform.servers.broker import Broker

SECRET = "planted-2c9f"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN = f"""\
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={SCRAM} required \\
  username="sam" password="{SECRET}";
"""
TOKENS = f"""\
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=https://login.example/token
sasl.jaas.config={OAUTH} required clientId="windrow" clientSecret="{SECRET}" scope="kafka";
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kafka.properties"


def written(file: Path, text: str) -> Kafka:
    write_whole(file, text, private=True)
    return Kafka("a:9092,b:9092", file)


def librdkafka_takes(settings: dict[str, Any]) -> None:
    """It raises at once for a setting that it does not know, or a key that it cannot read."""
    AdminClient({**settings, "bootstrap.servers": "127.0.0.1:1", "log_level": 0})


def test_brokers_that_do_not_ask_need_no_file() -> None:
    assert Kafka.of("a:9092").librdkafka() == Kafka.of("a:9092").java() == {"bootstrap.servers": "a:9092"}


def test_a_login_goes_to_both_clients_and_java_gets_a_reference(file: Path) -> None:
    kafka = written(file, LOGIN)
    assert kafka.librdkafka() == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "sam",
        "sasl.password": SECRET,
    }
    java = kafka.java()
    assert java == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f"${{file:{file}:sasl.jaas.config}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(file),
    }
    assert SECRET not in json.dumps(java) + repr(kafka) + str(kafka)


def test_a_changed_file_counts_at_the_next_connection(file: Path) -> None:
    kafka = written(file, LOGIN)
    kafka.librdkafka()
    written(file, LOGIN.replace(SECRET, "another"))
    assert kafka.librdkafka()["sasl.password"] == "another"


def test_plain_and_a_password_with_quotes(file: Path) -> None:
    text = LOGIN.replace("SCRAM-SHA-512", "PLAIN").replace(SCRAM, PLAIN).replace(SECRET, r'a\\"b\\\\c; = d')
    kafka = written(file, text)
    assert kafka.librdkafka()["sasl.password"] == r'a"b\c; = d'


def test_a_token_comes_from_its_issuer_for_both_clients(file: Path) -> None:
    kafka = written(file, TOKENS)
    found = kafka.librdkafka()
    assert {name: value for name, value in found.items() if name.startswith("sasl.oauthbearer")} == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
        "sasl.oauthbearer.client.id": "windrow",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
    }
    assert Path(found["https.ca.location"]).is_file(), "the system's authorities"
    librdkafka_takes(found)
    assert kafka.java()["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    assert SECRET not in json.dumps(kafka.java())


def test_the_authority_of_an_issuer_is_named_once_for_both_clients(file: Path) -> None:
    trusted = Authority("issuer").write(file.parent / "issuer.pem")
    own = f'ssl.truststore.type="PEM" ssl.truststore.location="{trusted}"'
    found = written(file, TOKENS.replace('scope="kafka"', own)).librdkafka()
    assert found["https.ca.location"] == str(trusted)
    assert "ssl.ca.location" not in found, "the broker's certificate may be another authority's"
    librdkafka_takes(found)
    for wrong, message in (
        (own.replace("PEM", "JKS"), "`ssl.truststore.type` in `sasl.jaas.config` must be PEM"),
        (own.replace(str(trusted), "/no.pem"), "names a file that is not there: /no.pem"),
    ):
        with pytest.raises(ClientFileWrong) as refused:
            written(file, TOKENS.replace('scope="kafka"', wrong)).java()
        assert message in str(refused.value)
        assert SECRET not in str(refused.value)


def test_a_certificate_of_its_own_in_files_inline_and_as_pkcs12(file: Path) -> None:
    authority, folder = Authority("tests"), file.parent
    write_whole(folder / "own.pem", authority.signed("sam"), private=True)
    trusted = authority.write(folder / "authority.pem")
    of_files = (
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={folder}/own.pem\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
    )
    own = {"ssl.certificate.location": f"{folder}/own.pem", "ssl.key.location": f"{folder}/own.pem"}
    found = written(file, of_files).librdkafka()
    assert own.items() | {("ssl.ca.location", str(trusted))} <= found.items()
    librdkafka_takes(found)
    key, _, chain = authority.signed("sam").partition("-----BEGIN CERT")
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": "-----BEGIN CERT" + chain}
    text = "".join(f"{name}={value}".replace("\n", "\\n\\\n") + "\n" for name, value in inline.items())
    kafka = written(file, f"security.protocol=SSL\nssl.keystore.type=PEM\n{text}")
    librdkafka_takes(kafka.librdkafka())
    assert kafka.librdkafka()["ssl.key.pem"] == key
    assert kafka.java()["ssl.keystore.key"] == f"${{file:{file}:ssl.keystore.key}}"
    bundle = {"security.protocol": "SSL", "ssl.keystore.type": "PKCS12"}
    bundle |= {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": SECRET}
    assert librdkafka(bundle) == {k: v for k, v in bundle.items() if k != "ssl.keystore.type"}


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("security.protocol=SASL_SSL", "security.protocol=SASL_PLAINTEXT", "must be SASL_SSL or SSL"),
        ("security.protocol=SASL_SSL", "", "must be SASL_SSL or SSL"),
        ("security.protocol=SASL_SSL", "security.protocol=SSL", "belong to `security.protocol=SASL_SSL`"),
        ("sasl.mechanism=", "sasl.mechanisms=", "did you mean `sasl.mechanism`"),
        ("SCRAM-SHA-512", "GSSAPI", "must be one of SCRAM-SHA-512"),
        ("SCRAM-SHA-512", "PLAIN", "must begin with `org.apache.kafka.common.security.plain.PlainLoginModule required"),
        ('username="sam" ', "", "lacks `username`"),
        ('";', '"', "must end with ';'"),
        ("security", "bootstrap.servers=a\nsecurity", "WINDROW_KAFKA has the addresses"),
        ("security", f"sasl.password={SECRET}\nsecurity", "write Java's `sasl.jaas.config`"),
        ("security", "ssl.truststore.location=/t.jks\nssl.truststore.type=JKS\nsecurity", "librdkafka reads no JKS"),
        ("security", "ssl.truststore.location=/no.pem\nssl.truststore.type=PEM\nsecurity", "not there: /no.pem"),
        ("security", f"ssl.keystore.key={SECRET}\nssl.keystore.type=PEM\nsecurity", "belong together"),
    ],
)
def test_a_wrong_file_is_refused_without_showing_a_value(file: Path, was: str, becomes: str, message: str) -> None:
    kafka = written(file, LOGIN.replace(was, becomes, 1))
    for use in (kafka.librdkafka, kafka.java):
        with pytest.raises(ClientFileWrong) as refused:
            use()
        assert message in str(refused.value)
        assert str(file) in str(refused.value)
        assert SECRET not in str(refused.value)
        assert exit_code(refused.value) is ExitCode.BAD_INPUT


def test_tokens_come_over_tls_only(file: Path) -> None:
    with pytest.raises(ClientFileWrong, match="must be the https address"):
        written(file, TOKENS.replace("https:", "http:")).java()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_or_write_is_refused(file: Path, mode: int) -> None:
    kafka = written(file, LOGIN)
    file.chmod(mode)
    with pytest.raises(BadInput, match=f"WINDROW_KAFKA_CLIENT={file} may be read by others .* chmod 600"):
        kafka.librdkafka()


def test_a_file_of_another_user_or_without_text_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = written(file, LOGIN)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(BadInput, match="belongs to another user"):
        kafka.java()
    monkeypatch.undo()
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="no text in UTF-8"):
        kafka.java()
    file.unlink()
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        kafka.java()


def test_a_key_that_others_may_read_is_refused(file: Path) -> None:
    key = file.with_name("own.pem")
    key.write_text("key")
    key.chmod(0o644)
    kafka = written(file, f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={key}\n")
    with pytest.raises(BadInput, match=r"ssl\.keystore\.location.* may be read by others"):
        kafka.librdkafka()


def test_a_path_that_kafka_cannot_refer_to_is_refused(file: Path) -> None:
    kafka = written(file.with_name("a:b"), LOGIN)
    with pytest.raises(ClientFileWrong, match="no path with ':'"):
        kafka.java()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x=1\nx=2", "2"),
        ("x = a\\\n   b", "ab"),
        ("  x: a b ", "a b "),
        ("x a", "a"),
        ("#x=1\n!x=1\nx=\\u0041\\n\\t\\q", "A\n\tq"),
        ("x=a\\\\\ny=b", "a\\"),
        ("x=a=b:c", "a=b:c"),
        ("x=a\r\ny=b\rz=c", "a"),
        ("x", ""),
    ],
)
def test_the_file_is_read_as_java_reads_it(text: str, value: str) -> None:
    assert parse(text)["x"] == value


def test_every_process_finds_the_file_by_the_environment(file: Path, tmp_path: Path) -> None:
    written(file, LOGIN)
    environ = {"WINDROW_KAFKA_CLIENT": str(file), "WINDROW_HOME": str(tmp_path)}
    places = Places.from_env(environ)
    assert places.brokers == Kafka(places.kafka, file)
    assert Places.from_env({"WINDROW_KAFKA_CLIENT": ""}).brokers.client is None
    assert Airflow(places, {}).environment()["WINDROW_KAFKA_CLIENT"] == str(file)
    assert not Broker(places).is_ours, "brokers that ask are never started by this project"
    assert Broker(replace(places, kafka_client=None)).is_ours
    with pytest.raises(OtherPlatform, match="WINDROW_KAFKA_CLIENT"):
        cluster.environment(environ)


def test_a_property_that_is_there_twice_counts_once_for_both(file: Path) -> None:
    written(file, LOGIN + LOGIN.replace(SECRET, "last"))
    assert '"last"' in properties(file)["sasl.jaas.config"]
