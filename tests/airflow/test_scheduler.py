"""A real Airflow with its scheduler: scheduled runs, a backfill after a late label, a reader, a blocked interval."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.running_airflow import INTERVAL, PERSON, Running, ordered, until
from support.servers.web_server import WebServer, web_server
from windrow.platform.processes import MARK
from windrow.platform.servers.airflow_api import AirflowRefused

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(2700)]


def test_the_scheduler_publishes_and_a_backfill_publishes_again_with_the_late_label(running: Running) -> None:
    api, start = running.airflow.api, running.start
    assert running.airflow.kept == running.airflow.location, "noted when it was started"
    for dag_id in ("good.training", "reader", "model"):
        api.unpause(dag_id)
    running.landed("good")
    wanted = {start, start + INTERVAL}
    first = until(
        lambda: (s := running.standing("good")).keys() >= wanted and s, "the intervals with rows are published"
    )
    assert [row["shown_id"] for row in running.rows("good")] == [f"s{n}" for n in range(300)]
    assert running.ordered_ids("good") == {f"s{n}" for n in range(0, 300, 10)}
    oldest = until(lambda: api.dag_runs("good.training", state="success"), "the first run has ended")[0]
    run = oldest["dag_run_id"]
    assert set(api.task_states("good.training", run).values()) == {"success"}
    assert {row["run"] for row in first.values()} == {run}  # one run took every closed interval along,
    along = {row["number"] for row in running.standing("good").values() if row["run"] == run}  # empty ones too

    # the job's result is the task's XCom, and its report and tables are a click away
    result = api.xcom("good.training", run, "publish")
    assert {row["number"] for row in result["publications"]} == along
    links = api.links("good.training", run, "publish")
    assert links["Tables"] == f"{running.airflow.url}/windrow/pipelines/good"
    running.start_engine()  # what ran until here has started its own Spark
    page = api.page(urlsplit(links["Tables"]).path)
    assert all(f'<td class="n">{row["training_version"]}</td>' in page for row in first.values())

    # the next run finds its interval published: it ends without Spark
    second = until(lambda: api.dag_runs("good.training", state="success")[1:], "the second run has ended")[0]
    states = api.task_states("good.training", second["dag_run_id"])
    assert states["wait"] == "success"
    assert {states[t] for t in ("join", "check", "publish")} == {"skipped"}

    # a label that comes after the publication, and a backfill of that interval
    running.world.produce([ordered("good", start, 3)])
    running.land("good")
    assert "s3" not in running.ordered_ids("good")
    api.backfill("good.training", start, start, reprocess="completed")
    again = until(
        lambda: (row := running.standing("good")[start])["number"] > first[start]["number"] and row,
        "the interval is republished",
    )
    assert again["positive"] == first[start]["positive"] + 1
    assert [row["shown_id"] for row in running.rows("good")] == [f"s{n}" for n in range(300)]
    assert "s3" in running.ordered_ids("good")
    assert "In the engine, process" in api.task_log("good.training", run, "join", attempt=2)
    other = start + INTERVAL
    assert running.standing("good")[other]["number"] == first[other]["number"]  # exactly that interval

    # whoever follows the asset reads exactly what was published, at its own table version
    result = until(lambda: _read(running, again["number"]), "the reader has read the new publication")
    assert (result["read"], result["read_positive"]) == (again["rows"], again["positive"])
    assert (result["training_version"], result["verdict"]) == (again["training_version"], again["verdict"])

    # the README's six lines, on this pipeline
    model = until(lambda: api.dag_runs("model", state="success"), "the README's DAG has trained")[-1]["dag_run_id"]
    assert "code_version" in api.task_log("model", model, "model")  # the pin


def _read(running: Running, number: int) -> dict | None:
    """What the reader DAG read of a publication, from the newest of its runs that saw it; None if none did."""
    api = running.airflow.api
    for run in reversed(api.dag_runs("reader", state="success")):
        for result in api.xcom("reader", run["dag_run_id"], "read"):
            if result["number"] == number:
                return result
    return None


def test_people_who_write_at_once_are_all_answered(running: Running) -> None:
    api, names = running.airflow.api, [f"note_{n}" for n in range(60)]
    with ThreadPoolExecutor(16) as people:
        made = list(people.map(lambda key: api.call("POST", "/api/v2/variables", {"key": key, "value": "x"}), names))
        gone = list(people.map(lambda key: api.call("DELETE", f"/api/v2/variables/{key}"), names))
    assert [answer["key"] for answer in made] == names
    assert gone == [{}] * len(names)


def test_a_run_whose_window_is_open_is_deferred_and_its_log_names_who_holds_the_clock(running: Running) -> None:
    """Nothing lands any more, so the newest run waits."""
    api = running.airflow.api

    def waiting() -> str | None:
        for run in api.dag_runs("good.training", state="running"):
            if api.task_states("good.training", run["dag_run_id"])["wait"] == "deferred":
                return str(run["dag_run_id"])
        return None

    run = until(waiting, "a run waits, deferred")
    log = until(
        lambda: (text := api.task_log("good.training", run, "wait")) and "Held by" in text and text, "it says why"
    )
    assert "is open: it closes at watermark" in log
    assert "Held by af.good." in log


def test_a_critical_failure_keeps_the_candidate_back_until_a_person_overrides_by_the_form(running: Running) -> None:
    api, start = running.airflow.api, running.start
    running.landed("bad")
    with web_server() as web:
        _tell(running, web, {"pipelines": ["bad"], "conditions": ["blocked"]})
        api.unpause("bad.training")
        run = until(lambda: api.dag_runs("bad.training", state="failed"), "the first run has failed")[0]["dag_run_id"]
        api.pause("bad.training")
        running.run("windrow.alerts")
    [(_, told)] = web.posted  # by this look or a scheduled one; the others told nobody
    assert told["text"].startswith(f"bad: blocked ({start:%Y-%m-%dT%H:%M:%SZ})")
    assert f"{running.airflow.url}/windrow/pipelines/bad" in told["text"]
    states = api.task_states("bad.training", run)
    assert (states["join"], states["check"], states["trained"]) == ("success", "failed", "upstream_failed")
    passed = running.standing("bad")  # intervals without a row, as far as the run took some along
    assert states["publish"] == ("success" if passed else "skipped")
    assert "null_rate_max" in api.task_log("bad.training", run, "check")
    assert start not in running.standing("bad")

    # the failed task's link leads to the report, behind the sign-in
    link = urlsplit(api.links("bad.training", run, "check")["Report"] or "").path
    report = api.page(link)
    assert "never_sent" in report
    assert PERSON not in report
    _refused(running, link)

    # a form that says nothing makes no run; one that does is carried out, and says who
    interval = f"{start:%Y-%m-%dT%H:%M:%SZ}"
    api.unpause("bad.override")
    for wrong in ({}, {"interval": interval}, {"interval": "now", "reason": "because"}):
        with pytest.raises(AirflowRefused) as refused:
            api.trigger("bad.override", wrong)
        assert refused.value.status in (400, 422)
    running.run("bad.override", {"interval": interval, "reason": "the column starts tomorrow"})
    row = running.standing("bad")[start]
    assert (row["verdict"], row["overridden_by"]) == ("overridden", "admin")
    assert row["override_reason"] == "the column starts tomorrow"
    assert len([r for r in running.rows("bad") if r["_interval"] == start]) == 150
    assert "by admin: the column starts tomorrow" in api.page("/windrow/pipelines/bad")


def _tell(running: Running, web: WebServer, what: dict[str, list[str]]) -> None:
    """Have people told by a webhook from now on."""
    connection = {"connection_id": "hook", "conn_type": "http", "host": web.address}
    running.airflow.api.call("POST", "/api/v2/connections", connection)
    arguments = {"http_conn_id": "hook", "json": {"text": "{{ alert.text }}"}}
    entry = {"class": "airflow.providers.http.notifications.http.HttpNotifier", "arguments": arguments, **what}
    running.world.places.notifiers_file.write_text(json.dumps({"hook": entry}))


def _refused(running: Running, page: str) -> None:
    """401 without a sign-in, 403 without a right, 404 outside the root; a viewer may look."""
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, Request, build_opener

    opener = build_opener(ProxyHandler({}))

    def status(path: str, user: str | None) -> int:
        headers = {"Authorization": f"Bearer {running.api_of(user).token}"} if user else {}
        try:
            return int(opener.open(Request(running.airflow.url + path, headers=headers), timeout=30).status)
        except HTTPError as refused:
            return refused.code

    pages = (page, "/windrow/", "/windrow/pipelines/bad", "/windrow/reports/bad/../../platform/airflow/passwords.json")
    assert [status(path, None) for path in pages[:3]] == [401, 401, 401]
    assert [status(path, "nobody") for path in pages[:3]] == [403, 403, 403]
    assert [status(path, "viewer") for path in pages[:3]] == [200, 200, 200]
    outside = (
        "/windrow/reports/bad/%2e%2e/%2e%2e/platform/airflow/passwords.json",
        "/windrow/reports/bad/..%2f..%2fplatform%2fairflow%2fpasswords.json",
        "/windrow/reports/..%2fplatform/airflow/passwords.json",
        "/windrow/reports/bad//etc/passwd",
        "/windrow/pipelines/nobody_knows",
    )
    assert [status(path, "admin") for path in outside] == [404] * len(outside)
    with pytest.raises(AirflowRefused) as refused:  # who may look may not decide
        running.api_of("viewer").trigger("bad.override", {"interval": "2026-11-01T00:00:00Z", "reason": "because"})
    assert refused.value.status == 403


def test_the_daily_dags_run_side_by_side_and_their_reports_are_a_click_away(running: Running) -> None:
    """Maintenance changes no row while everything else runs.

    An unpaused DAG is scheduled at once. The analysis of lag has a form, which is sent for the date of that run and so
    takes its place.
    """
    api, start = running.airflow.api, running.start
    before = running.rows("good")
    instants = {"from": start.isoformat(), "to": (start + 2 * INTERVAL).isoformat()}
    due = datetime.fromisoformat(api.get("/api/v2/dags/good.lag_impact")["next_dagrun_logical_date"])
    runs = {"lag_impact": api.trigger("good.lag_impact", {**instants, "lags": "1m"}, due)["dag_run_id"]}
    for kind in ("reconcile", "lag_impact", "maintenance"):
        api.unpause(f"good.{kind}")
    with pytest.raises(AirflowRefused):
        api.trigger("good.maintenance", {"retention": "soon"})
    for kind in ("reconcile", "maintenance"):
        of = f"good.{kind}"
        runs[kind] = until(lambda of=of: api.dag_runs(of), f"{of} is scheduled")[0]["dag_run_id"]
    for kind, run in runs.items():
        running.finished(f"good.{kind}", run, "success")

    assert running.rows("good") == before
    for kind, task in (("reconcile", "summarise"), ("reconcile", "card"), ("lag_impact", "lag_impact")):
        link = api.links(f"good.{kind}", runs[kind], task)["Report"]
        assert "good" in api.page(urlsplit(link or "").path), kind
    shown = api.page("/windrow/pipelines/good")
    titles = {"every judgement", "daily summary", "data card", "lag impact"}
    assert {title for title in titles if title in shown} == titles


def test_keys_are_erased_by_the_form_under_the_name_of_who_sent_it(running: Running, tmp_path: Path) -> None:
    api, ctx = running.airflow.api, running.contexts["bad"]
    running.landed("bad")
    api.unpause("bad.erase")
    keys = tmp_path / "keys.csv"
    keys.write_text(f"who\n{PERSON} 8\n")
    form = {"keys_file": str(keys), "why": "request 7"}
    with pytest.raises(AirflowRefused):
        api.trigger("bad.erase", {"why": "request 7"})
    with pytest.raises(AirflowRefused) as refused:
        running.api_of("viewer").trigger("bad.erase", form)
    assert refused.value.status == 403

    def people(topic: str, column: str) -> set[str]:
        return {row[column] for row in running.world.table(ctx, f"landing/{topic}")}

    [shown], [orders] = (stream.topics for stream in ctx.pipeline.streams)
    before = people(shown, "who")
    run = running.run("bad.erase", form)
    assert before - people(shown, "who") == {f"{PERSON} 8"}
    trained = {row["who"] for row in running.rows("bad")} if running.standing("bad") else set()
    assert f"{PERSON} 8" not in people(orders, "customer") | trained
    [key] = [row for row in running.world.table(ctx, "erasures") if row["kind"] == "key"]
    assert (key["asked_by"], key["reason"]) == ("admin", "request 7")
    report = api.page(urlsplit(api.links("bad.erase", run, "erase")["Report"] or "").path)
    assert "Erasure" in report
    assert PERSON not in report


def test_workers_that_a_killed_scheduler_would_leave_behind_are_known(running: Running) -> None:
    scheduler = running.airflow.processes["scheduler"]
    leader = scheduler.process()
    assert leader is not None
    workers = [one for one in leader.children() if "LocalExecutor" in " ".join(one.cmdline())]
    assert workers
    assert {worker.environ().get(MARK) for worker in workers} == {scheduler.mark}
