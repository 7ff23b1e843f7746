"""The data card: what a training table holds, for people who did not make it, and for programs (Croissant).

    from windrow.training.card import card_of, write

    card = card_of("feed", "2026-11-01T00:00:00Z", "2026-11-08T00:00:00Z")
    write(card, "/data/card")      # card.html, the same as Markdown, and croissant.json

pin ──▶ rows ──▶ figures (one streaming pass), delay curve of each label stream ──▶ Card ──▶ pages, croissant

A card shows counts, shares and ranges of numbers and times; never the value of a key, an id or a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from windrow.config import Pipeline
from windrow.files import write_whole
from windrow.io.registers.snapshots import KeptFiles
from windrow.io.training.states import FileUnknown, Rows, files_in
from windrow.meaning import meaning_of, meaning_of_row
from windrow.places import Places
from windrow.semantics.intervals import Interval, grid_around, intervals_between
from windrow.semantics.labels import DRAINED, FORCED, LABEL_QUARANTINED, NULL_KEY, OFFSET_GAP, SIDE_SILENT
from windrow.text import counted, duration_text, shown_instant
from windrow.training.card import croissant, pages
from windrow.training.card.delays import DelayCurve, curve_of
from windrow.training.card.figures import Figures, figures_of
from windrow.training.card.value import Card, Column
from windrow.training.observed import Observed
from windrow.training.opening import Opened, Time, home_of, opened
from windrow.training.reader import rows_of
from windrow.training.request import WrongRequest
from windrow.training.state import observed_of
from windrow.training.survival import refuse_what_rows_lack

_NAME = "card"

__all__ = ["Card", "Column", "DelayCurve", "Figures", "card_of", "write"]


def card_of(
    pipeline: str,
    start: Time | None = None,
    end: Time | None = None,
    *,
    at: int | Time | None = None,
    places: Places | None = None,
) -> Card:
    """Return the card of the rows that were served in [start, end), unknown ones too.

    The arguments are those of `windrow.training.read`. Intervals that are not published are left out, and counted.

    Raises:
        NotPublished: nothing is published.
        WrongRequest: an argument cannot be carried out.
        RowsGone: `at` names a state whose rows were vacuumed.
    """
    home = home_of(pipeline, places)
    one = opened(pipeline, start, end, at, places, {"labels": "all", "unpublished": "skip"})
    rows = rows_of(one.rows, one.pin, one.observed)
    unheard = []
    try:
        observed = observed_of(home, one.pin)
    except FileUnknown as error:
        observed, unheard = [], [f"No delay curve: {error}"]
    figures = figures_of(rows, home.pipeline, observed)
    curves, without = _curves(rows, observed, home.pipeline)
    files = _files(one) if isinstance(one.rows, KeptFiles) else files_in(home, one.rows, one.pin.request.range)
    return Card(
        home.pipeline,
        one.pin,
        meaning_of_row(home.pipeline),
        tuple(_columns(one.rows, home.pipeline, figures)),
        figures,
        tuple(curves),
        tuple(chain(_limits(home.pipeline, one, figures), unheard, without)),
        files,
    )


def write(card: Card, folder: str | Path) -> tuple[Path, ...]:
    """Write a card as HTML, Markdown and Croissant; return the paths.

    Args:
        folder: is made where it is missing; older cards in it are replaced, each whole.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        f"{_NAME}.html": pages.html(card),
        f"{_NAME}.md": pages.markdown(card),
        "croissant.json": json.dumps(croissant.metadata(card, folder), indent=2, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        write_whole(folder / name, text)
    return tuple(folder / name for name in texts)


def _files(one: Opened) -> KeptFiles:
    assert isinstance(one.rows, KeptFiles)
    return one.rows.within(one.pin.request.range)


def _curves(rows: Any, observed: Sequence[Observed], pipeline: Pipeline) -> tuple[list[DelayCurve], list[str]]:
    """Return the curves of the label streams, and why others have none."""
    curves, without = [], []
    for stream in pipeline.label_streams if observed else ():
        try:
            refuse_what_rows_lack(observed, stream.name)
        except WrongRequest as reason:
            without.append(f"No delay curve of {stream.name}: {str(reason).removeprefix('survival: ')}.")
        else:
            curves.append(curve_of(rows, observed, stream.name))
    return curves, without


def _columns(rows: Rows, pipeline: Pipeline, figures: Figures) -> Iterator[Column]:
    """Yield the columns of the table in its order, each followed by the fields of its elements."""
    schema = rows.schema().to_json() if isinstance(rows, DeltaTable) else rows.columns
    for field in json.loads(schema)["fields"]:
        for name, kind in _with_fields(field["name"], field["type"]):
            if name in figures.nulls:
                nulls, values = figures.nulls[name], figures.values[name]
                meaning = meaning_of(pipeline, name)
                yield Column(name, _ddl(kind), kind, meaning, values, nulls, figures.ranges.get(name))


def _with_fields(name: str, kind: Any) -> Iterator[tuple[str, Any]]:
    yield name, kind
    element = kind.get("elementType") if isinstance(kind, dict) else None
    if isinstance(element, dict) and element["type"] == "struct":
        yield from ((f"{name}.{field['name']}", field["type"]) for field in element["fields"])


_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def _ddl(kind: Any) -> str:
    """A type of Delta's JSON as Spark's DDL; the fields of elements are rows of their own.

    >>> _ddl({"type": "array", "elementType": "long"})
    'array<bigint>'
    """
    if isinstance(kind, str):
        return _NAMES.get(kind, kind)
    if kind["type"] == "array":
        return f"array<{_ddl(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_ddl(kind['keyType'])},{_ddl(kind['valueType'])}>"
    return "struct"


_REASONS: Mapping[str, str] = {
    SIDE_SILENT: "the label side was silent in their windows",
    OFFSET_GAP: "records of a label topic were lost",
    FORCED: "their interval was published before it was closed",
    LABEL_QUARANTINED: "a label that could be theirs could not be read",
    NULL_KEY: "they have no key, so no label can be found",
    DRAINED: "that nothing more comes was declared by a person",
}


def _limits(pipeline: Pipeline, one: Opened, figures: Figures) -> Iterator[str]:
    """Yield what a reader of the rows must know."""
    request = one.pin.request
    first, _ = grid_around(request.start, pipeline.interval)
    below, above = grid_around(request.end, pipeline.interval)
    span = Interval(max(first, pipeline.start), below if below == request.end else above)
    whole = sum(1 for _ in intervals_between(span.start, span.end, pipeline.interval))
    if missing := whole - len(one.pin.publications):
        yield f"{counted(missing, 'interval')} of {whole} in the range not published; their rows are missing."
    for reason, rows in figures.reasons.items():
        why = _REASONS.get(reason, "their label side is in doubt")
        yield f"{counted(rows, 'row')} with the reason {reason}: {why}. Rates on this card leave them out."
    yield "A label that came after its row was published is missing until a rebuild; `windrow late` lists these."
    for stream in pipeline.label_streams:
        if stream.silence == "negative":
            yield f"{stream.name}: silence counts as no label, so an outage of its producer looks like negatives."
        if stream.join == "inner":
            yield f"{stream.name}: rows without a label are not in the table, so there are no negatives."
        if stream.take != "all":
            yield f"{stream.name}: a row keeps only the {stream.take} label."
        yield f"{stream.name}: a label later than {duration_text(stream.window.after)} after serving does not count."
    yield "One label may belong to several rows: a click on an item that was shown twice makes two positive rows."
    yield (
        "Ranges are the least and the greatest value of some row, of columns of numbers and times that are neither a "
        "key nor an id. Values of keys, ids, texts and bytes are nowhere on this card."
    )
    if one.pin.snapshot:
        yield f"The rows are those of the snapshot {one.pin.snapshot}."
    if pipeline.license is None:
        yield "No licence is stated (`license` in the pipeline file)."
    if pipeline.owner is None:
        yield "No owner is stated (`owner` in the pipeline file)."


def brief(card: Card) -> dict[str, Any]:
    """Return a card as programs and terminals show it."""
    figures, span = card.figures, card.pin.request.range
    rate = figures.positive / figures.complete if figures.complete else None
    return {
        "pipeline": card.pipeline.name,
        "from": shown_instant(span.start),
        "to": shown_instant(span.end),
        "rows": figures.rows,
        "columns": len(card.columns),
        "label_rate": rate,
        "states": dict(figures.states),
        "reasons": dict(figures.reasons),
        "pin": card.pin.to_json(),
    }
