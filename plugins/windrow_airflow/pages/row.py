"""The page that explains one row: why it has its labels, or why it is not published. From the tables, without Spark.

It shows ids, times and keys, and with *columns* the payload: the one page that does, for who may read the pipeline's
DAG. A question is sent as a form and stands in no address, so that no log of requests holds a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from windrow.config import PipelineInvalid, find
from windrow.outcomes import Condition
from windrow.places import Places
from windrow.quality import html
from windrow.text import parse_instant

FIELDS = ("row", "key", "at")
NEEDS_TIME = "An event id needs its event time here, so that few files are opened. `windrow explain` finds it without."


def page(name: str, places: Places, given: Mapping[str, str]) -> str:
    """Return the page with the answer to a question; without one, its empty form.

    Args:
        name: of the pipeline.
        given: the form's fields `row`, `key`, `at`, `columns`.
    """
    values: dict[str, Any] = {"title": f"Row of {name}", "up": "../../", "name": name}
    values["given"] = {field: given.get(field, "") for field in (*FIELDS, "columns")}
    values |= {"lines": [], "because": [], "interval": None, "problem": ""}
    try:
        pipeline = find(name, places.pipelines, places.expectations)
    except PipelineInvalid as invalid:
        return html.render("row.html", **values | {"problem": str(invalid), "key": "", "topic": ""})
    values |= {"key": ",".join(f"{column}=…" for column in pipeline.left.key), "topic": pipeline.left.topics[0]}
    if any(given.get(field) for field in FIELDS):
        try:
            values |= _answer(name, places, given)
        except (Condition, ValueError) as wrong:
            values["problem"] = str(wrong)
    return html.render("row.html", **values)


def given_of(body: bytes) -> dict[str, str]:
    """Return the fields of a sent form; what cannot be read is no field."""
    try:
        given = parse_qs(body.decode(), max_num_fields=20)
    except ValueError:
        return {}
    return {field: given[field][0].strip() for field in (*FIELDS, "columns") if field in given}


def _answer(name: str, places: Places, given: Mapping[str, str]) -> dict[str, Any]:
    from windrow.jobs.explain.answer import explain  # loads delta-rs
    from windrow.jobs.explain.lines import lines
    from windrow.jobs.explain.question import Question, key_of
    from windrow.jobs.run import Context

    question = Question(
        row=given.get("row") or None,
        key=key_of([given["key"]]) if given.get("key") else {},
        at=parse_instant(given["at"]) if given.get("at") else None,
        columns="columns" in given,
    )
    if question.needs_search:
        return {"problem": NEEDS_TIME}
    context = Context(find(name, places.pipelines, places.expectations), places)
    answer = explain(context, question)
    return {"lines": list(lines(answer)), "because": answer["because"], "interval": answer["interval"]}
