"""The suite is proven: deliberate breaks of the source, one by one, each of which must turn the fast tier red.

    for each break:  a copy of the project ──▶ one function mutated ──▶ the narrow tests that must notice ──▶ red?

    python tests/proof/breaks.py            all of them, as a table; exit code 1 if any stays green
    python tests/proof/breaks.py pin gap    those whose names contain a word

A mutation (`mutations`) that has not exactly one place is an error, so that the list follows the source. Only behaviour
counts: a break that stops a module from being imported proves nothing and is an error too, as is one that turns a test
red by a name that does not exist.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from ast import Eq, Gt, GtE, Lt, LtE
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(PROJECT / "tests"))

from proof.mutations import (  # noqa: E402 - after the path of a script is set
    Break,
    argument,
    assigned,
    becomes,
    condition,
    drop_condition,
    flip,
    mutated,
    never,
    returns,
    statement,
)

COPIED = ("spark_jobs/windrow", "tests", "expectations", "dags/pipelines", "pyproject.toml")
LONGEST = 600

VECTORS = ("tests/semantics/test_worked_vectors.py",)
ROWS = ("tests/semantics/test_rows.py",)
TIME = ("tests/semantics/test_time.py",)
PROPERTIES = ("tests/semantics/test_properties.py",)
LANDING = ("tests/semantics/test_landing_rules.py",)
PLANS = ("tests/semantics/test_plan_and_balance.py",)
HISTORIES = ("tests/semantics/test_histories.py::TestHistories",)
SCENARIOS = ("tests/scenarios/test_scenarios.py",)
GAPS = ("tests/delta/test_gaps_on_record.py",)
CANARIES, CANARY_FILES = ("tests/semantics/test_canary.py",), ("tests/config/test_canary.py",)
PIPELINES = ("tests/config/test_pipeline.py",)
WRONG_FILES = ("tests/config/test_wrong_files.py",)
TEXT = ("tests/config/test_text.py",)
ERASURE = ("tests/semantics/test_erasure.py",)
FENCE = ("tests/semantics/test_publication.py",)
READING, MATURITY = "tests/training/test_reading.py", "tests/training/test_maturity.py"
BIAS = (f"{READING}::test_which_rows_are_complete_does_not_depend_on_their_labels",)
COLUMNS = "tests/delta/test_column_changes.py"
ORIGIN = (f"{COLUMNS}::test_a_column_keeps_its_origin",)
ORIGINS = (f"{COLUMNS}::test_a_column_that_was_left_out_for_a_while_keeps_its_origin_and_a_new_one_has_any",)
HOLES = (f"{READING}::test_a_range_with_an_unpublished_interval_lists_it_and_may_be_read_without_it",)
PINS = (f"{READING}::test_a_pin_outlives_rebuilds_and_compaction_and_says_when_vacuum_ended_it",)
SAMPLE = ("tests/training/test_sample.py::test_a_sample_has_every_positive_and_some_negatives_each_with_its_weight",)
GAP = ("tests/training/test_splits.py::test_the_gap_is_exactly_one_window",)
CREDIT = ("tests/training/test_credit.py::test_a_row_has_the_same_credits_in_every_range",)
LINEAR = ("tests/training/test_credit.py::test_credits_are_those_of_plain_loops_and_add_up_to_one[linear]",)
HEARD = (f"{MATURITY}::test_a_row_is_observed_for_a_time_if_the_label_side_was_heard_beyond_it",)
STREAMS = (f"{MATURITY}::test_each_label_stream_is_cut_and_heard_by_itself[left-negative]",)
SURVIVAL = ("tests/training/test_survival.py::test_a_label_counts_only_where_all_of_its_time_was_heard",)
SNAPSHOTS = "tests/training/test_snapshots.py"
SPARED = (f"{SNAPSHOTS}::test_maintenance_spares_files_until_the_snapshot_is_deleted",)
EXPORTS = "tests/training/test_export.py"
PIECES = (f"{EXPORTS}::test_an_export_has_the_rows_of_the_read_in_served_order[linear]",)
SHUFFLED = (f"{EXPORTS}::test_a_shuffle_is_the_same_for_every_size_of_its_parts",)
RESUMED = (f"{EXPORTS}::test_a_killed_export_goes_on_to_the_same_bytes[shuffled]",)
WINDOWS = (f"{SNAPSHOTS}::test_every_argument_gives_the_same_rows_from_a_snapshot[options0]",)
ONCE = (f"{SNAPSHOTS}::test_of_two_that_take_a_name_one_has_it",)
KNOWN = "pl.col(STATE) != 'unknown'"


@dataclass(frozen=True)
class Outcome:
    """`red`: the first test that failed; None where the break stayed green. `error`: neither red nor green."""

    name: str
    red: str | None
    error: str | None = None


MATCH, CLOSE, CLOCK = "semantics.match", "semantics.close", "semantics.clock"
WAITING, BOUNDED = "semantics.waiting", ("tests/semantics/test_waiting.py",)
REHEARSAL = "scenarios.rehearsal:Rehearsal"
REFERENCE, LANDINGS, MODEL = "semantics.reference", "semantics.paper.landings:Landings", "semantics.paper.model:Model"
LATE_BATCHES = "{t: b + 1 for t, b in self.batches.items()}"
NO_GAP_AFTER = "min([trusted_until, *behind[:1]]) if behind else start_at"
LATE_ENDS_GAP = "[shifted(event_at, disorder) for event_at, _ in later]"
LATER = becomes("self.labels", "dict.fromkeys(self.labels, timedelta(days=1))")

BREAKS = (
    # ---- match
    Break("window end out", f"{MATCH}:matches", flip(LtE, Lt, "after"), VECTORS),
    Break("window start out", f"{MATCH}:matches", flip(LtE, Lt, "before"), VECTORS),
    Break("key columns concatenated", f"{MATCH}:key_of", returns("(('', ''.join(map(str, key))),)", "type"), SCENARIOS),
    Break(
        "keys equal whatever their types",
        f"{MATCH}:key_of",
        returns("tuple(('', str(v)) for v in key)", "type"),
        VECTORS,
    ),
    Break("null keys match", f"{MATCH}:key_of", never(), SCENARIOS + VECTORS),
    # ---- close
    Break("< for <= in the close predicate", f"{CLOSE}:is_closed", flip(LtE, Lt), VECTORS),
    Break("closed by its start", f"{CLOSE}:is_closed", becomes("interval.end", "interval.start"), SCENARIOS),
    Break("early negatives: no after", f"{CLOSE}:frontier", becomes("after", "timedelta(0)"), SCENARIOS),
    Break("early negatives: no grace", f"{CLOSE}:frontier", becomes("grace", "timedelta(0)"), SCENARIOS),
    # ---- waiting
    Break("force while records wait to be landed", f"{WAITING}:decide", becomes("landed.is_behind", "False"), BOUNDED),
    Break(
        "force before its rows are there",
        f"{WAITING}:decide",
        becomes("landed.newest_left_at", "interval.end"),
        BOUNDED,
    ),
    Break("a bound is exceeded when it is met", f"{WAITING}:_exceeded", flip(Gt, GtE, "max_rows"), BOUNDED),
    Break("a published interval waits", f"{WAITING}:Grid.waiting", condition("True"), BOUNDED),
    # ---- clock
    Break("newest partition decides", f"{CLOCK}:topic_clock", becomes("min", "max"), SCENARIOS),
    Break("a partition without a clock is left out", f"{CLOCK}:topic_clock", condition("not any(clocks)"), SCENARIOS),
    Break("idle advance with lag", f"{CLOCK}:advance", drop_condition("caught_up"), SCENARIOS),
    Break("idle: wait is not obeyed", f"{CLOCK}:advance", drop_condition("mode"), SCENARIOS),
    Break("idle forgets the out-of-orderness", f"{CLOCK}:advance", argument("shifted", 2, "-idle.after"), TIME),
    Break("clock goes back", f"{CLOCK}:advance", becomes("floor", "None"), TIME),
    Break("a new partition starts at nothing", f"{CLOCK}:advance", becomes("topic_clock", "None"), TIME),
    Break("drain without the caught-up check", f"{CLOCK}:drain", never(), SCENARIOS),
    Break("a position beyond the end is caught up", f"{CLOCK}:PartitionClock.caught_up", flip(Eq, GtE), TIME),
    Break("out-of-orderness not taken off", f"{CLOCK}:PartitionClock.event_clock", returns("self.newest_at"), TIME),
    Break("a deleted topic holds the clock", f"{CLOCK}:current", drop_condition("newest"), TIME),
    # ---- intervals
    Break("interval end in", "semantics.intervals:Interval.contains", flip(Lt, LtE), TIME),
    Break("local time taken for UTC", "semantics.intervals:utc", returns("t.replace(tzinfo=UTC)"), VECTORS),
    Break("arithmetic in the local time zone", "semantics.intervals:utc", returns("t"), VECTORS),
    # ---- rows
    Break("pin ignored", f"{REFERENCE}:landed_once", drop_condition("batch"), SCENARIOS),
    Break("right side read one microsecond short", f"{REFERENCE}:_read_for", flip(LtE, Lt, "last"), ROWS),
    Break("before is not read", f"{REFERENCE}:_read_for", becomes("right.before", "timedelta(0)"), VECTORS + ROWS),
    Break("canaries are rows", f"{REFERENCE}:side_of", assigned("kept", "chosen"), SCENARIOS),
    Break("canaries are heard", "semantics.records:moves_no_clock", returns("bool(record.quarantined)"), SCENARIOS),
    Break("a canary by one key of several", "semantics.match:Mark.holds", becomes("all", "any"), CANARIES),
    Break("a label is sent after its window", "semantics.canary.schedule:Rhythm.due", LATER, CANARIES),
    Break("a lost pair is found", "semantics.canary.pairs:pairs_of", assigned("mine", "[]"), CANARIES),
    Break("a canary that where refuses", "config.canary:_selected", condition("True", "tried"), CANARY_FILES),
    Break("duplicates kept", f"{REFERENCE}:side_of", assigned("event", "r.row_id"), SCENARIOS),
    Break(
        "an event id is one event at any time",
        "semantics.records:event_of",
        returns("None if event_id is None else (event_id, None)"),
        ROWS,
    ),
    Break(
        "the newest duplicate wins", f"{REFERENCE}:side_of", argument("sorted", "reverse", "True", "kept"), SCENARIOS
    ),
    Break(
        "of two landings the last counts",
        f"{REFERENCE}:landed_once",
        statement("first[r.row_id] = r", "setdefault"),
        ROWS,
    ),
    Break("unpaired rows are emitted", f"{REFERENCE}:reference_join", never("join"), SCENARIOS),
    Break("take ignored", f"{REFERENCE}:taken", returns("found"), SCENARIOS),
    Break(
        "unknown passes where",
        f"{REFERENCE}:passes",
        returns("where is None or where(record.values) is not False"),
        ROWS,
    ),
    Break("quarantined records are read", f"{REFERENCE}:side_of", drop_condition("unreadable_for"), ROWS + PROPERTIES),
    Break(
        "a stream judges by the columns of others",
        "semantics.records:unreadable_for",
        assigned("found", "set(record.unreadable.values())"),
        SCENARIOS,
    ),
    Break(
        "a host clock that went back is trusted",
        "semantics.landing.host_clock:refuse_clock_that_went_back",
        never("landed_at"),
        SCENARIOS,
    ),
    Break("rows not in served order", f"{REFERENCE}:side_of", assigned("rows", "tuple(winners.values())"), SCENARIOS),
    # ---- label states
    Break("unknown counted as negative", "semantics.labels:label_state", becomes("'unknown'", "'negative'"), SCENARIOS),
    Break("silence is a negative", f"{REFERENCE}:_doubts", never("silence"), SCENARIOS),
    Break("silent only where every topic is", f"{REFERENCE}:_doubts", becomes("any", "all", "silent"), SCENARIOS),
    Break("a forced close is no doubt", f"{REFERENCE}:_doubts", never("forced"), SCENARIOS),
    Break("a topic made again speaks for its first life", f"{REFERENCE}:event_clocks", drop_condition("epoch"), ROWS),
    Break("an open gap ends on record", "semantics.landing.gaps:_left_out", becomes("gap.has_ended", "True"), GAPS),
    Break("a bound of one gap is its row's", "semantics.landing.gaps:recorded_once", becomes("max", "min"), GAPS),
    Break("gaps of earlier observations are not read", "io.registers.gaps:_gaps", assigned("topics", "set()"), GAPS),
    Break("a gap is no doubt", f"{REFERENCE}:_doubts", never("gaps"), SCENARIOS),
    Break("a quarantined label is no doubt", f"{REFERENCE}:_doubts", never("max_skew"), SCENARIOS),
    Break("a null key is no doubt", f"{REFERENCE}:_doubts", never("key"), SCENARIOS),
    Break("the side is alive at the window's end", "semantics.labels:is_side_silent", flip(LtE, Lt), VECTORS),
    Break("features decide the label state", "semantics.records:JoinSpec.labels", returns("self.right"), SCENARIOS),
    Break(
        "a gap ends with its last neighbour before", f"{LANDINGS}.gaps_at", assigned("end_at", NO_GAP_AFTER), SCENARIOS
    ),
    Break("a late record ends a gap early", f"{LANDINGS}.gaps_at", assigned("behind", LATE_ENDS_GAP), SCENARIOS),
    Break("the broker's stamp is not looked at", f"{LANDINGS}._judged", assigned("trusted_until", "now"), SCENARIOS),
    Break("a drain looks at the clock alone", f"{LANDINGS}.has_unlanded", returns("False"), SCENARIOS),
    Break("a drain asks nobody", "semantics.landing.offsets:refuse_drain", never(), LANDING),
    Break("an open transaction is no lag", "semantics.landing.batch:Partition.known_end", returns("self.end"), LANDING),
    Break("offsets go on in a topic made again", f"{LANDINGS}.recreate", statement("pass", "epoch"), SCENARIOS),
    # ---- landing
    Break("a host clock ahead is trusted", "semantics.landing.host_clock:refuse_clock_ahead", never("broker"), LANDING),
    Break(
        "another record is taken for landed",
        "semantics.landing.replaced:refuse_replaced",
        assigned("other", "{}"),
        LANDING,
    ),
    Break(
        "a topic made again left nothing behind", "semantics.landing.offsets:_after_the_last", returns("()"), LANDING
    ),
    Break(
        "what is not delivered is a marker",
        "semantics.landing.undelivered:explain",
        assigned("skipped", "list(undelivered)"),
        LANDING,
    ),
    Break(
        "a landing that does not balance is clocked",
        "semantics.landing.clock_rows:check_accounted",
        never("skipped"),
        LANDING,
    ),
    Break("a compacted topic is landed", "semantics.landing.offsets:refuse_compacted", never("is_compacted"), LANDING),
    # ---- plans, balance, publications
    Break("a plan's id without its run", "semantics.plan:_canonical", becomes("plan.run", "''"), PLANS),
    Break("a plan's id without its pins", "semantics.plan:_canonical", becomes("plan.pins", "{}"), PLANS),
    Break("no left balance", "semantics.balance:Balance.broken", never("left"), PLANS),
    Break("no right balance", "semantics.balance:Balance.broken", never("side_of"), PLANS),
    Break("unmatched labels not counted", f"{REFERENCE}:_balance", argument("RightBalance", 3, "0"), SCENARIOS),
    Break("no fence", f"{MODEL}.publish", never("supersedes"), SCENARIOS),
    Break("a retry publishes again", f"{MODEL}.publish", never("done"), SCENARIOS),
    Break("a rebuild past the frontier", f"{MODEL}.plan", never("is_closed"), SCENARIOS),
    Break("pins beyond the clock", f"{MODEL}._plan", argument("Plan", "pins", LATE_BATCHES), HISTORIES),
    Break("replays are rows", f"{REFERENCE}:landed_once", returns("by_pin, len(by_pin) - len(first)"), SCENARIOS),
    # ---- the late ledger
    Break("late from the pin on", "semantics.ledger:Newer.is_late", flip(Gt, GtE), SCENARIOS + HISTORIES),
    Break("late labels left out of the ledger", "semantics.ledger:_of_stream", assigned("coming", "[]"), SCENARIOS),
    Break("a flip left out of the ledger", "semantics.ledger:_of_row", never("before"), SCENARIOS),
    # ---- the pipeline file
    Break(
        "the config hash without the grace",
        "config.pipeline:Pipeline.config_hash",
        argument("model_dump", "exclude", '{"land_every", "catch_up", "expectations", "grace"}'),
        PIPELINES,
    ),
    Break(
        "intervals off the day",
        "config.checks:_interval_divides_the_day",
        condition("length > timedelta(days=1)", "is_length"),
        WRONG_FILES,
    ),
    Break("a naive start is UTC", "text:parse_instant", never("'zone'"), WRONG_FILES + TEXT),
    # ---- what a table keeps
    Break("a column may change its origin", "io.column_changes:require_unchanged", never("elsewhere"), ORIGIN),
    Break("an origin is forgotten", "io.origins:keep", assigned("known", "_written(pipeline, topic)"), ORIGINS),
    # ---- the reader for trainers
    Break("known rows for complete ones", "training.reader:_labelled", argument("filter", 1, KNOWN, "REASON"), BIAS),
    Break("a hole that was filled later", "io.training.states:table_with", argument("get", 2, "row['number']"), HOLES),
    Break("the newest rows for earlier ones", "io.training.states:table_with", assigned("last", "None"), PINS),
    Break("a sampled row weighs one", "training.sample:sampled", argument("then", 1, "1.0"), SAMPLE),
    Break("no gap before a cut", "training.splits:_ranges", becomes("apart", "(cut - cut)", "cut"), GAP),
    Break("credits of the range alone", "training.credit:span", assigned("back", "timedelta(0)"), CREDIT),
    Break("linear credits with a remainder", "training.credit:_share", returns("1 / of", "UNIT"), LINEAR),
    Break("heard at the end of a cut window", "training.maturity:matured", flip(Lt, LtE), HEARD),
    Break("any silence is a doubt", "training.observed:Observed.silent_from", drop_condition("silence"), STREAMS),
    Break("a label counts beyond what was heard", "training.survival:with_survival", flip(Lt, LtE), SURVIVAL),
    Break(
        "vacuum deletes what a snapshot keeps", "io.training.maintenance:_vacuum", assigned("spared", "set()"), SPARED
    ),
    Break(
        "a snapshot of the range alone",
        "jobs.upkeep.snapshot:_state",
        assigned("reach", "span.end - span.end"),
        WINDOWS,
    ),
    Break(
        "a name is given twice",
        "io.registers.snapshots:record",
        statement("tables.append_next(home.table(Table.SNAPSHOTS), SNAPSHOTS, [row], app_id=_APP_ID)", "append_once"),
        ONCE,
    ),
    Break("credits of a piece alone", "training.export.__init__:_rows", assigned("span", "piece"), PIECES),
    Break(
        "a bucket in the order of its pieces",
        "training.export.order:Shuffled.part",
        argument("sort", 1, "'_event_time'"),
        SHUFFLED,
    ),
    Break("a resumed export begins its part anew", "training.export.__init__:_write", assigned("offset", "0"), RESUMED),
    # ---- the scenarios themselves
    Break("rows are not compared", f"{REHEARSAL}._compare", never("rows"), SCENARIOS),
    Break("the ledger is not compared", f"{REHEARSAL}._compare", never("late"), SCENARIOS),
    Break("refusals are not compared", f"{REHEARSAL}._publish", never("REFUSALS"), SCENARIOS),
    # ---- erasure
    Break("an erased key takes part", "semantics.records:emptied", never("holds"), SCENARIOS),
    Break("published rows of an erased key stay", "semantics.paper.erased:left_in", never("quarantined"), SCENARIOS),
    Break("a null is a key", "semantics.erasure.keys:hash_of", never(), ERASURE),
    Break("keys are hashed without a secret", "semantics.erasure.keys:hash_of", becomes("secret", "b''"), ERASURE),
    Break("key columns paired by name alone", "semantics.erasure.keys:columns_in", never("key"), ERASURE),
    Break("a discarded candidate is published", "semantics.publication:refuse_erased", never(), FENCE),
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
    """Break a copy; returns the whole text of the file as it was. Raises BreakOutdated as `mutated` does."""
    path = root / "spark_jobs/windrow" / one.file
    text = path.read_text()
    path.write_text(mutated(one, text))
    return text


def run_tests(root: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The tests of a copy, until the first that fails. No bytecode: two sources of one second and size are two."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "WINDROW_HISTORIES": "150", "COLUMNS": "400"}
    env.pop("PYTHONPATH", None)
    return subprocess.run(
        [*command, *tests], cwd=root, env=env, capture_output=True, text=True, timeout=LONGEST, check=False
    )


def outcome(root: Path, one: Break) -> Outcome:
    """Break the copy, run its tests, and restore it."""
    text = broken(root, one)
    try:
        done = run_tests(root, one.noticed_by)
    except subprocess.TimeoutExpired:
        return Outcome(one.name, None, f"no end after {LONGEST} s")
    finally:
        (root / "spark_jobs/windrow" / one.file).write_text(text)
    found = re.search(r"^(FAILED|ERROR) (\S.*?)(?: - (.*))?$", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return Outcome(one.name, None)
    if not found:
        return Outcome(one.name, None, (done.stdout + done.stderr).strip()[-400:])
    if found[1] == "ERROR" or re.match("(Name|Attribute)Error", found[3] or ""):
        return Outcome(one.name, None, found[0].partition(" ")[2])
    return Outcome(one.name, found[2])


def prove(breaks: Sequence[Break], project: Path = PROJECT, workers: int = 2) -> list[Outcome]:
    """One outcome per break, in order. First of all, the copy must be green as it is.

    Raises:
        BreakOutdated, RuntimeError (the tests are red without a break)
    """
    with tempfile.TemporaryDirectory() as folder:
        roots = [copy_of(project, Path(folder) / f"copy{n}") for n in range(workers)]
        for one in breaks:
            (roots[0] / "spark_jobs/windrow" / one.file).write_text(broken(roots[0], one))
        unbroken = run_tests(roots[0], sorted({test for one in breaks for test in one.noticed_by}))
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
    return "\n".join(f"{name.ljust(width)}  {shown}" for name, shown in rows)


def chosen(words: Sequence[str], breaks: Sequence[Break]) -> list[Break]:
    """The breaks whose names contain a word; all of them where there is no word."""
    return [one for one in breaks if not words or any(word in one.name for word in words)]


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """1 where a break is unproven or there is none; prints how many are proven."""
    red = [one for one in outcomes if one.red]
    print(f"{len(red)} of {len(outcomes)} breaks turned a test red")
    return 0 if red and len(red) == len(outcomes) else 1


def main(words: Sequence[str], breaks: Sequence[Break] = BREAKS) -> int:
    outcomes = prove(chosen(words, breaks))
    print(table(outcomes))
    return exit_code(outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
