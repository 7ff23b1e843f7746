"""Find a Java on which both Spark 4.2 and Kafka 4.2 run, or say what to install."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from windrow.platform.conditions import JavaMissing

SUPPORTED = (17, 21)
_USUAL_PLACES = (
    "/usr/lib/jvm/*/bin/java",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java",
    "/opt/homebrew/opt/openjdk@*/bin/java",
)


def find_java(environ: Mapping[str, str]) -> Path:
    """Return the first supported `java`: JAVA_HOME's, the PATH's, or an installed one.

    Raises:
        JavaMissing: none of them is Java 17 or 21.
    """
    seen: list[str] = []
    for candidate in _candidates(environ):
        version = _major_version(candidate)
        if version in SUPPORTED:
            return candidate
        seen.append(f"{candidate} is Java {version}" if version else f"{candidate} does not run")
    found = "; ".join(dict.fromkeys(seen)) or "no `java` in JAVA_HOME, on the PATH or in the usual folders"
    raise JavaMissing(
        f"Java 17 is needed to run Spark and Kafka ({found}).",
        "install it (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install "
        "openjdk@17`), or set JAVA_HOME to one that is installed.",
    )


def java_home(java: Path) -> Path:
    """The value of JAVA_HOME with which Spark's scripts start exactly this Java."""
    return java.resolve().parent.parent


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH")):
        yield Path(on_path)
    for pattern in _USUAL_PLACES:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


@lru_cache
def _major_version(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None
