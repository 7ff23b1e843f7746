"""What can be missing on a machine, said so that a person knows the next move."""

from __future__ import annotations

from windrow.outcomes import NotReady


class PlatformNotReady(NotReady):
    """A condition of this machine, not of the data: what is missing, and what to do about it."""

    def __init__(self, condition: str, move: str) -> None:
        super().__init__(f"{condition}\n  → {move}")
        self.condition = condition
        self.move = move


class PortTaken(PlatformNotReady):
    """Somebody else listens where a part of the platform should."""


class DidNotStart(PlatformNotReady):
    """A part was started and did not answer in time; its log says why."""


class JarsMissing(PlatformNotReady):
    """The jars could not be fetched, or were not fetched yet."""


class JavaMissing(PlatformNotReady):
    """No Java that Spark and Kafka can run on."""


class DiskFull(PlatformNotReady):
    """Not enough room where something must be written."""
