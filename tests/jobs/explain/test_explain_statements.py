"""Every sentence of `windrow explain` is true, about rows of every kind, on generated lives. No Spark, no tables."""

from __future__ import annotations

from collections import Counter

from support.statements import KINDS, MISSES, SENTENCES, WORDS, Life

LIVES = 64


def test_every_sentence_about_every_row_is_true() -> None:
    seen: Counter[str] = Counter()
    for seed in range(LIVES):
        try:
            seen += Life(seed).check_all()
        except AssertionError as wrong:
            raise AssertionError(f"life {seed}: {wrong}") from wrong
    outcomes = (
        *("published", "quarantined", "filtered", "before_start", "duplicate", "late_left", "unpaired"),
        *("open", "closed", "blocked", "missing"),
    )
    never = [what for what in (*outcomes, *KINDS, *WORDS, *(p for p, _ in (*SENTENCES, *MISSES))) if not seen[what]]
    assert not never, "these are in no life, so nobody has checked them"
