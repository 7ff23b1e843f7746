"""The suite is proven: deliberate breaks of the source, one by one, each of which must turn the fast tier red.

    for each break:  a copy of the project ──▶ one text replaced ──▶ the narrow tests that must notice ──▶ red?

    python tests/proof/breaks.py            all of them, as a table; exit code 1 if any stays green
    python tests/proof/breaks.py pin gap    those whose names contain a word

A text that is not found exactly once in its file is an error, so that the list follows the source. Only
behaviour counts: a break that stops a module from being imported proves nothing and is an error too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("spark_jobs/windrow", "tests", "expectations", "dags/pipelines", "pyproject.toml")
LONGEST = 600

VECTORS = "tests/semantics/test_worked_vectors.py"
ROWS = "tests/semantics/test_rows.py"
TIME = "tests/semantics/test_time.py"
PROPERTIES = "tests/semantics/test_properties.py"
PLANS = "tests/semantics/test_plan_and_balance.py"
HISTORIES = "tests/semantics/test_histories.py::TestHistories"
SCENARIOS = "tests/scenarios/test_scenarios.py"
PIPELINES = "tests/config/test_pipeline.py"
WRONG_FILES = "tests/config/test_wrong_files.py"


class BreakOutdated(Exception):
    """The text that a break replaces is not in the source any more, or is there twice. Edit the list."""


@dataclass(frozen=True)
class Break:
    """`old` in `file` (under spark_jobs/windrow) becomes `new`; then one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """`red`: the first test that failed; None where the break stayed green. `error`: neither red nor green."""

    name: str
    red: str | None
    error: str | None = None


BREAKS = (
    # ---- match
    Break("window end out", "semantics/match.py", "(left_at) <= after", "(left_at) < after", (VECTORS,)),
    Break("window start out", "semantics/match.py", "return -before <= utc", "return -before < utc", (VECTORS,)),
    Break(
        "key columns concatenated",
        "semantics/match.py",
        'return tuple((type(v).__name__, v if v == v else "NaN") for v in key)',
        'return (("str", "".join(str(v) for v in key)),)',
        (SCENARIOS,),
    ),
    Break(
        "keys equal whatever their types",
        "semantics/match.py",
        'return tuple((type(v).__name__, v if v == v else "NaN") for v in key)',
        'return tuple(("", str(v)) for v in key)',
        (VECTORS,),
    ),
    Break(
        "null keys match", "semantics/match.py", "if any(v is None for v in key):", "if not key:", (SCENARIOS, VECTORS)
    ),
    # ---- close
    Break("< for <= in the close predicate", "semantics/close.py", "interval.end <= f", "interval.end < f", (VECTORS,)),
    Break("closed by its start", "semantics/close.py", "interval.end <= f", "interval.start <= f", (SCENARIOS,)),
    Break("early negatives: no after", "semantics/close.py", "-after - grace)", "-grace)", (SCENARIOS,)),
    Break("early negatives: no grace", "semantics/close.py", "-after - grace)", "-after)", (SCENARIOS,)),
    # ---- clock
    Break("newest partition decides", "semantics/clock.py", "return min(c for", "return max(c for", (SCENARIOS,)),
    Break(
        "a partition without a clock is left out",
        "semantics/clock.py",
        "if not clocks or None in clocks:",
        "if all(c is None for c in clocks):",
        (SCENARIOS,),
    ),
    Break("idle advance with lag", "semantics/clock.py", " and now.caught_up:", ":", (SCENARIOS,)),
    Break("idle: wait is not obeyed", "semantics/clock.py", 'idle.mode == "caught_up" and ', "", (SCENARIOS,)),
    Break(
        "idle forgets the out-of-orderness",
        "semantics/clock.py",
        "-idle.after - out_of_orderness",
        "-idle.after",
        (TIME,),
    ),
    Break(
        "clock goes back",
        "semantics/clock.py",
        "_latest(floor, by_events, by_idling)",
        "_latest(by_events, by_idling)",
        (TIME,),
    ),
    Break(
        "a new partition starts at nothing",
        "semantics/clock.py",
        "floor = previous.clock_at if previous else topic_clock",
        "floor = previous.clock_at if previous else None",
        (TIME,),
    ),
    Break("drain without the caught-up check", "semantics/clock.py", "    if behind:", "    if False:", (SCENARIOS,)),
    Break(
        "a position beyond the end is caught up",
        "semantics/clock.py",
        "self.next_offset == self.end_offset",
        "self.next_offset >= self.end_offset",
        (TIME,),
    ),
    Break(
        "out-of-orderness not taken off",
        "semantics/clock.py",
        "else shifted(self.newest_at, -out_of_orderness)",
        "else self.newest_at",
        (TIME,),
    ),
    Break("a deleted topic holds the clock", "semantics/clock.py", "if p.epoch == newest[p.topic]]", "]", (TIME,)),
    # ---- intervals
    Break(
        "interval end in",
        "semantics/intervals.py",
        "self.start <= t < self.end",
        "self.start <= t <= self.end",
        (TIME,),
    ),
    Break(
        "local time taken for UTC",
        "semantics/intervals.py",
        "return t.astimezone(UTC)",
        "return t.replace(tzinfo=UTC)",
        (VECTORS,),
    ),
    Break(
        "arithmetic in the local time zone",
        "semantics/intervals.py",
        "return t.astimezone(UTC)",
        "return t",
        (VECTORS,),
    ),
    # ---- rows
    Break("pin ignored", "semantics/reference.py", "and r.batch <= pins[r.row_id.topic]]", "]", (SCENARIOS,)),
    Break(
        "right side read one microsecond short",
        "semantics/reference.py",
        "return lambda t: first <= t <= last",
        "return lambda t: first <= t < last",
        (ROWS,),
    ),
    Break(
        "before is not read",
        "semantics/reference.py",
        "shifted(interval.start, -right.before)",
        "interval.start",
        (VECTORS, ROWS),
    ),
    Break(
        "duplicates kept",
        "semantics/reference.py",
        "event = r.row_id if event_id is None else (event_id, r.event_at)",
        "event = r.row_id",
        (SCENARIOS,),
    ),
    Break(
        "an event id is one event at any time",
        "semantics/reference.py",
        "event = r.row_id if event_id is None else (event_id, r.event_at)",
        "event = r.row_id if event_id is None else (event_id, None)",
        (ROWS,),
    ),
    Break(
        "the newest duplicate wins",
        "semantics/reference.py",
        "for r in sorted(kept, key=lambda r: r.row_id):",
        "for r in sorted(kept, key=lambda r: r.row_id, reverse=True):",
        (SCENARIOS,),
    ),
    Break(
        "of two landings the last counts",
        "semantics/reference.py",
        "first.setdefault(r.row_id, r)",
        "first[r.row_id] = r",
        (ROWS,),
    ),
    Break(
        "unpaired rows are emitted",
        "semantics/reference.py",
        'if any(r.join == "inner" and',
        'if any(r.join == "" and',
        (SCENARIOS,),
    ),
    Break("take ignored", "semantics/reference.py", '"first": found[:1]', '"first": found', (SCENARIOS,)),
    Break(
        "unknown passes where",
        "semantics/reference.py",
        "where(record.values) is True",
        "where(record.values) is not False",
        (ROWS,),
    ),
    Break(
        "quarantined records are read",
        "semantics/reference.py",
        "        and not r.quarantined\n",
        "",
        (ROWS, PROPERTIES),
    ),
    Break(
        "rows not in served order",
        "semantics/reference.py",
        "rows = tuple(sorted(winners.values(), key=lambda r: r.order))",
        "rows = tuple(winners.values())",
        (SCENARIOS,),
    ),
    # ---- label states
    Break(
        "unknown counted as negative",
        "semantics/labels.py",
        '"positive" if has_label else "unknown", applying[0]',
        '"positive" if has_label else "negative", applying[0]',
        (SCENARIOS,),
    ),
    Break("silence is a negative", "semantics/reference.py", 'doubts.add("side_silent")', "pass", (SCENARIOS,)),
    Break(
        "silent only where every topic is",
        "semantics/reference.py",
        "and any(silent):",
        "and all(silent):",
        (SCENARIOS,),
    ),
    Break("a forced close is no doubt", "semantics/reference.py", 'doubts.add("forced")', "pass", (SCENARIOS,)),
    Break(
        "a topic made again speaks for its first life",
        "semantics/reference.py",
        " and r.row_id.epoch == epoch[r.row_id.topic]:",
        ":",
        (ROWS,),
    ),
    Break("a gap is no doubt", "semantics/reference.py", 'doubts.add("offset_gap")', "pass", (SCENARIOS,)),
    Break(
        "a quarantined label is no doubt",
        "semantics/reference.py",
        'doubts.add("label_quarantined")',
        "pass",
        (SCENARIOS,),
    ),
    Break("a null key is no doubt", "semantics/reference.py", 'doubts.add("null_key")', "pass", (SCENARIOS,)),
    Break(
        "the side is alive at the window's end",
        "semantics/labels.py",
        "utc(left_at) <= after for",
        "utc(left_at) < after for",
        (VECTORS,),
    ),
    Break(
        "features decide the label state",
        "semantics/records.py",
        'return tuple(r for r in self.right if r.role == "label")',
        "return self.right",
        (SCENARIOS,),
    ),
    Break(
        "a gap ends with its last neighbour before",
        "semantics/paper/landings.py",
        "if later else trusted_until",
        "if later else start_at",
        (SCENARIOS,),
    ),
    Break(
        "the broker's stamp is not looked at",
        "semantics/paper/landings.py",
        "sent.record_at if row_id.topic in self.rules.stamped else now",
        "now",
        (SCENARIOS,),
    ),
    Break(
        "offsets go on in a topic made again",
        "semantics/paper/landings.py",
        "self.epoch[topic] += 1",
        "pass",
        (SCENARIOS,),
    ),
    # ---- plans, balance, publications
    Break("a plan's id without its run", "semantics/plan.py", '"run": plan.run,', '"run": "",', (PLANS,)),
    Break("a plan's id without its pins", "semantics/plan.py", '"pins": dict(plan.pins),', '"pins": {},', (PLANS,)),
    Break("no left balance", "semantics/balance.py", "if self.left.imbalance:", "if False:", (PLANS,)),
    Break("no right balance", "semantics/balance.py", "if side_of.imbalance:", "if False:", (PLANS,)),
    Break(
        "unmatched labels not counted",
        "semantics/reference.py",
        "len(side.rows) - len(matched[name])",
        "0",
        (SCENARIOS,),
    ),
    Break(
        "no fence",
        "semantics/paper/model.py",
        "if plan.supersedes != (",
        "if False and plan.supersedes != (",
        (SCENARIOS,),
    ),
    Break(
        "a retry publishes again", "semantics/paper/model.py", "if done.plan.id == plan.id:", "if False:", (SCENARIOS,)
    ),
    Break(
        "a rebuild past the frontier",
        "semantics/paper/model.py",
        "if not (drained or forced) and not is_closed",
        "if False and not is_closed",
        (SCENARIOS,),
    ),
    Break(
        "pins beyond the clock",
        "semantics/paper/model.py",
        "            pins=self.pins,\n",
        "            pins={t: b + 1 for t, b in self.batches.items()},\n",
        (HISTORIES,),
    ),
    Break(
        "replays are rows",
        "semantics/reference.py",
        "return list(first.values()), len(",
        "return by_pin, len(",
        (SCENARIOS,),
    ),
    # ---- the late ledger
    Break(
        "late from the pin on",
        "semantics/ledger.py",
        ".batch > self.pins",
        ".batch >= self.pins",
        (SCENARIOS, HISTORIES),
    ),
    Break(
        "late labels left out of the ledger",
        "semantics/ledger.py",
        "coming = [m for",
        "coming = [] and [m for",
        (SCENARIOS,),
    ),
    Break(
        "a flip left out of the ledger", "semantics/ledger.py", "    if before != after:", "    if False:", (SCENARIOS,)
    ),
    # ---- the pipeline file
    Break(
        "the config hash without the grace",
        "config/pipeline.py",
        'exclude={"land_every", "catch_up", "expectations"}',
        'exclude={"land_every", "catch_up", "expectations", "grace"}',
        (PIPELINES,),
    ),
    Break(
        "intervals off the day",
        "config/checks.py",
        "elif not is_length(length):",
        "elif length > timedelta(days=1):",
        (WRONG_FILES,),
    ),
    Break(
        "a naive start is UTC",
        "text.py",
        '    if not found["zone"]:',
        "    if False:",
        (WRONG_FILES, "tests/semantics/test_text.py"),
    ),
    # ---- the scenarios themselves
    Break("rows are not compared", "scenarios/rehearsal.py", "expect.rows != self.rows", "False", (SCENARIOS,)),
    Break(
        "the ledger is not compared",
        "scenarios/rehearsal.py",
        "if expect.late is not None and",
        "if False and",
        (SCENARIOS,),
    ),
    Break(
        "refusals are not compared",
        "scenarios/rehearsal.py",
        "if step.refused != REFUSALS[type(refusal)]:",
        "if False:",
        (SCENARIOS,),
    ),
)


def copy_of(project: Path, into: Path) -> Path:
    """What the fast tier needs, without what Python and pytest left behind."""
    for name in COPIED:
        source = project / name
        if source.is_dir():
            shutil.copytree(
                source, into / name, ignore=shutil.ignore_patterns("__pycache__", "proof"), dirs_exist_ok=True
            )
        else:
            shutil.copy2(source, into / name)
    return into


def broken(root: Path, one: Break) -> str:
    """Break a copy; returns the whole text of the file as it was.

    Raises:
        BreakOutdated: the text is not there exactly once.
    """
    path = root / "spark_jobs/windrow" / one.file
    text = path.read_text()
    if text.count(one.old) != 1:
        raise BreakOutdated(
            f"{one.name}: {one.old!r} stands {text.count(one.old)} times in {one.file}; edit tests/proof"
        )
    path.write_text(text.replace(one.old, one.new))
    return text


def run_tests(root: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The tests of a copy, until the first that fails. No bytecode: two sources of one second and size are two."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "WINDROW_HISTORIES": "150"}
    env.pop("PYTHONPATH", None)
    return subprocess.run(
        [*command, *tests], cwd=root, env=env, capture_output=True, text=True, timeout=LONGEST, check=False
    )


def outcome(root: Path, one: Break) -> Outcome:
    """Break the copy, run its tests, and mend it."""
    text = broken(root, one)
    try:
        done = run_tests(root, one.tests)
    except subprocess.TimeoutExpired:
        return Outcome(one.name, None, f"no end after {LONGEST} s")
    finally:
        (root / "spark_jobs/windrow" / one.file).write_text(text)
    found = re.search(r"^(FAILED|ERROR) (\S.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return Outcome(one.name, None)
    if done.returncode == 1 and found and found[1] == "FAILED":
        return Outcome(one.name, found[2])
    return Outcome(one.name, None, (done.stdout + done.stderr).strip()[-400:])


def prove(breaks: Sequence[Break], project: Path = PROJECT, workers: int = 2) -> list[Outcome]:
    """One outcome a break, in order. First of all, the copy must be green as it is.

    Raises:
        BreakOutdated, RuntimeError (the tests are red without a break)
    """
    with tempfile.TemporaryDirectory() as folder:
        roots = [copy_of(project, Path(folder) / f"copy{n}") for n in range(workers)]
        for one in breaks:
            (roots[0] / "spark_jobs/windrow" / one.file).write_text(broken(roots[0], one))
        unbroken = run_tests(roots[0], sorted({test for one in breaks for test in one.tests}))
        if unbroken.returncode:
            raise RuntimeError(f"red without any break, which proves nothing:\n{unbroken.stdout[-3000:]}")
        with ThreadPoolExecutor(workers) as pool:
            shares = pool.map(lambda n: [outcome(roots[n], one) for one in breaks[n::workers]], range(workers))
        found = {one.name: one for share in shares for one in share}
        return [found[one.name] for one in breaks]


def table(outcomes: Iterable[Outcome]) -> str:
    """break → the first test that went red."""
    rows = [(one.name, one.red or (f"ERROR {one.error}" if one.error else "STAYED GREEN")) for one in outcomes]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name.ljust(width)}  {said}" for name, said in rows)


def main(words: Sequence[str], breaks: Sequence[Break] = BREAKS) -> int:
    chosen = [one for one in breaks if not words or any(word in one.name for word in words)]
    outcomes = prove(chosen)
    print(table(outcomes))
    unproven = [one for one in outcomes if not one.red]
    print(f"{len(outcomes) - len(unproven)} of {len(outcomes)} breaks turned the suite red")
    return 1 if unproven or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
