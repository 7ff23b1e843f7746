"""What must be equal between an engine and a job: the code, the Spark, and whatever Java read when it started.

All else a job brings along: its process gets its whole environment. An engine refuses a job that is not like it, and
the reason names a variable, never its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

READ_AT_START = re.compile(
    r"(AWS|SPARK|PYSPARK|HADOOP|JAVA|JDK|LD|DYLD)_.*|WINDROW_SPARK_.*|WINDROW_(CACHE|UMASK)"
    r"|TZ|LANG|LC_ALL|HOME|PYTHON(PATH|HOME|HASHSEED)|KRB5.*|(https?|all|no)_proxy",
    re.IGNORECASE,
)
"""Variables that Java, its native libraries or Spark's Python workers read when they start."""

_SET_BY_PYSPARK = {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}
"""Variables that PySpark sets in each process that has a session."""
Stamp = tuple[tuple[str, int, int], ...]


def code() -> Stamp:
    """Name, size and time of change of every file of this package."""
    root = Path(__file__).parents[1]
    files = sorted((str(file), file.stat()) for file in root.rglob("*.py"))
    return tuple((name, found.st_size, found.st_mtime_ns) for name, found in files)


@dataclass(frozen=True)
class Likeness:
    """What an engine is like."""

    master: str
    environ: Mapping[str, str]
    code: Stamp

    @classmethod
    def of(cls, master: str, environ: Mapping[str, str]) -> Self:
        """Of an engine that starts now."""
        return cls(master, _relevant(environ), code())

    @property
    def is_outdated(self) -> bool:
        """Whether the code has changed since."""
        return code() != self.code

    def refusal(self, job: Mapping[str, Any]) -> str | None:
        """Why a job is not like the engine, or None.

        Args:
            job: its `master`, None where it needs no Spark, and its `environ`.
        """
        if job["master"] not in (None, self.master):
            return f"the engine's Spark is {self.master}, not {job['master']}"
        theirs = _relevant(job["environ"])
        others = sorted(name for name in {*theirs, *self.environ} if theirs.get(name) != self.environ.get(name))
        return f"the engine was started with another {', '.join(others)}" if others else None


def _relevant(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if value and READ_AT_START.fullmatch(name) and name not in _SET_BY_PYSPARK
    }
