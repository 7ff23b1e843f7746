"""Deliberate breaks of what runs on Spark and Delta, one by one, in this process; each must turn a check red.

    for each break:  one function mutated ──▶ its code exchanged in place ──▶ its check ──▶ red? ──▶ restored

    python tests/proof/engine.py            all of them, as a table; exit code 1 if any stays green
    python tests/proof/engine.py lock pin   those whose names contain a word

The checks (`agreement`) need a Spark session and no broker, and are green without a break. A break that ends a check by
any other error proves nothing and is an error, as is a mutation (`mutations`) that has not exactly one place.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tempfile
from ast import Eq, Gt, GtE, Lt, LtE, NotEq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT / "spark_jobs")]

from proof.agreement import PLAIN, TAKEN, Prepared, excludes, reads, takes  # noqa: E402 - after the path of a script is set
from proof.breaks import Outcome, chosen, exit_code, table  # noqa: E402
from proof.mutations import (  # noqa: E402
    Break,
    argument,
    assigned,
    becomes,
    drop_condition,
    flip,
    mutated_code,
    never,
    returns,
    statement,
)
from windrow.places import Places  # noqa: E402

JOIN, STATES, STREAMS = "transforms.join", "transforms.states", "transforms.streams"
VOLUME, UNREAD, EXACT = "transforms.volume", "io.training.unread", "transforms.exact"
MEASURE, INPUTS, OFFSETS = "transforms.measure", "io.training.inputs", "semantics.landing.offsets"
JOINS, JOINS_TAKEN, COUNTS, TAKES, READS = ("joins",), ("joins taken",), ("counts",), ("takes",), ("reads",)
ERASED = ("erased",)
TRUE, FALSE = "F.lit(True)", "F.lit(False)"
KEYS_CONCATENATED = (
    'F.concat(*[F.col(f"_left.{n}") for n in pipeline.left.key]) == F.concat(*[F.col(f"_right.{a}") for a in keys])'
)
NULLS_EQUAL = (
    '[F.col(f"_left.{n}").eqNullSafe(F.col(f"_right.{a}")) for n, a in zip(pipeline.left.key, keys, strict=True)]'
)

BREAKS = (
    # ---- transforms.join
    Break("window end out", f"{JOIN}:cut", argument("how_many_before", 2, "hi", "hi"), JOINS),
    Break("window start out", f"{JOIN}:cut", argument("how_many_before", 2, "lo + F.lit(MICROSECOND)", "lo"), JOINS),
    Break("a group that begins in the window is all in", f"{JOIN}:cut", drop_condition("last", "hi"), JOINS),
    Break("a group that ends in the window is all in", f"{JOIN}:cut", drop_condition("first", "lo"), JOINS),
    Break("a group around the window is out", f"{JOIN}:cut", argument("when", 1, FALSE, "slice"), JOINS),
    Break("the label after the one that is meant", f"{JOIN}:how_many_before", becomes("1", "0"), JOINS),
    Break("one bad label is none", f"{JOIN}:_is_doubted", becomes("0", "1"), JOINS),
    Break(
        "window end short by a microsecond",
        f"{JOIN}:with_matches",
        becomes("stream.window.after", "(stream.window.after - MICROSECOND)"),
        JOINS,
    ),
    Break("key columns concatenated", f"{JOIN}:with_matches", assigned("on", KEYS_CONCATENATED), JOINS),
    Break("null keys match", f"{JOIN}:with_matches", assigned("on", NULLS_EQUAL), JOINS),
    Break("unmatched rows are lost", f"{JOIN}:with_matches", becomes("'left'", "'inner'"), JOINS),
    Break("labels not in row order", f"{JOIN}:with_matches", argument("sort_array", "asc", "False"), JOINS),
    Break("unknown counted as negative", f"{STATES}:with_state", argument("when", 2, "'negative'", "isNotNull"), JOINS),
    Break("labels of unknown rows told", f"{JOIN}:join", assigned("known", TRUE), JOINS),
    Break("a null key is no doubt", f"{STATES}:with_state", assigned("keyless", FALSE), JOINS),
    Break("quarantined label ignored", f"{STATES}:with_state", assigned("quarantined", FALSE), JOINS),
    Break("a gap is no doubt", f"{STATES}:with_state", assigned("lost", FALSE), JOINS),
    Break("silence is a negative", f"{STATES}:with_state", assigned("silent", FALSE), JOINS),
    Break("silent from the end of the window on", f"{STATES}:_is_silent", flip(GtE, Gt), JOINS),
    Break("take ignored", f"{JOIN}:_taken", assigned("one", "every"), JOINS_TAKEN),
    Break("take first is last", f"{JOIN}:_taken", flip(Eq, NotEq, "'first'"), JOINS_TAKEN),
    Break("inner ignored", f"{JOIN}:join", becomes("'inner'", "''"), JOINS_TAKEN),
    Break(
        "a bad label counts whenever it was logged",
        f"{JOIN}:_is_doubted",
        argument("when", 2, TRUE, "logged_from"),
        JOINS,
    ),
    # ---- transforms.streams
    Break("duplicates kept", f"{INPUTS}:_divided_once", never("count"), JOINS),
    Break("the winner goes too", f"{STREAMS}:_duplicates", argument("where", 1, TRUE, "'_winner'"), JOINS),
    Break("an event id is one event at any time", f"{STREAMS}:_duplicates", assigned("same", "['_event_id']"), JOINS),
    Break("the newest duplicate wins", f"{STREAMS}:_duplicates", becomes("F.min", "F.max"), JOINS),
    Break("canaries are rows", f"{STREAMS}:chosen", drop_condition("'_canary'"), JOINS),
    Break("canaries are told by nothing", f"{STREAMS}:is_canary", returns(FALSE, "all_of"), JOINS),
    Break("where ignored", f"{STREAMS}:selected", returns(TRUE), JOINS),
    Break("quarantined rows are read", f"{STREAMS}:rows_of", drop_condition("QUARANTINED"), JOINS),
    Break("< for <= where reading begins", f"{STREAMS}:rows_of", flip(GtE, Gt), JOINS),
    Break("right side read one microsecond short", f"{STREAMS}:rows_of", flip(LtE, Lt), COUNTS),
    # ---- transforms.measure
    Break("duplicates not counted", f"{MEASURE}:left_duplicates", argument("count", 1, "F.lit(None)"), COUNTS),
    Break(
        "filtered rows counted as selected",
        f"{VOLUME}:volume_counts",
        argument("count_if", 1, TRUE, "'_filtered'"),
        COUNTS,
    ),
    Break(
        "filtered labels counted as unmatched",
        f"{MEASURE}:right_counts",
        assigned("used", 'F.col("matched").bitwiseOR(F.col("duplicate"))'),
        COUNTS,
    ),
    Break("two offsets counted as one", f"{MEASURE}:_bit", becomes("63", "62"), COUNTS),
    Break("conflicts not counted", f"{MEASURE}:conflicts", argument("sum", 1, "F.lit(0)", "'_times'"), COUNTS),
    # ---- transforms.exact
    Break("numbers in text as Spark spells them", f"{EXACT}:may_differ", returns(FALSE), READS),
    Break("decimals rounded", f"{EXACT}:is_rounded", returns(FALSE), READS),
    Break("decimals of any length read", f"{EXACT}:is_slow", returns(FALSE), READS),
    # ---- io
    Break(
        "what cannot be read counts when it landed", f"{UNREAD}:_of_topic", becomes("RECORD_AT", "ARRIVED_AT"), COUNTS
    ),
    Break("what cannot be read counts beyond the pin", f"{UNREAD}:_of_topic", drop_condition("BATCH"), COUNTS),
    Break("pin ignored", f"{INPUTS}:landed_of", argument("where", 1, TRUE), JOINS),
    Break(
        "the slowest partition speaks for a silent side", "transforms.facts:_heard_until", becomes("max", "min"), JOINS
    ),
    Break("bad labels not looked for", f"{INPUTS}:_doubtful_of", returns("None", "isEmpty"), JOINS),
    Break(
        "labels read from the interval's start",
        f"{INPUTS}:read_range",
        becomes("stream.window.before", "(lo - lo)"),
        JOINS,
    ),
    Break(
        "labels read to the interval's end", f"{INPUTS}:read_range", becomes("stream.window.after", "(hi - hi)"), JOINS
    ),
    Break(
        "unpaired rows are published",
        "transforms.training:training_rows",
        assigned("paired", "candidates"),
        ("publishes taken",),
    ),
    Break("an erased key is joined", f"{INPUTS}:landed_of", argument("emptied", 4, "None"), ERASED),
    Break("a hash of another text", "transforms.erased:key_hash", becomes("':'", "';'"), ERASED),
    Break("erased rows are not counted", f"{MEASURE}:left_erased", argument("count", 1, "F.lit(None)"), ERASED),
    Break("no fence", "semantics.publication:refuse_superseded", never(), ("publishes",)),
    Break("no lock", "io.delta.locks:_flocked", statement("pass", "acquire"), ("excludes",)),
    Break("landing begins at the end", f"{OFFSETS}:next_batch", argument("get", 2, "p.end"), TAKES),
    Break("lost offsets are given up in silence", f"{OFFSETS}:lost_ranges", never("begin"), TAKES),
    Break("a topic made again goes on where it was", f"{OFFSETS}:next_batch", drop_condition("'topic_id'"), TAKES),
)


@contextmanager
def broken(one: Break) -> Iterator[None]:
    """The function with the break in it, wherever it was imported; restored afterwards.

    Raises:
        BreakOutdated: see `mutated`.
    """
    module, _, function = one.where.partition(":")
    broken_one = inspect.unwrap(getattr(importlib.import_module(f"windrow.{module}"), function))
    code, broken_one.__code__ = broken_one.__code__, mutated_code(one)
    try:
        yield
    finally:
        broken_one.__code__ = code


def prove(spark: Any, places: Callable[[str], Places], breaks: Sequence[Break] = BREAKS) -> list[Outcome]:
    """One outcome per break. First of all, every check must be green as it is."""
    plain, taken = Prepared(places("plain"), PLAIN), Prepared(places("taken"), TAKEN)
    erased = Prepared(places("erased"), PLAIN, erased=("k", "q", "d"))
    folder, numbers = places("locks").home, count()

    def published_anew(rules: Any) -> None:
        Prepared(places(f"anew{next(numbers)}"), rules).publishes(spark)

    checks: dict[str, Callable[[], object]] = {
        "joins": lambda: plain.joins(spark),
        "joins taken": lambda: taken.joins(spark),
        "counts": lambda: plain.counts(spark),
        "erased": lambda: (erased.joins(spark), erased.counts(spark)),
        "publishes": lambda: published_anew(PLAIN),
        "publishes taken": lambda: published_anew(TAKEN),
        "excludes": lambda: excludes(folder),
        "takes": lambda: takes(folder),
        "reads": lambda: reads(spark),
    }
    for check in dict.fromkeys(one.noticed_by[0] for one in breaks):
        checks[check]()
    outcomes = []
    for one in breaks:
        outcomes.append(outcome(one, checks[one.noticed_by[0]]))
        print(table(outcomes[-1:]), flush=True)
    return outcomes


def outcome(one: Break, check: Callable[[], object]) -> Outcome:
    with broken(one):
        try:
            check()
        except AssertionError:
            return Outcome(one.name, one.noticed_by[0])
        except Exception as error:
            expected = type(error).__name__ in ("BalanceBroken", "Failed", "WriteSkipped")
            red = f"{one.noticed_by[0]}: {type(error).__name__}" if expected else None
            return Outcome(one.name, red, repr(error)[:400])
        except BaseException as failed:  # pytest.raises that saw nothing
            if type(failed).__name__ != "Failed":
                raise
            return Outcome(one.name, one.noticed_by[0])
    return Outcome(one.name, None)


def main(words: Sequence[str]) -> int:
    from windrow.jobs.spark import spark_for

    with tempfile.TemporaryDirectory() as folder:
        everywhere = replace(Places.from_env({}), spark_master="local[2]")
        spark = spark_for("proof", everywhere)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        outcomes = prove(spark, lambda name: replace(everywhere, home=Path(folder) / name), chosen(words, BREAKS))
        spark.stop()
    return exit_code(outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
