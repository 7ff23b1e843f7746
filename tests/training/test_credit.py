"""Credits of a label: what plain loops over the rows of paper give, in every range, and 1 for each label exactly."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.histories import drawn
from support.training.feed import INTERVAL, LENGTH, WINDOW, feed_home, life, own_life
from support.training.outages import START
from support.training.table import Writer, empty_places, paper_home, seen
from windrow import training
from windrow.columns import ROW_ID
from windrow.home import Home
from windrow.semantics.paper.model import Model
from windrow.semantics.records import RowId
from windrow.semantics.reference import JoinedRow
from windrow.training.credit import UNIT, _share

POLICIES = ("all", "first_touch", "last_touch", "linear")
Credits = dict[tuple[RowId, RowId], Fraction]
"""(row, label) → credit"""


def expected(rows: Iterable[JoinedRow], stream: str, attribute: str) -> Credits:
    """Plain loops: the rows of each label, in row order, share it."""
    touched: dict[RowId, list[RowId]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.event_at, row.row_id)):
        for label in row.matches[stream]:
            touched[label.row_id].append(row.row_id)
    found: Credits = {}
    for label, of in touched.items():
        for n, row_id in enumerate(of):
            linear = Fraction((n + 1) * UNIT // len(of) - n * UNIT // len(of), UNIT)
            chosen = {"all": 1, "first_touch": n == 0, "last_touch": n == len(of) - 1, "linear": linear}
            found[row_id, label] = Fraction(chosen[attribute])
    return found


def credits(frame: pl.DataFrame, stream: str) -> Credits:
    return dict(_credits(frame, stream))


def _credits(frame: pl.DataFrame, stream: str) -> Iterator[tuple[tuple[RowId, RowId], Fraction]]:
    for row in frame.select(*ROW_ID, stream, f"_credit_{stream}").iter_rows(named=True):
        for label, credit in zip(row[stream], row[f"_credit_{stream}"], strict=True):
            yield (_row_id(row), _row_id(label)), Fraction(credit)


def _row_id(row: dict[str, Any]) -> RowId:
    return RowId(*(row[name] for name in ROW_ID))


@pytest.mark.parametrize("attribute", POLICIES)
def test_credits_are_those_of_plain_loops_and_add_up_to_one(feed: Home, attribute: Any) -> None:
    end = START + LENGTH
    frame = training.read("feed", end=end, attribute=attribute, labels="all", places=feed.places).rows.collect()
    found = credits(frame, "clicks")
    assert found == expected(life().rows, "clicks", attribute)
    per_label: dict[RowId, Fraction] = defaultdict(Fraction)
    for (_, label), credit in found.items():
        per_label[label] += credit
    rows_of = [len([1 for _, label in found if label == one]) for one in per_label]
    assert max(rows_of) >= 3
    assert list(per_label.values()) == (rows_of if attribute == "all" else [1] * len(per_label))


@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(start=st.integers(0, 180), minutes=st.integers(1, 60), attribute=st.sampled_from(POLICIES), labels=st.booleans())
def test_a_row_has_the_same_credits_in_every_range(
    feed: Home, start: int, minutes: int, attribute: Any, labels: bool
) -> None:
    """Also where rows of its labels are outside of the range, or incomplete."""
    minute = INTERVAL / 10
    begin = START + start * minute
    options: Any = {"attribute": attribute, "labels": "complete" if labels else "all"}
    frame = training.read("feed", begin, begin + minutes * minute, **options, places=feed.places).rows.collect()
    ids = {_row_id(row) for row in frame.select(ROW_ID).iter_rows(named=True)}
    everything = expected(life().rows, "clicks", attribute)
    assert credits(frame, "clicks") == {pair: credit for pair, credit in everything.items() if pair[0] in ids}
    assert ids == {
        row.row_id
        for row in life().rows
        if begin <= row.event_at < begin + minutes * minute and (row.label_reason is None or not labels)
    }


def test_every_history_has_the_credits_of_plain_loops(tmp_path: Path) -> None:
    """Windows that begin before their row, `inner` streams, `take`, rows without a key, rebuilds."""
    pairs = 0
    for n, history in enumerate(drawn(3, 20)):
        model, places = Model(history.rules), empty_places(tmp_path / str(n))
        history.live(model)
        home = paper_home(places, model.rules)
        Writer(home, seen(home)).publish_all(model.publications)
        for attribute in POLICIES:
            options: Any = {"attribute": attribute, "labels": "all", "unpublished": "skip"}
            end = max(model.standing).end
            frame = training.read("paper", end=end, **options, places=places).rows.collect()
            assert credits(frame, "labels") == expected(model.rows, "labels", attribute)
            pairs += len(credits(frame, "labels"))
    assert pairs > 20


def test_credits_of_any_number_of_rows_add_up_in_floating_point() -> None:
    chance = random.Random(1)
    for of in (1, 2, 3, 7, 10, 49, 1_000, 99_991):
        frame = pl.DataFrame({"nth": range(of)}).select(_share("linear", pl.col("nth"), pl.lit(of)).alias("credit"))
        shares = frame["credit"].to_list()
        chance.shuffle(shares)
        assert sum(shares) == 1.0
        assert max(shares) - min(shares) <= 1 / UNIT


def test_without_an_end_the_range_is_what_can_be_credited_and_beyond_it_is_refused(feed: Home) -> None:
    until = training.read("feed", places=feed.places).pin.request.end
    ends = {
        policy: training.read("feed", attribute=policy, places=feed.places).pin.request.end  # type: ignore[arg-type]
        for policy in POLICIES
    }
    assert ends == {"all": until, "first_touch": until, "last_touch": until - WINDOW, "linear": until - WINDOW}
    with pytest.raises(training.NotPublished) as refused:
        training.read("feed", end=until, attribute="last_touch", places=feed.places)
    assert "attribute='last_touch' looks at the rows of" in str(refused.value)
    assert f"whole until end={until - WINDOW:%Y-%m-%dT%H:%M:%SZ}" in str(refused.value)


def test_a_pin_has_the_publications_that_credits_depend_on(tmp_path: Path) -> None:
    home = feed_home(empty_places(tmp_path / "feed"))
    model = own_life()
    start, end = START + 6 * INTERVAL, START + 7 * INTERVAL
    rows, pin = training.read("feed", start, end, attribute="linear", places=home.places)
    assert pin.publications == tuple(range(4, 11)), "three intervals before, and three after"
    before = credits(rows.collect(), "clicks")
    (plan,) = model.plan("rebuild", [model.publications[8].plan.interval])
    Writer(home, {"clicked": lambda row: bool(row.matches["clicks"])}).publish(model.publish(plan))
    assert credits(training.read_pinned(pin.to_json(), places=home.places).rows.collect(), "clicks") == before


def test_a_wrong_attribution_is_refused(feed: Home) -> None:
    with pytest.raises(training.WrongRequest, match="attribute is 'last'; it may be all, first_touch"):
        training.read("feed", attribute="last", places=feed.places)  # type: ignore[typeddict-item]
