"""Why a measure failed, in a few words. Names and numbers, never a value of a row.

a share       quarantine feed.clicks at least 1.4 % > 1 %
a distance    volume clicks 3, usual 120 (z -9.1 < -4)
a count       duplicate_row_ids 2, not 0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from windrow.quality.validation import bound_text
from windrow.quality.verdicts import number

COLUMNS = 3
"""Most columns that are named."""

DRIFTS = {"drift_psi_max": "PSI", "drift_ks_max": "KS"}
"""How far the distribution of a column has moved (`semantics.drift`), by the name of the measure."""

Numbers = Mapping[str, float | None]


class _Bound(NamedTuple):
    """The bound that was passed."""

    sign: str
    value: float


def failure(metric: str, observed: float | None, kwargs: Mapping[str, Any], type_: str, measures: Numbers) -> str:
    """Return why an expectation about a measure failed.

    Args:
        metric: name of the measure.
        kwargs: bounds of the expectation.
        type_: its type.
        measures: all measures of the interval, by name.

    >>> between = "expect_column_values_to_be_between"
    >>> failure("quarantine_least.feed.clicks", 0.014, {"max_value": 0.01}, between, {})
    'quarantine feed.clicks at least 1.4 % > 1 %'
    >>> failure("canary_recall.clicks", 0.95, {"min_value": 1}, between, {})
    'canary recall of clicks 95 % < 100 %'
    >>> failure("drift_psi_max", 0.5, {"max_value": 0.25}, between, {"drift_psi.price": 0.5, "drift_psi.place": 0.1})
    'drift of price: PSI 0.5 > 0.25'
    >>> failure("rows_outside_interval", 3.0, {"min_value": 0, "max_value": 0}, between, {})
    'rows_outside_interval 3, not 0'
    """
    if observed is None:
        return f"{metric} is null"
    bound = _passed(observed, kwargs) if type_.endswith("_to_be_between") else None
    if bound is None:
        return f"{metric} {number(observed)}: {bound_text(kwargs, type_)}"
    kind, _, name = metric.partition(".")
    if kind == "first_empty":
        return f"{name} has no row, for the first time"
    if bound.sign == "not":
        return f"{metric} {number(observed)}, not {number(bound.value)}"
    if kind in DRIFTS:
        far = sorted(
            (name for name in measures if name.startswith(f"{kind.removesuffix('_max')}.")),
            key=lambda name: -(measures[name] or 0.0),
        )
        beyond = [name.partition(".")[2] for name in far if (measures[name] or 0.0) > bound.value][:COLUMNS]
        return f"drift of {', '.join(beyond)}: {DRIFTS[kind]} {number(observed)} {bound.sign} {number(bound.value)}"
    if share := _share(kind, name, observed, measures):
        subject, value = share
        shown, limit = _apart(value, bound.value)
        return f"{subject} {shown} {bound.sign} {limit}"
    if distance := _distance(kind, name, measures):
        return f"{distance} (z {observed:.1f} {bound.sign} {number(bound.value)})"
    return f"{metric} {number(observed)} {bound.sign} {number(bound.value)}"


def percent(share: float, digits: int = 3) -> str:
    """A share as a percentage, with more digits where it would read as 100 % and is not 1.

    >>> percent(0.023), percent(1), percent(0.01234567), percent(0.9996, 2)
    ('2.3 %', '100 %', '1.23 %', '99.96 %')
    """
    texts = (f"{float(f'{100 * share:.{n}g}'):.{max(n, 15)}g}" for n in range(digits, 18))
    return f"{next((text for text in texts if share == 1 or text != '100'), '100')} %"


def _passed(observed: float, kwargs: Mapping[str, Any]) -> _Bound | None:
    """The bound that is passed, with the sign between the observed value and it; None where neither is."""
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if low is not None and low == high:
        return _Bound("not", float(low))
    if low is not None and (observed < low or (kwargs.get("strict_min") and observed == low)):
        return _Bound("≤" if kwargs.get("strict_min") else "<", float(low))
    if high is not None and (observed > high or (kwargs.get("strict_max") and observed == high)):
        return _Bound("≥" if kwargs.get("strict_max") else ">", float(high))
    return None


def _share(kind: str, name: str, observed: float, measures: Numbers) -> tuple[str, float] | None:
    """What a share is of, and its value; None for other measures. A lower limit is what was judged, not the share."""
    if kind == "quarantine_least":
        return f"quarantine {name} at least", observed
    if kind == "null_rate_max":
        return f"null rate of {_columns(observed, measures)}", observed
    if kind.endswith(("_rate", "_recall")):
        return kind.replace("_", " ") + (f" of {name}" if name else ""), observed
    return None


def _distance(kind: str, name: str, measures: Numbers) -> str:
    """What a distance is about: the value that was compared, and the usual one; empty for other measures."""
    if kind == "label_rate_z":
        positive, negative = (measures.get(one) or 0.0 for one in ("positive_complete", "negative"))
        now, usual = positive / max(1.0, positive + negative), measures.get("label_rate_history")
        return f"label rate {percent(now)}" + ("" if usual is None else f", usual {percent(usual)}")
    usual = measures.get(f"{kind.removesuffix('_z')}_usual.{name}")
    shown = "" if usual is None else f", usual {usual:.4g}"
    if kind == "volume_z":
        return f"volume {name} {number(measures.get(f'volume.{name}'))}{shown}"
    return f"partition {name} has no row{shown}" if kind == "partition_z" else ""


def _columns(rate: float, measures: Numbers) -> str:
    """The columns that have this null rate."""
    rates = {
        name.removeprefix("null_rate."): value for name, value in measures.items() if name.startswith("null_rate.")
    }
    names = sorted(name for name, value in rates.items() if value == rate)
    more = f" and {len(names) - COLUMNS} more" if len(names) > COLUMNS else ""
    return ", ".join(names[:COLUMNS]) + more or "a column"


def _apart(share: float, bound: float) -> tuple[str, str]:
    """Both shares as percentages, with as many digits as it takes to tell them apart."""
    digits = next((n for n in range(2, 16) if share == bound or percent(share, n) != percent(bound)), 2)
    return percent(share, digits), percent(bound)
