"""The entry point of the `windrow` command: the command itself where its packages are, otherwise what to install.

`pip install windrow` is Airflow's side, which has no packages of jobs. The script `windrow` is installed there too, and
says so instead of showing a traceback.
"""

from __future__ import annotations

import json
import sys
from typing import NoReturn

from windrow.outcomes import ExitCode


def main() -> None:
    """Run the command line; exit code 60 where a package of the extra `jobs` is missing."""
    try:
        from windrow.cli import main as run
    except ModuleNotFoundError as missing:
        if (missing.name or "windrow").partition(".")[0] == "windrow":
            raise
        _refuse(str(missing.name))
    run()


def _refuse(package: str) -> NoReturn:
    """End with a message, as `windrow.cli` ends with that of an error."""
    message = (
        f"The `windrow` command is not complete in this environment: {package} is not installed.\n"
        f"  → install windrow[jobs] here (`{sys.executable} -m pip install 'windrow[jobs]'`), or use the `windrow` of "
        "the environment that WINDROW_PYTHON names, where jobs have one of their own."
    )
    code, condition = ExitCode.NOT_READY, "PlatformNotReady"
    error = {"code": int(code), "name": code.name.lower(), "condition": condition, "message": message}
    as_json = "--json" in sys.argv[1:]
    print(json.dumps({**error, "next_move": code.next_move}) if as_json else f"{condition}: {message}", file=sys.stderr)
    raise SystemExit(int(code))
