"""Fetch every jar once, and write the one Spark configuration that all Spark starts read.

    <cache>/jars-<hash of what is in it>/<set>     complete or absent: filled in a temporary folder, then renamed
    <cache>/spark/conf-<hash of the templates>     spark-defaults.conf, log4j2.properties
    <cache>/spark/classes-<hash>.jsa               class-data archive (see `archive`), made by the set-up

The jars are put onto the class path (`extraClassPath`), not into `spark.jars`: a local session starts a second sooner,
because nothing is copied or loaded through a second class loader. On a cluster the cache folder must therefore have the
same path on every worker; docker/ builds it into the image.

In addition to the downloads, the `spark` set has a jar of our own classes, compiled by the Janino that PySpark ships,
because a machine may have Java without its compiler.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from windrow.files import write_whole
from windrow.places import Places
from windrow.platform import archive
from windrow.platform.conditions import JarsMissing
from windrow.platform.disk import require_room
from windrow.platform.java import find_java, java_home

IVY = Path(__file__).with_name("ivy.xml")
IVY_REGISTRY = Path(__file__).with_name("ivy-registry.xml")
_OWN = ("ConditionalLogStore", "Given", "NewFiles", "PlainRecords")
OWN = tuple(Path(__file__).with_name(f"{name}.java") for name in _OWN)
"""Our own classes."""
_TEMPLATES = Path(__file__).with_name("conf")
SETS = {"spark": 11, "kafka": 46, "s3": 38, "store": 90, "postgres": 1, "registry": 1}
"""Jar sets of ivy.xml and ivy-registry.xml, and about how many jars each has (only for the progress lines)."""
_ALWAYS = ("spark", "kafka")
_NEEDED_BYTES = 600 * 1024 * 1024

_MACHINES = {
    ("Linux", "x86_64"): "linux-amd64",
    ("Linux", "aarch64"): "linux-arm64v8",
    ("Darwin", "x86_64"): "darwin-amd64",
    ("Darwin", "arm64"): "darwin-arm64v8",
}
"""What the jar with PostgreSQL calls a machine, which ivy.xml knows as `machine`."""

_LOOPBACK = re.compile(r"local|spark://(127\.|localhost:)")
"""Masters whose processes all run on this machine."""

FOR_LARGE = "-XX:+UseParallelGC"
"""JVM options of a driver with large intervals, instead of `spark.driver.extraJavaOptions` of spark-defaults.conf.
Those switch the optimising JIT compiler off: that helps a short driver, but two million rows take far longer. Nobody
waits for a pause of the garbage collector, so only its CPU counts: Java's default, G1, took a tenth more."""

FOR_ENGINE = f"{FOR_LARGE} -XX:+ExitOnOutOfMemoryError"
"""JVM options of an engine: where one job took all memory, no other job goes on with half a Spark. The heap does not
shrink while the engine is idle; `spark.driver.memory` bounds it."""

Progress = Callable[[str], None]
"""Gets lines for people."""


def spark_home() -> Path:
    """Folder of the pip package pyspark, with its jars and bin/spark-submit.

    Raises:
        JarsMissing: PySpark is not installed, or without its jars: Airflow's Spark provider brings the same modules as
            `pyspark-client`, which has no Spark.
    """
    spec = find_spec("pyspark")
    home = Path(spec.origin).parent if spec and spec.origin else None
    if home is None or not (home / "jars").is_dir():
        raise JarsMissing(
            "PySpark is not installed in this environment"
            + (" (only pyspark-client, without Spark)." if home else "."),
            f"install windrow[jobs] here (`{sys.executable} -m pip install 'windrow[jobs]'`), or name the Python that "
            "has it in WINDROW_PYTHON; in a checkout run `make setup`.",
        )
    return home


def folder(places: Places) -> Path:
    """Folder for the jars of this version of ivy.xml and of our own classes, whether it exists or not."""
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in (IVY, *OWN))).hexdigest()[:12]
    return places.cache / f"jars-{digest}"


def ensure(places: Places, report: Progress = print, also: Collection[str] = ()) -> None:
    """Fetch the jars and write the Spark configuration where they are missing. Idempotent; processes take turns.

    Where nothing is missing nothing is written, so that a cache which an image brings may be read-only.

    Args:
        report: gets progress lines for people.
        also: sets that are fetched besides those that every installation needs.

    Raises:
        JavaMissing, NoRoom, JarsMissing: the message says what to do; a retry keeps what has been downloaded.
    """
    spark_home()  # without Spark there is neither Ivy to fetch with nor a compiler
    java = find_java(os.environ)
    target = folder(places)
    wanted = [*_ALWAYS, *(["s3"] if places.are_in_store else []), *also]
    missing = _missing(target, wanted)
    if not missing and not _outdated(places, java):
        return
    require_room(places.cache, _NEEDED_BYTES if missing else 0, "WINDROW_CACHE")
    with FileLock(places.cache / "jars.lock"):
        if missing := _missing(target, wanted):
            _fetch(java, target, missing, report)
        places.spark_no_conf.mkdir(parents=True, exist_ok=True)
        places.spark_conf.mkdir(parents=True, exist_ok=True)
        for file, text in _outdated(places, java).items():
            write_whole(file, text)


def _missing(target: Path, sets: Collection[str]) -> list[str]:
    return [name for name in sets if not (target / name).is_dir()]


def warm_up(places: Places, report: Progress = print) -> None:
    """Make the class-data archive, once (see `archive`). Call `ensure` first."""
    target = _archive(places, find_java(os.environ))
    if not target.exists():
        with FileLock(places.cache / "jars.lock"):
            archive.make(target, environment(places), report)


def environment(places: Places, *, options: str | None = None) -> dict[str, str]:
    """Variables of every Spark process of this project, to be merged over os.environ.

    Args:
        options: JVM options of the driver instead of those of spark-defaults.conf: `FOR_LARGE` or `FOR_ENGINE`.
    """
    home = spark_home()
    others = ["--driver-java-options", options] if options else []
    variables = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(places.spark_no_conf),  # see `archive`
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            ["--properties-file", str(places.spark_properties), *others, "pyspark-shell"]
        ),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home(find_java(os.environ))),
        "TZ": "UTC",
    }
    if _LOOPBACK.match(places.spark_master):  # or Spark would listen on all interfaces
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


def kafka_class_path(places: Places) -> str:
    """Class path of the broker.

    Raises:
        JarsMissing: they have not been fetched.
    """
    return class_path(places, "kafka")


def class_path(places: Places, name: str) -> str:
    """Class path of a set.

    Raises:
        JarsMissing: it has not been fetched.
    """
    jars = folder(places) / name
    if not jars.is_dir():
        raise JarsMissing(f"The jars are not in {jars}.", "run `windrow setup` (in a checkout `make setup`).")
    return f"{jars}/*"


def _fetch(java: Path, target: Path, sets: Collection[str], report: Progress) -> None:
    """Fetch the sets in parallel, because resolving waits for the network; then rename each folder into place."""
    report(f"Fetching jars ({', '.join(sets)}) into {target} (once, about a minute) …")
    downloads = target.with_name(target.name.replace("jars-", "ivy-"))
    staging = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
    problems: list[str] = []
    try:
        threads = [
            threading.Thread(target=_fetch_set, args=(java, name, downloads, staging, report, problems))
            for name in sets
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            problems += [
                f"{name} is not of the form http://host:port, so it was not used (a login would be seen among Java's "
                "arguments); name a proxy that asks for none"
                for name in _proxies(os.environ)[1]
            ]
            raise JarsMissing(
                "The jars could not be fetched:\n    " + "\n    ".join(problems),
                "check that this machine reaches a Maven repository (behind a mirror, name an Ivy settings "
                "file in WINDROW_IVY_SETTINGS) and run it again: what has been downloaded is kept.",
            )
        if "spark" in sets:
            compile_own(java, staging / "spark")
        target.mkdir(exist_ok=True)
        target.chmod(0o755)
        for name in sets:
            (staging / name).chmod(0o755)
            (staging / name).rename(target / name)
        shutil.rmtree(downloads, ignore_errors=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    report(f"Jars are ready in {target}")


def _fetch_set(java: Path, name: str, downloads: Path, staging: Path, report: Progress, problems: list[str]) -> None:
    cache = downloads / name
    cache.mkdir(parents=True, exist_ok=True)
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    machine = _MACHINES.get((platform.system(), platform.machine()), platform.machine())
    command = [str(java), *_proxies(os.environ)[0], f"-Dmachine={machine}", "-jar", str(ivy)]
    has_poms = name != "registry"
    command += ["-ivy", str(IVY if has_poms else IVY_REGISTRY), "-confs", name]
    command += ["-settings", os.environ.get("WINDROW_IVY_SETTINGS") or str(_settings(cache, has_poms))]
    command += ["-cache", str(cache), "-retrieve", f"{staging}/[conf]/[artifact]-[revision].[ext]"]
    tail: list[str] = []
    arrived = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy_run:
        assert ivy_run.stdout is not None
        for line in ivy_run.stdout:
            if line.strip(" .\n"):
                tail = [*tail[-200:], line.rstrip()]
            if "[SUCCESSFUL" in line and ".jar" in line:
                arrived += 1
                if arrived % 5 == 0:
                    report(f"  {name}: {arrived} of about {SETS[name]} jars")
    for packed in (staging / name).glob("*.tar.gz"):
        with tarfile.open(packed) as files:
            files.extractall(staging / name, filter="data")
        packed.unlink()
    if ivy_run.returncode != 0 or not any((staging / name).rglob("*.jar")):
        reasons = [line.strip() for line in tail if re.search("UNRESOLVED|FAILED|Exception|not found", line)]
        problems.append(f"{name}: " + "; ".join(list(dict.fromkeys(reasons or tail))[-4:]))


def compile_own(java: Path, jars: Path) -> None:
    """Compile our own classes into a jar next to the others.

    Args:
        java: the java program.
        jars: folder of the `spark` set.

    Raises:
        JarsMissing: the compiler refuses them.
    """
    spark = spark_home() / "jars"
    compiler = os.pathsep.join(
        str(jar) for name in ("janino", "commons-compiler") for jar in spark.glob(f"{name}-*.jar")
    )
    known = [*jars.glob("delta-storage-*.jar"), *sorted(spark.glob("*.jar"))]
    with tempfile.TemporaryDirectory(dir=jars.parent) as classes:
        command = [str(java), "-cp", compiler, "org.codehaus.commons.compiler.samples.CompilerDemo", "-d", classes]
        command += ["-classpath", os.pathsep.join(map(str, known)), *map(str, OWN)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = sorted(Path(classes).rglob("*.class"))
        if done.returncode or not made:
            raise JarsMissing(
                f"Our own classes could not be compiled: {(done.stderr or done.stdout).strip()[-400:]}",
                "is this Java 17, and PySpark as uv.lock names it?",
            )
        with zipfile.ZipFile(jars / "windrow-classes.jar", "w") as jar:
            for file in made:
                jar.write(file, file.relative_to(classes))


def _settings(cache: Path, has_poms: bool = True) -> Path:
    """Ivy settings with the public Maven repository as Ivy knows it, and nothing else.

    Args:
        has_poms: whether the jars' own descriptions are read; what names all its files itself needs none.
    """
    file = cache / "settings.xml"
    file.write_text(
        '<ivysettings><settings defaultResolver="public"/>'
        f'<resolvers><ibiblio name="public" m2compatible="true" usepoms="{str(has_poms).lower()}"/></resolvers>'
        "</ivysettings>\n"
    )
    return file


def _proxies(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return Java options for the usual proxy variables, which Java does not read, and those that it is not told.

    Those are not of the form http://host:port. A login would be seen by everybody on the machine, in Java's arguments.
    """
    options, left_out = [], []
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy" if environ.get(f"{scheme}_proxy") else f"{scheme}_proxy".upper()
        value = environ.get(name) or ""
        if match := re.match(r"(?:https?://)?([^:/@]+|\[[0-9a-fA-F:]+\]):(\d+)/?$", value):
            options += [f"-D{scheme}.proxyHost={match[1]}", f"-D{scheme}.proxyPort={match[2]}"]
        elif value:
            left_out.append(name)
    return options, left_out


def _class_path(places: Places) -> str:
    """What Spark's class path begins with: the sets of Spark's own that are there. It is the same for all homes."""
    jars = folder(places)
    return os.pathsep.join(f"{jars}/{name}/*" for name in ("spark", "s3") if (jars / name).is_dir())


def _archive(places: Places, java: Path) -> Path:
    return archive.path(places, java_home(java), spark_home(), _class_path(places))


def _outdated(places: Places, java: Path) -> dict[Path, str]:
    """The configuration files that are not there or differ from their templates, with what should stand in them."""
    values = {
        "jars": _class_path(places),
        "classes": str(_archive(places, java)),
        "conf": str(places.spark_conf),
    }
    found = {}
    for template in sorted(_TEMPLATES.iterdir()):
        text = template.read_text()
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        file = places.spark_conf / template.name
        if not file.exists() or file.read_text() != text:
            found[file] = text
    return found
