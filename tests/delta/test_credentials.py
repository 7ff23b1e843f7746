"""Credentials of a store that stand in a file: who reads them when, and what is refused without showing a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.files import write_whole
from windrow.io.delta import credentials, store
from windrow.outcomes import BadInput

SECRET = "planted-store-90ab"
TEXT = f"[default]\naws_access_key_id = ann\naws_secret_access_key = {SECRET}%x\n[other]\naws_access_key_id = bob\n"
FOUND = {"aws_access_key_id": "ann", "aws_secret_access_key": f"{SECRET}%x"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(credentials.FILE, str(tmp_path / "credentials"))
    write_whole(tmp_path / "credentials", TEXT, private=True)
    return tmp_path / "credentials"


def test_a_store_gets_them_and_a_folder_does_not(file: Path) -> None:
    assert store.options("s3://bucket/prefix") == FOUND
    assert store.options("/srv/tables") is None
    assert store.options("file:///srv/tables") is None


def test_a_changed_file_counts_at_once_with_its_session_token(file: Path) -> None:
    store.options("s3://bucket")
    write_whole(file, TEXT.replace("ann", "eve\naws_session_token = t"), private=True)
    assert store.options("s3://bucket") == {**FOUND, "aws_access_key_id": "eve", "aws_session_token": "t"}


@pytest.mark.parametrize("first", ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"])
def test_what_java_takes_first_comes_first_here_too(file: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    monkeypatch.setenv(first, "x")
    assert store.options("s3://bucket") is None


def test_without_the_variable_nothing_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(credentials.FILE)
    assert store.options("s3://bucket") is None


@pytest.mark.parametrize(
    ("profile", "text", "message"),
    [
        ("nobody", TEXT, "has no profile [nobody]"),
        ("other", TEXT, "profile [other] lacks aws_secret_access_key"),
        ("", SECRET, "is no file of profiles"),
    ],
)
def test_a_wrong_file_is_refused_without_showing_a_value(
    file: Path, monkeypatch: pytest.MonkeyPatch, profile: str, text: str, message: str
) -> None:
    monkeypatch.setenv("AWS_PROFILE", profile)
    write_whole(file, text, private=True)
    with pytest.raises(credentials.CredentialsWrong) as refused:
        store.options("s3://bucket")
    assert message in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_file_that_others_may_read_is_refused(file: Path) -> None:
    file.chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        store.options("s3://bucket")
