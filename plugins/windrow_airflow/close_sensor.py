"""Wait until an interval's window is closed by the data's clock, however long that takes.

The run starts when the window should have closed by the wall clock, so usually it is closed at the first look, in the
worker. Where data lags, the task defers: it holds no worker slot, needs no Spark and has no timeout. The wait of a
scheduled run also ends where the bounds of the pipeline file force the interval (rule 24).

If another run has already published the interval, the rest of the run is skipped and the run succeeds. A backfilled or
cleared run publishes again and skips nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from windrow.outcomes import BadInput
from windrow.semantics.intervals import Interval
from windrow_airflow.close_trigger import WindowCloseTrigger
from windrow_airflow.instants import plain
from windrow_airflow.run_identity import PUBLISH, mode
from windrow_airflow.window import WindowState, look, utc_now

if TYPE_CHECKING:
    from airflow.sdk import Context


class WindowCloseSensor(BaseSensorOperator):
    """Looks once in the worker, then defers until the run's data interval is closed, or the bounds force it."""

    def __init__(self, *, pipeline: str, every: timedelta = timedelta(seconds=15), **kwargs: Any) -> None:
        super().__init__(poke_interval=every, **kwargs)
        self.pipeline = pipeline
        self.every = every

    def execute(self, context: Context) -> str:
        """Return a sentence about the window, or defer or skip."""
        window = self._look(context)
        if not window.is_ready and not self._is_over(window, context):
            self.log.info(window.describe(utc_now()))
            self._wait(window.interval, context)
        return self._end(window, context)

    def resume(self, context: Context, event: dict[str, Any]) -> str:
        """Continue after the trigger: look again, because only the tables are authoritative, not the event."""
        self.log.info(event["message"])
        window = self._look(context)
        if not window.is_ready and not self._is_over(window, context):
            self._wait(window.interval, context)
        return self._end(window, context)

    def _look(self, context: Context) -> WindowState:
        begin, end = context.get("data_interval_start"), context.get("data_interval_end")
        if begin is None or end is None:
            raise AirflowFailException("this run has no data interval: only scheduled and backfill runs can publish")
        try:
            is_scheduled = mode(context["dag_run"]) == PUBLISH
            return look(self.pipeline, Interval(plain(begin), plain(end)), is_scheduled=is_scheduled)
        except BadInput as wrong:  # a pipeline file that cannot be used, or not any more with what is published
            raise AirflowFailException(str(wrong)) from None

    def _is_over(self, window: WindowState, context: Context) -> bool:
        return window.is_over and mode(context["dag_run"]) == PUBLISH

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

    def _end(self, window: WindowState, context: Context) -> str:
        sentence = window.describe(utc_now())
        self.log.info(sentence)
        if self._is_over(window, context):
            if not window.is_before_start:
                self.log.info(
                    "Another run has published it: the rest is skipped. To publish it again, backfill or clear."
                )
            raise DownstreamTasksSkipped(tasks=sorted(self.downstream_task_ids))
        if window.published is not None:
            self.log.info("This run was backfilled or cleared: it makes a new plan and publishes again.")
        return sentence
