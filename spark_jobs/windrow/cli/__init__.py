"""The `windrow` command: on a laptop exactly the jobs that Airflow runs, and a look at what they did.

Exit codes: 0 done, 2 bad arguments or pipeline file, 10 published already (train --interval), 20 window still open,
30 blocked by expectations, 40 another writer was faster or holds the lock, 60 the platform is not ready (no broker, no
topic, a port in use), 70 a person must look (offsets were lost, figures do not agree), 1 anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import typer

from windrow.cli import demo, explain, jobs, lag, late, listings, local, maintenance, pipelines, rebuild
from windrow.jobs.run import leave
from windrow.outcomes import ExitCode, exit_code

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(pipelines.app, name="pipeline")
COMMANDS: dict[str, Callable[..., None]] = {
    **local.COMMANDS,
    "demo": demo.demo,
    **jobs.COMMANDS,
    **rebuild.COMMANDS,
    **late.COMMANDS,
    **lag.COMMANDS,
    **maintenance.COMMANDS,
    **listings.COMMANDS,
    **explain.COMMANDS,
    "scenario": pipelines.scenario,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def main() -> None:
    """Entry point: a known failure is one message and its exit code, an unknown one a traceback."""
    try:
        app()
    except SystemExit as ended:
        leave(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
    except Exception as error:
        code = exit_code(error)
        if code is ExitCode.FAILED and os.environ.get("WINDROW_DEBUG"):
            raise
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        if code is ExitCode.FAILED:
            print("(WINDROW_DEBUG=1 shows the traceback)", file=sys.stderr)
        leave(code)
