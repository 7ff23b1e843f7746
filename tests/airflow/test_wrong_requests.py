"""Hostile and impossible requests to a running Airflow: refused before Spark starts, with a reason; who may do what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import psutil
import pytest

from support.running_airflow import INTERVAL, Running, until
from windrow.platform.servers.airflow_api import AirflowRefused

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]

OUTSIDE, QUOTES, TEMPLATE, MEGABYTE = "../..", "'; DROP TABLE dag; --\"", "{{ 12345 * 6789 }}", "x" * 1_000_000
RENDERED = str(12345 * 6789)
HOSTILE = (OUTSIDE, QUOTES, TEMPLATE, MEGABYTE)
FIELDS = {
    "rebuild": ("from", "to", "dry_run", "all"),
    "override": ("interval",),
    "lag_impact": ("from", "to", "lags", "pauses", "drains", "partitions", "windows", "graces", "sample"),
    "maintenance": ("retention",),
}
"""By form, the fields that take no free text."""
NEGATIVE = {"lags": "-5m", "pauses": "-1h", "windows": "-5m", "graces": "-1s", "partitions": "-1", "sample": -0.5}
TOO_LONG = {"rebuild": ("reason",), "override": ("reason",), "lag_impact": ("sides", "policies")}


def test_a_hostile_field_makes_no_run(running: Running) -> None:
    api, good = running.airflow.api, _good_forms(running)
    for kind, fields in FIELDS.items():
        wrong: list[tuple[str, Any]] = [(name, value) for name in fields for value in HOSTILE]
        wrong += [(name, value) for name in TOO_LONG.get(kind, ()) for value in (MEGABYTE, QUOTES * 50)]
        wrong += list(NEGATIVE.items()) if kind == "lag_impact" else []
        wrong += [("retention", "-7d")] if kind == "maintenance" else []
        before = api.dag_runs(f"good.{kind}")
        for name, value in wrong:
            with pytest.raises(AirflowRefused, match=name) as refused:
                api.trigger(f"good.{kind}", {**good[kind], name: value})
            assert refused.value.status in (400, 422), (kind, name)
        assert api.dag_runs(f"good.{kind}") == before


def test_a_hostile_name_is_no_dag_and_no_run(running: Running) -> None:
    api = running.airflow.api
    for name in (OUTSIDE, QUOTES, TEMPLATE):
        with pytest.raises(AirflowRefused) as refused:
            api.trigger(name, {})
        assert refused.value.status in (404, 405), name
    before = api.dag_runs("good.rebuild")
    for run_id in HOSTILE:
        body = {"dag_run_id": run_id, "logical_date": None, "conf": _good_forms(running)["rebuild"]}
        with pytest.raises(AirflowRefused) as refused:
            api.call("POST", "/api/v2/dags/good.rebuild/dagRuns", body)
        assert refused.value.status in (400, 422), run_id[:20]
    assert api.dag_runs("good.rebuild") == before


def test_what_no_form_can_say_is_refused_by_the_first_task_without_spark(running: Running) -> None:
    """A range that ends before it begins, an instant off the grid, the future; a hostile reason stays text."""
    running.landed("good")
    api, start, good = running.airflow.api, running.start, _good_forms(running)
    backwards = {"from": _text(start + INTERVAL), "to": _text(start)}
    off_grid = _text(start + timedelta(seconds=1))
    asked: tuple[tuple[str, str, dict[str, Any], str], ...] = (
        ("rebuild", "plan", backwards, "at or before it begins"),
        ("override", "override", {"interval": off_grid}, "no interval of good starts at"),
        ("override", "override", {"interval": "2099-01-01T00:00:00Z"}, "no candidate of the interval"),
        ("lag_impact", "lag_impact", {"sides": OUTSIDE}, "is not a side"),
        ("maintenance", "maintenance", {"retention": "1d"}, "is refused"),
    )
    for kind in FIELDS:
        api.unpause(f"good.{kind}")
    reason = {"reason": f"{OUTSIDE} {QUOTES} {TEMPLATE}"}
    runs = []
    for kind, _, conf, _ in asked:
        form = {**good[kind], **conf, **(reason if "reason" in good[kind] else {})}
        runs.append(str(api.trigger(f"good.{kind}", form)["dag_run_id"]))
    for run, (kind, task, conf, why) in zip(runs, asked, strict=True):
        running.finished(f"good.{kind}", run, "failed")
        tries = {one["task_id"]: (one["state"], one["try_number"]) for one in api.task_instances(f"good.{kind}", run)}
        log = api.task_log(f"good.{kind}", run, task)
        assert tries[task] == ("failed", 1), (conf, log[-2000:])
        assert why in log, (conf, log[-2000:])
        assert "spark-submit" not in log, conf
        assert RENDERED not in log, conf


def test_a_rebuild_up_to_the_future_is_refused_before_its_join(running: Running) -> None:
    """Waiting helps, so Airflow would try again in half a minute, twice; a person marks the task as failed instead."""
    running.landed("good")
    api, dag_id = running.airflow.api, "good.rebuild"
    api.unpause(dag_id)
    too_far = {**_good_forms(running)["rebuild"], "to": _text(running.start + timedelta(days=1))}
    run = str(api.trigger(dag_id, too_far)["dag_run_id"])
    until(lambda: api.task_states(dag_id, run)["plan"] == "up_for_retry", "the first try has ended")
    assert "the range reaches past what is closed" in api.task_log(dag_id, run, "plan")
    path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run, safe='')}/taskInstances/plan"
    api.call("PATCH", path, {"new_state": "failed"})
    running.finished(dag_id, run, "failed")
    assert api.task_states(dag_id, run)["join"] == "upstream_failed"


def test_a_viewer_may_look_and_decides_nothing(running: Running) -> None:
    good = _good_forms(running)
    runs = "/api/v2/dags/good.rebuild/dagRuns"
    for path in ("/api/v2/dags", runs, "/windrow/", "/windrow/pipelines/good"):
        assert [_status(running, user, "GET", path) for user in (None, "nobody", "viewer")] == [401, 403, 200], path
    span = {"from_date": _text(running.start), "to_date": _text(running.start)}
    decisions: tuple[tuple[str, str, Any], ...] = (
        ("POST", runs, {"conf": good["rebuild"], "logical_date": None}),
        ("POST", "/api/v2/dags/good.override/dagRuns", {"conf": good["override"], "logical_date": None}),
        ("PATCH", "/api/v2/dags/good.training", {"is_paused": True}),
        ("POST", "/api/v2/backfills", {"dag_id": "good.training", **span}),
        ("DELETE", "/api/v2/dags/good.training", None),
        ("POST", "/api/v2/variables", {"key": "viewer", "value": "x"}),
        ("GET", "/api/v2/connections", None),
        ("GET", "/api/v2/config", None),
    )
    before = running.airflow.api.dag_runs("good.rebuild")
    for method, path, body in decisions:
        found = [_status(running, user, method, path, body) for user in (None, "nobody", "viewer")]
        assert found == [401, 403, 403], (method, path)
    assert running.airflow.api.dag_runs("good.rebuild") == before


def test_an_operator_decides_and_sees_no_connection(running: Running) -> None:
    """docs/SECURITY.md has the table of roles. A form without its fields is refused to whoever may send it: 400."""
    users = ("viewer", "operator", "admin")
    for form in ("override", "rebuild"):
        runs, empty = f"/api/v2/dags/good.{form}/dagRuns", {"conf": {}, "logical_date": None}
        assert [_status(running, user, "POST", runs, empty) for user in users] == [403, 400, 400], form
    for path in ("/api/v2/connections", "/api/v2/variables"):
        assert [_status(running, user, "GET", path) for user in users] == [403, 403, 200], path


def test_a_link_that_leaves_the_reports_is_not_followed(running: Running) -> None:
    home = running.world.places.home
    reports = home / "reports" / "good" / "links"
    reports.mkdir(parents=True)
    (reports / "page.html").write_text("a page")
    secret = home / "platform" / "airflow" / "passwords.json"
    assert secret.exists()
    links = {
        "within.html": reports / "page.html",
        "out.json": secret,
        "up": home,
        "to_bad": home / "reports" / "bad",
        "root": home.anchor,
    }
    for name, target in links.items():
        (reports / name).symlink_to(target)
    outside = ("out.json", "up/platform/airflow/passwords.json", "to_bad/index.html", f"root{secret}", "up/..%2fx.html")
    for user in ("viewer", "admin"):
        assert _status(running, user, "GET", "/windrow/reports/good/links/within.html") == 200
        found = {path: _status(running, user, "GET", f"/windrow/reports/good/links/{path}") for path in outside}
        assert found == dict.fromkeys(outside, 404)
    assert _status(running, None, "GET", "/windrow/reports/good/links/out.json") == 401


def _status(running: Running, user: str | None, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
    """Return the status of the answer to a user, or to somebody who has not signed in."""
    headers = {"Content-Type": "application/json"}
    if user:
        headers["Authorization"] = f"Bearer {running.api_of(user).token}"
    data = json.dumps(body).encode() if body is not None else None
    asked = Request(running.airflow.url + path, data, headers, method=method)
    try:
        return int(build_opener(ProxyHandler({})).open(asked, timeout=60).status)
    except HTTPError as refused:
        return refused.code


def _good_forms(running: Running) -> dict[str, dict[str, Any]]:
    begin, end = _text(running.start), _text(running.start + 2 * INTERVAL)
    return {
        "rebuild": {"from": begin, "to": end, "reason": "as it should be"},
        "override": {"interval": begin, "reason": "as it should be"},
        "lag_impact": {"from": begin, "to": end},
        "maintenance": {},
    }


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def test_nothing_of_the_platform_listens_beyond_the_loopback(running: Running, broker: Any) -> None:
    parts = [part.process() for part in running.airflow.processes.values()]
    parts += [node.process.process() for node in broker.process.nodes]
    assert None not in parts
    listening = {ip for part in parts if part is not None for ip in _listening(part)}
    assert listening  # at least Airflow's and the broker's
    assert listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def _listening(part: psutil.Process) -> set[str]:
    """Addresses on which a process and its children listen; tasks end meanwhile."""
    found = set()
    for each in (part, *part.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            found |= {one.laddr.ip for one in each.net_connections() if one.status == psutil.CONN_LISTEN}
    return found
