"""explain: why one row has these labels, told from its landing to its publication.

Shows ids, times and keys, on this terminal only; payload columns only with --columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any

import typer

from windrow.cli.show import AsJson, PipelineName, as_json, console, instant
from windrow.jobs.explain.words import span_words
from windrow.jobs.run import BadRequest, context
from windrow.jobs.run import instant as instant_of
from windrow.text import parse_duration

_PART = re.compile(r",(?=[A-Za-z][A-Za-z0-9_]*=)")


def explain(
    pipeline: PipelineName,
    row: Annotated[
        str | None,
        typer.Argument(help="topic/partition/offset, topic/epoch/partition/offset, or an event id.", metavar="[ROW]"),
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Instead of ROW: user_id=1,item_id=2, with --at.")] = None,
    at: Annotated[str | None, typer.Option(help="The row's event time, 2026-11-01T00:00:03Z.")] = None,
    near: Annotated[
        str | None, typer.Option(help="How far outside a window to look; default: as far as the window is long.")
    ] = None,
    columns: Annotated[bool, typer.Option("--columns", help="Show payload columns too.")] = False,
    json: AsJson = False,
) -> None:
    """Why a row has these labels: offsets, window, clock, matches, near misses, state, publications."""
    from windrow.jobs.explain.answer import explain as job
    from windrow.jobs.explain.question import Question

    asked = Question(
        row=row,
        key=_key(key or []),
        at=instant_of(at) if at else None,
        near=_span(near) if near else None,
        columns=columns,
    )
    found = job(context(pipeline), asked)
    if json:
        as_json(found)
        return
    for line in story(found):
        console.print(line, markup=False)


def _key(said: Iterable[str]) -> dict[str, str]:
    pairs = [part.split("=", 1) for one in said for part in _PART.split(one)]
    if any(len(pair) != 2 for pair in pairs):
        raise BadRequest("a key is written as --key user_id=1,item_id=2")
    return {name.strip(): value for name, value in pairs}


def _span(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as wrong:
        raise BadRequest(f"--near {wrong}") from None


def story(found: Mapping[str, Any]) -> Iterable[str]:
    """What was found, in the order in which it happened."""
    yield from _row(found)
    yield from _clock(found)
    for name, stream in found["streams"].items():
        yield from _stream(name, stream)
    if found["because"]:
        yield ""
        yield from (found["because"][0], *[f"  {line}" for line in found["because"][1:]])
    yield from _history(found)
    opened = sum(table["opened"] for table in found["looked"].values())
    yield ""
    yield f"looked into {opened} of {sum(table['of'] for table in found['looked'].values())} files"


def _row(found: Mapping[str, Any]) -> Iterable[str]:
    row, interval = found["row"], found["interval"]
    yield f"row {row['id']}  {_values(row['key'])}"
    yield f"  {found['why']}"
    event = f", event id {row['event_id']}" if row["event_id"] is not None else ""
    yield f"  event time {instant(row['event_time'])}{event}"
    yield f"  landed in batch {row['batch']} at {instant(row['arrived_at'])}, logged at {instant(row['record_at'])}"
    if row["values"]:
        yield f"  {_values(row['values'])}"
    for other in found["duplicates"]:
        relation = "stands for the event" if other["stands"] else "has the same event id"
        yield f"  {other['id']} (batch {other['batch']}) {relation}"
    if interval:
        yield (
            f"interval {instant(interval['start'])} to {instant(interval['end'])}, "
            f"closes when the watermark is at {instant(interval['closes_at'])}"
        )


def _clock(found: Mapping[str, Any]) -> Iterable[str]:
    clock = found["clock"]
    number = clock["of_publication"]
    when = "as of the last landing" if number is None else f"at the pins of publication {number}"
    lag = f", {clock['held_by_lag']} records behind" if clock["held_by_lag"] else ""
    drained = "; the end of the stream was declared" if clock["drained"] else ""
    yield f"clock {when}: watermark {instant(clock['watermark'])}, frontier {instant(clock['frontier'])}{drained}"
    yield f"  held by {clock['held_by'] or 'nothing'}{lag}; pins {_values(clock['pins'])}"


def _stream(name: str, stream: Mapping[str, Any]) -> Iterable[str]:
    yield ""
    window = f", window {instant(stream['window'][0])} to {instant(stream['window'][1])}" if stream["window"] else ""
    yield f"{name} ({stream['role']}){window}: {len(stream['matched']) or 'none'} matched"
    for r in stream["matched"]:
        yield f"  + {_right(r)}"
    for r in stream["near_misses"]:
        yield f"  - {_right(r)}: {r['why']}"
    if stream["more_near_misses"]:
        yield f"  - and {stream['more_near_misses']} more, farther away"
    if stream["where_needs_spark"]:
        yield "  its `where` can only be judged by Spark: a row outside the window may be left out by it as well"


def _right(r: Mapping[str, Any]) -> str:
    return f"{r['id']} (batch {r['batch']}) at {instant(r['event_time'])}  {_values(r['values'])}"


def _history(found: Mapping[str, Any]) -> Iterable[str]:
    yield ""
    for one in found["publications"]:
        held = {True: "held it", False: "did not hold it", None: "may have held it (other pipeline file)"}
        state = f" as {one['label_state']}" if one["label_state"] and one["held_row"] else ""
        by = f", overridden by {one['overridden_by']}: {one['override_reason']}" if one["overridden_by"] else ""
        yield (
            f"publication {one['number']} of {instant(one['published_at'])} ({one['verdict']}{by}) "
            f"{held[one['held_row']]}{state}; training table version {one['training_version']}"
        )
    verdicts = [one["verdict"] for one in found["expectations"]]
    if verdicts:
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
        yield f"expectations: {counts}; report {found['expectations'][0]['report']}"
        for one in found["expectations"]:
            if one["verdict"] != "passed":
                yield f"  {one['expectation']} {one['metric']} = {one['value']}, {one['bound']}: {one['verdict']}"
    for line in found["late"]:
        yield f"late ledger of publication {line['publication']}: {_ledger(line)}"
    if found["agrees"] is False:
        yield "what is published is not what the landed rows say: `windrow verify` compares the whole interval"


def _ledger(line: Mapping[str, Any]) -> str:
    stream = f" of {line['stream']}" if line["stream"] else ""
    flip = f", {line['state_before']} becomes {line['state_after']}" if line["state_after"] else ""
    missed = f", missed by {span_words(timedelta(microseconds=line['missed_by_us']))}" if line["missed_by_us"] else ""
    return f"{line['kind']}{stream}{missed}{flip}{', ' + line['cause'] if line['cause'] else ''}"


def _values(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items() if value is not None)


COMMANDS: dict[str, Callable[..., None]] = {"explain": explain}
