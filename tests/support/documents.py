"""What a command prints under `--json`, compared with docs/schemas.json."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

PAGE = Path(__file__).resolve().parents[2] / "docs/schemas.json"
SCHEMAS: dict[str, Any] = json.loads(PAGE.read_text())


def parsed(command: str, text: str) -> Any:
    """The one JSON document that a command printed, after a look at whether it is as its schema says."""
    document = json.loads(text)
    require_fit(command, document)
    return document


def require_fit(command: str, document: Any) -> None:
    """Refuse a document that is not as the schema of its command says, has a field more, or has JSON as a text."""
    wrong = list(_validator().iter_errors({command: document}))
    assert not wrong, f"{command}: " + "\n".join(f"{one.json_path}: {one.message}" for one in wrong[:5])
    assert not (found := list(_json_as_text(document))), f"{command}: JSON as a text: {found[0]}"


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(_closed(SCHEMAS))


def _closed(schema: Any) -> Any:
    """The schema without room for fields that it does not name; readers must leave that room, tests need not."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(one) for name, one in schema.items()}
    return {"additionalProperties": False, **closed} if isinstance(schema.get("required"), list) else closed


def _json_as_text(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [found for one in value for found in _json_as_text(one)]
    return [value] if isinstance(value, str) and value[:2] in ('{"', "[{", '["', "{}", "[]", "[[") else []
