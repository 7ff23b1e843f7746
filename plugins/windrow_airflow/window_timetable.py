"""One run per interval, without holes, started when the interval's window should have closed.

            data interval          after + grace + out-of-orderness (delay)
        [--------------------)|<------------------------------------------->|
    ----+--------------------+----------------------------------------------+-----> wall clock
      from                   to                                          run_after

The first run is `[start, start + interval)`; the next one begins where the last one ended, however long the scheduler
was down. `catchup` is always on, whatever the DAG sets, because an interval without a run would be a hole. If the
window is longer than the interval, several intervals wait at once. All arithmetic is on UTC instants, so summer time
and time zones of processes make no difference.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, Timetable

from windrow.semantics.intervals import interval_of, on_grid
from windrow.text import shown_duration, shown_instant
from windrow_airflow.instants import plain

if TYPE_CHECKING:
    from airflow.timetables.base import TimeRestriction
    from airflow.utils.types import DagRunType


class WindowTimetable(Timetable):
    """Intervals `[start + n * interval, …)`, each with `run_after = end + delay`."""

    periodic = True
    can_be_scheduled = True

    def __init__(self, start: datetime, interval: timedelta, delay: timedelta) -> None:
        if not on_grid(plain(start), interval):
            raise ValueError(f"start {shown_instant(start)} is not on the UTC grid of {shown_duration(interval)}")
        if delay < timedelta():
            raise ValueError(f"a run cannot start {-delay} before its interval ends")
        self.start = plain(start)
        self.interval = interval
        self.delay = delay
        length, wait = shown_duration(interval), shown_duration(delay)
        self.description = f"each interval of {length} is closed and published {wait} after its end"

    @property
    def summary(self) -> str:
        """Text in the list of DAGs."""
        return f"every {shown_duration(self.interval)}, {shown_duration(self.delay)} later"

    def serialize(self) -> dict[str, Any]:
        return {
            "start": self.start.isoformat(),
            "interval": self.interval.total_seconds(),
            "delay": self.delay.total_seconds(),
        }

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> WindowTimetable:
        return cls(
            datetime.fromisoformat(data["start"]),
            timedelta(seconds=data["interval"]),
            timedelta(seconds=data["delay"]),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WindowTimetable) and self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash((self.start, self.interval, self.delay))

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        """The run of the interval after the last one, or of the first; None after the restriction's end."""
        begin = self.start
        if restriction.earliest is not None:
            begin = max(begin, plain(restriction.earliest))
        if last_automated_data_interval is not None:
            begin = max(begin, plain(last_automated_data_interval.end))
        begin = self._next_start(begin)
        if restriction.latest is not None and begin > plain(restriction.latest):
            return None
        return self._run(begin)

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        """Refuse manual runs: one would take the logical date of the next interval. The form shows the message."""
        raise ValueError("this DAG runs by interval: choose Backfill in this form, or use its .rebuild DAG")

    def generate_run_id(
        self, *, run_type: DagRunType, run_after: datetime, data_interval: DataInterval | None, **extra: Any
    ) -> str:
        """Name a run after its interval, as people look for it, not after the time at which it starts."""
        named_after = data_interval.start if data_interval is not None else run_after
        return run_type.generate_run_id(suffix=named_after.isoformat())

    def _next_start(self, at: datetime) -> datetime:
        """The first start of an interval at or after an instant."""
        interval = interval_of(at, self.start, self.interval)
        return interval.start if interval.start == at else interval.end

    def _run(self, start: datetime) -> DagRunInfo:
        end = start + self.interval
        return DagRunInfo(
            run_after=pendulum.instance(end + self.delay),
            data_interval=DataInterval(pendulum.instance(start), pendulum.instance(end)),
        )
