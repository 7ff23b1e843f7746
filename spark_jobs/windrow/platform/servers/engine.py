"""The warm engine of a home as a part of the local platform: started and stopped like the others, needed by none.

<home>/platform/engine/engine.log    what it says, and which jobs it has run
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from filelock import FileLock

from windrow.places import Places
from windrow.platform import engine
from windrow.platform.jobs_side import JobsSide
from windrow.platform.processes import Background


class Engine:
    """The engine of a home folder."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.folder = engine.folder(places)
        self.process = Background(self.folder, "engine")

    def start(self, side: JobsSide, environ: Mapping[str, str]) -> None:
        """Start it, and do not wait: until it answers, jobs start their own Spark. Idempotent.

        Args:
            side: the Python that jobs run in.
            environ: what jobs inherit too.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / "start.lock"):
            own = {**environ, "WINDROW_HOME": str(self.places.home)}
            self.process.start([side.python, "-m", "windrow.engine"], own, self.folder)

    def wait(self, patience: timedelta = timedelta(seconds=180)) -> None:
        """Wait until it takes jobs.

        Raises:
            DidNotStart: it ended, or did not answer within `patience`.
        """
        self.process.wait(self.is_up, patience, f"read {self.process.log}, then run it again.")

    def stop(self) -> bool:
        """Stop it with all of its jobs, and return whether it ran. Interrupted jobs are started again by Airflow."""
        return self.process.stop(patience=timedelta(seconds=10))

    def is_up(self) -> bool:
        """Whether it answers."""
        if self.process.process() is None:
            return False
        with suppress(engine.NotTaken), engine.connect(self.places):
            return True
        return False
