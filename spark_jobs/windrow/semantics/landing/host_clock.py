"""The clock of the landing host: what it says decides which events are ahead of their time (rule 7).

    last landing                 now            a little back (NTP): at most `max_skew`, landing goes on
    ──────┴──────────────┬─────────┴──▶ time    further back: landing refuses, and the records wait in the topics
                         └ trusted from here on

A clock that went back by an hour would make every new event one that is ahead of its landing, and quarantine it.

A clock that is ahead by an hour would let idle partitions follow it: intervals would be closed and published whose
events are still to come. No earlier landing shows that, so the clock is compared with the one of the broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from windrow.outcomes import NotReady
from windrow.semantics.intervals import shifted
from windrow.text import shown_duration, shown_instant


class ClockWentBack(NotReady):
    """The host's clock is behind the last landing. A retry helps once the clock is right again."""


CLOCKS_AGREE = timedelta(minutes=1)
"""Clocks of two hosts that differ by no more are taken for equal, also where `max_skew` is smaller."""


class ClockAhead(NotReady):
    """The host's clock is ahead of the broker's. A retry helps once both are right."""


def refuse_clock_ahead(host: datetime, broker: datetime | None, max_skew: timedelta) -> None:
    """Refuse to land where the host's clock is more than `max_skew`, and more than a minute, ahead of the broker's.

    Args:
        host: what the clock of the host says.
        broker: what the broker's clock said right after; None where the cluster does not tell it.

    Raises:
        ClockAhead: says by how much, and what to do.
    """
    allowed = max(max_skew, CLOCKS_AGREE)
    if broker is not None and host > shifted(broker, allowed):
        raise ClockAhead(
            f"the clock of this host says {shown_instant(host)}, and the clock of the broker "
            f"{shown_instant(broker)}, which is {shown_duration(host - broker)} behind it; allowed are "
            f"{shown_duration(allowed, exact=True)}. Nothing was landed, and no idle partition followed the clock: "
            "intervals would be closed whose events are still to come. Correct the clock that is wrong (NTP), then run "
            "again. If it is the broker's: `windrow land NAME --trust-clock`."
        )


def refuse_clock_that_went_back(landed_at: datetime, before: Iterable[datetime], max_skew: timedelta) -> None:
    """Refuse a landing time that is more than `max_skew` before the last one.

    Args:
        landed_at: what the clock of the host says now.
        before: the landing times of the newest observation; none before the first landing.

    Raises:
        ClockWentBack: says by how much, and what to do.
    """
    last = max(before, default=None)
    if last is not None and landed_at < shifted(last, -max_skew):
        raise ClockWentBack(
            f"the clock of this host says {shown_instant(landed_at)}, which is "
            f"{shown_duration(last - landed_at, exact=True)} before the last landing at {shown_instant(last)}; allowed "
            f"are {shown_duration(max_skew, exact=True)} (`max_skew`). Nothing was landed or quarantined: the records "
            "wait in their topics. Correct the clock of the host (NTP), then run again. If it is right now and was "
            "ahead before: `windrow land NAME --trust-clock`."
        )
