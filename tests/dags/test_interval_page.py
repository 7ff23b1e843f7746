"""The page of one interval and the page of one row: what they show, who may see and send, and what a form starts."""

from datetime import UTC, datetime, timedelta

import pytest

from windrow.config import find
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.registers import clocks, judgements, plans, publications
from windrow.places import Places
from windrow.schemas import PUBLICATIONS
from windrow.semantics.intervals import Interval
from windrow.semantics.plan import Plan
from windrow_airflow.pages import interval, overview, request, row

START = datetime(2026, 11, 1, tzinfo=UTC)
TEN = timedelta(minutes=10)
NOBODY = dict.fromkeys(request.FORMS, False)
EVERYBODY = dict.fromkeys(request.FORMS, True)


@pytest.fixture
def places(pipelines, tmp_path):
    pipelines("ads")
    return Places(home=tmp_path / "home", cache=tmp_path, pipelines=(pipelines.folder,))


@pytest.fixture
def home(places):
    """An interval that is published and rebuilt, one that is blocked, and a later one that is published."""
    home = Home(find("ads", places.pipelines), places)
    observe(home, START + timedelta(hours=2))
    first = plan(home, 0, "scheduled__2026-11-01T00:00:00+00:00#1")
    plans.record(home, [first], START + TEN)
    judge(home, first, START + 2 * TEN, "passed", None)
    again = plan(home, 0, "rebuild__7", supersedes=1)
    plans.record(home, [again], START + 3 * TEN, {again.interval: plans.Request("late <clicks>", "<ada>")})
    judge(home, again, START + 4 * TEN, "failed", "unknown rate 24 % > 20 %", severity="warning")
    kept = plan(home, 1, "scheduled__2026-11-01T00:10:00+00:00#1")
    plans.record(home, [kept], START + 5 * TEN)
    judge(home, kept, START + 6 * TEN, "failed", "nulls of <user> 9 % > 1 %")
    later = plan(home, 2, "scheduled__2026-11-01T00:20:00+00:00#1")
    register(home, 1, first, "passed")
    register(home, 2, again, "warned", kind="rebuild", asked_by="<ada>", reason="late <clicks>")
    register(home, 3, later, "passed")
    return home


def observe(home, at):
    zeros = dict.fromkeys(("next_offset", "end_offset", "batch", "epoch", "partition"), 0)
    clock = {**zeros, "newest_at": at, "clock_at": at, "landed_at": at, "idle": False}
    clocks.record(home, 0, [{"topic": topic, **clock} for topic in home.pipeline.topics])


def plan(home, number, run, supersedes=None):
    at = START + number * TEN
    pins = {"ads.served": 4, "ads.clicks": 5 + (supersedes or 0)}
    return Plan(
        "ads", run, Interval(at, at + TEN), pins, home.pipeline.config_hash, supersedes=supersedes, drained=True
    )


def judge(home, made, at, verdict, why, severity="critical"):
    report = str(home.places.reports("ads") / "data_docs" / made.id / "index.html")
    line = {
        "plan": made.id,
        "interval": made.interval.start,
        "judged_at": at,
        "report": report,
        "bound": "at most 0.01",
    }
    judgements.record(
        home,
        [
            {**line, "metric": "key_null_rate", "value": 0.0625, "verdict": verdict, "severity": severity, "why": why},
            {**line, "metric": "rows_outside_interval", "value": 0.0, "verdict": "passed", "severity": "critical"},
        ],
    )


def register(home, number, made, verdict, kind="train", **more):
    line = dict.fromkeys(PUBLICATIONS.names) | publications.columns_of(made)
    line |= {"number": number, "verdict": verdict, "kind": kind, "published_at": START + number * TEN, **more}
    line |= {
        "rows": 1_200,
        "positive": 20,
        "negative": 140,
        "unknown": 40,
        "left_duplicate": 0,
        "training_version": number,
    }
    path = home.table("publications")
    tables.append_once(path, PUBLICATIONS, [line], app_id=publications.APP_ID, version=number)


def words(page):
    return " ".join(page.split())


def test_every_plan_verdict_and_publication_of_an_interval_is_on_its_page(home, places):
    page = interval.page("ads", "2026-11-01T00:00:00Z", places, NOBODY)
    assert "<p>Warned. It closes when" in page
    run = "/dags/ads.training/runs/scheduled__2026-11-01T00%3A00%3A00%2B00%3A00"
    assert page.count(f'href="{run}"') == 2  # of its plan, and of its publication
    assert "by &lt;ada&gt;: late &lt;clicks&gt;" in page
    assert "<script" not in page
    assert page.index("Published as number 2") < page.index("Published as number 1")
    assert "up to ads.clicks batch 6, ads.served batch 4" in page
    assert "unknown rate 24 % &gt; 20 %" in page
    assert "<td>key_null_rate</td><td" in page
    assert '<td class="n">0.0625</td>' in words(page)
    assert page.count('<td class="n">1,200</td>') == 2
    assert page.count("data_docs/") == 2
    assert "../../../reports/ads/data_docs/" in page
    assert 'href="2026-11-01T00:10:00Z">later</a>' in page
    assert ">earlier</a>" not in page  # the pipeline starts here


def test_a_blocked_interval_offers_the_form_of_an_override_filled_in_to_who_may_send_it(home, places):
    page = interval.page("ads", "2026-11-01T00:10:00Z", places, EVERYBODY)
    assert "<p>Blocked." in page
    assert 'action="2026-11-01T00:10:00Z/override"' in page
    assert 'name="interval" value="2026-11-01T00:10:00Z" readonly' in page
    assert "/rebuild" not in page  # nothing is published of it
    assert "nulls of &lt;user&gt; 9 % &gt; 1 %" in page
    read_only = interval.page("ads", "2026-11-01T00:10:00Z", places, NOBODY)
    assert "<form" not in read_only
    assert "windrow override ads --interval 2026-11-01T00:10:00Z" in read_only


def test_a_published_interval_offers_a_rebuild_of_itself_as_a_dry_run(home, places):
    page = interval.page("ads", "2026-11-01T00:00:00Z", places, EVERYBODY)
    assert 'name="from" value="2026-11-01T00:00:00Z"' in page
    assert 'name="to" value="2026-11-01T00:10:00Z"' in page
    assert 'name="dry_run" checked' in page
    assert "/override" not in page
    assert "is paused" not in page
    waits = interval.page("ads", "2026-11-01T00:00:00Z", places, EVERYBODY, ["rebuild"])
    assert "ads.rebuild is paused: unpause it, or its run waits" in waits


def test_an_interval_without_anything_on_record_has_a_page_and_what_is_no_interval_has_none(home, places):
    assert "No run has planned it yet" in interval.page("ads", "2026-11-01T01:20:00Z", places, EVERYBODY)
    assert "<p>Open." in interval.page("ads", "2026-11-01T04:00:00Z", places, EVERYBODY)
    for text in ("2026-11-01T00:05:00Z", "2026-10-01T00:00:00Z", "2026-11-01", "<b>"):
        assert interval.page("ads", text, places, EVERYBODY) is None


def test_an_interval_that_runs_passed_by_is_a_hole(home, places):
    register(home, 4, plan(home, 5, "scheduled__x#1"), "passed")
    assert "<p>Hole." in interval.page("ads", "2026-11-01T00:30:00Z", places, NOBODY)


def test_the_strip_and_the_register_of_a_pipeline_lead_to_the_pages_of_intervals(home, places):
    page = overview.pipeline_page("ads", places)
    assert page.count('href="ads/intervals/2026-11-01T00:00:00Z"') == 3  # the cell and both publications
    assert '<a class="s-blocked" href="ads/intervals/2026-11-01T00:10:00Z"' in page
    assert 'href="ads/row"' in page


@pytest.fixture
def ask(home, places):
    """Ask a route as somebody, with Airflow's own guard and sign-in."""
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from fastapi.testclient import TestClient

    from airflow import settings
    from windrow_airflow.pages import web

    import_all_models()
    Base.metadata.create_all(settings.engine)
    manager, client = create_auth_manager(), TestClient(web.app, raise_server_exceptions=False, follow_redirects=False)

    def asked(method, path, role="admin", **more):
        token = manager.generate_jwt(SimpleAuthManagerUser(username="ada", role=role))
        headers = {"Authorization": f"Bearer {token}", "Host": "here", **more.pop("headers", {})}
        return client.request(method, path, headers=headers, **more)

    return asked


OWN = {"Sec-Fetch-Site": "same-origin"}
BLOCKED = "/pipelines/ads/intervals/2026-11-01T00:10:00Z"
FORM = {"interval": "2026-11-01T00:10:00Z", "reason": "a known campaign"}


def test_who_may_only_look_sees_no_form_and_sends_none(ask):
    assert "<form" in ask("GET", BLOCKED).text
    seen = ask("GET", BLOCKED, role="viewer")
    assert seen.status_code == 200
    assert "<form" not in seen.text
    assert ask("POST", f"{BLOCKED}/override", role="viewer", data=FORM, headers=OWN).status_code == 403
    assert ask("GET", "/pipelines/ads/intervals/2026-11-01T00:05:00Z").status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none", "Origin": "http://here"}, 403),
        ({"Origin": "http://there"}, 403),
        ({}, 403),
        ({"Origin": "http://here"}, 404),  # its own page: Airflow of this test has no such DAG
        (OWN, 404),
    ],
)
def test_a_form_of_another_site_starts_nothing(ask, headers, status):
    assert ask("POST", f"{BLOCKED}/override", data=FORM, headers=headers).status_code == status


def test_a_form_starts_a_run_under_the_name_of_who_sent_it(ask, home):
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.db import synchronize_log_template
    from airflow.utils.session import create_session

    from windrow_airflow.factory import override_dag

    synchronize_log_template()

    dag = override_dag(home.pipeline)
    with create_session() as session:
        session.merge(DagBundleModel(name="b"))
        session.flush()
        session.merge(DagModel(dag_id=dag.dag_id, bundle_name="b", is_paused=True))
    SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="b")
    try:
        refused = ask("POST", f"{BLOCKED}/override", data={**FORM, "reason": "  "}, headers=OWN)
        assert refused.status_code == 400
        assert "reason" in refused.json()["detail"]
        assert 'name="unpause" checked' in ask("GET", BLOCKED).text
        answer = ask("POST", f"{BLOCKED}/override", data={**FORM, "unpause": "on"}, headers=OWN)
        assert answer.status_code == 303
        with create_session() as session:
            assert not session.get(DagModel, "ads.override").is_paused
            [run] = session.query(DagRun).all()
            assert (run.dag_id, run.triggering_user_name, run.conf) == ("ads.override", "ada", FORM)
            assert answer.headers["location"].startswith("/dags/ads.override/runs/manual__")
    finally:
        with create_session() as session:
            session.query(DagRun).delete()
            session.query(DagModel).delete()


def test_the_fields_of_a_rebuild_are_those_of_its_dag():
    body = b"from=a&to=b&reason=c&dry_run=on&other=x"
    assert request.conf_of("rebuild", body) == {"from": "a", "to": "b", "reason": "c", "dry_run": True, "all": False}
    with pytest.raises(request.Refused):
        request.conf_of("training", b"")


def test_a_row_is_explained_on_its_page_and_its_question_is_in_no_address(ask):
    empty = ask("GET", "/pipelines/ads/row", role="viewer")
    assert 'method="post"' in empty.text
    assert "user_id=…" in empty.text
    answer = ask("POST", "/pipelines/ads/row", role="viewer", data={"row": "ads.served/0/7"}, headers=OWN)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert "ads.served/0/7 was not in the topic at the last landing" in answer.text
    assert ask("POST", "/pipelines/ads/row", data={"key": "<user>"}).text.count("&lt;user&gt;") == 1
    long = ask("POST", "/pipelines/ads/row", data={"row": "x" * 9000})
    assert long.status_code == 413


def test_an_event_id_without_a_time_opens_no_landed_file(places):
    assert row.NEEDS_TIME in row.page("ads", places, {"row": "5f0c2a"})
