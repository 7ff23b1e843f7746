"""card: write the data card of the newest days, for the pipeline's page. No Spark.

On a card is no value of a key, an id or a text (`windrow.training.card`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from windrow.io.registers import publications
from windrow.jobs.options import PipelineName
from windrow.jobs.run import Context, context, job
from windrow.outcomes import NothingToDo
from windrow.training.card import Card, card_of, write

SPAN = timedelta(days=7)
"""Of the newest rows, so that the cost of a card does not grow with the table."""


def card(ctx: Context) -> tuple[Card, Path]:
    """Write the card of the newest published days, in the place of the one before; return it and its page.

    Raises:
        NothingToDo: nothing is published.
    """
    published = publications.complete(ctx.home, ("number", "interval_end"))
    if not published:
        raise NothingToDo(f"{ctx.pipeline.name}: nothing is published, so there is nothing to describe")
    end = max(row["interval_end"] for row in published)
    made = card_of(ctx.pipeline.name, max(end - SPAN, ctx.pipeline.start), end, places=ctx.places)
    return made, write(made, ctx.home.reports / "card")[0]


def execute(pipeline: PipelineName) -> Mapping[str, Any]:
    """Write the card, and return where it is."""
    made, page = card(context(pipeline))
    return {"rows": made.figures.rows, "report": str(page)}


main = job(execute)
