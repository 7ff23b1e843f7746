"""Settings of the simulated traffic: who is served what, what people do, how it arrives, and the pipeline's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from windrow.semantics.intervals import MICROSECOND
from windrow.simulate.poison import KINDS, PoisonKind
from windrow.simulate.truth import JoinRules


@dataclass(frozen=True)
class Traffic:
    """Settings of the traffic. Shares are between 0 and 1; `start` has a time zone."""

    start: datetime
    rows: int = 10_000
    span: timedelta = timedelta(hours=1)
    seed: int = 1
    # who is served what
    users: int = 20_000
    items: int = 1_000
    skew: float = 0.8
    """Zipf exponent of users and items: 0 is uniform, above 1 a few keys take most of the traffic."""
    features: int = 16
    # what they do
    click_rate: float = 0.05
    purchase_share: float = 0.1
    """Share of clicks that are followed by a purchase, an event of the same topic that is not a click."""
    delay_median: timedelta = timedelta(seconds=90)
    delay_sigma: float = 1.4
    delay_max: timedelta = timedelta(minutes=45)
    """Longest delay; longer than the window of 30 minutes, so that some labels come too late."""
    boundary_share: float = 0.02
    """Share of clicks put at the end of the window, alternately exactly at it and a microsecond after it."""
    # how it arrives
    disorder: float = 1.0
    """Used share of the out-of-orderness: 0 produces in event order."""
    retries: float = 0.01
    """Share of events that are sent twice: same bytes, another offset, any partition."""
    served_partitions: int = 4
    engagement_partitions: int = 3
    idle_partition: int | None = None
    """A partition of the served topic that never gets a record."""
    idle_engagement_partition: int | None = None
    silent: tuple[datetime, datetime] | None = None
    """Engagements with an event time in `[from, to)` are lost before Kafka."""
    poison: Mapping[PoisonKind, float] = field(default_factory=dict)
    """By kind, share of the rows that are followed by poison on each topic; at least one row if above 0."""
    stamp_ahead: bool = False
    """Whether `far_ahead` poison also has a CreateTime of 2099."""
    # what the pipeline file says
    served_topic: str = "feed.served"
    engagements_topic: str = "feed.engagements"
    before: timedelta = timedelta(0)
    after: timedelta = timedelta(minutes=30)
    interval: timedelta = timedelta(minutes=10)
    grace: timedelta = timedelta(minutes=1)
    out_of_orderness: timedelta = timedelta(seconds=30)
    label_out_of_orderness: timedelta = timedelta(minutes=1)

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.start.tzinfo is None:
            raise ValueError("start has no time zone: give an aware UTC datetime")
        if self.rows < 1 or self.span <= timedelta(0):
            raise ValueError(f"rows ({self.rows}) and span ({self.span}) must be positive")
        if self.users < 1 or self.items < 1 or self.features < 0:
            raise ValueError("users and items must be at least 1, features at least 0")
        for name in ("click_rate", "purchase_share", "boundary_share", "disorder", "retries"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        for kind, share in self.poison.items():
            if kind not in KINDS:
                raise ValueError(f"unknown poison {kind!r}: one of {', '.join(KINDS)}")
            if not 0 <= share <= 1:
                raise ValueError(f"the share of poison {kind!r} must be between 0 and 1, not {share}")
        if self.silent is not None and not self.silent[0] < self.silent[1]:
            raise ValueError("silent must be (from, to) with from before to")
        if self.delay_median <= timedelta(0) or self.delay_max <= timedelta(0) or self.delay_sigma < 0:
            raise ValueError("delay_median and delay_max must be positive, delay_sigma at least 0")
        for topic, partitions, idle in (
            (self.served_topic, self.served_partitions, self.idle_partition),
            (self.engagements_topic, self.engagement_partitions, self.idle_engagement_partition),
        ):
            if partitions < (1 if idle is None else 2) or not (idle is None or 0 <= idle < partitions):
                raise ValueError(f"{topic}: {partitions} partitions, partition {idle} idle, leave none to use")

    @property
    def rate(self) -> float:
        """Served rows per second."""
        return self.rows / self.span.total_seconds()

    @property
    def topics(self) -> dict[str, int]:
        """Topics and their numbers of partitions."""
        return {
            self.served_topic: self.served_partitions,
            self.engagements_topic: self.engagement_partitions,
        }

    @property
    def ends_at(self) -> datetime:
        """Before this instant all records are produced and all events happen, except `far_ahead` poison."""
        latest = max(self.delay_max, self.after + MICROSECOND) * 2
        return self.start + self.span + latest + max(self.out_of_orderness, self.label_out_of_orderness)

    @property
    def rules(self) -> JoinRules:
        """The join rules of `pipeline_yaml`."""
        return JoinRules(self.start, self.interval, self.after, self.label_out_of_orderness, before=self.before)
