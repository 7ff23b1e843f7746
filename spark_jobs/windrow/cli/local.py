"""up, down, status: the local platform. Each may be repeated; `down` loses no record, table or run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from windrow import platform
from windrow.cli.show import AsJson, console, print_json, print_table
from windrow.io.delta.store import require_conditional
from windrow.outcomes import BadInput, Condition
from windrow.places import Places
from windrow.platform import jars
from windrow.text import shown_duration, without_login


def setup(
    sets: Annotated[
        list[str] | None,
        typer.Argument(
            help="Further sets of jars: s3 (tables in an object store), store (a local object store), postgres "
            "(a local PostgreSQL, for a cluster), registry (a local schema registry)."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Fetch the jars of Spark and Kafka into the cache folder and write Spark's configuration, once per machine.

    In a checkout `make setup` does it. A cluster's machines need the same folder under the same path (WINDROW_CACHE).
    """
    unknown = set(sets or ()) - set(jars.SETS)
    if unknown:
        raise BadInput(f"{', '.join(sorted(unknown))}: the sets of jars are {', '.join(jars.SETS)}")
    places = Places.from_env(os.environ)
    platform.setup(places, sets or (), console.print)
    if json:
        print_json({"spark_properties": places.spark_properties, "cache": places.cache})
        return
    console.print(f"Spark's configuration: {places.spark_properties}")


def up(
    store: Annotated[
        bool,
        typer.Option(
            "--store",
            help="Also start an object store (S3Proxy on a folder of the home), where Airflow's runs keep tables.",
        ),
    ] = False,
    registry: Annotated[
        bool,
        typer.Option(
            "--registry",
            help="Also start a schema registry (Apicurio) for Avro and Protobuf records.",
        ),
    ] = False,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="A cluster: three Kafka brokers, a Spark master with two workers, an object store, and Airflow on "
            "PostgreSQL. The home is a cluster's from then on.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Start the local platform: a real Kafka broker and a real Airflow with this project's DAGs."""
    _start(store, registry, cluster)
    if json:
        _print_parts()


def _start(store: bool, registry: bool, cluster: bool) -> None:
    """Start what is asked for, and wait until it answers; progress goes to the console."""
    places = Places.from_env(os.environ)
    if registry:
        platform.up(places, console.print, only=("registry",))
        os.environ["WINDROW_REGISTRY"] = os.environ.get("WINDROW_REGISTRY") or platform.Registry(places).url
        places = Places.from_env(os.environ)
    if cluster or platform.cluster.is_in(places.home):
        _up_cluster()
        return
    if (tables := _in_own_store(places, asked=store)) is None:
        _require_tables(places)
    else:
        places = _with_own_store(places, tables)
    platform.up(places, console.print)
    _show_login(places)


def _with_own_store(places: Places, tables: str) -> Places:
    """Start the home's own store for tables in it; where Airflow may not have them, one that did not run is stopped."""
    own = platform.Store(places)
    did_run = own.process.process() is not None
    platform.up(places, console.print, only=("store",))
    os.environ.update({**own.environment(), "WINDROW_TABLES": tables})
    places = Places.from_env(os.environ)
    try:
        _require_tables(places)
    except Condition:
        if not did_run:
            platform.down(places, console.print, only=("store",))
        raise
    return places


def _in_own_store(places: Places, *, asked: bool) -> str | None:
    """Where in the home's own store the tables are: as the environment says, as Airflow kept them, or as asked for.

    Raises:
        BadInput: the store is asked for, and the environment has the tables elsewhere.
    """
    local, kept = platform.Store(places), platform.Airflow(places).kept or ""
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or ""
    here = local.location("")
    is_here = places.are_in_store and f"{places.tables}/".startswith(f"{local.url}/")
    if is_here and (local.is_at(endpoint) or (asked and (not endpoint or local.has_address(endpoint)))):
        return places.tables
    if asked and is_here and kept.endswith(here):  # the shell was sourced before the store had another port
        return places.tables
    if asked and places.tables:
        at = f" and AWS_ENDPOINT_URL={without_login(endpoint)}" if is_here else ""
        raise BadInput(
            f"--store is for tables in the home's own store, and WINDROW_TABLES={places.tables}{at} has them "
            "elsewhere: leave one of them out"
        )
    if kept.endswith(here) and not places.tables:
        return kept.removesuffix(here)
    return local.url if asked else None


def _require_tables(places: Places) -> None:
    """Check that Airflow finds its tables again, or is to have others, and that a store keeps what it acknowledges.

    Raises:
        OtherPlatform: they were elsewhere, and nothing says that they are to be in the home's folder now.
        StoreUnsafe: the store is none for tables.
    """
    airflow = platform.Airflow(places)
    airflow.require_own_data()
    kept = airflow.kept
    if kept is None and airflow.has_run and not places.tables and platform.Store(places).env.exists():
        raise platform.OtherPlatform(
            "This home has an object store, and the release that started its Airflow has not noted where tables are.",
            f"`windrow up --store` if they are in the store; WINDROW_TABLES={places.home / 'tables'} if they are not.",
        )
    if places.tables:
        require_conditional(places.tables, again=True)
    if kept not in (None, airflow.location):
        console.print(f"Airflow kept its tables in {kept} until now: those stay there, unseen from now on")


def _up_cluster() -> None:
    """Start every part of a cluster, after a look at whether this home can be one's."""
    places = platform.cluster.join(os.environ)
    platform.up(places, console.print, only=("store",))
    require_conditional(places.tables or "", again=True)
    platform.up(places, console.print, only=set(platform.CLUSTER_PARTS) - {"store"})
    file = platform.cluster.env_file(places.home)
    console.print(f"The cluster is up. For commands on it, in each shell: source {file}")
    _show_login(places)


def _show_login(places: Places) -> None:
    airflow = platform.Airflow(places)
    console.print(f"Airflow keeps its tables in {airflow.location}")
    console.print(f"Airflow: {airflow.url}  user {airflow.login.user}, password: `windrow status --password`")


def _print_parts() -> None:
    """Print the state of every part as JSON."""
    print_json([part.to_json() for part in platform.status(platform.cluster.places_of(os.environ))])


def down(json: AsJson = False) -> None:
    """Stop the local platform; nothing is lost, and `windrow up` continues from here."""
    places = platform.cluster.places_of(os.environ)
    only = platform.CLUSTER_PARTS if platform.cluster.is_in(places.home) else ("store", *platform.PARTS)
    platform.down(places, console.print, ("registry", *only))
    if cluster := _cluster_below(places):
        console.print(f"A cluster runs in {cluster}: `WINDROW_HOME={quote(str(cluster))} windrow down` stops it")
    if json:
        _print_parts()


def _cluster_below(places: Places) -> Path | None:
    """The home of the cluster of this checkout, where it runs and is not the one that the shell names."""
    home = places.home / "cluster"
    if not platform.cluster.is_in(home):
        return None
    found = platform.cluster.places_of({"WINDROW_HOME": str(home)})
    return home if any(part.pid for part in platform.status(found)) else None


def status(
    json: AsJson = False,
    password: Annotated[bool, typer.Option("--password", help="Also print Airflow's password.")] = False,
) -> None:
    """Show what runs, where, and for how long. The exit code is 0 even if nothing runs."""
    if json:
        _print_parts()
        return
    shell = dict(os.environ)
    places = platform.cluster.places_of(os.environ)
    parts = platform.status(places)
    rows = [
        {
            "part": part.name,
            "state": part.state,
            "pid": str(part.pid or ""),
            "address": part.address,
            "up_for": shown_duration(part.uptime),
        }
        for part in parts
    ]
    print_table(rows, list(rows[0]))
    console.print(f"home {places.home}; logs are in its folder platform")
    if kept := platform.Airflow(places).kept:
        console.print(f"Airflow's tables are in {kept}")
    if others := _other_tables(shell, kept):
        console.print(others)
    if password:
        login = platform.Airflow(places).login
        console.print(f"Airflow user {login.user}, password {login.password}")


def _other_tables(shell: Mapping[str, str], kept: str | None) -> str | None:
    """What is to be said where commands of a shell have other tables than Airflow, or none."""
    try:
        here = platform.Airflow(Places.for_tables(shell), shell).location
    except Condition as refused:
        return f"Commands of this shell are refused. {refused}"
    return None if kept in (None, here) else f"Commands of this shell have theirs in {here}"


COMMANDS: dict[str, Callable[..., None]] = {"setup": setup, "up": up, "down": down, "status": status}
