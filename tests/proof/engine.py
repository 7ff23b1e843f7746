"""Deliberate breaks of what runs on Spark and Delta, one by one, in this process; each must turn a check red.

    for each break:  one text of a module replaced ──▶ the module made anew in place ──▶ its check ──▶ red? ──▶ mended

    python tests/proof/engine.py            all of them, as a table; exit code 1 if any stays green
    python tests/proof/engine.py lock pin   those whose names contain a word

The checks (`agreement`) need a Spark session and no broker, and are green without a break. A break that stops a module
from being made proves nothing and is an error, as is a text that is not found exactly once.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / "spark_jobs")]

from proof.agreement import PLAIN, TAKEN, Prepared, excludes, takes  # noqa: E402 - after the path of a script is set
from proof.breaks import BreakOutdated, Outcome, table  # noqa: E402
from windrow.places import Places  # noqa: E402


@dataclass(frozen=True)
class Break:
    """`old` in `module` (under windrow) becomes `new`; then the check must fail."""

    name: str
    module: str
    old: str
    new: str
    check: str = "joins"
    rules: str = "plain"


BREAKS = (
    # ---- transforms.join
    Break("window end out", "transforms.join", "hi + F.lit(MICROSECOND)", "hi"),
    Break("window start out", "transforms.join", "before(times, lo)", "before(times, lo + F.lit(MICROSECOND))"),
    Break("a group that begins in the window is all in", "transforms.join", "& (last <= hi), group", ", group"),
    Break("a group that ends in the window is all in", "transforms.join", "(first >= lo) & (last", "(last"),
    Break("a group around the window is out", "transforms.join", "(last >= lo) & (first <= hi)", "F.lit(False)"),
    Break("the label after the one that is meant", "transforms.join", '- 1).cast("int")', ').cast("int")'),
    Break("one bad label is none", "transforms.join", 'F.size("_doubts") > 0', 'F.size("_doubts") > 1'),
    Break(
        "window end short by a microsecond",
        "transforms.join",
        '"_hi": F.col(EVENT_TIME) + F.lit(stream.window.after)}',
        '"_hi": F.col(EVENT_TIME) + F.lit(stream.window.after - timedelta(microseconds=1))}',
    ),
    Break(
        "key columns concatenated",
        "transforms.join",
        '        F.col(f"_left.{name}") == F.col(f"_right.{alias}") for name, alias in zip(pipeline.left.key, keys, '
        "strict=True)\n",
        '        F.concat(*[F.col(f"_left.{n}") for n in pipeline.left.key])'
        ' == F.concat(*[F.col(f"_right.{a}") for a in keys])\n',
    ),
    Break(
        "null keys match",
        "transforms.join",
        '== F.col(f"_right.{alias}")',
        '.eqNullSafe(F.col(f"_right.{alias}"))',
    ),
    Break("unmatched rows are lost", "transforms.join", 'on=on, how="left"', 'on=on, how="inner"'),
    Break(
        "labels not in row order",
        "transforms.join",
        'F.sort_array(F.collect_list("_e"))',
        'F.reverse(F.sort_array(F.collect_list("_e")))',
    ),
    Break(
        "unknown counted as negative",
        "transforms.states",
        '(doubt != "drained"), "unknown")',
        '(doubt != "drained"), "negative")',
    ),
    Break(
        "labels of unknown rows told",
        "transforms.join",
        "F.when(known, F.expr(expression))",
        "F.expr(expression)",
    ),
    Break(
        "a null key is no doubt", "transforms.states", 'F.when(keyless, "null_key")', 'F.when(F.lit(False), "null_key")'
    ),
    Break(
        "quarantined label ignored",
        "transforms.states",
        '.when(quarantined, "label_quarantined")',
        '.when(F.lit(False), "")',
    ),
    Break("a gap is no doubt", "transforms.states", '.when(lost, "offset_gap")', '.when(F.lit(False), "offset_gap")'),
    Break("silence is a negative", "transforms.states", ".when(silent,", ".when(F.lit(False),"),
    Break(
        "silent from the end of the window on",
        "transforms.states",
        "F.col(EVENT_TIME) >= F.lit(heard)",
        "F.col(EVENT_TIME) > F.lit(heard)",
    ),
    Break(
        "take ignored", "transforms.join", "F.when(F.size(every) > 1, one)", "F.when(F.lit(False), one)", rules="taken"
    ),
    Break(
        "take first is last",
        "transforms.join",
        '1 if stream.take == "first" else -1',
        '-1 if stream.take == "first" else 1',
        rules="taken",
    ),
    Break("inner ignored", "transforms.join", 'if s.join == "inner"', 'if s.join == ""', rules="taken"),
    Break(
        "a bad label counts whenever it was logged", "transforms.join", '(d["logged_at"] >= logged_by)', "F.lit(True)"
    ),
    # ---- transforms.streams
    Break("duplicates kept", "io.training.inputs", "if repeated.count():", "if False:"),
    Break("the winner goes too", "transforms.streams", '.where(F.col("_id") != F.col("_winner"))', ""),
    Break(
        "an event id is one event at any time",
        "transforms.streams",
        'same = ["_event_id", EVENT_TIME]',
        'same = ["_event_id"]',
    ),
    Break("the newest duplicate wins", "transforms.streams", 'F.min("_id")', 'F.max("_id")'),
    Break("where ignored", "transforms.streams", "if stream.where else F.lit(True)", "if False else F.lit(True)"),
    Break(
        "quarantined rows are read",
        "transforms.streams",
        "F.col(QUARANTINED).isNull() & (at",
        "F.lit(True) & (at",
    ),
    Break("< for <= where reading begins", "transforms.streams", "(at >= F.lit(lo))", "(at > F.lit(lo))"),
    Break(
        "right side read one microsecond short",
        "transforms.streams",
        "at <= F.lit(hi) if ends_in",
        "at < F.lit(hi) if ends_in",
        "counts",
    ),
    # ---- transforms.measure
    Break(
        "duplicates not counted",
        "transforms.measure",
        'F.col("_n") == "duplicate"',
        'F.col("_n") == ""',
        "counts",
    ),
    Break("filtered labels counted as unmatched", "transforms.measure", '.bitwiseOR(F.col("filtered"))', "", "counts"),
    Break("two offsets counted as one", "transforms.measure", "F.lit(63)", "F.lit(62)", "counts"),
    Break(
        "conflicts not counted",
        "transforms.measure",
        'F.col("_other") + F.col("_times")',
        'F.col("_other") * 0',
        "counts",
    ),
    # ---- io
    Break("pin ignored", "io.training.inputs", "F.col(BATCH) <= pin", "F.lit(True)"),
    Break(
        "the slowest partition speaks for a silent side",
        "transforms.facts",
        "by_topic.append(max(",
        "by_topic.append(min(",
    ),
    Break("bad labels not looked for", "io.training.inputs", "None if rows.isEmpty() else rows", "None"),
    Break("labels read from the interval's start", "io.training.inputs", "lo - stream.window.before, hi", "lo, hi"),
    Break("labels read to the interval's end", "io.training.inputs", "hi + stream.window.after\n", "hi\n"),
    Break("unpaired rows are published", "transforms.training", ".where(F.col(PAIRED))", "", "publishes", "taken"),
    Break("no fence", "semantics.publication", "if standing != plan.supersedes:", "if False:", "publishes"),
    Break(
        "no lock",
        "io.delta.locks",
        "lock.acquire(timeout=min(5.0, max(0.0, deadline - time.monotonic())))",
        "pass",
        "excludes",
    ),
    Break(
        "landing begins at the end",
        "semantics.landing.offsets",
        "positions.get(p.number, p.begin)",
        "positions.get(p.number, p.end)",
        "takes",
    ),
    Break(
        "lost offsets are given up in silence",
        "semantics.landing.offsets",
        "elif position < partitions[number].begin:",
        "elif False:",
        "takes",
    ),
    Break(
        "a topic made again goes on where it was",
        "semantics.landing.offsets",
        'if row["topic_id"] == topic.id]\n',
        "]\n",
        "takes",
    ),
)


@contextmanager
def broken(one: Break) -> Iterator[None]:
    """The module with the break in it, in place, also where its names were imported from it; mended afterwards.

    Raises:
        BreakOutdated: the text is not there exactly once.
    """
    module = importlib.import_module(f"windrow.{one.module}")
    text = Path(module.__file__ or "").read_text()
    if text.count(one.old) != 1:
        raise BreakOutdated(f"{one.name}: {one.old!r} stands {text.count(one.old)} times in {one.module}")
    before = dict(vars(module))
    importers = {id(m): (m, dict(vars(m))) for m in _modules()}
    try:
        exec(compile(text.replace(one.old, one.new), module.__file__ or "", "exec"), vars(module))
        renewed = {
            id(old): vars(module)[n] for n, old in before.items() if vars(module).get(n) is not old and callable(old)
        }
        for importer, names in importers.values():
            if importer is not module:
                vars(importer).update({n: renewed[id(value)] for n, value in names.items() if id(value) in renewed})
        yield
    finally:
        for importer, names in importers.values():
            vars(importer).update(names)


def _modules() -> list[ModuleType]:
    return [m for name, m in list(sys.modules.items()) if name.startswith(("windrow", "proof")) and m is not None]


def prove(spark: Any, places: Callable[[str], Places], breaks: Sequence[Break] = BREAKS) -> list[Outcome]:
    """One outcome a break. First of all, every check must be green as it is."""
    prepared = {"plain": Prepared(places("plain"), PLAIN), "taken": Prepared(places("taken"), TAKEN)}
    folder, numbers = places("locks").home, count()

    def anew(rules: Any) -> Prepared:
        return Prepared(places(f"anew{next(numbers)}"), rules)

    checks: dict[tuple[str, str], Callable[[], None]] = {
        **{("joins", name): lambda p=p: p.joins(spark) for name, p in prepared.items()},
        **{("counts", name): lambda p=p: p.counts(spark) for name, p in prepared.items()},
        ("publishes", "plain"): lambda: anew(PLAIN).publishes(spark),
        ("publishes", "taken"): lambda: anew(TAKEN).publishes(spark),
        ("excludes", "plain"): lambda: excludes(folder),
        ("takes", "plain"): lambda: takes(folder),
    }
    for check in dict.fromkeys((one.check, one.rules) for one in breaks):
        checks[check]()
    outcomes = []
    for one in breaks:
        outcomes.append(outcome(one, checks[one.check, one.rules]))
        print(table(outcomes[-1:]), flush=True)
    return outcomes


def outcome(one: Break, check: Callable[[], None]) -> Outcome:
    with broken(one):
        try:
            check()
        except AssertionError:
            return Outcome(one.name, one.check)
        except Exception as error:
            expected = type(error).__name__ in ("BalanceBroken", "Failed", "WriteSkipped")
            return Outcome(one.name, f"{one.check}: {type(error).__name__}" if expected else None, repr(error)[:400])
        except BaseException as failed:  # pytest.raises that saw nothing
            if type(failed).__name__ != "Failed":
                raise
            return Outcome(one.name, one.check)
    return Outcome(one.name, None)


def main(words: Sequence[str]) -> int:
    from windrow.jobs.spark import spark_for

    chosen = [one for one in BREAKS if not words or any(word in one.name for word in words)]
    with tempfile.TemporaryDirectory() as folder:
        everywhere = replace(Places.from_env({}), spark_master="local[2]")
        spark = spark_for("proof", everywhere)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        outcomes = prove(spark, lambda name: replace(everywhere, home=Path(folder) / name), chosen)
        spark.stop()
    return told(outcomes)


def told(outcomes: Iterable[Outcome]) -> int:
    outcomes = list(outcomes)
    unproven = [one for one in outcomes if not one.red]
    print(f"{len(outcomes) - len(unproven)} of {len(outcomes)} breaks turned a check red")
    return 1 if unproven or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
