"""metrics: figures of every pipeline as the text that Prometheus reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from windrow.cli.fleet import names_of
from windrow.cli.show import AsJson, print_json
from windrow.files import write_whole
from windrow.io.registers.recent import Recent
from windrow.jobs.upkeep.health import look
from windrow.jobs.upkeep.metrics import samples, text
from windrow.places import Places


def metrics(
    pipelines: Annotated[list[str] | None, typer.Argument(help="Names of pipelines; all without any.")] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write a file, whole or not at all, instead.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Print figures of every pipeline as Prometheus reads them: the same text as Airflow's page /windrow/metrics.

    docs/METRICS.md lists them. Only the tables are read: that a DAG is paused is known to Airflow alone.

    \b
    windrow metrics
    windrow metrics --to /var/lib/node_exporter/textfile/windrow.prom
    """
    places, now, known = Places.for_tables(os.environ), datetime.now(UTC), Recent()
    names = pipelines or [*filter(str.isidentifier, names_of(places))]
    found = samples(look(names, places, now, known=known), places, now, known)
    if to is not None:
        write_whole(to, text(found))
    if json:
        print_json([vars(one) for one in found])
    elif to is None:
        print(text(found), end="")


COMMANDS: dict[str, Callable[..., None]] = {"metrics": metrics}
