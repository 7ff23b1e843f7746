"""A store's key by web identity: all jobs get one for a token in a file, and nobody writes it down."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from support.planted import event_log, files_below, holders, watched
from support.servers.certificates import Authority
from support.servers.token_service import token_service
from support.small_pipeline import PIPELINE, START, event, made
from support.world import World
from windrow.files import write_whole
from windrow.outcomes import ExitCode
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.java import find_java
from windrow.platform.processes import free_port
from windrow.platform.servers.store import Store
from windrow.text import instant_text

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]

TOKEN, SESSION = "planted-identity-5c20", "planted-session-77ae"


def trusted_by_java(authority: Authority, folder: Path) -> str:
    """Return options by which a JVM trusts the authority alone."""
    keytool, trusted = find_java(os.environ).with_name("keytool"), folder / "trusted.p12"
    command = [str(keytool), "-importcert", "-noprompt", "-alias", "ours", "-file", str(folder / "ours.pem")]
    command += ["-keystore", str(trusted), "-storetype", "PKCS12", "-storepass", "changeit"]
    subprocess.run(command, check=True, capture_output=True)
    return f"-Djavax.net.ssl.trustStore={trusted} -Djavax.net.ssl.trustStorePassword=changeit"


@contextmanager
def without_key() -> Iterator[None]:
    """Within the body, the key of the store is not in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name)
        yield


@pytest.fixture
def store(session_places: Places, local_store: Store, tmp_path: Path) -> Iterator[Store]:
    """A store that takes no offence at the session of a key, which it does not know."""
    jars.ensure(session_places, also=["s3", "store"])
    places = replace(session_places, home=tmp_path / "store", store=f"127.0.0.1:{free_port()}")
    own = Store(places, {"s3proxy.ignore-unknown-headers": "true"})
    own.start()
    yield own
    own.stop()


def test_jobs_land_and_publish_with_keys_that_a_token_gives_and_keep_none(
    world: World, store: Store, tmp_path: Path
) -> None:
    authority, given = Authority("ours"), store.environment()
    authority.write(tmp_path / "ours.pem")
    write_whole(tmp_path / "token", TOKEN, private=True)
    known = {"token": TOKEN, "session": SESSION}
    known |= {"key": given["AWS_ACCESS_KEY_ID"], "secret": given["AWS_SECRET_ACCESS_KEY"]}
    outside = World(replace(world.places, tables=f"{store.url}/identity"), world.name)
    ctx = made(outside, PIPELINE, {"served": 1, "likes": 1})
    outside.produce([event("served", 0, 10), event("likes", 0, 20)])
    outside.produce([event("served", 0, 600), event("likes", 0, 600)])
    run, output = ("--run", "r"), ""
    jobs = (("land",), ("join", *run, "--interval", instant_text(START)), ("check", *run), ("publish", *run))
    with (
        token_service(authority, tmp_path, **known) as service,
        without_key(),
        watched() as seen,
    ):
        identity = {
            "AWS_ENDPOINT_URL": given["AWS_ENDPOINT_URL"],
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/windrow",
            "AWS_ROLE_SESSION_NAME": "windrow",
            "AWS_ENDPOINT_URL_STS": service.address,
            "SSL_CERT_FILE": str(tmp_path / "ours.pem"),
            "JAVA_TOOL_OPTIONS": trusted_by_java(authority, tmp_path),
            "WINDROW_SPARK_SECRETS": str(event_log(tmp_path)),
        }
        for job, *words in jobs:
            asked = service.asked
            done = outside.script(job, "small", *words, **identity)
            assert done.returncode == ExitCode.DONE, done.stderr[-2000:]
            assert service.asked > asked
            print(f"{job} asked for keys {service.asked - asked} times")
            output += done.stdout + done.stderr
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        assert [(row["rows"], row["positive"]) for row in outside.register(ctx) if row["rows"]] == [(1, 1)]

    secrets = (TOKEN, SESSION, known["secret"])
    written = files_below(outside.places.home, tmp_path / "events", store.folder / "data")
    assert any(path.parent.name == "_delta_log" and "identity" in str(path) for path in written)
    assert any("events" in path.parts and b"s3://" in content for path, content in written.items())
    assert holders(written, secrets) == []
    assert any("java" in one for one in seen.arguments)
    assert not any(secret in output or seen.has(secret) for secret in secrets)
