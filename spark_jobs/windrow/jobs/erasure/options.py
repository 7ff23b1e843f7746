"""Options of the erasure, for its job and its command."""

from __future__ import annotations

from typing import Annotated

import typer

Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="COLUMN=VALUE,…", help="A key; repeatable. A file keeps it out of the shell's history."
    ),
]
KeysFile = Annotated[
    str | None, typer.Option(metavar="PATH", help="CSV file of keys; its first line names the columns.")
]
Why = Annotated[str, typer.Option("--why", "--reason", metavar="TEXT", help="Why, without personal data; recorded.")]
