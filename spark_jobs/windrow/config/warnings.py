"""Warnings about a pipeline file that is valid, but may not mean what its author wants."""

from __future__ import annotations

from collections.abc import Iterator

from windrow.config.problems import Finding
from windrow.config.streams import PipelineFields, located
from windrow.semantics.erasure.keys import columns_in

READS_WORTH_KNOWING = 20
"""More reads of each label than this are worth a warning."""


def warnings_of(pipeline: PipelineFields) -> Iterator[Finding]:
    """Warnings about a pipeline, as findings: location and message."""
    if not pipeline.label_streams:
        yield (
            ("right",),
            "no stream has role: label; every row will be without a label (state unknown or negative)",
        )
    for where, stream in located(pipeline):
        if stream.event_id is None:
            yield where, "has no event_id; a producer's retry becomes a row of its own"
    for index, right in enumerate(pipeline.right):
        reads = 1 + (right.window.before + right.window.after) / pipeline.interval
        if reads > READS_WORTH_KNOWING:
            yield (
                ("right", index, "window"),
                f"every row of {right.name} is read about {reads:.0f} times (1 + window / interval); "
                "a longer interval reads less",
            )
        if right.role == "feature" and "silence" in right.model_fields_set:
            yield (
                ("right", index, "silence"),
                "has no effect on a feature stream; labels alone decide the state",
            )
    for stream in pipeline.right:
        if pipeline.erase and columns_in(stream, pipeline.left, pipeline.erase.by) is None:
            yield (
                ("erase", "by"),
                f"{stream.name} lacks a column of these; its records of an erased key stay in its landing table",
            )
    if pipeline.idle.mode == "wait":
        yield (
            ("idle",),
            "mode wait: a partition without new records holds the clock, and nothing closes until it has some",
        )
