"""A candidate compared with earlier intervals, as further measures: a pure function of counts that are on record.

    label_rate_history, label_rate_z        the label rate, with up to 24 earlier intervals       (`history`)
    volume_usual.S, volume_z.S              rows of a stream, with recent intervals and the same hour (`volume`)
    first_empty.S                           1 where a served topic is empty for the first time, else 0
    partition_usual.T/p, partition_z.T/p    the same of a partition without a row, in a topic that has some
    quarantine_least.T                      share of a topic's records that cannot be read, beyond chance

Publications that readers see are earlier intervals, and so are the candidates of the same run that may be published: a
run that catches up judges each interval as one run per interval would. A forced interval is incomplete: it is no
history, and its own volume is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from windrow.config import Pipeline
from windrow.quality.history import Earlier, label_rate_history, trusted
from windrow.quality.tails import least_share
from windrow.quality.volume import Volume, newest_filled, recent, recent_before, same_hour_before, volume
from windrow.semantics.plan import Plan

HISTORY = 24
"""Number of earlier intervals that a label rate is compared with."""

Numbers = Mapping[str, float | None]


class EarlierInterval(NamedTuple):
    """What is on record about an earlier interval."""

    config_hash: str
    labels: Earlier
    volumes: Mapping[str, int] | None
    """measures `volume.…` by name; None where they were not counted, or the interval was forced"""

    @property
    def overridden(self) -> bool:
        """Whether a person published it although it was blocked."""
        return self.labels.overridden


def as_earlier(plan: Plan, numbers: Numbers) -> EarlierInterval:
    """Return a candidate that may be published as history for later intervals of its run.

    Args:
        numbers: measures of the candidate.
    """
    return EarlierInterval(plan.config_hash, Earlier(*_labels(numbers)), volumes_of(numbers))


def volumes_of(numbers: Numbers) -> dict[str, int] | None:
    """Return the volumes among an interval's measures; None where they were not counted, or the interval was forced."""
    volumes = {name: int(value) for name, value in numbers.items() if name.startswith("volume.") and value is not None}
    return None if numbers.get("unknown.forced") or not volumes else volumes


def compared(
    pipeline: Pipeline, plan: Plan, numbers: Numbers, earlier: Mapping[datetime, EarlierInterval]
) -> dict[str, float | None]:
    """Return the measures of a candidate that compare it with earlier intervals.

    Args:
        numbers: its own measures.
        earlier: by interval start; intervals at or after the candidate's are left out.
    """
    before = {start: one for start, one in sorted(earlier.items()) if start < plan.interval.start}
    return {
        **_label_rate(plan, numbers, list(before.values())),
        **_volumes(pipeline, plan, volumes_of(numbers), before),
        **{f"quarantine_least.{topic}": _least(topic, numbers) for topic in pipeline.topics},
    }


def _label_rate(plan: Plan, numbers: Numbers, earlier: Sequence[EarlierInterval]) -> dict[str, float | None]:
    counts = [one.labels for one in earlier if one.config_hash == plan.config_hash and any(one.labels[:2])]
    found = label_rate_history(counts[-HISTORY:], *_labels(numbers))
    return {"label_rate_history": found.mean, "label_rate_z": found.z}


def _labels(numbers: Numbers) -> tuple[int, int]:
    """Rows with a label, and rows without, whose lists are complete.

    A candidate of an earlier release does not state which are; it is compared only where every state is known.
    """
    if "positive_complete" not in numbers and numbers.get("unknown"):
        return 0, 0
    positive = numbers.get("positive_complete", numbers.get("positive"))
    return int(positive or 0), int(numbers.get("negative") or 0)


class _Past(NamedTuple):
    """Volumes of earlier intervals, oldest first."""

    recent: list[Mapping[str, int]]
    same_hour: list[Mapping[str, int]]
    most: int
    """number of intervals with rows that are recent"""

    @property
    def names(self) -> set[str]:
        return {name for one in (*self.recent, *self.same_hour) for name in one}

    def against(self, name: str, rows: int) -> Volume:
        """Compare rows with those that had this name; a partition that is not named had none."""
        newest, same_hour = (
            [one.get(name, 0) for one in past if "/" in name or name in one] for past in (self.recent, self.same_hour)
        )
        return volume(newest_filled(newest, self.most), same_hour, rows)


def _volumes(
    pipeline: Pipeline, plan: Plan, now: Mapping[str, int] | None, before: Mapping[datetime, EarlierInterval]
) -> dict[str, float | None]:
    """Measures of the streams, and of the partitions that are empty now. The pipeline file may have changed since."""
    at = plan.interval
    recently, same_hour = (_volumes_at(starts, before) for starts in (recent_before(at), same_hour_before(at)))
    past = _Past(recently, same_hour, recent(at.length))
    found: dict[str, float | None] = {}
    for stream in pipeline.streams:
        for source in stream.sources:
            rows = None if now is None else now.get(f"volume.{source}")
            usual, z = (None, None) if rows is None else past.against(f"volume.{source}", rows)
            found |= {f"volume_usual.{source}": usual, f"volume_z.{source}": z}
            if stream is pipeline.left:
                found[f"first_empty.{source}"] = None if rows is None else _is_first(f"volume.{source}", rows, past)
    for partition in _silent(pipeline, now or {}, past):
        usual, z = past.against(f"volume.{partition}", 0)
        found |= {f"partition_usual.{partition}": usual, f"partition_z.{partition}": z}
    return found


def _volumes_at(starts: Sequence[datetime], before: Mapping[datetime, EarlierInterval]) -> list[Mapping[str, int]]:
    known = [before[start] for start in sorted(starts) if start in before and before[start].volumes is not None]
    return [one.volumes or {} for one in trusted(known)]


def _is_first(name: str, rows: int, past: _Past) -> float | None:
    known = [one[name] for one in (*past.recent, *past.same_hour) if name in one]
    return float(not rows and all(known)) if known else None


def _silent(pipeline: Pipeline, now: Mapping[str, int], past: _Past) -> Iterator[str]:
    """Partitions without a row that had some, of topics whose other partitions have some."""
    for topic in pipeline.topics:
        begin = f"volume.{topic}/"
        if any(name.startswith(begin) for name in now):
            yield from sorted(
                name.removeprefix("volume.") for name in past.names if name.startswith(begin) and name not in now
            )


def _least(topic: str, numbers: Numbers) -> float | None:
    bad, records = (numbers.get(f"{name}.{topic}") for name in ("quarantined", "records"))
    return None if bad is None or records is None else least_share(int(bad), int(records))
