"""Lineage: topics, landing tables and training table with counts, verdict and schema, as OpenLineage writes them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from windrow.config import find
from windrow.home import Home
from windrow.io.delta import tables
from windrow.places import Places
from windrow_airflow.job_operators import CheckOperator, PythonJobOperator, SparkJobOperator

from .conftest import PROJECT

LANDED = {"landed": 7, "topics": {"ads.served": {"landed": 5}, "ads.clicks": {"landed": 2}}}
PUBLISHED = [
    {"number": n, "interval": f"2026-11-01T00:{n}0:00Z", "rows": 10 * n, "positive": 1, "negative": 2, "unknown": 3}
    | {"verdict": verdict, "why": why, "training_version": n + 3}
    for n, verdict, why in ((1, "passed", None), (2, "warned", "unknown rate 24 % > 20 %"))
]
JUDGED = [
    {"interval": "2026-11-01T00:10:00Z", "verdict": "passed", "why": None, "report": "r"},
    {"interval": "2026-11-01T00:20:00Z", "verdict": "blocked", "why": "nulls of user_id 100 % ≥ 100 %", "report": "r"},
]


@pytest.fixture
def home(pipelines, tmp_path) -> Home:
    """The pipeline `ads` with a landing and a training table."""
    import pyarrow as pa
    from deltalake import write_deltalake

    pipelines("ads")
    places = Places.from_env({"WINDROW_HOME": str(tmp_path / "home"), "WINDROW_PIPELINES": str(pipelines.folder)})
    made = Home(find("ads", places.pipelines), places)
    write_deltalake(made.landing("ads.served"), pa.table({"user_id": [1], "_batch": [1]}))
    write_deltalake(made.table("training"), pa.table({"user_id": [1], "label_state": ["positive"]}))
    assert tables.opened(made.table("training"))
    return made


@pytest.fixture
def emitted(tmp_path, home):
    """Emit the event of an ended task as Airflow's provider does, into a file; returns what stands there."""
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from airflow.utils.state import TaskInstanceState
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.file import FileConfig, FileTransport

    file = tmp_path / "lineage.jsonl"
    config = FileConfig(log_file_path=str(file), append=True)
    adapter = OpenLineageAdapter(client=OpenLineageClient(transport=FileTransport(config)))
    run = SimpleNamespace(run_id="r")

    def emit(task: Any, result: dict[str, Any], state: str = "success") -> dict[str, Any]:
        task.result = {"outcome": "done", **result}  # as `windrow.jobs.run` reports it
        found = ExtractorManager().extract_metadata(run, task, TaskInstanceState(state), SimpleNamespace())
        unset: dict[str, Any] = dict.fromkeys(("nominal_start_time", "nominal_end_time", "owners", "tags"))
        unset["job_description"] = None
        adapter.complete_task(
            run_id="01941f29-7c00-7087-8906-40e512c257bd",
            job_name=f"ads.{task.task_id}",
            end_time="2026-11-01T00:00:00+00:00",
            task=found,
            **unset,
        )
        return json.loads(file.read_text().splitlines()[-1])

    return emit


def task(kind: type, job: str) -> Any:
    return kind(task_id=job, job=job, pipeline="ads")


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in datasets]


def columns(dataset: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["type"] for one in dataset["facets"]["schema"]["fields"]}


def test_landing_goes_from_topics_to_tables_with_the_rows_of_each(emitted, home):
    event = emitted(task(SparkJobOperator, "land"), LANDED)
    assert names(event["inputs"]) == [("kafka://127.0.0.1:19092", f"ads.{side}") for side in ("clicks", "served")]
    assert columns(event["inputs"][1]) == {"request_id": "string", "user_id": "bigint", "served_at": "timestamp"}
    assert names(event["outputs"]) == [("file", home.landing(f"ads.{side}")) for side in ("clicks", "served")]
    assert [one["outputFacets"]["outputStatistics"]["rowCount"] for one in event["outputs"]] == [2, 5]
    assert columns(event["outputs"][1]) == {"user_id": "long", "_batch": "long"}


def test_publishing_goes_from_landing_to_training_with_rows_version_verdicts_and_schema(emitted, home):
    event = emitted(task(SparkJobOperator, "publish"), {"publications": PUBLISHED})
    assert names(event["inputs"]) == [("file", home.landing(f"ads.{side}")) for side in ("clicks", "served")]
    [training] = event["outputs"]
    assert names([training]) == [("file", home.table("training"))]
    assert columns(training) == {"user_id": "long", "label_state": "string"}
    assert training["outputFacets"]["outputStatistics"]["rowCount"] == 30
    assert training["facets"]["version"]["datasetVersion"] == "5"
    said = event["run"]["facets"]["windrow_publications"]["publications"]
    assert said == [{name: value for name, value in one.items() if value is not None} for one in PUBLISHED]


def test_the_check_says_the_verdict_of_each_interval_also_where_it_failed(emitted, home):
    failed = {"outcome": "Blocked", "message": "…", "judged": JUDGED}
    event = emitted(task(CheckOperator, "check"), failed, "failed")
    [candidates] = event["inputs"]
    assert names([candidates]) == [("file", home.table("candidates"))]
    assertions = candidates["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [(one["name"], one["success"], one["actual"]) for one in assertions] == [
        ("2026-11-01T00:10:00Z", True, "passed"),
        ("2026-11-01T00:20:00Z", False, "blocked"),
    ]
    assert assertions[1]["description"] == "nulls of user_id 100 % ≥ 100 %"


def test_join_and_reconcile_say_what_they_read(emitted, home):
    joined = emitted(task(SparkJobOperator, "join"), {"candidates": 1})
    assert len(joined["inputs"]) == 2
    assert names(joined["outputs"]) == [("file", home.table("candidates"))]
    [training] = emitted(task(SparkJobOperator, "reconcile"), {"unexplained": 3})["inputs"]
    [one] = training["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (one["success"], one["actual"]) == (False, "3")


def test_a_job_that_failed_has_written_nothing_and_one_without_lineage_says_nothing(emitted):
    event = emitted(task(SparkJobOperator, "land"), {"outcome": "BrokerUnreachable", "message": "…"}, "failed")
    assert (len(event["inputs"]), event["outputs"]) == (2, [])
    event = emitted(task(PythonJobOperator, "summarise"), {"report": "…"})
    assert (event["inputs"], event["outputs"]) == ([], [])


def test_tables_in_a_store_are_named_by_bucket_and_key(emitted, monkeypatch):
    from windrow.io.delta import tables as small

    monkeypatch.setattr(small, "opened", lambda path: None)
    monkeypatch.setenv("WINDROW_TABLES", "s3://lake/windrow")
    event = emitted(task(SparkJobOperator, "publish"), {"publications": PUBLISHED})
    assert names(event["outputs"]) == [("s3://lake", "windrow/ads/training")]


def test_the_tasks_that_publish_have_the_topics_as_inlets(pipelines):
    pipelines("ads")
    dags = DagBag(str(PROJECT / "dags")).dags
    for kind, name in (("training", "publish"), ("rebuild", "publish"), ("override", "override")):
        one = dags[f"ads.{kind}"].task_dict[name]
        assert [inlet.uri for inlet in one.inlets] == [f"windrow://topics/ads.{side}" for side in ("clicks", "served")]
        assert [outlet.name for outlet in one.outlets] == ["ads.training"]


def test_an_asset_event_has_the_publications_and_the_newest_with_its_figures():
    from airflow.sdk import Asset

    publish, asset = task(SparkJobOperator, "publish"), Asset("ads.training")
    event = SimpleNamespace(extra=None)
    publish._settle(0, {"publications": PUBLISHED[::-1]}, [asset], {"outlet_events": {asset: event}})
    assert event.extra == {"publications": PUBLISHED[::-1], "newest": PUBLISHED[1]}
    publish._settle(0, {"publications": []}, [asset], {"outlet_events": {asset: event}})
    assert event.extra == {"publications": []}
