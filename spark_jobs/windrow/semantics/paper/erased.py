"""What an erasure leaves of the training table on paper (rule 22).

published row of an erased key  ──▶  nothing (`delete`), or its row id and event time as `unknown/null_key` (`null`)
"""

from __future__ import annotations

from dataclasses import replace

from windrow.semantics.records import JoinSpec, Record, emptied
from windrow.semantics.reference import Joined


def left_in(joined: Joined, spec: JoinSpec) -> Joined:
    """Return a published interval as it stands after the erasure: its left rows of erased keys are gone or emptied.

    Matches of a row that stays are left as they are: a rebuild takes those of erased keys out, and the late ledger
    says so. The balance stays that of the publication.
    """
    rows = []
    for row in joined.rows:
        record = emptied(Record(row.row_id, 0, row.event_at, row.values), spec)
        if record.quarantined:
            continue
        if record.values is not row.values:
            nothing: dict[str, tuple[Record, ...]] = dict.fromkeys(row.matches, ())
            row = replace(row, values={}, matches=nothing, label_state="unknown", label_reason="null_key")
        rows.append(row)
    return replace(joined, rows=tuple(rows))
