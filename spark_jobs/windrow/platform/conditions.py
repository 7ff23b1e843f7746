"""What can be missing on a machine, as errors that say what to do."""

from __future__ import annotations

from windrow.outcomes import NotReady


class PlatformNotReady(NotReady):
    """This machine lacks something; the data are fine. `condition`: what is missing, `move`: what to do about it."""

    def __init__(self, condition: str, move: str) -> None:
        super().__init__(f"{condition}\n  → {move}")
        self.condition = condition
        self.move = move


class PortTaken(PlatformNotReady):
    """Another process listens on the port of a part of the platform."""


class DidNotStart(PlatformNotReady):
    """A part ended or did not answer in time after its start; the message shows the end of its log."""


class JarsMissing(PlatformNotReady):
    """The jars could not be fetched, or have not been fetched yet."""


class JavaMissing(PlatformNotReady):
    """No Java on which both Spark and Kafka run."""


class NoRoom(PlatformNotReady):
    """Not enough room on a disk that must be written to."""


class OtherPlatform(PlatformNotReady):
    """The home has its data elsewhere: in one broker or in several, in another database, in tables at another place."""


class ServerMissing(PlatformNotReady):
    """A database server or its driver is not there, or this machine's user cannot run it."""
