"""The reader for trainers: rows of the training table with the bias stated, and a pin that reads them again. No Spark.

    from windrow import training

    rows, pin = training.read("feed", "2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    frame = rows.collect()                    # a Polars frame; rows is lazy
    again = training.read_pinned(pin).rows    # the same rows, whatever was published since

docs/TRAINING.md is the guide. Polars and Arrow read the files, delta-rs the log; importing this starts no JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack

import polars as pl

from windrow.io.delta.damage import TableDamaged
from windrow.places import Places
from windrow.training import splits
from windrow.training.maturity import LabelLeftOut
from windrow.training.opening import Opened, Options, Time, opened, opened_again, opened_parts
from windrow.training.pin import Pin
from windrow.training.reader import rows_of
from windrow.training.request import WrongRequest
from windrow.training.splits import SharedLabels
from windrow.training.state import AnotherTable, FileUnknown, NotPublished, RowsGone

__all__ = [
    "AnotherTable",
    "FileUnknown",
    "LabelLeftOut",
    "NotPublished",
    "Options",
    "Pin",
    "Read",
    "RowsGone",
    "SharedLabels",
    "TableDamaged",
    "WrongRequest",
    "read",
    "read_pinned",
    "split",
]


class Read(NamedTuple):
    """Rows, and the pin that reads them again."""

    rows: pl.LazyFrame
    pin: Pin


def read(
    pipeline: str,
    start: Time | None = None,
    end: Time | None = None,
    *,
    at: int | Time | None = None,
    places: Places | None = None,
    **options: Unpack[Options],
) -> Read:
    """Return the rows that were served in [start, end), and their pin.

    Args:
        pipeline: name of the pipeline.
        start: first served time; instants are aware datetimes or texts such as 2026-11-01T00:00:00Z. Default: the start
            of the pipeline.
        end: end of the served times, not included. Default: the end of the newest published interval; with an
            attribution that looks at later rows, one window before it.
        at: the state that is read: the number of a publication, an instant, or `snapshot:` and the name of a snapshot;
            default: the newest.
        places: where tables and pipeline files are; default: as the environment says.

    Keyword Args:
        labels: `complete` (default) keeps the rows whose label side was complete, positive or not; it is unbiased where
            doubts come by time (outages, gaps, forced intervals). `known` keeps every row with a state; the positives
            of an outage stay and its negatives go, so its label rate is too high. `all` keeps unknown rows too; whoever
            takes them as negatives has a label rate that is too low.
        negatives: share of the negative rows to keep, such as 0.05; adds `_weight` and `_logit_offset` (see `sample`).
        seed: of the sample; the same seed chooses the same rows, and more of them for a larger share.
        attribute: credits each label to the rows that it matched: to `all` of them, to the `first_touch`, to the
            `last_touch`, or `linear` in equal parts; adds `_credit_<stream>`, parallel to the labels (see `credit`).
        matured: a time after serving, such as 24h: labels are cut to it, and states, reasons and derived labels are
            those of a rebuild with that window (see `maturity`).
        delays: adds `_delay_<stream>` and `_arrival_<stream>`, lists of seconds from serving to each label's event and
            landing, and `_age_<stream>`, for how many seconds the label side was observed.
        survival: a label stream; adds `_duration` (seconds until its first label, or for which none was seen),
            `_censored` and `_weight` (see `survival`).
        unpublished: `refuse` (default) raises where an interval of the range is not published; `skip` leaves it out.

    Raises:
        PipelineUnknown: there is no pipeline of this name; the message lists them.
        NotPublished: an interval of the range is not published; the message lists them.
        WrongRequest: an argument cannot be carried out.
        RowsGone: `at` names a state whose rows were vacuumed.
        TableDamaged: a data file with rows of the range is missing or cut.
    """
    return _read(opened(pipeline, start, end, at, places, options))


def read_pinned(pin: Pin | str, *, places: Places | None = None) -> Read:
    """Return the rows of a pin again.

    Args:
        pin: the pin, or its JSON text.
        places: as for `read`.

    Raises:
        RowsGone: its rows were replaced since and vacuumed, and no snapshot keeps them.
        AnotherTable: it was made from another training table.
        TableDamaged: a data file with its rows is missing or cut.
    """
    return _read(opened_again(pin, places))


def split(
    pipeline: str,
    start: Time | None = None,
    end: Time | None = None,
    *,
    parts: Sequence[str] | Mapping[str, float],
    cuts: Sequence[Time] = (),
    by: str | None = None,
    at: int | Time | None = None,
    places: Places | None = None,
    **options: Unpack[Options],
) -> dict[str, Read]:
    """Return the parts of a range, of which no two share a label event; each has its own pin.

    Args:
        parts: names of the parts, in the order of time where there are cuts; with `by`, the share of each.
        cuts: where a part ends and the next begins. The last window before a cut is left out.
        by: a column of the left stream, of type integer or string: rows with one value of it are in one part.
        seed: of the hash, as in `read`; another seed gives another split.

    Raises:
        SharedLabels: the column is not in the key, and a label has rows in two parts.
        WrongRequest: cuts or shares do not fit the parts; and what `read` raises.
    """
    made = opened_parts(pipeline, start, end, at, places, options, parts=parts, cuts=cuts, by=by)
    reads = {name: _read(one) for name, one in made.opened.items()}
    for stream in made.compared:
        shared = splits.shared_labels([one.rows for one in reads.values()], stream)
        splits.refuse_shared_labels(shared, stream, by, made.key)
    return reads


def _read(one: Opened) -> Read:
    return Read(rows_of(one.rows, one.pin, one.observed), one.pin)
