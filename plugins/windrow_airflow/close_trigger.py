"""The deferred half of the wait: looks at the window every few seconds, in a thread, and says what holds it.

Holds no worker slot and never blocks the triggerer's loop. Whoever else publishes the interval ends the wait
too. A look that fails (a table being written for the first time, a pipeline file being edited) is logged and
repeated: nothing about the data follows from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from windrow.semantics.intervals import Interval
from windrow_airflow.window import look, utc_now

SAY_AGAIN_AFTER = timedelta(minutes=5)


class WindowCloseTrigger(BaseTrigger):
    """Fires once, when the interval is closed or, where that ends the wait, published."""

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
        interval = Interval(datetime.fromisoformat(self.start), datetime.fromisoformat(self.end))
        said, said_at = "", datetime.min.replace(tzinfo=UTC)
        while True:
            now = utc_now()
            try:
                window = await asyncio.to_thread(look, self.pipeline, interval)
            except Exception as failed:
                sentence = state = f"cannot look at the window of {interval}, will look again: {failed}"
            else:
                if window.is_closed or (self.until_published and window.published is not None):
                    yield TriggerEvent({"closed": window.is_closed, "message": window.describe(now)})
                    return
                # As of the landing: that it grows older by the second is no news.
                sentence, state = window.describe(now), window.describe(window.landed_at or now)
            if state != said or now - said_at >= SAY_AGAIN_AFTER:
                self.log.info(sentence)
                said, said_at = state, now
            await asyncio.sleep(self.poke_seconds)
