"""How surprising a count is: exact tails, which hold for small counts too.

    count   Poisson with a mean that itself moves (gamma), which is a negative binomial. The probability p of a count at
            least as far out is given as its normal quantile: negative below the mean, positive above
    share   the least share of bad ones that explains what was found, beyond a doubt of one in ten thousand

Sources: negative binomial as a Poisson with a gamma mean, Greenwood and Yule 1920 (J. R. Stat. Soc. 83); exact limits
of a share, Clopper and Pearson 1934 (Biometrika 26).
"""

from __future__ import annotations

from math import log

DOUBT = 1e-4
"""Probability that a share is taken for larger than it is."""
_LEAST = 1e-300
"""A smaller probability is taken for this one; the quantile is then about 37."""


def distance(count: int, expected: float, variance: float) -> float:
    """Return how far a count is from its mean, in standard deviations of the normal tail with the same probability.

    Args:
        count: what was found.
        expected: its mean, above 0.
        variance: of the mean itself, relative to the squared mean, above 0.

    >>> round(distance(0, 15, 0.02), 1), round(distance(15, 15, 0.02), 1)
    (-4.6, 0.0)
    """
    from scipy.special import ndtri_exp
    from scipy.stats import nbinom

    size = 1 / variance
    chance = size / (size + expected)
    if count < expected:
        below = float(nbinom.cdf(count, size, chance))
        return min(0.0, float(ndtri_exp(log(max(below, _LEAST)))))
    above = float(nbinom.sf(count - 1, size, chance))
    return max(0.0, -float(ndtri_exp(log(max(above, _LEAST)))))


def least_share(part: int, whole: int) -> float | None:
    """Return the lower limit of a share that was found as `part` of `whole`; None of nothing.

    >>> round(least_share(1, 40), 6), round(least_share(69, 3000), 4), round(least_share(16, 16), 2)
    (3e-06, 0.0142, 0.56)
    """
    if not whole:
        return None
    if not part:
        return 0.0
    from scipy.special import betaincinv

    return float(betaincinv(part, whole - part + 1, DOUBT))
