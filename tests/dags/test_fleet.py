"""The page of all pipelines: who sees which, filters in the address, and the same figures as the tables."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from windrow.config import find
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.registers import clocks, distributions, judgements, publications, recent
from windrow.places import Places
from windrow.schemas import MEASURES, PUBLICATIONS
from windrow.semantics.fleet.health import Seen, Status
from windrow.semantics.intervals import grid_around
from windrow.text import short_instant_text
from windrow_airflow.pages import between, fleet, interval, overview

TEN = timedelta(minutes=10)


@pytest.fixture
def now():
    return datetime.now(UTC)


@pytest.fixture
def places(pipelines, tmp_path, now):
    """Four pipelines of three hours: good, blocked, silent, and held by a partition with a backlog."""
    start = grid_around(now - timedelta(hours=3), TEN)[0]
    for name in ("good", "kept_back", "mute", "slow"):
        pipelines(name, start=short_instant_text(start))
    places = Places(home=tmp_path / "home", cache=tmp_path, pipelines=(pipelines.folder,))
    homes = {name: Home(find(name, places.pipelines), places) for name in ("good", "kept_back", "mute", "slow")}
    for name, home in homes.items():
        landed = now - timedelta(minutes=1)
        served = now - timedelta(hours=2) if name == "mute" else landed
        clicked = now - timedelta(hours=1) if name == "slow" else landed
        observe(home, landed, {f"{name}.served": (served, 0), f"{name}.clicks": (clicked, 500 * (name == "slow"))})
        publish(home, range(13))
    kept = homes["kept_back"].pipeline.start + 13 * TEN
    row = {"plan": "p", "interval": kept, "judged_at": now, "verdict": "failed", "severity": "critical"}
    judgements.record(homes["kept_back"], [{**row, "metric": "nulls", "why": "nulls of <user> 9 % > 1 %"}])
    return places


def observe(home, landed, topics):
    zeros = dict.fromkeys(("partition", "epoch", "batch", "next_offset"), 0)
    rows = [
        {**zeros, "topic": topic, "newest_at": newest, "end_offset": lag, "landed_at": landed, "idle": not lag}
        | {"clock_at": newest if lag else landed - timedelta(minutes=2)}
        for topic, (newest, lag) in topics.items()
    ]
    clocks.record(home, 0, rows)


def publish(home, numbers):
    start = home.pipeline.start
    rows = [
        dict.fromkeys(PUBLICATIONS.names)
        | {"number": n + 1, "interval": start + n * TEN, "interval_end": start + (n + 1) * TEN}
        | {
            "plan_id": f"{home.pipeline.name}{n}",
            "rows": 200,
            "positive": 25,
            "negative": 140,
            "unknown": 40,  # of the positives, 20 have a complete list of labels
            "left_duplicate": 0,
            "verdict": "passed",
            "kind": "train",
        }
        for n in numbers
    ]
    path = home.table("publications")
    tables.append_once(path, PUBLICATIONS, rows, app_id=publications.APP_ID, version=len(rows))
    complete = {"name": "positive_complete", "value": 20.0}
    measured = [{"plan": row["plan_id"], "interval": row["interval"], **complete} for row in rows]
    tables.append_once(home.table("measures"), MEASURES, measured, app_id="t", version=len(rows))


NAMES = ["good", "kept_back", "mute", "slow"]


def test_each_pipeline_has_the_worst_of_its_states_and_the_worst_is_first(places, now):
    found = fleet.look(NAMES, places, now, {})
    assert [(one.seen.name, one.status.words) for one in found] == [
        ("kept_back", "blocked"),
        ("mute", "silent"),
        ("slow", "held"),
        ("good", "healthy"),
    ]
    page = fleet.page(found, fleet.Filter(), now)
    assert [page.index(f'<tr id="{one.seen.name}"') for one in found] == sorted(
        page.index(f'<tr id="{name}"') for name in NAMES
    )


def test_a_pipeline_whose_tables_cannot_be_judged_is_not_said_to_have_published_nothing(places, now):
    (found,) = fleet.look(["good"], places, now, {})
    broken = replace(found, seen=Seen("good", broken="its file now says 20m"))
    page = fleet.page([broken], fleet.Filter(), now)
    assert "<td>unknown</td>" in page
    assert "nothing published" not in page
    assert "nothing has landed" not in page


def test_the_page_shows_what_the_tables_say_in_words(places, now):
    page = fleet.page(fleet.look(NAMES, places, now, {}), fleet.Filter(), now)
    assert "nulls of &lt;user&gt; 9 % &gt; 1 %" in page
    assert "windrow override kept_back --interval" in page
    assert "mute.served is silent" in page
    assert "held by slow.clicks/0: 500 records behind its end" in page
    good = page[page.index('<tr id="good"') :]
    assert "label rate: newest 12.50%, lowest 12.50%, highest 12.50%" in good
    assert "<small>13 published," in good
    assert '<td class="n">20.00%</td><td class="n">0</td>' in good
    assert "<script" not in page


def test_filters_and_the_refresh_are_in_the_address(places, now):
    found = fleet.look(NAMES, places, now, {})
    silent = fleet.page(found, fleet.Filter(status="silent", name="U"), now)
    assert silent.count("<tr id=") == 1
    assert '<tr id="mute"' in silent
    assert 'href="?name=U&amp;status=held"' in silent
    assert '<meta http-equiv="refresh" content="30">' in silent
    assert "none with this name and status" in fleet.page(found, fleet.Filter(status="paused"), now)
    still = fleet.page(found, fleet.Filter(name='"><b>', refresh="off"), now)
    assert "http-equiv" not in still
    assert 'value="&#34;&gt;&lt;b&gt;"' in still


def test_the_next_look_sees_what_was_published_meanwhile(places, now):
    before = fleet.look(["good"], places, now, {})[0]
    publish(Home(find("good", places.pipelines), places), range(14))
    after = fleet.look(["good"], places, now, {})[0]
    assert (after.seen.published_until or now) - (before.seen.published_until or now) == TEN


@pytest.fixture
def database(pipelines):
    from airflow.models import import_all_models
    from airflow.models.base import Base

    from airflow import settings

    import_all_models()
    Base.metadata.create_all(settings.engine)


def test_tables_are_looked_at_between_requests_until_nobody_asks(monkeypatch):
    looks, seen = [], threading.Event()

    def look(name):
        looks.append(name)
        if len(looks) >= 6:
            seen.set()
        if name == "mute":
            raise OSError("its table is gone")

    monkeypatch.setattr(between, "EVERY", 0.001)
    looking = between.Between(look)
    looking.asked_for(["good", "mute"])
    looking.asked_for(["good"])
    thread = looking._thread
    assert seen.wait(60)
    assert set(looks) == {"good", "mute"}
    monkeypatch.setattr(between, "LASTS", 0.0)
    thread.join(60)
    assert not thread.is_alive()

    monkeypatch.setattr(between, "LASTS", 60.0)
    looks.clear()
    seen.clear()
    looking.asked_for(["good"])
    assert seen.wait(60)
    assert set(looks) == {"good"}
    monkeypatch.setattr(between, "LASTS", 0.0)


def test_what_was_looked_at_between_requests_is_not_read_again(places, now, monkeypatch):
    monkeypatch.setenv("WINDROW_HOME", str(places.home))
    monkeypatch.setenv("WINDROW_PIPELINES", str(places.pipelines[0]))
    fleet._known.cache_clear()
    read = []
    whole = recent.Lookup.read_files
    monkeypatch.setattr(
        recent.Lookup, "read_files", lambda self, paths, *more: read.extend(paths) or whole(self, paths, *more)
    )
    fleet.between.__wrapped__()._look("good")
    assert read
    read.clear()
    assert fleet.look(["good"], places, now, {})[0].status == Status.HEALTHY
    assert not read


def test_paused_dags_and_failed_runs_come_from_airflow(places, now, database):
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    def run(dag, n, state):
        made = DagRun(dag_id=dag, run_id=f"r{n}", run_type=DagRunType.SCHEDULED, state=state)
        made.run_after, made.triggered_by = now - timedelta(minutes=10 - n), DagRunTriggeredByType.TIMETABLE
        made.data_interval_start = made.run_after
        return made

    with create_session() as session:
        session.merge(DagBundleModel(name="b"))
        session.flush()
        for dag, paused in (("good.land", True), ("good.training", False), ("slow.land", False)):
            session.merge(DagModel(dag_id=dag, is_paused=paused, bundle_name="b"))
        session.flush()
        session.add_all([run("slow.land", 1, "failed"), run("good.training", 1, "failed")])
        session.flush()
        session.add_all([run("slow.land", 2, "running"), run("good.training", 2, "success")])
    try:
        known = fleet.runs(NAMES, now)
        found = {one.seen.name: one for one in fleet.look(NAMES, places, now, known)}
        assert known["good"].paused == ["good.land"]
        assert found["good"].status.words == "paused"
        assert "good.land is paused" in found["good"].reason
        assert known["slow"].failed == {"slow.land": now - timedelta(minutes=9)}
        assert found["slow"].status.words == "failing"
        assert found["mute"].status.words == "silent"
    finally:
        with create_session() as session:
            session.query(DagRun).delete()
            session.query(DagModel).delete()


def test_a_reader_sees_the_pipelines_whose_dags_they_may_read_and_no_other(places, database, monkeypatch):
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from windrow_airflow.pages import web

    manager = create_auth_manager()
    client = TestClient(web.app, raise_server_exceptions=False)
    token = manager.generate_jwt(SimpleAuthManagerUser(username="ada", role="viewer"))
    headers = {"Authorization": f"Bearer {token}"}
    whole = client.get("/", headers=headers)
    assert whole.status_code == 200
    assert "form-action 'self'" in whole.headers["content-security-policy"]
    assert all(f'<tr id="{name}"' in whole.text for name in NAMES)
    assert client.get("/?status=silent", headers=headers).text.count("<tr id=") == 1
    monkeypatch.setattr(web, "_may_see", lambda name, user: name == "mute")
    some = client.get("/", headers=headers)
    assert 'id="mute"' in some.text
    assert not [name for name in ("good", "kept_back", "slow") if f"{name}</a>" in some.text or f"{name}." in some.text]
    assert client.get("/pipelines/good", headers=headers).status_code == 403


def test_the_page_of_a_pipeline_has_its_strip_its_clock_and_who_published(places, now):
    home = Home(find("slow", places.pipelines), places)
    start, report = home.pipeline.start, str(places.reports("slow") / "data_docs" / "a" / "index.html")
    row = dict.fromkeys(PUBLICATIONS.names) | {"number": 14, "interval": start, "interval_end": start + TEN}
    row |= {"rows": 1_200, "positive": 20, "negative": 140, "unknown": 40, "left_duplicate": 0, "report": report}
    row |= {"verdict": "passed", "kind": "rebuild", "asked_by": "<ada>", "reason": "late <b>", "plan_id": "p9"}
    tables.append_once(home.table("publications"), PUBLICATIONS, [row], app_id=publications.APP_ID, version=14)
    measures = [{"plan": "p9", "interval": start, "name": "unknown.side_silent", "value": 40.0}]
    tables.append_once(home.table("measures"), MEASURES, measures, app_id="t", version=14)
    judged = {"plan": "p9", "interval": start, "metric": "label_rate_z", "value": -4.25, "bound": ">= -4 and <= 4"}
    judgements.record(home, [{**judged, "verdict": "failed", "severity": "warning", "judged_at": now}])

    page = overview.pipeline_page("slow", places)
    begun = f"{start:%Y-%m-%d %H:%M:%S}Z"
    words = f"{begun} rebuilt, 1,200 rows"
    link = f"slow/intervals/{short_instant_text(start)}"
    assert f'<a class="s-rebuilt" href="{link}" title="{words}" aria-label="{words}">r</a>' in page
    ended = now - TEN - timedelta(minutes=now.minute % 10)
    assert f'<a class="s-open" href="slow/intervals/{ended:%Y-%m-%dT%H:%M}:00Z"' in page
    assert "slow.clicks/0, holds the clock" in page
    assert f"<td>{now - timedelta(hours=1):%Y-%m-%d %H:%M:%S}" in page
    assert "by &lt;ada&gt;: late &lt;b&gt;" in page
    assert "side_silent 40" in page
    assert '<td class="off">-4.2 (&gt;= -4 and &lt;= 4)</td>' in page
    assert "<script" not in page

    kept = overview.pipeline_page("kept_back", places)
    assert '<a class="s-blocked" href="kept_back/intervals/' in kept


def test_columns_that_have_moved_are_on_the_page_the_farthest_first(places, now):
    home = Home(find("good", places.pipelines), places)
    assert "Drift of features" not in overview.pipeline_page("good", places)
    row = {"interval": home.pipeline.start + 12 * TEN, "plan": "good12", "kind": "number", "recorded_at": now}
    row |= {"buckets": [1], "rows": [9]}
    moved = [("age", 0.0312, None), ("<price>", 0.5049, 0.25), ("new", None, None)]
    distributions.record(home, [{**row, "column": name, "psi": psi, "ks": ks} for name, psi, ks in moved])
    page = overview.pipeline_page("good", places)
    assert page.index("<td>&lt;price&gt;</td>") < page.index("<td>age</td>")
    assert '<td class="n">0.50</td><td class="n">0.25</td>' in "".join(page.splitlines())
    assert "<td>new</td>" not in page


def test_a_publication_leads_to_the_run_that_made_it(places):
    made = {"run": "scheduled__2026-11-01T00:00:00+00:00#2", "kind": "train"}
    link = "/dags/good.training/runs/scheduled__2026-11-01T00%3A00%3A00%2B00%3A00"
    assert interval.run_link(made, "good") == link
    for run in (None, "rollback__3", "train 2026", "scheduled__x/../../y"):
        assert interval.run_link({"run": run, "kind": "train"}, "good") == ""
    assert interval.run_link({**made, "kind": "rebuild"}, "good") == ""
