"""The deferred half of the wait: look at the window every few seconds, in a thread, and log what holds it.

It holds no worker slot and never blocks the triggerer's event loop. The wait also ends when another run publishes the
interval. A look that fails (a table is being created, a pipeline file is being edited) is logged and repeated, because
such a failure means nothing about the data.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from windrow.semantics.intervals import Interval
from windrow_airflow.window import Looks, utc_now

LOG_AGAIN_AFTER = timedelta(minutes=5)
"""An unchanged state is logged again after this time."""


@cache
def looks() -> Looks:
    """What all triggers of this process have seen."""
    return Looks()


class WindowCloseTrigger(BaseTrigger):
    """Fires once: when the interval is closed or, with `until_published`, over, or forced by the bounds."""

    def __init__(self, pipeline: str, start: str, end: str, poke_seconds: float, until_published: bool) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.start = start
        self.end = end
        self.poke_seconds = poke_seconds
        self.until_published = until_published

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "pipeline": self.pipeline,
                "start": self.start,
                "end": self.end,
                "poke_seconds": self.poke_seconds,
                "until_published": self.until_published,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, with whether the interval is closed and a sentence about it."""
        interval = Interval(datetime.fromisoformat(self.start), datetime.fromisoformat(self.end))
        logged, logged_at = "", datetime.min.replace(tzinfo=UTC)
        while True:
            now = utc_now()
            try:
                window = await asyncio.to_thread(
                    looks().look, self.pipeline, interval, is_scheduled=self.until_published
                )
            except Exception as failed:
                sentence = state = f"cannot look at the window of {interval}, next try in a few seconds: {failed}"
            else:
                if window.is_ready or (self.until_published and window.is_over):
                    yield TriggerEvent({"closed": window.is_closed, "message": window.describe(now)})
                    return
                # Compared as of the landing, because its growing age alone is not worth a line.
                sentence, state = window.describe(now), window.describe(window.landed_at or now)
            if state != logged or now - logged_at >= LOG_AGAIN_AFTER:
                self.log.info(sentence)
                logged, logged_at = state, now
            await asyncio.sleep(self.poke_seconds)
