"""Poison: records that must be quarantined or counted, while every other record lands.

Each kind has one fate per side. A poisoned record is a copy of a good one in the same partition, spoiled in one way;
its event time is never newer than the good one's (or is not trusted), so it must not change any clock. The key of a
poisoned label was never served, unless its maker chooses another, so it must not change a label state either.

Each kind breaks a reader in its own way: invalid JSON that a lenient parser accepts (bad_json, nan, infinity,
trailing_garbage), values that exceed a stack or a limit (deep_nesting, too_large), event times that would move a clock
by decades (far_ahead, before_start), missing parts, and bytes that are not text.
"""

from __future__ import annotations

from typing import Any, Literal

from windrow.simulate.record import Fate, encode, text

PoisonKind = Literal[
    "bad_json", "tombstone", "wrong_type", "time_missing", "far_ahead", "nan", "infinity", "deep_nesting",
    "bad_utf8", "control_characters", "trailing_garbage", "null_key", "before_start", "too_large",
]  # fmt: skip

KINDS: dict[PoisonKind, str] = {
    "bad_json": "a record cut in the middle",
    "tombstone": "no value",
    "wrong_type": "a text where a number belongs",
    "time_missing": "no event time",
    "far_ahead": "an event time in the year 2099",
    "nan": "NaN where a number belongs (not JSON)",
    "infinity": "-Infinity where a number belongs (not JSON)",
    "deep_nesting": "1 100 nested lists where a number or a vector belongs",
    "bad_utf8": "bytes inside a text that are not UTF-8",
    "control_characters": "bare control characters inside a text",
    "trailing_garbage": "a whole record followed by more text",
    "null_key": "null in the key: a left row lands as unknown/null_key, a label is quarantined",
    "before_start": "an event of 1970: a left row counts as before_start, a label lands and matches nothing",
    "too_large": "9 MiB, above the default max_record_bytes (8 MiB)",
}

FAR_AHEAD_US = 4_070_908_800_000_000
"""2099-01-01: far ahead of the time at which the record lands."""
LONG_AGO_US = 1_000_000
"""1970-01-01T00:00:01Z."""
_NESTED = 1_100
_LARGE = 9 * 1024 * 1024


def fate(kind: PoisonKind, side: str) -> Fate:
    """What must become of a poisoned record. Without a key a left row lands, a label is quarantined (rule 12)."""
    if kind == "null_key" and side == "left":
        return "landed"
    if kind == "before_start":
        return "before_start" if side == "left" else "landed"
    return "quarantined"


def spoil(
    kind: PoisonKind, body: dict[str, Any], *, event_time: str, number: str, identity: str, key: str
) -> bytes | None:
    """The bytes of a good body, spoiled; None for a tombstone.

    Args:
        event_time, number, identity, key: names of the columns to spoil: a timestamp, a number or a list of numbers,
            a text, and a part of the key.
    """
    good = encode(body) or b""
    vector = isinstance(body[number], list)
    mark = body[identity].encode()
    match kind:
        case "bad_json":
            return good[: len(good) // 2]
        case "tombstone":
            return None
        case "wrong_type":
            return encode(body | {number: "seventeen"})
        case "time_missing":
            return encode({name: value for name, value in body.items() if name != event_time})
        case "far_ahead":
            return encode(body | {event_time: text(FAR_AHEAD_US)})
        case "before_start":
            return encode(body | {event_time: text(LONG_AGO_US)})
        case "nan" | "infinity":
            value = float("nan") if kind == "nan" else float("-inf")
            return encode(body | {number: [value, *body[number][1:]] if vector else value})
        case "deep_nesting":
            # json.dumps would recurse too deeply: the brackets replace a placeholder in its output
            hole = encode(body | {number: "HOLE"}) or b""
            return hole.replace(b'"HOLE"', b"[" * _NESTED + b"]" * _NESTED)
        case "bad_utf8":
            return good.replace(mark, mark + b"\xff\xfe\xc3(", 1)
        case "control_characters":
            return good.replace(mark, mark + b"\x00\x07\x1b", 1)
        case "trailing_garbage":
            return good + b"} and more"
        case "null_key":
            return encode(body | {key: None})
        case "too_large":
            return encode(body | {"padding": "x" * _LARGE})
