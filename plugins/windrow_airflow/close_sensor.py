"""Waits until an interval's window is closed by the data's clock: rows wait, they are never given up.

The run started when the window should have closed by the wall clock, so usually the first look, here in the
worker, is the last. Where data lags the task defers: no worker slot, no Spark, no timeout.

An interval that another run has already published needs none of what follows: the rest of the run is skipped,
and the run succeeds. A backfilled or cleared run publishes anew and skips nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from windrow.config import PipelineInvalid
from windrow.semantics.intervals import Interval
from windrow_airflow.close_trigger import WindowCloseTrigger
from windrow_airflow.instants import plain
from windrow_airflow.run_identity import PUBLISH, mode
from windrow_airflow.window import Window, look, utc_now

if TYPE_CHECKING:
    from airflow.sdk import Context


class WindowCloseSensor(BaseSensorOperator):
    """One look in the worker, then deferred until the run's data interval is closed."""

    def __init__(self, *, pipeline: str, every: timedelta = timedelta(seconds=15), **kwargs: Any) -> None:
        super().__init__(poke_interval=every, **kwargs)
        self.pipeline = pipeline
        self.every = every

    def execute(self, context: Context) -> str:
        window = self._look(context)
        if not window.is_closed and not self._is_over(window, context):
            self.log.info(window.describe(utc_now()))
            self._wait(window.interval, context)
        return self._end(window, context)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Back from the triggerer: look again, because the event is a hint and the tables are the truth."""
        self.log.info(event["message"])
        window = self._look(context)
        if not window.is_closed and not self._is_over(window, context):
            self._wait(window.interval, context)
        return self._end(window, context)

    def _look(self, context: Context) -> Window:
        begin, end = context.get("data_interval_start"), context.get("data_interval_end")
        if begin is None or end is None:
            raise AirflowFailException("this run has no data interval: only scheduled and backfill runs work here")
        try:
            return look(self.pipeline, Interval(plain(begin), plain(end)))
        except PipelineInvalid as invalid:
            raise AirflowFailException(str(invalid)) from None

    def _is_over(self, window: Window, context: Context) -> bool:
        return window.published is not None and mode(context["dag_run"]) == PUBLISH

    def _wait(self, interval: Interval, context: Context) -> NoReturn:
        self.defer(
            trigger=WindowCloseTrigger(
                pipeline=self.pipeline,
                start=interval.start.isoformat(),
                end=interval.end.isoformat(),
                poke_seconds=self.every.total_seconds(),
                until_published=mode(context["dag_run"]) == PUBLISH,
            ),
            method_name="resume",
        )
        raise AssertionError("defer does not return")

    def _end(self, window: Window, context: Context) -> str:
        sentence = window.describe(utc_now())
        self.log.info(sentence)
        if self._is_over(window, context):
            self.log.info("Another run published it: the rest is skipped. To publish anew, backfill or clear.")
            raise DownstreamTasksSkipped(tasks=sorted(self.downstream_task_ids))
        if window.published is not None:
            self.log.info("This run was backfilled or cleared: it plans anew, and publishes again.")
        return sentence
