"""Run the demo on the services of docker/compose.yaml: by docker where that is there, else by buildah (as root).

buildah knows nothing of Compose, so each service is started here with what the file says of it: command, environment,
host name, user and entry point of the image, one home for all, and the next ones when its check succeeds. Ends with the
demo's exit code; services, containers and the home of this try are removed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "compose.yaml"
DEMO = ["sh", "-c", ". platform/cluster/env && windrow demo"]
STARTS_WITHIN_S, ENDS_WITHIN_S, ASK_AGAIN_S = 300, 90, 2
Service = dict[str, Any]


class Failed(Exception):
    """A service did not start; the message has the end of its log."""


def main() -> int:
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        return _by_docker()
    if not shutil.which("buildah"):
        sys.exit("neither a docker engine nor buildah is here (apt-get install buildah)")
    services = yaml.safe_load(FILE.read_text())["services"]
    with tempfile.TemporaryDirectory(prefix="windrow-images-") as folder, ExitStack() as started:
        image = _image(next(iter(services.values()))["image"])  # one image is every part's
        home = _home(Path(folder), int(image["User"]))
        for name in sorted(services, key=lambda name: len(services[name].get("depends_on", ()))):
            service = started.enter_context(_Container(name, services[name], home, image["Entrypoint"]).there())
            started.enter_context(service.running(Path(folder) / f"{name}.log"))
            print(f"{name} answers", flush=True)
        return subprocess.run(service.command(DEMO)).returncode


def _by_docker() -> int:
    compose = ["docker", "compose", "--file", str(FILE), "--project-name", "windrow-demo"]
    try:
        subprocess.run([*compose, "up", "--detach", "--wait"], check=True)
        return subprocess.run([*compose, "exec", "--no-TTY", "airflow", *DEMO]).returncode
    finally:
        subprocess.run([*compose, "down", "--volumes"])


def _home(folder: Path, user: int) -> Path:
    """The home of all services, of the image's user as in a new volume."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    os.chown(home, user, user)
    folder.chmod(0o711)
    return home


def _image(name: str) -> dict[str, Any]:
    """User, entry point and so on of an image."""
    told = subprocess.run(["buildah", "inspect", "--type", "image", name], check=True, capture_output=True).stdout
    config: dict[str, Any] = json.loads(told)["OCIv1"]["config"]
    return config


class _Container:
    def __init__(self, name: str, service: Service, home: Path, entrypoint: list[str]) -> None:
        self.name, self.service, self.home, self.entrypoint = f"windrow-demo-{name}", service, home, entrypoint

    @contextmanager
    def there(self) -> Iterator[_Container]:
        image = ["--pull=never", self.service["image"]]
        subprocess.run(["buildah", "from", "--name", self.name, *image], check=True, capture_output=True)
        try:
            yield self
        finally:
            subprocess.run(["buildah", "rm", self.name], check=True, capture_output=True)

    @contextmanager
    def running(self, log: Path) -> Iterator[None]:
        """The service's own command, from its first good answer on."""
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.command(self.service["command"]), stdout=out, stderr=out, start_new_session=True
            )
        try:
            self._wait(process, log)
            yield
        finally:
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Let the service stop what it has started: the signal is for it alone, or buildah would end before it has.

        buildah puts it into another process group, but not into another session; it is the newest there of its name.
        """
        session = ["--session", str(process.pid)]
        subprocess.run(["pkill", "--signal", "TERM", "--newest", "--full", *session, "windrow.platform run"])
        until = time.monotonic() + ENDS_WITHIN_S
        while subprocess.run(["pgrep", *session], capture_output=True).returncode == 0 and time.monotonic() < until:
            process.poll()
            time.sleep(ASK_AGAIN_S)
        subprocess.run(["pkill", "--signal", "KILL", *session])
        process.wait()

    def command(self, command: list[str]) -> list[str]:
        """`buildah run` of a command as the service would run it."""
        places = [f"--volume={self.home}:{volume.partition(':')[2]}" for volume in self.service["volumes"]]
        umask = "WINDROW_UMASK=077"  # the default that the file gives it
        how = ["--isolation=chroot", "--network=host", f"--hostname={self.service['hostname']}", f"--env={umask}"]
        return ["buildah", "run", *how, *places, self.name, "--", *self.entrypoint, *command]

    def _wait(self, process: subprocess.Popen[bytes], log: Path) -> None:
        check = self.command(self.service["healthcheck"]["test"][1:])
        until = time.monotonic() + STARTS_WITHIN_S
        while subprocess.run(check, capture_output=True).returncode != 0:
            if process.poll() is not None or time.monotonic() > until:
                raise Failed(f"{self.name} does not answer:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(ASK_AGAIN_S)


if __name__ == "__main__":
    sys.exit(main())
