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

import obstore
import pytest
from obstore.exceptions import GenericError, PreconditionError

from support.command import windrow
from windrow.io.delta import store as files
from windrow.io.delta import tables
from windrow.io.delta.refusals import of_store
from windrow.outcomes import ExitCode
from windrow.places import Places, SettingWrong
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


_ANSWER = "Generic S3 error: Error performing GET https://s/b/x in 1s - Server returned non-2xx status code:"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "Generic S3 error: Error performing GET https://s3.us-east-1.amazonaws.com/b?list-type=2 in 1s - Received "
            "redirect without LOCATION, this normally indicates an incorrectly configured region",
            "StoreAddressWrong",
        ),
        (
            "org.apache.hadoop.fs.s3a.AWSRedirectException: getFileStatus on s3://b/x: "
            "software.amazon.awssdk.services.s3.model.S3Exception: The bucket is in this region: eu-west-1. "
            "(Service: S3, Status Code: 301, Request ID: X)",
            "StoreAddressWrong",
        ),
        (f"{_ANSWER} 301 Moved: <Code>PermanentRedirect</Code>", "StoreAddressWrong"),
        (f"{_ANSWER} 400 Bad Request: <Error><Code>AuthorizationHeaderMalformed</Code>", "StoreAddressWrong"),
        (f"{_ANSWER} 400 Bad Request: <Code>InvalidBucketName</Code>", "BucketMissing"),
        (f"{_ANSWER} 409 Conflict: <Code>ConditionalRequestConflict</Code>", "StoreUnavailable"),
        (f"{_ANSWER} 501 Not Implemented: <Code>NotImplemented</Code>", "StoreUnsafe"),
    ],
)
def test_a_wrong_region_and_what_a_store_cannot_do_have_a_next_move(text: str, name: str) -> None:
    found = of_store(text)
    assert type(found).__name__ == name
    assert found.code is not ExitCode.FAILED


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


def test_a_location_of_tables_has_no_slash_at_its_end() -> None:
    assert Places.from_env({"WINDROW_TABLES": "/srv/a-b_c.d+e@f,g~/"}).tables == "/srv/a-b_c.d+e@f,g~"
    assert Places.from_env({"WINDROW_TABLES": "s3://Old_bucket.x/a-b/"}).tables == "s3://Old_bucket.x/a-b"


@pytest.mark.parametrize("sign", [*" #?%=:*|\\^`<>{}[]\"'&;$!()", "ü", "日", "\n"])
@pytest.mark.parametrize("variable", ["WINDROW_TABLES", "WINDROW_HOME"])
def test_a_folder_of_tables_that_not_every_client_finds_is_refused(variable: str, sign: str) -> None:
    with pytest.raises(SettingWrong, match=f"Set .*{variable}.* to such a folder"):
        Places.from_env({variable: f"/srv/a{sign}b"})


def test_a_link_to_a_folder_that_not_every_client_finds_is_refused(tmp_path: Path) -> None:
    """delta-rs follows the link before it makes a URL of the path."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "plain").symlink_to(tmp_path / "a b")
    with pytest.raises(SettingWrong, match="a b"):
        Places.from_env({"WINDROW_TABLES": str(tmp_path / "plain")})


def test_a_relative_folder_of_tables_is_refused_because_each_process_would_have_its_own() -> None:
    with pytest.raises(SettingWrong) as refused:
        Places.from_env({"WINDROW_TABLES": "tables"})
    assert f"write {str(Path('tables').absolute())!r} if it is that one" in str(refused.value)


def test_a_secret_in_a_location_or_an_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingWrong) as refused:
        Places.from_env({"WINDROW_TABLES": "s3://key:SECRET@bucket/x"})
    assert "WINDROW_TABLES has a user or a password in it" in str(refused.value)
    assert "SECRET" not in str(refused.value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://key:SECRET@store")
    silent = "Generic S3 error: Error performing GET https://store/b/x in 3s - HTTP error: error sending request"
    assert str(of_store(silent)).startswith("the store at https://store does not answer.")


def test_a_wrong_variable_is_one_line_of_the_platform_too() -> None:
    environ = {**os.environ, "WINDROW_TABLES": "s3a://b"}
    done = subprocess.run(
        [sys.executable, "-m", "windrow.platform", "where"], env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("WINDROW_TABLES='s3a://b' is neither a folder nor s3://bucket/prefix")


def _overwritten(put: Callable[..., Any], *args: Any) -> Any:
    return put(*args, mode="overwrite")


def _unknown(*_: Any) -> Any:
    raise GenericError("Server returned non-2xx status code: 501: <Code>NotImplemented</Code>")


def _refused(*_: Any) -> Any:
    raise PreconditionError("412")


@pytest.mark.parametrize("answer", [_overwritten, _unknown, _refused])
def test_a_store_without_replacement_by_tag_is_refused_before_it_has_a_lease(
    store: Store, monkeypatch: pytest.MonkeyPatch, answer: Callable[..., Any]
) -> None:
    root, put = f"{store.url}/{answer.__name__}", obstore.put

    def answered(to: Any, name: str, content: bytes, mode: Any) -> Any:
        return answer(put, to, name, content) if isinstance(mode, dict) else put(to, name, content, mode=mode)

    with monkeypatch.context() as patched:
        patched.setattr(obstore, "put", answered)
        for _ in range(2):
            with pytest.raises(files.StoreUnsafe, match="If-Match"):
                files.require_conditional(root)
    files.require_conditional(root)
    monkeypatch.setattr(obstore, "put", answered)
    files.require_conditional(root)  # it is asked once
    with pytest.raises(files.StoreUnsafe, match="If-Match"):
        files.require_conditional(root, again=True)
