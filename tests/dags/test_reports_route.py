"""A path under /windrow/reports names a file below the pipeline's reports, or none."""

import pytest

from windrow_airflow.pages.web import report_file


@pytest.fixture
def reports(tmp_path):
    """reports/feed with a page and a folder; a secret outside of it, and links that lead out."""
    feed = tmp_path / "reports" / "feed"
    (feed / "data_docs" / "2026-11-01").mkdir(parents=True)
    (feed / "data_docs" / "index.html").write_text("all")
    (feed / "data_docs" / "2026-11-01" / "index.html").write_text("day")
    (feed / "data_docs" / ".index.lock").write_text("")
    (feed / "data_docs" / "keys.pem").write_text("secret")
    (tmp_path / "secret.html").write_text("secret")
    (tmp_path / "reports" / "other").mkdir()
    (tmp_path / "reports" / "other" / "index.html").write_text("other")
    (feed / "out.html").symlink_to(tmp_path / "secret.html")
    (feed / "up").symlink_to(tmp_path)
    return tmp_path / "reports"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("data_docs/index.html", "all"),
        ("data_docs/", "all"),
        ("data_docs/2026-11-01/index.html", "day"),
    ],
)
def test_a_page_below_the_root_is_found(reports, path, text):
    assert report_file(reports, "feed", path).read_text() == text


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("feed", "../../secret.html"),
        ("feed", "data_docs/2026-11-01/../index.html"),
        ("feed", "../other/index.html"),
        ("feed", "/etc/passwd"),
        ("feed", "out.html"),
        ("feed", "up/secret.html"),
        ("feed", "data_docs/.index.lock"),
        ("feed", "data_docs/keys.pem"),
        ("feed", "data_docs/none.html"),
        ("feed", ""),
        ("feed", "a\0b.html"),
        ("feed", "x/" * 4000),
        ("..", "secret.html"),
        ("../..", "etc/passwd"),
        (".", "feed/data_docs/index.html"),
        ("", "feed/data_docs/index.html"),
        ("nobody", "index.html"),
    ],
)
def test_a_file_outside_the_root_or_of_another_kind_is_not_found(reports, name, path):
    assert report_file(reports, name, path) is None


@pytest.fixture
def status(reports, monkeypatch, pipelines):
    """Ask a route as somebody: Airflow's own guard, sign-in and (empty) tables."""
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi.testclient import TestClient

    from airflow import settings
    from windrow_airflow.pages import web

    pipelines("feed")
    monkeypatch.setenv("WINDROW_HOME", str(reports.parent))
    import_all_models()
    Base.metadata.create_all(settings.engine)
    manager = create_auth_manager()
    client = TestClient(web.app, raise_server_exceptions=False)

    def ask(path, role=None):
        headers = {}
        if role is not None:
            user = SimpleAuthManagerUser(username="ada", role=role or None)
            headers = {"Authorization": f"Bearer {manager.generate_jwt(user)}"}
        return client.get(path, headers=headers)

    return ask


PAGES = ("/", "/pipelines/feed", "/reports/feed/data_docs/index.html")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_for_signed_in_people_with_a_right_to_it(status, path):
    assert status(path).status_code == 401
    assert status(path, "").status_code == 403
    answer = status(path, "viewer")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/pipelines/mine", "/metrics"])
def test_a_store_that_does_not_answer_is_a_page_with_the_next_move(status, pipelines, monkeypatch, path):
    pipelines("mine")
    silent = {
        "WINDROW_TABLES": "s3://windrow/nobody",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    for name, value in silent.items():
        monkeypatch.setenv(name, value)
    answer = status(path, "viewer")
    assert answer.status_code == 503
    assert "StoreUnavailable: the store at http://127.0.0.1:9 does not answer." in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_an_invalid_token_is_refused(status, reports):
    from fastapi.testclient import TestClient

    from windrow_airflow.pages import web

    client = TestClient(web.app, raise_server_exceptions=False)
    assert client.get("/", headers={"Authorization": "Bearer x.y.z"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/reports/feed/none.html",
        "/reports/feed/%2e%2e/%2e%2e/secret.html",
        "/reports/feed/..%2f..%2fsecret.html",
        "/reports/..%2f..%2fsecret.html",
        "/reports/feed//etc/passwd",
        "/reports/feed/up/secret.html",
        "/reports/nobody/index.html",
        "/pipelines/nobody",
    ],
)
def test_a_file_outside_the_root_is_not_found_even_by_an_admin(status, path):
    assert status(path, "admin").status_code == 404
