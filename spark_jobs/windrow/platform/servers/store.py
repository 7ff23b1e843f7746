"""An object store on this machine: S3Proxy on a folder. Objects survive `windrow down` and `up`.

    <home>/platform/store/data/<bucket>/   the objects
    <home>/platform/store/env              address and credentials, for `source`; only its owner may read it
    <home>/platform/store/store.log        its output

One process decides which of two conditional PUTs of a key wins, as a store in a cloud does.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from shlex import quote

from filelock import FileLock

from windrow.files import write_whole
from windrow.places import Places
from windrow.platform import jars
from windrow.platform.java import find_java
from windrow.platform.processes import Address, Background, require_port

BUCKET = "windrow"
PATIENCE = timedelta(seconds=120)


class Store:
    """The object store of a home folder, at the address that `places.store` names.

    Args:
        settings: further ones of S3Proxy.
    """

    def __init__(self, places: Places, settings: Mapping[str, str] | None = None) -> None:
        self.places = places
        self._settings = dict(settings or {})
        self.address = Address.parse(places.store)
        self.folder = places.home / "platform" / "store"
        self.process = Background(self.folder, "store")

    @property
    def url(self) -> str:
        """Location for WINDROW_TABLES."""
        return f"s3://{BUCKET}"

    @property
    def endpoint(self) -> str:
        """Address for AWS_ENDPOINT_URL."""
        return f"http://{self.address}"

    def is_at(self, endpoint: str) -> bool:
        """Whether this store has been set up, and `endpoint` is its address."""
        return self.env.exists() and self.has_address(endpoint)

    def has_address(self, endpoint: str) -> bool:
        """Whether `endpoint` is this store's address, set up or not."""
        one, other = (text.rstrip("/").replace("//localhost:", "//127.0.0.1:") for text in (endpoint, self.endpoint))
        return one == other

    def location(self, tables: str) -> str:
        """The location of tables in this store, whatever its address is.

        Args:
            tables: URL below its bucket.
        """
        return f"{tables} in {os.path.realpath(self.folder)}"

    @property
    def env(self) -> Path:
        """File for `source`, with address, credentials and WINDROW_TABLES."""
        return self.places.store_env

    def environment(self) -> dict[str, str]:
        """Variables by which every process finds the store. The secret is made once, and is nowhere but in `env`."""
        file = self.folder / "secret"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            write_whole(file, secrets.token_urlsafe(24), private=True)
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "windrow",
            "AWS_SECRET_ACCESS_KEY": file.read_text(),
        }

    def start(self) -> None:
        """Start it and wait until it answers. Idempotent.

        Raises:
            PortTaken, JavaMissing, JarsMissing, DidNotStart: the message says what to do.
        """
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            if self.process.process() is None:
                self.process.stop()
                require_port(self.address, "the object store", "WINDROW_STORE (host:port)")
                self._write_files()
                self.process.start(self._command, os.environ, self.folder)
            self.process.wait(self.is_up, PATIENCE, f"read {self.process.log}, then run it again.")

    def stop(self) -> bool:
        """Stop it and return whether it ran. Its objects are kept."""
        return self.process.stop(patience=timedelta(seconds=10))

    def is_up(self) -> bool:
        """Whether it lists its bucket."""
        from obstore.exceptions import BaseError
        from obstore.store import S3Store

        if self.process.process() is None:
            return False
        known = self.environment()
        try:
            S3Store(
                BUCKET,
                endpoint=self.endpoint,
                region=known["AWS_REGION"],
                access_key_id=known["AWS_ACCESS_KEY_ID"],
                secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
                client_options={"allow_http": True},
                retry_config={"max_retries": 0},
            ).list_with_delimiter()
        except BaseError:
            return False
        return True

    def _write_files(self) -> None:
        known = self.environment()
        settings = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": known["AWS_ACCESS_KEY_ID"],
            "s3proxy.credential": known["AWS_SECRET_ACCESS_KEY"],
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.folder / "data"),
            **self._settings,
        }
        lines = [f"export {name}={quote(value)}\n" for name, value in {**known, "WINDROW_TABLES": self.url}.items()]
        for file, text in (
            (self._properties, "".join(f"{name}={value}\n" for name, value in settings.items())),
            (self.env, "".join(lines)),
        ):
            write_whole(file, text, private=True)

    @property
    def _properties(self) -> Path:
        return self.folder / "s3proxy.properties"

    @property
    def _command(self) -> list[str]:
        return [
            str(find_java(os.environ)),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlogback.configurationFile={Path(__file__).with_name('store-logback.xml')}",
            "-cp",
            jars.class_path(self.places, "store"),
            "org.gaul.s3proxy.Main",
            "--properties",
            str(self._properties),
        ]
