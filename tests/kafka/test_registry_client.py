"""The file that says who this client is to a schema registry: what it may hold, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow.files import write_whole
from windrow.io.landing.registry_client import RegistryFileWrong, settings
from windrow.outcomes import BadInput
from windrow.places import Places

PASSWORD = "planted-registry-3b1f"
TLS = "https://registry.example.com"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "ca.pem").write_text("a certificate")
    write_whole(tmp_path / "key.pem", "a key", private=True)
    return tmp_path / "registry.properties"


def write(file: Path, *lines: str) -> Path:
    write_whole(file, "\n".join(lines), private=True)
    return file


def test_each_registry_has_its_own_properties(file: Path) -> None:
    ca = file.parent / "ca.pem"
    write(file, f"basic.auth.user.info=ann:{PASSWORD}", f"orders.ssl.ca.location={ca}")
    assert settings(file, "default", TLS) == {"basic.auth.user.info": f"ann:{PASSWORD}"}
    assert settings(file, "orders", TLS) == {"ssl.ca.location": str(ca)}
    assert settings(file, "another", TLS) == {}
    assert settings(None, "default", TLS) == {}


def test_a_password_goes_over_tls_or_stays_on_this_machine(file: Path) -> None:
    write(file, f"basic.auth.user.info=ann:{PASSWORD}")
    assert settings(file, "default", "http://127.0.0.1:8081")
    with pytest.raises(RegistryFileWrong, match="must begin with https://") as wrong:
        settings(file, "default", "http://registry.example.com:8081")
    assert PASSWORD not in str(wrong.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("basic.auth.info=ann:x", "did you mean `basic.auth.user.info`"),
        ("basic.auth.user.info=planted-registry-3b1f", "a name and a password, with a colon"),
        ("basic.auth.user.info=ann:", "a name and a password, with a colon"),
        ("ssl.ca.location=/nowhere.pem", "`ssl.ca.location` names a file that is not there"),
        ("url=http://x", "known are basic.auth.user.info"),
    ],
)
def test_a_wrong_line_is_refused_without_its_secret(file: Path, line: str, message: str) -> None:
    with pytest.raises(RegistryFileWrong, match=message) as wrong:
        settings(write(file, line), "default", TLS)
    assert PASSWORD not in str(wrong.value)


def test_a_file_or_a_key_that_others_may_read_is_refused(file: Path) -> None:
    write(file, f"ssl.key.location={file.parent / 'key.pem'}")
    assert settings(file, "default", TLS)
    (file.parent / "key.pem").chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        settings(file, "default", TLS)
    file.chmod(0o644)
    with pytest.raises(BadInput, match="chmod 600"):
        settings(file, "default", TLS)


def test_every_process_finds_the_file_by_the_environment(file: Path, tmp_path: Path) -> None:
    assert (
        Places.from_env({"WINDROW_HOME": str(tmp_path), "WINDROW_REGISTRY_CLIENT": str(file)}).registry_client == file
    )
    assert Places.from_env({"WINDROW_HOME": str(tmp_path), "WINDROW_REGISTRY_CLIENT": ""}).registry_client is None
