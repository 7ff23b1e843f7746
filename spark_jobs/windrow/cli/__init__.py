"""The `windrow` command: the jobs that Airflow runs, on a laptop, and listings of what they did."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import version as installed
from typing import Annotated

import typer

from windrow.cli import (
    card,
    demo,
    explain,
    export,
    jobs,
    lag,
    late,
    listings,
    local,
    pipelines,
    rebuild,
)
from windrow.cli.fleet import alerts, health, metrics
from windrow.cli.grouped import ByTask
from windrow.cli.show import print_error
from windrow.cli.traffic import canary, simulate
from windrow.cli.upkeep import erase, maintenance, snapshots
from windrow.jobs.causes import known_cause
from windrow.jobs.run import keep_to_owner, leave
from windrow.outcomes import ExitCode, exit_code
from windrow.text import escaped

EXIT_CODES = "\n".join(
    textwrap.fill(code.meaning, 78, initial_indent=f"{code:>4}  ", subsequent_indent=" " * 6) for code in ExitCode
)
"""Every exit code with its meaning, as lines for a terminal."""

HELP = f"""Join what was served with its labels, and publish training data.

On a laptop these are exactly the jobs that Airflow runs, and listings of what they did.

\b
windrow up                                                      Kafka and Airflow
windrow simulate --pipeline-file .windrow/pipelines/sim.yaml    traffic to try it on
windrow land sim
windrow clock sim                                               what is closed, and what it waits for
windrow train sim
windrow publications sim

\b
Every command has --json: standard output is then one JSON document, and an
error is one JSON object on standard error.

\b
Exit codes:
{EXIT_CODES}
"""

app = typer.Typer(
    cls=ByTask,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(pipelines.app, name="pipeline")
COMMANDS: dict[str, Callable[..., None]] = {
    **local.COMMANDS,
    "demo": demo.demo,
    **simulate.COMMANDS,
    **canary.COMMANDS,
    **jobs.COMMANDS,
    **rebuild.COMMANDS,
    **late.COMMANDS,
    **lag.COMMANDS,
    **maintenance.COMMANDS,
    **erase.COMMANDS,
    **snapshots.COMMANDS,
    **export.COMMANDS,
    **card.COMMANDS,
    **health.COMMANDS,
    **alerts.COMMANDS,
    **metrics.COMMANDS,
    **listings.COMMANDS,
    **explain.COMMANDS,
    "scenario": pipelines.scenario,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"windrow {installed('windrow')}")
        raise typer.Exit


@app.callback()
def windrow(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options before a command."""


_UsageError = typer.BadParameter.__mro__[1]
"""Wrong options and arguments, as the Click has it that Typer brings under a private name."""


def main() -> None:
    """Run the command line; an error is one message and its exit code, with a traceback only under WINDROW_DEBUG=1."""
    as_json = "--json" in sys.argv[1:]
    try:
        keep_to_owner()
        leave(app(standalone_mode=not as_json) or ExitCode.DONE)
    except SystemExit as ended:
        leave(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except Exception as error:
        if exit_code(error) is ExitCode.FAILED and not isinstance(error, _UsageError):
            if os.environ.get("WINDROW_DEBUG"):
                raise
            error = known_cause(error) or error
        code = ExitCode.BAD_INPUT if isinstance(error, _UsageError) else exit_code(error)
        print_error(error, code) if as_json else _print_message(error, code)
        leave(code)


def _print_message(error: Exception, code: ExitCode) -> None:
    print(escaped(f"{type(error).__name__}: {error}", keep="\n"), file=sys.stderr)
    if code is ExitCode.FAILED:
        print("(WINDROW_DEBUG=1 shows the traceback)", file=sys.stderr)
