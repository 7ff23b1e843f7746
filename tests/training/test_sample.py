"""The sample of the negatives: chosen by a hash that never changes, and corrected by its weight or its offset."""

from __future__ import annotations

import math
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from support.training.feed import CLICKED, INTERVAL, feed_home, own_life
from support.training.outages import MINUTE, START
from support.training.table import Writer, empty_places
from windrow import training
from windrow.columns import ROW_ID, ROW_ORDER
from windrow.home import Home, Table
from windrow.training.hashing import hash_of, threshold
from windrow.training.request import Request
from windrow.training.sample import sampled

# ---- the hash, compared with MurmurHash3 as it is published: over bytes, word by word


def murmur3(data: bytes, seed: int) -> int:
    h, size = seed, 2**32
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 % size
        k = (k << 15 | k >> 17) % size * 0x1B873593 % size
        h ^= k
        h = ((h << 13 | h >> 19) % size * 5 + 0xE6546B64) % size
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B % size
    h = (h ^ h >> 13) * 0xC2B2AE35 % size
    return h ^ h >> 16


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0),
        (b"", 1, 0x514E28B7),
        (b"\xff\xff\xff\xff", 0, 0x76293B50),
        (b"\x21\x43\x65\x87", 0, 0xF55B516B),
        (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
        (b"aaaa", 0x9747B28C, 0x5A97808A),
    ],
)
def test_the_oracle_has_the_published_values(data: bytes, seed: int, expected: int) -> None:
    assert murmur3(data, seed) == expected


numbers = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(seeds=st.lists(numbers, max_size=2), rows=st.lists(st.tuples(st.none() | numbers, st.none() | st.text())))
def test_the_hash_of_columns_is_murmur3_in_a_chain(seeds: list[int], rows: list[tuple[Any, Any]]) -> None:
    frame = pl.DataFrame(rows, {"number": pl.Int64, "text": pl.String}, orient="row")
    found = frame.select(hash_of(seeds, [pl.col("number"), pl.col("text")]).alias("hash"))["hash"].to_list()

    def chained(number: int | None, text: str | None) -> int:
        h = 42
        for value in (*seeds, number, None if text is None else zlib.crc32(text.encode())):
            h = h if value is None else murmur3(value.to_bytes(8, "little", signed=value < 0), h)
        return h

    assert found == [chained(number, text) for number, text in rows]


def test_the_width_of_an_integer_type_makes_no_difference() -> None:
    frame = pl.DataFrame({"n": [-1, 0, 7]})
    kinds = (pl.Int64, pl.Int32, pl.Int16, pl.Int8)
    assert len({tuple(frame.select(hash_of([], [pl.col("n").cast(k)]).alias("h"))["h"]) for k in kinds}) == 1


# ---- the sample


def read(feed: Home, **options: Any) -> pl.DataFrame:
    return training.read("feed", places=feed.places, **options).rows.sort(ROW_ORDER).collect()


def test_a_sample_has_every_positive_and_some_negatives_each_with_its_weight(feed: Home) -> None:
    everything, sample = read(feed), read(feed, negatives=0.25)
    is_negative = pl.col("label_state") == "negative"
    assert sample.filter(~is_negative).select(everything.columns).equals(everything.filter(~is_negative))
    assert sample.filter(is_negative).join(everything, on=ROW_ID, how="anti").is_empty()
    assert dict(sample.select("label_state", "_weight").unique().iter_rows()) == {"negative": 4.0, "positive": 1.0}
    assert sample["_logit_offset"].unique().to_list() == [math.log(4)]
    assert read(feed, negatives=1.0).select(everything.columns).equals(everything)


def test_a_larger_share_keeps_the_sample_and_another_seed_has_another(feed: Home) -> None:
    samples = [set(read(feed, negatives=share).select(ROW_ID).iter_rows()) for share in (0.05, 0.1, 0.5, 1.0)]
    assert all(smaller < larger for smaller, larger in pairwise(samples))
    assert samples[2] != set(read(feed, negatives=0.5, seed=1).select(ROW_ID).iter_rows())


def test_a_row_stays_in_the_sample_when_its_interval_is_published_again(tmp_path: Path) -> None:
    home, model = feed_home(empty_places(tmp_path / "feed")), own_life()
    before = read(home, negatives=0.3)
    (plan,) = model.plan("rebuild", [model.publications[3].plan.interval])
    Writer(home, CLICKED).publish(model.publish(plan))
    after = read(home, negatives=0.3)
    assert after["_publication"].to_list() != before["_publication"].to_list()
    assert after.select(ROW_ID).equals(before.select(ROW_ID))


@pytest.mark.parametrize("share", [0.02, 0.05, 0.3])
def test_weight_and_offset_give_the_label_rate_of_all_rows_within_the_sampling_error(share: float) -> None:
    """Of 200,000 rows at a rate of 2 %, over 20 seeds. A label rate of the sample has the error of its negatives."""
    rows, rate = 200_000, 0.02
    negatives = int(rows * (1 - rate))
    states = ["negative"] * negatives + ["positive"] * (rows - negatives)
    ids = {"_topic": ["feed.served"] * rows, "_epoch": [0] * rows, "_partition": [n % 8 for n in range(rows)]}
    frame = pl.LazyFrame({**ids, "_offset": [n // 8 for n in range(rows)], "label_state": states})
    error = math.sqrt((1 - share) / (negatives * share))  # of the number of negatives, as a part of it
    errors = []
    for seed in range(20):
        sample = sampled(frame, Request(START, START + MINUTE, negatives=share, seed=seed)).collect()
        is_positive, weight = sample["label_state"] == "positive", sample["_weight"]
        weighted, of_sample = weight.filter(is_positive).sum() / weight.sum(), is_positive.mean()
        corrected = 1 / (1 + math.exp(sample["_logit_offset"][0]) * (1 - of_sample) / of_sample)
        assert abs(weighted / rate - 1) < 4 * error
        assert abs(corrected / rate - 1) < 4 * error
        errors.append(((~is_positive).sum() / (negatives * share) - 1) / error)
    assert 0.6 < math.sqrt(sum(e**2 for e in errors) / 20) < 1.5, "as independent draws: neither clustered nor regular"
    assert abs(sum(errors)) / math.sqrt(20) < 3


def test_a_sample_opens_no_file_outside_of_its_range(tmp_path: Path) -> None:
    home = feed_home(empty_places(tmp_path / "feed"))
    start, end = START + 3 * INTERVAL, START + 5 * INTERVAL
    wanted = read(home, start=start, end=end, negatives=0.5)
    path = home.table(Table.TRAINING)
    files = pl.DataFrame(DeltaTable(path).get_add_actions(flatten=True))
    for name in files.filter((pl.col("max._interval") < start) | (pl.col("min._interval") >= end))["path"]:
        (Path(path) / name).unlink()
    assert read(home, start=start, end=end, negatives=0.5).equals(wanted)


@pytest.mark.parametrize("share", [0, -0.1, 1.01])
def test_a_share_that_is_none_is_refused(feed: Home, share: float) -> None:
    with pytest.raises(training.WrongRequest, match=f"negatives is {share}"):
        training.read("feed", negatives=share, places=feed.places)


def test_a_threshold_has_its_share_of_all_hashes() -> None:
    assert [threshold(share) for share in (0, 0.5, 1)] == [0, 2**31, 2**32]
