"""Where a planted secret could turn up: files, and arguments and environment of every process that is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from support.again import again_and_again
from windrow.files import write_whole


@dataclass
class Processes:
    """What anybody sees of processes (`ps`), and what their user and a core dump see of them (`/proc/PID/environ`)."""

    arguments: set[str] = field(default_factory=set)
    environments: set[str] = field(default_factory=set)

    def has(self, secret: str) -> bool:
        """Whether a secret is in either."""
        return any(secret in one for one in (*self.arguments, *self.environments))


@contextmanager
def watched() -> Iterator[Processes]:
    """Yield arguments and environment of every process that is started while the body runs."""
    seen = Processes()
    earlier = set(psutil.Process().children(recursive=True))

    def look() -> None:
        for process in set(psutil.Process().children(recursive=True)) - earlier:
            with suppress(psutil.Error):
                seen.arguments.add(str(process.cmdline()))
                seen.environments.add(str(sorted(process.environ().items())))

    with again_and_again(look, every=0.1):
        yield seen


def event_log(folder: Path) -> Path:
    """Return a file of Spark properties that keeps events and plans below a folder, as text."""
    events, more = folder / "events", folder / "spark.properties"
    events.mkdir()
    log = {"enabled": "true", "compress": "false", "dir": events.as_uri()}
    write_whole(more, "".join(f"spark.eventLog.{name}={value}\n" for name, value in log.items()), private=True)
    return more


def files_below(*folders: Path) -> dict[Path, bytes]:
    """Return path → content of every file below folders."""
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def holders(files: dict[Path, bytes], secrets: Iterable[str]) -> list[Path]:
    """Return the files that hold one of the secrets."""
    return [path for path, content in files.items() if any(secret.encode() in content for secret in secrets)]
