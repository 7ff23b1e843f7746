"""Where things are: read from the environment once, when a process starts, then passed down as a value.

The meaning of rows is in the pipeline file, and what a run does is in its arguments; neither is here.

    WINDROW_HOME          reports, locks, the local platform: a folder   default: .windrow in the checkout,
                          ~/.local/share/windrow where the package is installed
    WINDROW_TABLES        the tables: an absolute folder, or s3://bucket/prefix
                          (endpoint and credentials of a store: AWS_* of each process, never an argument)
                                                                         default: <home>/tables
    WINDROW_CACHE         downloaded jars, shared by all homes           default: ~/.cache/windrow
    WINDROW_KAFKA         bootstrap servers; local ones are nodes of the default: 127.0.0.1:19092
                          local platform's own Kafka
    WINDROW_REGISTRY      schema registry of Avro and Protobuf records:  default: none
                          the URL of its Confluent API; or several, as name=URL separated by spaces, by the names
                          that pipeline files give them
    WINDROW_REGISTRY_CLIENT  a file of client properties (TLS, login) for registries that ask, which only its owner may
                          read (docs/SECURITY.md)                        default: none
    WINDROW_KAFKA_CLIENT  a file of Kafka client properties (TLS, login) default: none, brokers that do not ask
                          that only its owner may read; the same path on every machine (docs/SECURITY.md)
    WINDROW_STORE         address of the local object store              default: 127.0.0.1:19098
    WINDROW_POSTGRES      address of the local PostgreSQL for the state  default: none, SQLite
                          of the local Airflow
    WINDROW_SPARK_MASTER  Spark master                                   default: local[*]
    WINDROW_SPARK_SECRETS a file of further Spark properties, such as the secret that a cluster's processes share;
                          read by each driver itself, so that nothing of it is in an argument or an environment
    WINDROW_DECODE_CAREFULLY  set to anything: every JSON record is read the careful way, which gives the same rows more
                          slowly (`transforms.plain`)                    default: none
    WINDROW_ENGINE        `auto`, `off` or `only`: whether tasks run their jobs in the home's warm engine
                          (`platform.engine`)                            default: auto, where one runs
    WINDROW_PIPELINES     further folders of pipeline files, separated by ':', in addition to
                          dags/pipelines (of a checkout) and <home>/pipelines
    WINDROW_EXPECTATIONS  further folders of expectation suites, separated by ':'; they come before the project's, so
                          that a suite there may replace or extend one of the same name
    WINDROW_NOTIFIERS     the file that says who is told of alerts       default: <home>/notifiers.yaml
    WINDROW_PYTHON        the Python in which Airflow's tasks start jobs, where Spark and Great Expectations are not in
                          Airflow's environment                          default: Airflow's own
    WINDROW_UMASK         who may read what Windrow makes: an octal file mode mask as `umask` takes it
                          default: 077, the owner only; 027 lets the group read
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from windrow.files import write_whole
from windrow.kafka.client import VARIABLE as KAFKA_CLIENT
from windrow.kafka.client import Kafka
from windrow.outcomes import BadInput, NotReady

PIPELINES = "WINDROW_PIPELINES"
"""The variable; a DAG file adds its folder to it (`windrow_airflow.factory`)."""

REGISTRY_CLIENT = "WINDROW_REGISTRY_CLIENT"

_INSTALLED = Path(__file__).resolve().parent / "project"
IS_INSTALLED = _INSTALLED.is_dir()
"""Whether this is the installed package, not a checkout: a wheel has `project` (pyproject.toml)."""
PROJECT = _INSTALLED if IS_INSTALLED else _INSTALLED.parents[2]
"""The checkout, or the package's folder of the same layout: dags/, expectations/, spark_jobs/run_job.py."""


class SettingWrong(BadInput, ValueError):
    """An environment variable has a value that Windrow cannot use."""


class TablesElsewhere(NotReady):
    """The home's Airflow keeps its tables elsewhere, and this process is told of none: it would use others."""


_UMASK = re.compile("0?[0-7]{3}")


def umask_of(environ: Mapping[str, str]) -> int:
    """File mode mask of this installation's processes.

    Raises:
        SettingWrong: WINDROW_UMASK is not a mask, or would keep the owner out.
    """
    text = environ.get("WINDROW_UMASK") or "077"
    if not _UMASK.fullmatch(text) or int(text, 8) & 0o700:
        raise SettingWrong(
            f"WINDROW_UMASK={text!r} is not a file mode mask; write 077 (owner only), 027 (group reads) or 022"
        )
    return int(text, 8)


_LOCATION = re.compile(r"s3://[A-Za-z0-9._-]+(/[^/?#%\s\x00-\x1f\x7f]+)*/?")
"""Of a store. Clients disagree about a blank, `?`, `#` or `%` in a prefix: one writes where another does not read."""


_FOLDER = re.compile(r"[A-Za-z0-9._+@,~/-]+")
"""Of a folder of tables. A client that takes it for a URL writes or reads another one where it has other characters."""


def _tables(text: str | None) -> str | None:
    """Location of the tables: an absolute folder or the URL of a prefix, without a slash at its end.

    Raises:
        SettingWrong: the URL is of a store that Windrow does not know, or not one that every client of a store reads;
            or so is the folder, or it is relative, so that each process would have its own.

    >>> _tables("s3://bucket/prefix/"), _tables("/srv/tables/")
    ('s3://bucket/prefix', '/srv/tables')
    """
    if not text:
        return None
    if not re.match("[A-Za-z0-9+.-]+:", text):
        folder = Path(text).expanduser()
        if not folder.is_absolute():
            raise SettingWrong(
                f"WINDROW_TABLES={text!r} is another folder in each process; write {str(folder.absolute())!r} if it is "
                "that one"
            )
        _require_plain(folder, "WINDROW_TABLES")
        return str(folder)
    if "@" in text:
        raise SettingWrong(
            "WINDROW_TABLES has a user or a password in it, and locations are shown in logs; credentials of a store "
            "are in AWS_* (docs/SECURITY.md, The store's credentials)"
        )
    if not _LOCATION.fullmatch(text):
        rule = "; a bucket has letters, digits, '.', '_' and '-', and a prefix has no blank, '?', '#' or '%'"
        raise SettingWrong(
            f"WINDROW_TABLES={text!r} is neither a folder nor s3://bucket/prefix{rule if text[:5] == 's3://' else ''}; "
            "correct it"
        )
    return text.rstrip("/")


def _require_plain(tables: Path, variable: str) -> None:
    """Refuse a folder of tables, or of one that it is a link to, that some client of tables would not find.

    Raises:
        SettingWrong: its path has a blank, a letter with an accent, or the like.
    """
    for folder in (str(tables), os.path.realpath(tables)):
        if not _FOLDER.fullmatch(folder):
            raise SettingWrong(
                f"the tables would be in {folder!r}, which not every reader of tables finds: it may have letters "
                f"without accents, digits and the signs . _ - + @ , ~ only. Set {variable} to such a folder; tables "
                "that are there already can be moved"
            )


_REGISTRY = re.compile(r"(?:([a-z][a-z0-9_]*)=)?(https?://[^\s]+)")


def _registries(text: str | None) -> tuple[tuple[str, str], ...]:
    """Names and addresses of schema registries; one without a name is called `default`.

    Raises:
        SettingWrong: a part is neither an address nor a name with one, or has a password in it: addresses are in logs.

    >>> _registries("http://a:8081 orders=https://b/apis/ccompat/v7")
    (('default', 'http://a:8081'), ('orders', 'https://b/apis/ccompat/v7'))
    """
    found = []
    for part in (text or "").split():
        match = _REGISTRY.fullmatch(part)
        if match is None:
            raise SettingWrong("WINDROW_REGISTRY must be a URL, or name=URL for each of several; its value is neither")
        if "@" in match[2]:
            raise SettingWrong("WINDROW_REGISTRY has a user or a password in an address; addresses are shown in logs")
        found.append((match[1] or "default", match[2].rstrip("/")))
    return tuple(found)


Folders = Path | str | Iterable[Path]
"""A folder, or several in the order in which something is looked for."""


def folders_of(folders: Folders) -> tuple[Path, ...]:
    """The folders as a tuple."""
    return (Path(folders),) if isinstance(folders, (Path, str)) else tuple(folders)


def _folders(text: str | None) -> list[Path]:
    return [Path(path) for path in (text or "").split(":") if path]


@cache
def _templates() -> str:
    platform = Path(__file__).parent / "platform"
    files = [*sorted((platform / "conf").iterdir()), platform / "ivy.xml", *sorted(platform.glob("*.java"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


CLUSTER_ENV = Path("platform", "cluster", "env")
"""In a home: the file for `source` of a cluster; it is there exactly where the home is a cluster's."""
_HOME = "<home>/"


def _text_of(file: Path) -> str | None:
    """Text of a file; None where there is none, or this process may not read it."""
    try:
        return file.read_text()
    except OSError:
        return None


@dataclass(frozen=True)
class Lock:
    """Where the writers of a table take turns."""

    file: Path
    """lock file of this machine"""
    lease: str | None = None
    """location of an object that other machines see too, where the tables are in a store"""


@dataclass(frozen=True)
class Places:
    """Folders, brokers and Spark master of this installation."""

    home: Path
    cache: Path
    kafka: str = "127.0.0.1:19092"
    kafka_client: Path | None = None
    """file of Kafka client properties; None for brokers that do not ask who a client is"""
    store: str = "127.0.0.1:19098"
    spark_master: str = "local[*]"
    pipelines: tuple[Path, ...] = ()
    spark_secrets: Path | None = None
    tables: str | None = None
    """folder or URL below which the tables are; None for those below `home`"""
    suites: tuple[Path, ...] = ()
    """folders of expectation suites before the project's"""
    notifiers: Path | None = None
    """file that says who is told of alerts; None for the one in the home"""
    registries: tuple[tuple[str, str], ...] = ()
    """names and addresses of schema registries"""
    registry_client: Path | None = None
    """file of client properties; None for registries that do not ask who a client is"""
    decode_carefully: bool = False
    """whether every JSON record is read the careful way"""
    postgres: str | None = None
    """address of the local Airflow's database server; None for SQLite"""
    project: Path = PROJECT

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Places:
        """Read the environment; an empty variable counts as unset.

        Raises:
            SettingWrong: a variable has a value that cannot be used.
        """
        user = Path(environ.get("HOME") or Path.home())
        data = Path(environ.get("XDG_DATA_HOME") or user / ".local" / "share")
        home = Path(environ.get("WINDROW_HOME") or (data / "windrow" if IS_INSTALLED else PROJECT / ".windrow"))
        home = home.expanduser().absolute()
        tables = _tables(environ.get("WINDROW_TABLES"))
        if tables is None:
            _require_plain(home / "tables", "WINDROW_HOME or WINDROW_TABLES")
        xdg = environ.get("XDG_CACHE_HOME") or user / ".cache"
        client, registry_client = environ.get(KAFKA_CLIENT), environ.get(REGISTRY_CLIENT)
        secrets, notifiers = environ.get("WINDROW_SPARK_SECRETS"), environ.get("WINDROW_NOTIFIERS")
        return cls(
            home=home,
            cache=Path(environ.get("WINDROW_CACHE") or Path(xdg) / "windrow").expanduser().absolute(),
            kafka=environ.get("WINDROW_KAFKA") or cls.kafka,
            kafka_client=Path(client).expanduser().absolute() if client else None,
            store=environ.get("WINDROW_STORE") or cls.store,
            spark_master=environ.get("WINDROW_SPARK_MASTER") or cls.spark_master,
            pipelines=(
                PROJECT / "dags" / "pipelines",
                home / "pipelines",
                *_folders(environ.get(PIPELINES)),
            ),
            spark_secrets=Path(secrets).expanduser().absolute() if secrets else None,
            tables=tables,
            suites=tuple(_folders(environ.get("WINDROW_EXPECTATIONS"))),
            notifiers=Path(notifiers).expanduser().absolute() if notifiers else None,
            decode_carefully=bool(environ.get("WINDROW_DECODE_CAREFULLY")),
            postgres=environ.get("WINDROW_POSTGRES") or None,
            registries=_registries(environ.get("WINDROW_REGISTRY")),
            registry_client=Path(registry_client).expanduser().absolute() if registry_client else None,
        )

    @classmethod
    def for_tables(cls, environ: Mapping[str, str]) -> Places:
        """Read the environment for who reads or writes tables: those of the home's Airflow, or those that are named.

        Raises:
            SettingWrong: a variable has a value that cannot be used.
            TablesElsewhere: no variable names tables, and the home's Airflow has others than those in the home.
        """
        places = cls.from_env(environ)
        if places.tables is None and (kept := places.kept_tables) is not None:
            here = os.path.realpath(places.home / "tables")
            if kept != here:
                raise TablesElsewhere(
                    f"This home's Airflow keeps its tables in {kept}, and this shell names none: its commands would "
                    f"use others, in {here}.\n  → {places._way_to(kept)}; or, for those, export WINDROW_TABLES={here}"
                )
        return places

    def _way_to(self, kept: str) -> str:
        """What a shell has to say to get to the tables of the home's Airflow."""
        in_store = f" in {os.path.realpath(self.store_env.parent)}"
        if kept.endswith(in_store):
            line = f"export WINDROW_TABLES={kept.removesuffix(in_store)}"
            file = self.cluster_env if self.cluster_env.exists() else self.store_env
            is_said = line in (_text_of(file) or "").splitlines()
            return f"`source {file}` for Airflow's" + ("" if is_said else f", and {line}")
        tables, _, address = kept.partition(" at ")
        if "://" not in tables:
            return f"export WINDROW_TABLES={kept} for Airflow's"
        also = f", AWS_ENDPOINT_URL={address}" if address else ""
        return f"export WINDROW_TABLES={tables}{also} and the store's credentials (AWS_*) for Airflow's"

    def registry(self, name: str) -> str | None:
        """Address of a schema registry by its name in pipeline files; None if it has none."""
        return dict(self.registries).get(name)

    @property
    def brokers(self) -> Kafka:
        """The brokers, and who this installation is to them."""
        return Kafka(self.kafka, self.kafka_client)

    def table(self, pipeline: str, name: str) -> str:
        """Location of a table of a pipeline: a folder, or a URL."""
        return f"{self.tables or self.home / 'tables'}/{pipeline}/{name}"

    def staging(self, pipeline: str) -> str:
        """Location of files that no table has yet, where they can get a name in a table without being rewritten."""
        return self.table(pipeline, "staging")

    @property
    def notifiers_file(self) -> Path:
        """The file that says who is told of alerts; without it nobody is."""
        return self.notifiers or self.home / "notifiers.yaml"

    @property
    def store_env(self) -> Path:
        """File for `source` of the object store of `windrow up --store`; it is there once that has started."""
        return self.home / "platform" / "store" / "env"

    @property
    def cluster_env(self) -> Path:
        """`CLUSTER_ENV` of this home."""
        return self.home / CLUSTER_ENV

    @property
    def airflow_tables(self) -> Path:
        """File that says where the home's Airflow keeps its tables since its last start, for `kept_tables`."""
        return self.home / "platform" / "airflow" / "tables"

    def keep_tables(self, location: str) -> None:
        """Note where the home's Airflow keeps its tables, so that it stays true where the home is moved or mounted.

        Args:
            location: with the real path of the home in it where they are in the home.
        """
        write_whole(self.airflow_tables, location.replace(f"{os.path.realpath(self.home)}/", _HOME))

    @property
    def kept_tables(self) -> str | None:
        """What was noted; None where nothing was, or this process may not read it."""
        kept = _text_of(self.airflow_tables)
        return None if kept is None else kept.replace(_HOME, f"{os.path.realpath(self.home)}/")

    @property
    def are_in_store(self) -> bool:
        """Whether the tables are in an object store."""
        return bool(self.tables and "://" in self.tables)

    def erasure_secret(self, pipeline: str) -> str:
        """Location of the secret of a pipeline's erased keys; whoever can read it can try keys against their hashes."""
        return self.table(pipeline, "erasure.secret")

    def landing(self, pipeline: str, topic: str) -> str:
        """Location of the landing table of a topic."""
        return self.table(pipeline, f"landing/{topic}")

    def reports(self, pipeline: str) -> Path:
        """Folder of a pipeline's reports."""
        return self.home / "reports" / pipeline

    def large(self, pipeline: str) -> Path:
        """Marker file that exists while the pipeline's intervals are large, for the options of Spark's drivers."""
        return self.home / "large" / pipeline

    def lock(self, pipeline: str, name: str) -> Lock:
        """The lock of a table, so that its writers take turns."""
        lease = self.table(pipeline, f"locks/{name}.json") if self.are_in_store else None
        return Lock(self.home / "locks" / pipeline / f"{name}.lock", lease)

    @property
    def expectations(self) -> tuple[Path, ...]:
        """Folders of the expectation suites, in the order in which a suite is looked for."""
        return (*self.suites, self.project / "expectations")

    @property
    def job_script(self) -> Path:
        """The script that runs every job, for spark-submit and for plain Python."""
        return self.project / "spark_jobs" / "run_job.py"

    @property
    def spark_conf(self) -> Path:
        """Folder of the spark-defaults.conf that every Spark start of this code reads.

        Checkouts of several versions may share the cache, so it carries a digest of the templates and of what decides
        about the jars that they name.
        """
        return self.cache / "spark" / f"conf-{_templates()}"

    @property
    def spark_properties(self) -> Path:
        """The spark-defaults.conf that every Spark start reads."""
        return self.spark_conf / "spark-defaults.conf"

    @property
    def spark_no_conf(self) -> Path:
        """An empty folder for `SPARK_CONF_DIR`, which Spark puts onto the class path (see `platform.archive`)."""
        return self.cache / "spark" / "no-conf"
