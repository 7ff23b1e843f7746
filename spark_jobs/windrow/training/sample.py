"""A sample of the negatives that is the same every time, with what a model needs to forget that it was sampled.

    all rows        ●○○○○○○○○○ ●○○○○○○○○○      ● not negative: kept, weight 1
    negatives=0.2   ●  ○    ○  ●   ○     ○     ○ negative: kept if its hash is below 0.2, weight 1 / 0.2

A row is chosen by the hash of its row id, so that it is in the sample in every version of the table, on every machine,
and in every larger sample of the same seed. Either of two columns corrects the sample, never both:

    _weight         for the loss: weighted sums over the sample estimate those over all rows
                    (Horvitz and Thompson, 1952)
    _logit_offset   added to the model's logit while it learns, and left out when it predicts: log(1 / share)
                    (prior correction: King and Zeng, Logistic Regression in Rare Events Data, 2001; the same for ads:
                    He et al., Practical Lessons from Predicting Clicks on Ads at Facebook, 2014, section 6.3)
"""

from __future__ import annotations

import math

import polars as pl

from windrow.columns import ROW_ID, STATE
from windrow.training.hashing import hash_of, threshold
from windrow.training.request import Request

WEIGHT, LOGIT_OFFSET = "_weight", "_logit_offset"
PURPOSE = 1
"""Follows the seed in the hash, so that a split of the same seed is independent of the sample."""


def sampled(rows: pl.LazyFrame, request: Request) -> pl.LazyFrame:
    """Return all rows but those negatives that are not in the sample, with weight and offset."""
    if request.negatives is None:
        return rows
    share, is_negative = request.negatives, pl.col(STATE) == "negative"
    chosen = hash_of((request.seed, PURPOSE), [pl.col(name) for name in ROW_ID]) < threshold(share)
    return rows.filter(~is_negative | chosen).with_columns(
        pl.when(is_negative).then(1 / share).otherwise(1.0).alias(WEIGHT),
        pl.lit(-math.log(share)).alias(LOGIT_OFFSET),
    )
