"""pipeline check, pipeline list, scenario: what files say, before anything runs on them. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from windrow.cli.show import AsJson, console, print_json
from windrow.config import Pipeline, clash_of, files_by_name, files_of, refusal
from windrow.config import check as check_file
from windrow.config.problems import Finding, Problem
from windrow.home import Home
from windrow.io.column_changes import require_unchanged
from windrow.io.registers import publications
from windrow.jobs.plan.far_start import far_start
from windrow.places import Places
from windrow.scenarios import run_file
from windrow.text import duration_text

app = typer.Typer(help="Check and list pipeline files.", no_args_is_help=True)


def scenario(file: Annotated[Path, typer.Argument(help="The scenario file.")], json: AsJson = False) -> None:
    """Run a scenario file, and compare its rows with those that it expects. Exit code 1 if they differ."""
    report = run_file(file)
    print_json(report.to_json()) if json else console.print(str(report))
    if not report.is_as_expected:
        raise typer.Exit(1)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The pipeline file.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not start Spark: types of expressions stay unknown.")
    ] = False,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="Also compare columns with the newest schemas that the registry has."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Check a pipeline file: each problem with its line, its field and what would be right. Exit code 2 if any.

    It is compared with the tables that the pipeline has already: types and origins of columns stay as they are, and
    so do `start` and `interval` once something is published.

    Spark is started to analyse `where` and `labels` over the declared columns, which takes some seconds.
    """
    places = Places.from_env(os.environ)
    pipeline, warnings = check_file(file, places.expectations)
    if clash := clash_of(file, pipeline.name, places.pipelines):
        raise clash
    home = Home(pipeline, Places.for_tables(os.environ))
    require_unchanged(home)
    publications.require_grid(pipeline, publications.registered_grid(home))
    if not quick:
        from windrow.io import expressions
        from windrow.jobs.spark import spark_for

        if found := expressions.findings(spark_for("pipeline check", places), pipeline):
            raise refusal(file, found)
    if registry:
        warnings = [*warnings, *_compared(file, pipeline, places)]
    if wrong := far_start(home):
        warnings = [*warnings, *refusal(file, [(("start",), str(wrong))]).problems]
    if json:
        print_json(_as_json(file, pipeline, warnings))
        return
    for warning in warnings:
        console.print(f"warning: {warning.at(file)}")
    delay = pipeline.after + pipeline.grace
    console.print(
        f"{pipeline.name} is fine: {', '.join(pipeline.topics)}; "
        f"an interval of {duration_text(pipeline.interval)} closes "
        f"{duration_text(delay)} of watermark after its end; config {pipeline.config_hash[:12]}",
        markup=False,
    )


def _as_json(file: Path, pipeline: Pipeline, warnings: Sequence[Problem]) -> dict[str, Any]:
    return {
        "pipeline": pipeline.name,
        "file": file,
        "topics": pipeline.topics,
        "interval_s": pipeline.interval,
        "closes_after_s": pipeline.after + pipeline.grace,
        "config_hash": pipeline.config_hash,
        "warnings": [vars(warning) for warning in warnings],
    }


def _compared(file: Path, pipeline: Pipeline, places: Places) -> list[Problem]:
    """What landing would make of records of the newest schemas, as warnings.

    Raises:
        PipelineInvalid: no value of a field fits its column, or a schema cannot be read.
        RegistryUnreachable, RegistryUnnamed, SubjectMissing: there is no answer.
    """
    from windrow.config.streams import located
    from windrow.io.landing.registry import Registry
    from windrow.transforms.formats.compare import compared

    wrong: list[Finding] = []
    doubtful: list[Problem] = []
    for where, stream in located(pipeline):
        for topic in stream.topics if stream.format.needs_schemas else ():
            subject = stream.format.subject_of(topic)
            schema = Registry(places, stream.format.registry).latest(subject)
            try:
                of_value = {name: kind for name, kind in stream.columns.items() if name not in stream.origins}
                found = compared(schema, of_value, stream.format.message)
            except ValueError as problem:
                wrong.append(((*where, "format"), f"the newest schema of {subject} cannot be read: {problem}"))
                continue
            for one in found:
                at = (*where, "columns", one.column)
                if one.is_never:
                    wrong.append((at, one.message))
                else:
                    doubtful.extend(refusal(file, [(at, one.message)]).problems)
    if wrong:
        raise refusal(file, wrong)
    return doubtful


@app.command("list")
def list_(json: AsJson = False) -> None:
    """List every pipeline that is found, with its file. Exit code 2 if another file repeats a name."""
    folders = Places.from_env(os.environ).pipelines
    found, clashes = files_by_name(folders)
    if json:
        print_json({name: str(path) for name, path in found.items()})
    else:
        for name, path in sorted(found.items()):
            wrong = "  cannot be used: another file has its name" if len(files_of(name, folders)) > 1 else ""
            console.print(f"{name}  {path}{wrong}")
    if clashes:
        raise clashes[0]
