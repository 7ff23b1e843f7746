"""export: training rows as files for other programs, with a manifest that checks them."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from json import dumps as json_text
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from windrow.cli.show import AsJson, console, print_json
from windrow.jobs.options import LENGTH, NAME, TIME
from windrow.jobs.run import BadRequest, context
from windrow.outcomes import Condition
from windrow.text import counted, instant_of, size_text
from windrow.training.export.manifest import Manifest

_FORMATS = "parquet, arrow, tfrecord or webdataset"


def _option(metavar: str, help: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=False)


def export(
    pipeline: Annotated[str | None, typer.Argument(help="Name of the pipeline.", metavar="PIPELINE")] = None,
    to: Annotated[str | None, _option("PATH", "An empty folder, or s3://bucket/prefix.")] = None,
    format: Annotated[str, _option("FORMAT", f"{_FORMATS}; default: parquet.")] = "parquet",
    begin: Annotated[
        str | None, _option(TIME, "First served time; default: the start of the pipeline.", "--from")
    ] = None,
    until: Annotated[
        str | None, _option(TIME, "End of the served times, not included; default: what is published.")
    ] = None,
    at: Annotated[
        str | None, _option("STATE", "A publication, an instant, or snapshot:NAME; default: the newest.")
    ] = None,
    labels: Annotated[str | None, _option("WHICH", "complete (default), known or all.")] = None,
    matured: Annotated[str | None, _option(LENGTH, "Cut labels to this time after serving.")] = None,
    negatives: Annotated[float | None, _option("SHARE", "Keep this share of the negatives, with weights.")] = None,
    seed: Annotated[int | None, _option("N", "Seed of that sample.")] = None,
    attribute: Annotated[str | None, _option("HOW", "Credits: all, first_touch, last_touch or linear.")] = None,
    survival: Annotated[str | None, _option(NAME, "Survival data of this label stream.")] = None,
    delays: Annotated[bool, typer.Option("--delays", help="Add delays of labels and observed ages.")] = False,
    unpublished: Annotated[str | None, _option("WHAT", "Holes in the range: refuse (default) or skip.")] = None,
    columns: Annotated[str | None, _option("NAME,…", "Only these columns; default: all.")] = None,
    shuffle: Annotated[int | None, _option("SEED", "Shuffle all rows; default: served order.")] = None,
    shard_rows: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Rows of each file; default: 100000.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Write by Spark, for ranges that are larger than this machine.")
    ] = False,
    verify: Annotated[str | None, _option("PATH", "Compare the files of an export with its manifest.")] = None,
    json: AsJson = False,
) -> None:
    """Write training rows to files, in served order or shuffled, with a manifest of pin, arguments and hashes.

    The arguments are those of `windrow.training.read`. A killed export goes on where it was, if it is started again
    with the same arguments.

    \b
    windrow export feed --to /data/ranker-7 --at snapshot:ranker-7 --shuffle 7
    windrow export feed --to /data/tf --format tfrecord --from 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z
    windrow export feed --to s3://bucket/november --spark
    windrow export --verify /data/ranker-7
    """
    from windrow.training import export as way_out

    if verify is not None:
        if pipeline or to:
            raise BadRequest("--verify needs nothing else: the manifest says what the files are")
        manifest, what = way_out.verify(verify), f"{verify} is as it was written"
    elif pipeline is None or to is None:
        raise BadRequest("an export needs PIPELINE and --to PATH; --verify PATH checks one")
    else:
        chosen = {"labels": labels, "matured": matured, "negatives": negatives, "seed": seed, "attribute": attribute}
        chosen |= {"survival": survival, "delays": delays or None, "unpublished": unpublished, "shard_rows": shard_rows}
        options: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        state = int(at) if at is not None and at.isdecimal() else at
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        write = _by_spark(pipeline) if spark else way_out.export
        way_out.require_possible(format, shard_rows or 1)
        _register(pipeline, to)  # before its rows are looked for: an erasure names it, or it has none of their rows
        try:
            manifest = write(
                pipeline,
                to,
                cast(way_out.Format, format),
                begin,
                until,
                at=state,
                columns=names,
                shuffle=shuffle,
                places=context(pipeline).places,
                **options,
            )
        except Condition:
            if (there := Manifest.read(way_out.location(to))) is not None:  # an export that was finished before
                _register(pipeline, to, there)
            raise
        _register(pipeline, to, manifest)
        what = f"{to} is complete"
    if json:
        print_json(_brief(manifest))
        return
    size = size_text(sum(shard.bytes for shard in manifest.shards))
    console.print(f"{what}: {counted(manifest.rows, 'row')} in {counted(len(manifest.shards), 'file')}, {size}")


def _by_spark(pipeline: str) -> Callable[..., Manifest]:
    """Return the export of the session that is started here."""
    from windrow.jobs.spark import spark_for
    from windrow.training.export.spark import export

    ctx = context(pipeline)
    return partial(export, spark_for(f"export {pipeline}", ctx.places, ctx.pipeline))


def _register(pipeline: str, to: str, manifest: Manifest | None = None) -> None:
    """Record where the rows are, so that an erasure can name the copy; without a manifest, that some may be there."""
    from windrow.io.registers import exports

    ctx = context(pipeline)
    row: dict[str, Any] = {"location": to if "://" in to else str(Path(to).absolute()), "exported_at": ctx.now()}
    row |= {"asked_by": getpass.getuser(), "code_version": version("windrow")}
    if manifest is not None:
        span, state = manifest.pin["span"], json_text(manifest.pin["publications"])
        row |= {"rows": manifest.rows, "state": state}
        row |= {"range_start": instant_of(span[0]), "range_end": instant_of(span[1])}
    exports.record(ctx.home, row)


def _brief(manifest: Manifest) -> dict[str, Any]:
    return {"asked": manifest.asked, "rows": manifest.rows, "files": len(manifest.shards), "pin": manifest.pin}


COMMANDS: dict[str, Callable[..., None]] = {"export": export}
