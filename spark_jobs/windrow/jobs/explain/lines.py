"""The answer of `explain` as lines of text, for the terminal and for the page of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from windrow.semantics.judgement import with_reason
from windrow.text import counted, escaped, short_instant_text, shown_duration, shown_instant


def lines(answer: Mapping[str, Any]) -> Iterable[str]:
    """Return the answer of `jobs.explain` as lines, in the order in which it happened."""
    yield from _row_lines(answer)
    yield from _clock_lines(answer["clock"])
    for name, stream in answer["streams"].items():
        yield from _stream_lines(name, stream)
    if answer["because"]:
        yield ""
        yield answer["because"][0]
        yield from (f"  {line}" for line in answer["because"][1:])
    yield ""
    yield from map(_publication_line, answer["publications"])
    yield from _expectation_lines(answer["expectations"])
    for line in answer["late"]:
        yield f"late ledger of publication {line['publication']}: {_ledger_text(line)}"
    if answer["agrees"] is False:
        verify = f"windrow verify {answer['pipeline']} --interval {short_instant_text(answer['interval']['start'])}"
        yield f"the training table differs from what the landed rows give: `{verify}` compares the whole interval"
    opened = sum(table["opened"] for table in answer["looked"].values())
    yield ""
    yield f"looked into {opened} of {counted(sum(table['of'] for table in answer['looked'].values()), 'file')}"


def _row_lines(answer: Mapping[str, Any]) -> Iterable[str]:
    row, interval = answer["row"], answer["interval"]
    yield f"row {row['id']}  {_values(row['key'])}"
    yield f"  {answer['why']}"
    event = f", event id {escaped(row['event_id'])}" if row["event_id"] is not None else ""
    yield f"  event time {shown_instant(row['event_time'])}{event}"
    logged_at = shown_instant(row["record_at"])
    yield f"  landed in batch {row['batch']} at {shown_instant(row['arrived_at'])}, logged at {logged_at}"
    if row["values"]:
        yield f"  {_values(row['values'])}"
    for other in answer["duplicates"]:
        relation = "stands for the event" if other["stands"] else "has the same event id"
        yield f"  {other['id']} (batch {other['batch']}) {relation}"
    if interval:
        yield (
            f"interval {shown_instant(interval['start'])} to {shown_instant(interval['end'])}, "
            f"closes when the watermark is at {shown_instant(interval['closes_at'])}"
        )


def _clock_lines(clock: Mapping[str, Any]) -> Iterable[str]:
    number = clock["of_publication"]
    when = "as of the last landing" if number is None else f"at the pins of publication {number}"
    lag = f", {counted(clock['held_by_lag'], 'record')} behind" if clock["held_by_lag"] else ""
    drained = "; the end of the stream was declared" if clock["drained"] else ""
    watermark, frontier = shown_instant(clock["watermark"]), shown_instant(clock["frontier"])
    yield f"clock {when}: watermark {watermark}, frontier {frontier}{drained}"
    yield f"  held by {clock['held_by'] or 'nothing'}{lag}; pins {_values(clock['pins'])}"


def _stream_lines(name: str, stream: Mapping[str, Any]) -> Iterable[str]:
    yield ""
    window = ", window " + " to ".join(map(shown_instant, stream["window"])) if stream["window"] else ""
    yield f"{name} ({stream['role']}){window}: {len(stream['matched']) or 'none'} matched"
    for r in stream["matched"]:
        yield f"  + {_right_text(r)}"
    for r in stream["near_misses"]:
        yield f"  - {_right_text(r)}: {r['why']}"
    if stream["more_near_misses"]:
        yield f"  - and {stream['more_near_misses']} more"
    if stream["where_needs_spark"]:
        yield "  its `where` can only be judged by Spark: any row listed as missed may be left out by it as well"


def _right_text(r: Mapping[str, Any]) -> str:
    return f"{r['id']} (batch {r['batch']}) at {shown_instant(r['event_time'])}  {_values(r['values'])}"


def _publication_line(one: Mapping[str, Any]) -> str:
    held = {True: "held it", False: "did not hold it", None: "may have held it (other pipeline file)"}[one["held_row"]]
    state = f" as {one['label_state']}" if one["label_state"] and one["held_row"] else ""
    by = f", overridden by {one['overridden_by']}: {one['override_reason']}" if one["overridden_by"] else ""
    verdict = with_reason(one["verdict"], one["why"])
    return (
        f"publication {one['number']} of {shown_instant(one['published_at'])} ({verdict}{by}) "
        f"{held}{state}; training table version {one['training_version']}"
    )


def _expectation_lines(expectations: list[Mapping[str, Any]]) -> Iterable[str]:
    verdicts = [one["verdict"] for one in expectations]
    if not verdicts:
        return
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    yield f"expectations: {counts}; report {expectations[0]['report']}"
    for one in expectations:
        if one["verdict"] != "passed":
            yield f"  {one['expectation']} {one['metric']} = {one['value']}, {one['bound']}: {one['verdict']}"


def _ledger_text(line: Mapping[str, Any]) -> str:
    stream = f" of {line['stream']}" if line["stream"] else ""
    flip = f", {_flip_text(line)}" if line["state_after"] else ""
    missed_by = timedelta(microseconds=line["missed_by_us"] or 0)
    missed = f", missed by {shown_duration(missed_by, exact=True)}" if missed_by else ""
    cause = f", {line['cause']}" if line["cause"] else ""
    return f"{line['kind']}{stream}{missed}{flip}{cause}"


def _flip_text(line: Mapping[str, Any]) -> str:
    """Return what changes: the label state, or its reason alone."""
    before, after = line["state_before"], line["state_after"]
    if before != after:
        return f"{before} becomes {after}"
    return f"{before} as before, its reason {line['reason_before'] or 'none'} becomes {line['reason_after'] or 'none'}"


def _values(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={escaped(value)}" for name, value in values.items() if value is not None)
