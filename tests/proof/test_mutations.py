"""Kinds of mutation: each makes the one change that it is named for, or says what to edit."""

from __future__ import annotations

from ast import Eq, Lt, LtE, NotEq
from textwrap import indent

import pytest

from proof import breaks, engine
from proof.mutations import (
    PACKAGE,
    Break,
    BreakOutdated,
    Mutation,
    argument,
    assigned,
    becomes,
    condition,
    drop_condition,
    flip,
    mutated,
    mutated_code,
    returns,
    statement,
)

KINDS = (
    (flip(LtE, Lt, "after"), "return -before <= at <= after", "return -before <= at < after"),
    (flip(LtE, Lt, "before"), "return -before <= at <= after", "return -before < at <= after"),
    (flip(Eq, NotEq, "'x'"), "return a == 'x' or a == 'y'", "return a != 'x' or a == 'y'"),
    (becomes("after", "zero"), "after = f(-after)", "after = f(-zero)"),
    (becomes("row.end", "row.start"), "row.end = x.row.end", None),
    (becomes("row.end", "row.start"), "return row.end + end", "return row.start + end"),
    (becomes("any", "all", "b"), "return any(a) and any(b)", "return any(a) and all(b)"),
    (becomes("'old'", "'new'"), "return f(old, 'old')", "return f(old, 'new')"),
    (returns("None", "b"), "if a:\n    return a\nreturn b", "if a:\n    return a\nreturn None"),
    (assigned("a", "[]"), "a = b\nb = a", "a = []\nb = a"),
    (condition("False", "b"), "if a:\n    f(b)\nelif b:\n    g()", "if a:\n    f(b)\nelif False:\n    g()"),
    (drop_condition("b"), "return a and b and c", "return a and True and c"),
    (drop_condition("b"), "return [x for x in a if b]", "return [x for x in a if True]"),
    (drop_condition("c"), "return [x for x in a if b(x) and c]", "return [x for x in a if b(x) and True]"),
    (drop_condition("a"), "return (a > 1) & b & c", "return F.lit(True) & b & c"),
    (drop_condition("a"), "return a + b", None),
    (argument("f", 2, "0"), "return x.f(a, b)", "return x.f(a, 0)"),
    (argument("f", 3, "0"), "return f(a, b)", None),
    (argument("f", "by", "0", "b"), "return f(a).f(b, by=c)", "return f(a).f(b, by=0)"),
    (argument("f", "by", "0"), "return f(a)", "return f(a, by=0)"),
    (statement("pass", "x"), "for a in x:\n    a.x += 1", "for a in x:\n    pass"),
    (statement("pass", "x"), "x = 1", "pass"),
)


def one(what: Mutation, where: str = "somewhere:C.f") -> Break:
    return Break("a break", where, what, ())


def source(body: str, beside: str | None = None) -> str:
    """A class with two methods, the second of which is never to be changed."""
    f, g = (indent(text, " " * 8) for text in (body, beside or body))
    return f"class C:\n\n    def f(self):\n{f}\n\n    def g(self):\n{g}"


@pytest.mark.parametrize(("what", "before", "after"), KINDS, ids=str)
def test_a_kind_makes_one_change_in_one_function(what: Mutation, before: str, after: str | None) -> None:
    if after is None:
        with pytest.raises(BreakOutdated, match=r"finds 0 places in somewhere:C\.f, not one; edit the break"):
            mutated(one(what), source(before))
    else:
        assert mutated(one(what), source(before)) == source(after, beside=before)


@pytest.mark.parametrize(
    ("outdated", "message"),
    [
        (one(becomes("a", "c")), "finds 2 places in somewhere:C.f"),
        (one(becomes("b", "c")), r"becomes\('b', 'c'\) finds 0 places"),
        (one(flip(Lt, LtE)), r"flip\(Lt, LtE\) finds 0 places"),
        (one(returns("a + a")), "changes nothing"),
        (one(returns("a"), "somewhere:C.h"), "no function somewhere:C.h"),
        (one(returns("a"), "somewhere:C"), "no function somewhere:C"),
    ],
)
def test_a_break_that_is_not_found_exactly_once_says_what_to_edit(outdated: Break, message: str) -> None:
    with pytest.raises(BreakOutdated, match=f"a break: .*{message}.*edit the break in tests/proof"):
        mutated(outdated, source("return a + a"))


@pytest.mark.parametrize("listed", [breaks.BREAKS, engine.BREAKS], ids=["breaks", "engine"])
def test_every_break_has_a_name_of_its_own_and_is_in_the_source(listed: tuple[Break, ...]) -> None:
    assert len({one.name for one in listed}) == len({(one.where, one.what) for one in listed}) == len(listed)
    changed = {(one.file, mutated(one, (PACKAGE / one.file).read_text())) for one in listed}
    assert len(changed) == len(listed)
    assert [mutated_code(one).co_qualname for one in listed] == [one.function for one in listed]
