"""Label state: positive, negative or unknown. An outage of the label side never becomes negatives.

    a label       nothing to doubt       positive
    a label       a doubt                positive, and the reason: its list may be incomplete
    no label      nothing to doubt       negative
    no label      a doubt                unknown, and the reason

Only streams of role `label` decide. `side_silent` in a picture, for one label stream:

                 window of the row
               |<------- after ------>|
    -----------+----------------------+-------------------------> event time
              l.t              c      |           w
                  event clock of p    |           clock of p, moved there by idling
                  (newest - disorder) |
                                      every partition's event clock at or before this line:
                                      nothing but silence says that the window is complete

A drain declares the end of the stream: the silence is then meant, the state is as if complete, and the reason
is `drained`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from windrow.semantics.intervals import utc

DOUBTS = ("null_key", "offset_gap", "forced", "label_quarantined", "side_silent")
"""Why a list of labels may be incomplete, in order of precedence: the first that applies is the reason."""

REASONS = (*DOUBTS, "drained")


@dataclass(frozen=True)
class LabelState:
    """What is known about the labels of a row, and what is in doubt."""

    state: Literal["positive", "negative", "unknown"]
    reason: str | None = None


def is_side_silent(left_at: datetime, after: timedelta, event_clocks: Iterable[datetime | None]) -> bool:
    """Whether no partition of a label stream has seen an event that proves the window's end to be past.

    `event_clocks`: of every partition of every topic of the stream, newest trusted event time at the pin
    minus out-of-orderness, or None without an event. Beyond the window's end is strict, as everywhere.
    """
    return all(c is None or utc(c) - utc(left_at) <= after for c in event_clocks)


def label_state(*, has_label: bool, doubts: Collection[str] = (), drained: bool = False) -> LabelState:
    """The decision for one row. `doubts`: every reason that applies, of any label stream, in any order."""
    strangers = set(doubts) - set(DOUBTS)
    if strangers:
        raise ValueError(f"{sorted(strangers)} are no doubts; these are: {', '.join(DOUBTS)}")
    standing = [d for d in DOUBTS if d in doubts and not (drained and d == "side_silent")]
    if standing:
        return LabelState("positive" if has_label else "unknown", standing[0])
    reason = "drained" if "side_silent" in doubts else None
    return LabelState("positive" if has_label else "negative", reason)
