"""A cluster on this machine: three Kafka brokers, Spark's master and two workers, an object store, PostgreSQL, Airflow.

    <home>/platform/cluster/env     addresses, credentials and places, for `source`; only its owner may read it

A home is a cluster's or one broker's, never both: the records of one are unknown to the other. Every part checks it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from filelock import FileLock

from windrow.files import write_whole
from windrow.places import CLUSTER_ENV, KAFKA_CLIENT, Places
from windrow.platform.conditions import OtherPlatform
from windrow.platform.processes import Address
from windrow.platform.servers.airflow import Airflow
from windrow.platform.servers.broker import Broker
from windrow.platform.servers.spark_cluster import SparkCluster
from windrow.platform.servers.store import Store

DEFAULTS: Mapping[str, str] = {
    "WINDROW_KAFKA": "127.0.0.1:19092,127.0.0.1:19094,127.0.0.1:19096",
    "WINDROW_STORE": "127.0.0.1:19098",
    "WINDROW_SPARK_MASTER": "spark://127.0.0.1:17077",
    "WINDROW_POSTGRES": "127.0.0.1:15432",
    "WINDROW_AIRFLOW_PORT": "18080",
}
"""Addresses of a cluster's parts, unless the environment or the home's `env` names others."""
SETS = ("s3", "store", "postgres")
"""Sets of jars that a cluster needs in addition to those of every installation."""
_LOCAL_MASTER = re.compile(r"spark://(127\.0\.0\.1|localhost):\d+$")


def env_file(home: Path) -> Path:
    """The file for `source`; it exists exactly where the home is a cluster's."""
    return home / CLUSTER_ENV


def is_in(home: Path) -> bool:
    """Whether the home is a cluster's."""
    return env_file(home).exists()


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables by which a process finds the cluster of the home that `environ` names, credentials included.

    An address in `environ` counts before one in the home's `env`, and that before the default. WINDROW_TABLES is not
    read: the tables are in the cluster's own store.

    Raises:
        OtherPlatform: WINDROW_KAFKA or WINDROW_SPARK_MASTER in `environ` is not of this machine, or its brokers would
            be asked to accept a login.
    """
    environ = _without_tables(environ)
    home = Places.from_env(environ).home
    saved = _saved(home)
    found = {name: environ.get(name) or saved.get(name) or usual for name, usual in DEFAULTS.items()}
    if not _LOCAL_MASTER.match(found["WINDROW_SPARK_MASTER"]):
        if not found["WINDROW_SPARK_MASTER"].startswith("local"):
            raise _foreign("WINDROW_SPARK_MASTER", found["WINDROW_SPARK_MASTER"], "spark://127.0.0.1:<port>")
        found["WINDROW_SPARK_MASTER"] = saved.get("WINDROW_SPARK_MASTER") or DEFAULTS["WINDROW_SPARK_MASTER"]
    if client := environ.get(KAFKA_CLIENT):
        raise OtherPlatform(
            f"{KAFKA_CLIENT}={client}: brokers of a cluster on this machine do not ask who a client is.",
            "unset it.",
        )
    brokers = Address.all_of(found["WINDROW_KAFKA"])
    if len(brokers) < 3 or not all(address.is_local for address in brokers):
        raise _foreign("WINDROW_KAFKA", found["WINDROW_KAFKA"], DEFAULTS["WINDROW_KAFKA"])
    places = Places.from_env({**environ, **found})
    store = Store(places)
    return {
        **store.environment(),
        **found,
        "WINDROW_HOME": str(home),
        "WINDROW_TABLES": store.url,
        "WINDROW_SPARK_SECRETS": str(SparkCluster(places, {}).secrets),
    }


def places_of(environ: MutableMapping[str, str]) -> Places:
    """Places of the platform's parts. In a cluster's home `environ` gets what `env` says, whether sourced or not.

    No part needs the tables, so that they can be looked at and stopped where WINDROW_TABLES is wrong.
    """
    if is_in(Places.from_env(_without_tables(environ)).home):
        environ.update(environment(environ))
    return Places.from_env(_without_tables(environ))


def join(environ: MutableMapping[str, str]) -> Places:
    """The same, where the process is to be a part of the home's cluster.

    The home becomes a cluster's if it is not one yet. Parts that start at the same time take turns.

    Raises:
        OtherPlatform: the home is one broker's (each part that starts looks again), or an address in `environ` is not
            of this machine.
    """
    places = Places.from_env(environ)
    folder = env_file(places.home).parent
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "env.lock"):
        known = environment(environ)
        places = Places.from_env({**environ, **known})
        if not is_in(places.home):
            Broker(places).require_own_data()
            Airflow(places).require_own_data()
        write_env(known)
    environ.update(known)
    return places


def write_env(environ: Mapping[str, str]) -> Path:
    """Write the file for `source`, and return its path.

    Args:
        environ: what `environment` returns.
    """
    file = env_file(Path(environ["WINDROW_HOME"]))
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in environ.items()]
    lines += [f'export {name}="${{{name}:+${name},}}127.0.0.1,localhost"\n' for name in ("no_proxy", "NO_PROXY")]
    write_whole(file, "".join(lines), private=True)
    return file


def _without_tables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name != "WINDROW_TABLES"}


def _saved(home: Path) -> dict[str, str]:
    """Addresses in the home's `env`."""
    if not is_in(home):
        return {}
    words = [shlex.split(line)[-1].partition("=") for line in env_file(home).read_text().splitlines()]
    return {name: value for name, _, value in words if name in DEFAULTS}


def _foreign(variable: str, value: str, wanted: str) -> OtherPlatform:
    return OtherPlatform(
        f"{variable}={value} is not a part of a cluster on this machine.",
        f"unset it, or set it to local addresses ({wanted}). For a cluster of your own no `--cluster` is needed: "
        "docs/DEPLOYMENT.md.",
    )
