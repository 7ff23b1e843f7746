"""What a task read and wrote, for OpenLineage's provider: topics → landing tables → training table.

    land       in: topics, with their columns       out: landing tables, rows landed by this run, schema
    join       in: landing tables                   out: candidates
    check      in: candidates, verdict by interval
    publish    in: landing tables                   out: training table, rows, version, schema; what was published
    override   as publish
    reconcile  in: training table, whether it equals a rebuild

Everything is from the job's result, the pipeline file and the tables' logs. Names and counts only. Where the provider
is not installed, nothing imports this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    RunFacet,
    data_quality_assertions_dataset,
    dataset_version_dataset,
    output_statistics_output_dataset,
    schema_dataset,
)

from windrow.config import find
from windrow.home import Home, Table
from windrow.places import Places
from windrow.semantics.judgement import may_publish

DONE = "done"
"""`outcome` of a job that has not failed (`windrow.jobs.run`)."""


@attr.define
class PublicationsRunFacet(RunFacet):
    """The publications of a run: number, interval, rows by label state, verdict, why, version of the training table."""

    publications: list[dict[str, Any]]


def of_job(job: str, pipeline: str, result: Mapping[str, Any]) -> OperatorLineage:
    """Return what a job read and wrote; of a job that failed, only what it read; nothing of a job without lineage.

    Args:
        result: the job's result line.
    """
    places = Places.from_env(os.environ)
    if job not in _OF:
        return OperatorLineage()
    found = _OF[job](Home(find(pipeline, places.pipelines, places.expectations), places), result)
    if result.get("outcome") != DONE:
        found.outputs = []
    return found


def _land(home: Home, result: Mapping[str, Any]) -> OperatorLineage:
    counts = result.get("topics", {})
    outputs = [
        _output(home.landing(topic), counts[topic]["landed"] if topic in counts else None)
        for topic in home.pipeline.topics
    ]
    return OperatorLineage(inputs=[_topic(home, topic) for topic in home.pipeline.topics], outputs=outputs)


def _join(home: Home, result: Mapping[str, Any]) -> OperatorLineage:
    return OperatorLineage(inputs=_landing(home), outputs=[_output(home.table(Table.CANDIDATES))])


def _check(home: Home, result: Mapping[str, Any]) -> OperatorLineage:
    verdicts = [
        data_quality_assertions_dataset.Assertion(
            assertion="verdict",
            success=may_publish(one["verdict"]),
            name=str(one["interval"]),
            actual=one["verdict"],
            description=one["why"],
        )
        for one in result.get("judged", ())
    ]
    return OperatorLineage(inputs=[_judged(home.table(Table.CANDIDATES), verdicts)])


def _publish(home: Home, result: Mapping[str, Any]) -> OperatorLineage:
    published = list(result.get("publications", ()))
    rows = sum(one["rows"] for one in published)
    version = max((one["training_version"] for one in published), default=None)
    run = {"windrow_publications": PublicationsRunFacet(publications=published)} if published else {}
    training = _output(home.table(Table.TRAINING), rows, version)
    return OperatorLineage(inputs=_landing(home), outputs=[training], run_facets=run)


def _reconcile(home: Home, result: Mapping[str, Any]) -> OperatorLineage:
    unexplained = result.get("unexplained")
    found = [
        data_quality_assertions_dataset.Assertion(
            assertion="published rows plus late ledger are a rebuild",
            success=unexplained == 0,
            expected="0",
            actual="unknown" if unexplained is None else str(unexplained),
        )
    ]
    return OperatorLineage(inputs=[_judged(home.table(Table.TRAINING), found if result else [])])


_OF: Mapping[str, Callable[[Home, Mapping[str, Any]], OperatorLineage]] = {
    "land": _land,
    "join": _join,
    "check": _check,
    "publish": _publish,
    "override": _publish,
    "reconcile": _reconcile,
}


def _topic(home: Home, topic: str) -> InputDataset:
    columns = {name: kind for stream in home.pipeline.streams_of(topic) for name, kind in stream.columns.items()}
    namespace = f"kafka://{home.places.kafka.partition(',')[0]}"
    return InputDataset(namespace, topic, facets={"schema": _schema(columns.items())})


def _landing(home: Home) -> list[InputDataset]:
    return [InputDataset(*_name(path := home.landing(t)), facets=_schema_of(path)) for t in home.pipeline.topics]


def _judged(path: str, found: list[data_quality_assertions_dataset.Assertion]) -> InputDataset:
    facet = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions=found)
    facets = {"dataQualityAssertions": facet} if found else {}
    return InputDataset(*_name(path), facets=_schema_of(path), inputFacets=facets)


def _output(path: str, rows: int | None = None, version: int | None = None) -> OutputDataset:
    facets = _schema_of(path)
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    return OutputDataset(
        *_name(path), facets=facets, outputFacets={"outputStatistics": statistics} if rows is not None else {}
    )


def _name(path: str) -> tuple[str, str]:
    """Namespace and name of a table as OpenLineage writes them."""
    if "://" in path:
        parts = urlsplit(path)
        return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")
    return "file", path


def _schema_of(path: str) -> dict[str, DatasetFacet]:
    """The columns that the log of a table names; nothing before there is one."""
    from windrow.io.delta import tables

    table = tables.opened(path)
    if table is None:
        return {}
    return {"schema": _schema((one.name, getattr(one.type, "type", str(one.type))) for one in table.schema().fields)}


def _schema(columns: Iterable[tuple[str, str]]) -> schema_dataset.SchemaDatasetFacet:
    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=str(kind)) for name, kind in columns]
    return schema_dataset.SchemaDatasetFacet(fields=fields)
