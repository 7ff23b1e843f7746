"""A class-data-sharing archive for Spark's driver: the JVM maps parsed classes instead of parsing them.

Measured (start, a first Delta write and read, two pairs of runs): 30 CPU seconds without, 24 with.

The JVM uses an archive only under the class path that it was made with, and accepts no folder of files in it.
So the driver's class path begins with all jars (ours, then PySpark's own), and Spark's configuration folder
comes after them. An archive that does not fit any more (another Java, a jar changed) is ignored by the JVM.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

from windrow.places import Places
from windrow.platform.conditions import JarsMissing
from windrow.platform.java import find_java

_WARM_UP = Path(__file__).with_name("warm_up.py")
_PATIENCE_SECONDS = 400


def spark_home() -> Path:
    """Folder of the pip package: its jars, its bin/spark-submit."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsMissing("PySpark is not installed in this environment.", "run `make setup`.")
    return Path(spec.origin).parent


def class_path(jars: Path) -> str:
    """All jars of the driver, in the order that the archive knows."""
    return f"{jars}/spark/*:{spark_home()}/jars/*"


def file(places: Places, jars: Path) -> Path:
    """Where the archive for these jars, this PySpark and this Java is, or will be."""
    java = find_java(os.environ).resolve()
    recipe = f"{class_path(jars)} {java} {java.stat().st_mtime_ns} {_WARM_UP.read_text()}"
    return places.cache / "spark" / f"classes-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.jsa"


def options(archive: Path) -> str:
    """JVM options that use it, and say nothing when it does not fit."""
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def make(places: Places, jars: Path, environ: dict[str, str]) -> str | None:
    """Run a small session once and keep its classes; return why not, or None. Complete or absent."""
    archive = file(places, jars)
    beside = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        command = _launched(jars, {**os.environ, **environ})
        command[1:1] = [f"-XX:ArchiveClassesAtExit={beside}", "-Xshare:auto", "-Xlog:disable"]
        done = subprocess.run(
            command,
            env={**os.environ, **environ},
            cwd=places.cache,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not beside.exists():
            return (done.stderr.strip().splitlines() or ["no archive was written"])[-1]
        for old in archive.parent.glob("classes-*.jsa"):
            old.unlink()
        beside.replace(archive)
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        return str(problem)[:300]
    finally:
        beside.unlink(missing_ok=True)
    return None


def _launched(jars: Path, environ: dict[str, str]) -> list[str]:
    """The command that spark-submit would run, as Spark's own launcher states it, with jars alone in its path."""
    submit = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[1]", str(_WARM_UP)]
    launcher = [str(find_java(environ)), "-cp", f"{spark_home()}/jars/*", "org.apache.spark.launcher.Main"]
    as_script = {**environ, "SPARK_SCALA_VERSION": "2.13"}  # what Spark's own start script sets
    answer = subprocess.run([*launcher, *submit], env=as_script, capture_output=True, text=True, timeout=60, check=True)
    words = [word for word in answer.stdout.removeprefix("\0\n").split("\0") if word.strip()]
    at = words.index("-cp")
    words[at + 1] = class_path(jars)
    return [word for word in words if "SharedArchiveFile" not in word]
