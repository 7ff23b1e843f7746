"""A schema registry on this machine: Apicurio, by Confluent's API. Its schemas survive `windrow down` and `up`.

<home>/platform/registry/schemas.*           its database: an id never gets another schema
<home>/platform/registry/registry.log        its output
"""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from filelock import FileLock

from windrow.places import Places
from windrow.platform import jars
from windrow.platform.conditions import JarsMissing
from windrow.platform.java import find_java
from windrow.platform.processes import Address, Background, require_port

PATIENCE = timedelta(seconds=120)
API = "/apis/ccompat/v7"
DEFAULT = f"http://127.0.0.1:19094{API}"


class Registry:
    """The schema registry of a home folder, at the address of the registry that pipeline files call `default`."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.url = places.registry("default") or DEFAULT
        self.address = Address.parse(urlsplit(self.url).netloc)
        self.folder = places.home / "platform" / "registry"
        self.process = Background(self.folder, "registry")

    def start(self) -> None:
        """Start it and wait until it answers. Idempotent.

        Raises:
            PortTaken, JavaMissing, JarsMissing, DidNotStart: the message says what to do.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            if self.process.process() is None:
                self.process.stop()
                require_port(self.address, "the schema registry", "WINDROW_REGISTRY (a URL)")
                host, port = str(self.address).rsplit(":", 1)
                environment = {
                    **os.environ,
                    "QUARKUS_HTTP_HOST": host,
                    "QUARKUS_HTTP_PORT": port,
                    "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{self.folder / 'schemas'};AUTO_SERVER=FALSE",
                }
                self.process.start(self._command, environment, self.folder)
            self.process.wait(self.is_up, PATIENCE, f"read {self.process.log}, then run it again.")

    def stop(self) -> bool:
        """Stop it and return whether it ran. Its schemas are kept."""
        return self.process.stop(patience=timedelta(seconds=10))

    def is_up(self) -> bool:
        """Whether it lists its subjects."""
        if self.process.process() is None:
            return False
        try:
            with urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    @property
    def _command(self) -> list[str]:
        found = sorted((jars.folder(self.places) / "registry").rglob("apicurio-registry-app-*-runner.jar"))
        if not found:
            raise JarsMissing("The schema registry has not been fetched.", "run `windrow setup registry`.")
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [str(find_java(os.environ)), *options, "-jar", str(found[-1])]
