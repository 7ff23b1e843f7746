"""What a landing table holds, compared with what the clock says was landed.

A label in a lost commit would look like one that never came, and its row like a negative. So a table that is behind the
clock stops every reader. One that is ahead of it is right: a run was killed between its two commits (rule 20).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windrow.semantics.clock import ClockRow


@dataclass(frozen=True)
class Held:
    """What the log of a landing table tells."""

    batch: int
    """number of the newest batch; 0 without one"""
    topic_id: str | None = None
    next_offsets: Mapping[int, int] = field(default_factory=dict)
    """partition → offset after the newest batch; empty where the log does not tell"""


NOTHING_HELD = Held(0)


def lacks(held: Held, clock: Sequence[ClockRow]) -> str | None:
    """What a landing table lacks; None where it holds what the clock says.

    >>> lacks(Held(batch=3), [{"batch": 4}])
    'holds batches up to 3, and batch 4 was landed'

    Args:
        clock: the topic's rows of one observation, at least one. Rows are not counted here: a person may have erased
            some, which the late ledger says (rule 17). `verify` and `reconcile` count them (`semantics.intact`).
    """
    batch = max(row["batch"] for row in clock)
    if held.batch < batch:
        return f"holds batches up to {held.batch}, and batch {batch} was landed"
    if held.batch > batch:
        return None
    of_topic = {row["partition"] for row in clock if row["topic_id"] == held.topic_id}
    if of_topic and (unknown := held.next_offsets.keys() - of_topic):
        return f"holds records of partition {min(unknown)} by its batch {batch}, of which the clock says nothing"
    for row in clock:
        position = held.next_offsets.get(row["partition"], row["next_offset"])
        if row["topic_id"] == held.topic_id and position != row["next_offset"]:
            return (
                f"is landed up to offset {position} of partition {row['partition']} by its batch {batch}, and up to "
                f"{row['next_offset']} by the clock"
            )
    return None
