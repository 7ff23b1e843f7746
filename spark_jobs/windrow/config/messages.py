"""Pydantic's errors as sentences for the author of the file.

Each problem has its line and field and, for the usual mistakes, an example of what would be right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from windrow.config.problems import Location, Problem, near_miss
from windrow.config.streams import (
    Canary,
    Describe,
    Drift,
    Idle,
    LeftStream,
    PipelineFields,
    RightStream,
    Waiting,
    Window,
)
from windrow.config.yaml_file import Document
from windrow.text import short

UNKNOWN_FIELD = ("extra_forbidden", "unexpected_keyword_argument")

_EXAMPLES = {
    "name": "name: feed",
    "start": "start: 2026-11-01T00:00:00Z",
    "interval": "interval: 10m",
    "left": "left: {name: served, topic: …, columns: …}",
    "right": "right: [{name: clicks, role: label, topic: …}]",
    "topic": "topic: feed.served, or a list",
    "columns": "columns: {user_id: bigint, served_at: timestamp}",
    "key": "key: [user_id]",
    "event_time": "event_time: served_at, a timestamp column",
    "event_id": "event_id: request_id",
    "out_of_orderness": "out_of_orderness: 30s",
    "where": "where: \"action = 'click'\"",
    "role": "role: label, or feature",
    "window": "window: {before: 0s, after: 30m}",
    "after": "after: 30m",
    "idle": "idle: {mode: caught_up, after: 5m}",
    "describe": "describe: {row: one item that was shown, columns: {user_id: who saw it}}",
    "canary": "canary: {keys: {user_id: [9000000000, 9000000999]}, every: 1m, delays: [1s, 10m]}",
    "keys": "keys: {user_id: [9000000000, 9000000999]}",
    "delays": "delays: [1s, 10m]",
    "drift": "drift: {columns: [price, place]}",
    "waiting": "waiting: {max_rows: 50000000, max_age: 6h, policy: alert}",
    "labels": 'labels: {clicked: "size(clicks) > 0"}',
}
_MODELS: dict[tuple[str, ...], Any] = {
    (): PipelineFields,
    ("canary",): Canary,
    ("describe",): Describe,
    ("drift",): Drift,
    ("left",): LeftStream,
    ("right",): RightStream,
    ("right", "window"): Window,
    ("waiting",): Waiting,
}


def problems_of(wrong: ValidationError, document: Document) -> Iterator[Problem]:
    """One problem for each error, with its line."""
    for error in wrong.errors():
        if error["type"] == "too_short" and error["input"]:
            continue  # it has entries; Pydantic counts only right ones, and says of the others what is wrong
        where = tuple(part for part in error["loc"] if part != "[key]")
        yield document.problem(where, _message(where, dict(error)))


def _message(where: Location, error: dict[str, Any]) -> str:
    """What is wrong and what would be right, for one of Pydantic's errors."""
    kind, given, bounds = error["type"], error.get("input"), error.get("ctx") or {}
    example = f"write {_EXAMPLES[str(where[-1])]}" if where and where[-1] in _EXAMPLES else ""
    if kind == "missing":
        return f"is missing; {example or 'write it'}"
    if kind in UNKNOWN_FIELD:
        return f"is an unknown field; {near_miss(str(where[-1]), _fields(where[:-1]), 'fields are')}"
    if kind == "literal_error":
        allowed = [name.strip("' ") for name in str(bounds["expected"]).replace(" or ", ",").split(",")]
        return f"{short(given)} is not known; {near_miss(str(given), allowed, 'write one of')}"
    if kind == "value_error":
        return str(bounds["error"])
    if kind in ("model_type", "model_attributes_type", "dataclass_type", "dict_type"):
        return f"must be a mapping of fields, not {_kind_of(given)}; {example or 'write name: value'}"
    if kind in ("tuple_type", "list_type"):
        return f"must be a list, not {_kind_of(given)}; {example or 'write [a, b]'}"
    if kind == "string_type":
        return "has no value; write one" if given is None else f"must be text, not {_kind_of(given)}; write one value"
    if kind == "too_short":
        return f"is empty; {example or 'write at least one'}"
    if kind == "too_long":
        return f"has more than {bounds['max_length']} entries; write fewer"
    if kind == "greater_than_equal":
        return f"{short(given)} is too small; at least {bounds['ge']}"
    if kind == "less_than_equal":
        return f"{short(given)} is too large; at most {bounds['le']}"
    if kind.startswith("int_"):
        return f"{short(given)} is not a whole number; write digits, such as 24"
    return str(error["msg"])


def _fields(where: Location) -> list[str]:
    """Names of the fields that may stand at a location."""
    path = tuple(part for part in where if isinstance(part, str))
    if path == ("idle",):
        return list(Idle.__dataclass_fields__)
    return [field.alias or name for name, field in _MODELS[path].model_fields.items()]


def _kind_of(given: object) -> str:
    if isinstance(given, dict):
        return "a mapping"
    return "a list" if isinstance(given, list) else f"the text {short(given)}" if given is not None else "nothing"
