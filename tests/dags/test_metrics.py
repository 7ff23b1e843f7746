"""Metrics: the same figures as the tables, bounded in number, for Prometheus and for Airflow's own exporter."""

from __future__ import annotations

import atexit
import json
import re
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from windrow.config import find
from windrow.home import Home
from windrow.io.delta import tables
from windrow.io.ledger import table as ledger
from windrow.io.registers import clocks, publications
from windrow.io.registers.recent import Recent
from windrow.jobs.upkeep import alerts, metrics
from windrow.jobs.upkeep.health import look
from windrow.jobs.upkeep.metrics import METRICS, PARTITIONS
from windrow.schemas import LATE, PUBLICATIONS
from windrow_airflow.pages import fleet
from windrow_airflow.pages import metrics as page

from .conftest import PROJECT
from .test_fleet import NAMES, TEN, database, now, observe, places, publish  # noqa: F401 - fixtures

Figures = dict[tuple[str, ...], float]


def figures(text: str) -> Figures:
    """By name of the metric and values of its labels, sorted by label."""
    return {
        (one.name, *(one.labels[name] for name in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def measured(names, places, now) -> Figures:  # noqa: F811
    known = Recent()
    return figures(metrics.text(metrics.samples(look(names, places, now, known=known), places, now, known)))


def test_figures_are_those_of_the_tables(places, now):  # noqa: F811
    alerts.look("kept_back", places, now, runs=None, notified=lambda pipeline, condition: ())
    found = measured(NAMES, places, now)
    assert {name: found["windrow_status", name] for name in NAMES} == {"good": 0, "kept_back": 5, "mute": 4, "slow": 3}
    assert found["windrow_alerts", "blocked", "kept_back"] == 1
    assert [found["windrow_watermark_lag_seconds", "0", "slow", f"slow.{side}"] for side in ("served", "clicks")] == [
        180,  # landed a minute ago, and its clock then stood two minutes behind
        3600,
    ]
    assert found["windrow_waiting_records", "0", "slow", "slow.clicks"] == 500
    assert found["windrow_landing_age_seconds", "good"] == 60
    assert found["windrow_held_seconds", "good"] == 0
    assert found["windrow_held_seconds", "slow"] == 60  # since the one landing that is known
    assert found["windrow_publications_total", "good"] == 13
    assert (found["windrow_blocked_intervals", "kept_back"], found["windrow_blocked_intervals", "good"]) == (1, 0)
    assert [found["windrow_rows", "good", state] for state in ("positive", "negative", "unknown")] == [25, 140, 40]
    assert found["windrow_label_rate", "good"] == 20 / 160
    assert found["windrow_unknown_rate", "good"] == 40 / 200
    end = Home(find("good", places.pipelines), places).pipeline.start + 13 * TEN
    assert found["windrow_publication_age_seconds", "good"] == pytest.approx((now - end).total_seconds())
    assert found["windrow_promise_seconds", "good"] == (10 + 31 + 1 + 15 + 2 + 5) * 60
    assert not [key for key in found if key[0] == "windrow_publish_delay_seconds"]  # the register does not say when


def test_landings_are_counted_by_topic_and_outcome_and_the_least_time_left_is_shown(places, now):  # noqa: F811
    home = Home(find("good", places.pipelines), places)
    zeros = {
        "epoch": 0,
        "batch": 1,
        "idle": False,
        "next_offset": 9,
        "end_offset": 9,
        "clock_at": now,
        "newest_at": now,
    }
    rows = [
        {**zeros, "topic": "good.served", "partition": n, "landed": 10 * n, "quarantined": n, "skipped": 0}
        | {"landed_at": now - timedelta(hours=n), "oldest_offset": 0, "retention_s": 86_400.0}
        for n in (1, 2)
    ]
    clocks.record(home, 1, rows)
    found = measured(["good"], places, now)
    assert found["windrow_records_total", "landed", "good", "good.served"] == 30
    assert found["windrow_records_total", "quarantined", "good", "good.served"] == 3
    judged_again = {**rows[1], "landed": 22, "quarantined": 0, "reconsidered": 2, "batch": 2}
    clocks.record(home, 2, [rows[0], judged_again])
    found = measured(["good"], places, now)
    assert found["windrow_records_total", "landed", "good", "good.served"] == 32
    assert found["windrow_records_total", "quarantined", "good", "good.served"] == 3  # a counter never goes down
    assert found["windrow_retention_left_seconds", "good", "good.served"] == 22 * 3600


def test_what_waits_for_the_clock_has_figures(places, now):  # noqa: F811
    home = Home(find("slow", places.pipelines), places)
    zeros = {"epoch": 0, "partition": 0, "batch": 1, "idle": False, "next_offset": 9, "end_offset": 9}
    first = home.pipeline.start + 13 * TEN  # what is before it is closed
    row = {**zeros, "landed_at": now, "clock_at": first + home.pipeline.after + home.pipeline.grace}
    served = {**row, "topic": "slow.served", "newest_at": now, "landed": 30, "bytes": 1500}
    clicks = {**row, "topic": "slow.clicks", "newest_at": first - TEN, "landed": 10, "bytes": 500}
    clocks.record(home, 1, [served, clicks])
    found = measured(["slow"], places, now)
    assert found["windrow_unclosed_rows", "slow"] == 30
    assert found["windrow_unclosed_bytes", "slow"] == 1500
    assert found["windrow_unclosed_age_seconds", "slow"] == (now - first - TEN).total_seconds()
    assert found["windrow_unclosed_bounds_exceeded", "slow"] == 0


def test_late_and_flip_rates_are_lines_per_row_of_the_newest_intervals(places, now):  # noqa: F811
    home = Home(find("good", places.pipelines), places)
    start = home.pipeline.start
    row = dict.fromkeys(PUBLICATIONS.names) | {"number": 14, "interval": start, "interval_end": start + TEN}
    row |= {"rows": 200, "positive": 0, "negative": 200, "unknown": 0, "config_hash": home.pipeline.config_hash}
    tables.append_once(home.table("publications"), PUBLICATIONS, [row], app_id=publications.APP_ID, version=14)
    line = dict.fromkeys(LATE.names) | {"interval": start, "publication": 14, "pass": 1, "kind": "late_label"}
    line |= {"subject": "r", "topic": "t", "epoch": 0, "partition": 0, "event_time": start}
    lines = [
        {**line, "offset": n, "state_before": "negative", "state_after": "positive" if n else "negative"}
        for n in range(4)
    ]
    tables.append_once(ledger.path_of(home), LATE, lines, app_id=ledger.APP_ID, version=1)
    found = measured(["good"], places, now)
    assert found["windrow_late_rate", "good"] == 4 / (13 * 200)
    assert found["windrow_flip_rate", "good"] == 3 / (13 * 200)


def test_of_many_partitions_only_those_that_are_furthest_behind_have_figures(places, now):  # noqa: F811
    home = Home(find("good", places.pipelines), places)
    zeros = {"epoch": 0, "batch": 1, "idle": False, "next_offset": 9, "end_offset": 9, "landed_at": now}
    rows = [
        {**zeros, "topic": "good.served", "partition": n, "clock_at": now - timedelta(seconds=n), "newest_at": now}
        for n in range(PARTITIONS + 50)
    ]
    others = {**rows[0], "topic": "good.clicks"}, {**rows[0], "partition": 999, "clock_at": None}
    clocks.record(home, 1, [*rows, *others])
    found = measured(["good"], places, now)
    shown = {int(key[1]) for key in found if key[0] == "windrow_waiting_records"}
    assert shown == {999, *range(51, PARTITIONS + 50)}
    assert ("windrow_watermark_lag_seconds", "999", "good", "good.served") not in found


def test_a_pipeline_that_cannot_be_read_has_its_status_and_takes_no_other_along(places, now):  # noqa: F811
    (places.home / "tables" / "mute" / "clock" / "_delta_log" / f"{0:020}.json").write_text("")
    found = measured(["mute", "good"], places, now)
    assert [key for key in found if "mute" in key] == [("windrow_status", "mute")]
    assert found["windrow_status", "mute"] == 6
    assert found["windrow_status", "good"] == 0


def test_the_page_shows_what_its_reader_may_see_and_asks_who_it_is(places, now, database, monkeypatch):  # noqa: F811
    from airflow.api_fastapi.app import create_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    from windrow_airflow.pages import web

    manager = create_auth_manager()
    client = TestClient(web.app, raise_server_exceptions=False)
    assert client.get("/metrics").status_code == 401
    token = manager.generate_jwt(SimpleAuthManagerUser(username="ada", role="viewer"))
    headers = {"Authorization": f"Bearer {token}"}
    whole = client.get("/metrics", headers=headers)
    assert whole.headers["content-type"] == page.TYPE
    assert {key[1] for key in figures(whole.text) if key[0] == "windrow_status"} >= set(NAMES)
    monkeypatch.setattr(web, "_may_see", lambda name, user: name == "mute")
    assert {key[1] for key in figures(client.get("/metrics", headers=headers).text) if key[0] == "windrow_status"} == {
        "mute"
    }


def test_the_command_prints_the_same_text_or_writes_it_whole(places, tmp_path, monkeypatch):  # noqa: F811
    from windrow.cli import app

    monkeypatch.setenv("WINDROW_TABLES", "")
    printed = CliRunner().invoke(app, ["metrics", "good", "slow"])
    assert printed.exit_code == 0, printed.output
    assert "# TYPE windrow_records_total counter" in printed.output
    assert {key[1] for key in figures(printed.output) if key[0] == "windrow_status"} == {"good", "slow"}
    file = tmp_path / "figures.prom"
    written = CliRunner().invoke(app, ["metrics", "good", "--to", str(file)])
    assert (written.exit_code, written.output) == (0, "")
    assert figures(file.read_text())["windrow_status", "good"] == 0


@pytest.fixture
def collector(monkeypatch):
    """A real receiver of OTLP over HTTP; yields (gauge, tags) → value of what came."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    came: Figures = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            import gzip

            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for of_scope in of_resource.scope_metrics:
                    for one in of_scope.metrics:
                        for point in one.gauge.data_points:
                            tags = sorted((tag.key, tag.value.string_value) for tag in point.attributes)
                            came[one.name, *(value for _, value in tags)] = point.as_double or point.as_int
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
    yield came
    server.shutdown()
    server.server_close()
    thread.join()


def test_airflows_own_exporter_gets_them_by_opentelemetry(places, now, collector, monkeypatch):  # noqa: F811
    from airflow.sdk._shared.observability.metrics import otel_logger
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils
    from opentelemetry import metrics as otel

    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    try:
        assert page.export(["slow"], places, now) > 10
        otel.get_meter_provider().force_flush()
    finally:
        otel.get_meter_provider().shutdown()
        atexit.unregister(otel_logger.flush_otel_metrics)  # what a task's process does at its end
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
    assert collector["airflow.windrow.status", "slow"] == 3
    assert collector["airflow.windrow.waiting_records", "0", "slow", "slow.clicks"] == 500


def test_without_an_exporter_that_knows_tags_nothing_is_measured(places, now, monkeypatch):  # noqa: F811
    monkeypatch.setattr(fleet, "measure", lambda *_: pytest.fail("it measured"))
    assert page.export(["slow"], places, now) == 0
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    assert page.export(["slow"], places, now) == 0


def exposed(name: str) -> str:
    return f"{name}_total" if METRICS[name].is_counter else name


def test_the_list_in_the_documents_is_complete_and_has_kind_and_labels():
    text = (PROJECT / "docs/METRICS.md").read_text()
    rows = re.findall(r"^\| `(windrow_\w+)` \| (\w+) \| (.*?) \|", text, re.MULTILINE)
    assert {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows} == {
        exposed(name): ("counter" if one.is_counter else "gauge", one.labels) for name, one in METRICS.items()
    }


def test_the_board_shows_every_metric_and_no_other():
    board = json.loads((PROJECT / "docker" / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert {name for query in queries for name in re.findall(r"windrow_\w+", query)} == {exposed(n) for n in METRICS}
