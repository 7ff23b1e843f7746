"""What a store refuses is one line with the next move, whichever client met it, and an exit code of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.command import windrow
from windrow.io.delta import store as files
from windrow.io.delta import tables
from windrow.io.delta.refusals import of_store
from windrow.outcomes import ExitCode
from windrow.places import Places
from windrow.platform.servers.store import Store

NOBODY = "http://127.0.0.1:9"
"""An address where no server listens."""
CLIENTS: dict[str, Callable[[str], Any]] = {
    "delta-rs": lambda location: tables.opened(f"{location}/t"),
    "obstore lists": files.listed,
    "obstore writes": lambda location: files.create(f"{location}/x", b""),
}
CASES: dict[str, tuple[str, Mapping[str, str], str, ExitCode]] = {
    "no bucket": ("s3://nosuch/p", {}, "BucketMissing", ExitCode.NOT_READY),
    "wrong secret": ("s3://windrow/secret", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "StoreRefused", ExitCode.REFUSED),
    "unknown key": ("s3://windrow/key", {"AWS_ACCESS_KEY_ID": "nobody"}, "StoreRefused", ExitCode.REFUSED),
    "plain HTTP": ("s3://windrow/http", {"AWS_ALLOW_HTTP": "false"}, "StoreAddressWrong", ExitCode.BAD_INPUT),
    "no answer": ("s3://windrow/down", {"AWS_ENDPOINT_URL": NOBODY}, "StoreUnavailable", ExitCode.NOT_READY),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_is_named_by_what_any_client_says_of_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    location, settings, name, code = CASES[case]
    for variable, value in {"WINDROW_TABLES": location, **settings}.items():
        monkeypatch.setenv(variable, value)
    for client, call in CLIENTS.items():
        with pytest.raises(Exception) as raised:  # noqa: PT011 - each client has a class of its own
            call(location)
        found = of_store(str(raised.value))
        assert type(found).__name__ == name, (client, str(raised.value)[:1000])
        assert found.code is code
        assert os.environ["AWS_ENDPOINT_URL"] in str(found)
        assert str(found).lower().endswith("then run again.")
        assert ("has no bucket 'nosuch'." in str(found)) is (case == "no bucket")


KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """A process without a key, on a machine whose metadata answers with the status that is set."""
    answered = 404

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.send_response(answered)
            self.end_headers()

        do_GET = do_PUT = _answer  # noqa: N815 - names of the base class

        def log_message(self, *anything: object) -> None:
            pass

    def answer(status: int) -> None:
        nonlocal answered
        answered = status

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    yield answer
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [403, 404])
def test_without_credentials_the_variables_are_named(
    store: Store, monkeypatch: pytest.MonkeyPatch, metadata: Callable[[int], None], status: int
) -> None:
    metadata(status)
    monkeypatch.setenv("WINDROW_HOME", str(store.places.home))
    for client, call in CLIENTS.items():
        with pytest.raises(Exception) as raised:  # noqa: PT011
            call("s3://windrow/nokey")
        found = of_store(str(raised.value))
        assert (type(found).__name__, found.code) == ("CredentialsMissing", ExitCode.REFUSED), (client, raised.value)
        assert all(name in str(found) for name in (*KEYS, "AWS_ROLE_ARN", f"`source {store.env}`"))


def test_nothing_but_the_message_is_said_without_credentials(
    store: Store, metadata: Callable[[int], None], tmp_path: Path
) -> None:
    """A process of its own: delta-rs decides when it is imported what its client prints."""
    metadata(403)
    command = [sys.executable, "-c", "from windrow.command import main; main()", "health"]
    environ = {**os.environ, "WINDROW_HOME": str(tmp_path), "WINDROW_TABLES": "s3://windrow/x"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("CredentialsMissing: ")
    assert done.stderr.count("\n") == 1


def test_a_machine_whose_metadata_may_not_be_asked_gives_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    found = of_store(
        "Kernel error -> Operation not supported ↳ an error occurred while loading credentials ↳ failed to load IMDS "
        "session token ↳ service error ↳ request forbidden ↳ IMDS is disabled or the caller lacks permissions."
    )
    assert type(found).__name__ == "CredentialsMissing"


def test_a_role_whose_service_is_down_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    asked = "Error performing PUT http://169.254.169.254/latest/api/token in 3s, after 10 retries"
    found = of_store(f"Generic S3 error: {asked} - Server returned non-2xx status code: 503 Service Unavailable")
    assert type(found).__name__ == "StoreUnavailable"
    assert "the service of this machine's role answered HTTP 503" in str(found)


def test_a_store_of_this_home_that_is_down_is_started_by_up(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    silent = "Generic S3 error: Error performing GET http://127.0.0.1:9/b/x in 3s - HTTP error: error sending request"
    for home, is_own in ((store.places.home, True), (tmp_path, False)):
        monkeypatch.setenv("WINDROW_HOME", str(home))
        assert ("`windrow up --store` starts it" in str(of_store(silent))) is is_own
    monkeypatch.setenv("WINDROW_HOME", str(store.places.home))
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOBODY)
    assert "is AWS_ENDPOINT_URL its address?" in str(of_store(silent))


@pytest.mark.spark
def test_what_spark_says_of_a_store_is_understood_too(
    spark: Any, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "refused.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "refused.access.key": "nobody",
        "refused.secret.key": "wrong",
        "silent.endpoint": NOBODY,
        "silent.attempts.maximum": "1",
        "silent.retry.limit": "1",
        "nokey.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    }
    for name, value in settings.items():
        spark.sparkContext._jsc.hadoopConfiguration().set(f"fs.s3a.bucket.{name}", value)
    wanted = {
        "nosuch": "BucketMissing",
        "refused": "StoreRefused",
        "silent": "StoreUnavailable",
        "nokey": "CredentialsMissing",
    }
    for bucket, name in wanted.items():
        with pytest.raises(Exception) as raised:  # noqa: PT011
            spark.read.format("delta").load(f"s3://{bucket}/t").count()
        if bucket == "nokey":
            monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        assert type(of_store(str(raised.value))).__name__ == name, str(raised.value)[:2000]


@pytest.mark.parametrize(
    "text",
    [
        "Object at location p/t/x.parquet not found: Error performing HEAD http://h/b/p/t/x in 4ms - status code: 404",
        "no such file: s3://windrow/feed/training/part-1.parquet",
        "Error performing PUT http://h/b/x in 1ms - Server returned non-2xx status code: 412 Precondition Failed",
    ],
)
def test_a_missing_file_and_a_lost_race_are_no_refusal_of_the_store(text: str) -> None:
    assert of_store(text) is None


def test_an_expired_session_is_a_refusal_although_its_status_is_that_of_a_bad_request() -> None:
    answer = "status code: 400 Bad Request: <Error><Code>ExpiredToken</Code><Message>The provided token has expired"
    found = of_store(f"Error performing GET https://s3.eu-west-1.amazonaws.com/b/x in 4ms - non-2xx {answer}")
    assert type(found).__name__ == "StoreRefused"
    assert "ExpiredToken" in str(found)


def test_the_command_says_it_in_one_line(store: Store) -> None:
    location, settings, name, code = CASES["wrong secret"]
    done = windrow({"WINDROW_TABLES": location, **settings}, "health", "feed")
    assert (done.returncode, done.stderr.startswith(f"{name}: the store at ")) == (code, True), done.stderr
    assert "SignatureDoesNotMatch" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "tables",
    [
        "gs://bucket/prefix",
        "s3://",
        "s3:/bucket",
        "s3:bucket",
        "s3://bucket/a b",
        "S3://bucket",
        "s3://a b",
        "s3://a/b?c",
        "s3://a/b%20c",
    ],
)
def test_a_location_of_tables_that_is_neither_folder_nor_prefix_is_refused(tables: str) -> None:
    done = windrow({"WINDROW_TABLES": tables}, "health")
    assert done.returncode == ExitCode.BAD_INPUT
    message = f"WINDROW_TABLES={tables!r} is neither a folder nor s3://bucket/prefix"
    assert done.stderr.startswith(f"SettingWrong: {message}; ")
    assert done.stderr.endswith("; correct it\n")


def test_a_folder_with_a_colon_is_written_with_its_path() -> None:
    assert Places.from_env({"WINDROW_TABLES": "./s3:bucket"}).tables == str(Path("s3:bucket").absolute())
    assert Places.from_env({"WINDROW_TABLES": "s3://Old_bucket.x/a-b/"}).tables == "s3://Old_bucket.x/a-b"
