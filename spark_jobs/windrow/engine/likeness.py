"""What must be equal between an engine and a job: the code, the Spark, and whatever Java read when it started.

All else a job brings along: its process gets its whole environment. An engine refuses a job that is not like it, and
the reason names a variable, never its value.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyspark

READ_AT_START = re.compile(
    r"(AWS|SPARK|PYSPARK|HADOOP|JAVA|JDK|LD|DYLD)_.*|WINDROW_SPARK_.*|WINDROW_(CACHE|UMASK)"
    r"|_JAVA_OPTIONS|CLASSPATH|TMPDIR|SSL_CERT_FILE|TZ|LANG|LC_ALL|HOME|PYTHON(PATH|HOME|HASHSEED)|KRB5.*|(https?|all|no)_proxy",
    re.IGNORECASE,
)
"""Variables that Java, its native libraries or Spark's Python workers read when they start."""

_SET_BY_PYSPARK = {"SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"}
"""Variables that PySpark sets in each process that has a session."""
BETWEEN_LOOKS = 2.0
"""Seconds in which code that is being installed changes."""
Stamp = tuple[tuple[str, int, int], ...]


def code() -> Stamp:
    """Name, size and time of change of every file of this package, and of the folder that packages are installed in.

    Raises:
        OSError: files come and go at this moment.
    """
    files = [Path(pyspark.__file__).parents[1], *Path(__file__).parents[1].rglob("*.py")]
    found = sorted((str(file), file.stat()) for file in files)
    return tuple((name, file.st_size, file.st_mtime_ns) for name, file in found)


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
        """Whether the code has changed since, or is changing."""
        try:
            return code() != self.code
        except OSError:
            return True

    def wait_until_settled(self) -> None:
        """Wait until the code does not change any more, as far as two looks can tell."""
        before: Stamp = ()
        while self.is_outdated and (now := _code_or_nothing()) != before:
            before = now
            time.sleep(BETWEEN_LOOKS)

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


def _code_or_nothing() -> Stamp:
    try:
        return code()
    except OSError:
        return ()


def _relevant(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if value and READ_AT_START.fullmatch(name) and name not in _SET_BY_PYSPARK
    }
