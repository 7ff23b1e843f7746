"""Label state: positive, negative or unknown. An outage of the label streams never makes rows negative.

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
                                      only idling closed the window, no later event did

A drain declares the end of the stream. Silence is then expected: the state is that of a complete window, and the
reason is `drained`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from windrow.semantics.intervals import utc

NULL_KEY, OFFSET_GAP, FORCED = "null_key", "offset_gap", "forced"
LABEL_QUARANTINED, SIDE_SILENT, DRAINED = "label_quarantined", "side_silent", "drained"

DOUBTS = (NULL_KEY, OFFSET_GAP, FORCED, LABEL_QUARANTINED, SIDE_SILENT)
"""Why a list of labels may be incomplete, in order of precedence: the first that applies is the reason."""

REASONS = (*DOUBTS, DRAINED)


@dataclass(frozen=True)
class LabelState:
    """Label state of a row, and the doubt about its list of labels, if any."""

    state: Literal["positive", "negative", "unknown"]
    reason: str | None = None


def is_side_silent(left_at: datetime, after: timedelta, event_clocks: Iterable[datetime | None]) -> bool:
    """Whether no partition of a label stream has an event later than the window's end.

    Args:
        event_clocks: of every partition of every topic of the stream, newest trusted event time at the pin minus
            out-of-orderness, or None without an event. An event at the window's very end is not later.
    """
    return all(c is None or utc(c) - utc(left_at) <= after for c in event_clocks)


def label_state(*, has_label: bool, doubts: Collection[str] = (), drained: bool = False) -> LabelState:
    """Decide the state of one row.

    Args:
        doubts: every member of `DOUBTS` that applies, of any label stream, in any order.
    """
    if unknown := set(doubts) - set(DOUBTS):
        raise ValueError(f"{sorted(unknown)} are not doubts; these are: {', '.join(DOUBTS)}")
    applying = [d for d in DOUBTS if d in doubts and not (drained and d == SIDE_SILENT)]
    if applying:
        return LabelState("positive" if has_label else "unknown", applying[0])
    reason = DRAINED if SIDE_SILENT in doubts else None
    return LabelState("positive" if has_label else "negative", reason)
