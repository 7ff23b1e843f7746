"""What columns mean, in words: from the pipeline file, and of the columns that Windrow adds."""

from __future__ import annotations

from windrow import columns
from windrow.config import Pipeline, RightStream
from windrow.text import duration_text

ADDED = {
    columns.STATE: "positive, negative or unknown.",
    columns.REASON: "Why the state is unknown or the list of labels may be incomplete; null: the labels are complete.",
    columns.EVENT_TIME: "Event time.",
    columns.TOPIC: "Row id: Kafka topic.",
    columns.EPOCH: "Row id: epoch of the topic.",
    columns.PARTITION: "Row id: Kafka partition.",
    columns.OFFSET: "Row id: Kafka offset.",
    columns.BATCH: "Landing batch of the left row.",
    columns.ARRIVED_AT: "Landing time.",
    columns.INTERVAL: "Start of the row's interval.",
    columns.OBSERVED_UNTIL: "Clock of the label side when the plan was made.",
    columns.PUBLICATION: "Number of the publication that holds the row.",
    columns.DATE: "UTC date of the interval; partition column.",
}
"""Meaning of the columns that Windrow adds to rows and to elements of streams."""


def meaning_of(pipeline: Pipeline, name: str) -> str:
    """Return what a column means, or a field of a right stream (`clicks.engaged_at`).

    It is empty where nothing describes it.
    """
    described = pipeline.describe.columns.get(name) if pipeline.describe else None
    stream = next((one for one in pipeline.right if one.name == name), None)
    derived = _of_stream(stream) if stream else _of_label(pipeline, name)
    if described or derived:
        return " ".join(filter(None, (described, derived)))
    return ADDED.get(name.rpartition(".")[2], "")


def meaning_of_row(pipeline: Pipeline) -> str:
    """Return what one row of the training table is."""
    key = ", ".join(pipeline.left.key)
    derived = f"One row per served event of {pipeline.left.name} (key: {key}), with every matching event of: "
    derived += ", ".join(stream.name for stream in pipeline.right) + "."
    described = pipeline.describe.row if pipeline.describe else None
    return f"{described}\n{derived}" if described else derived


def _of_stream(stream: RightStream) -> str:
    what = "Labels" if stream.role == "label" else "Features"
    first = f"{duration_text(stream.window.before)} before" if stream.window.before else "the served time"
    kept = {"all": "", "first": ", only the first of them", "last": ", only the last of them"}[stream.take]
    where = f", where {stream.where}" if stream.where else ""
    return f"{what} from {first} to {duration_text(stream.window.after)} after it{where}{kept}."


def _of_label(pipeline: Pipeline, name: str) -> str:
    text = pipeline.labels.get(name)
    return f"Derived label: {text}" if text else ""
