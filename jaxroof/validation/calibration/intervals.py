"""What measured steps of one's own say of themselves: how far they scatter, which are odd.

Source: docs/models/training_step_today.md, section 12 (spread in a source); Student, "The probable
error of a mean", Biometrika 6 (1908); Iglewicz and Hoaglin, "How to detect and handle outliers",
ASQC 1993.
"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from jaxroof.estimators.training.interval import LEVEL, WITHIN_SOURCE, OwnRuns

FEWEST = 2  # plans of a kind that say how far rows lie from a fit without them
FEWEST_OF_ANOTHER_CHIP = 5  # where the constants are those of another chip
SHARE = LEVEL / 100.0
FAR = 3.5  # modified z-score from which a value counts as an outlier
MAD = 1.4826  # deviation of a normal distribution over its median absolute deviation
FEWEST_OF_OUTLIERS = 4  # rows among which one can be odd


def own_half_width(errors: np.ndarray, spread: float) -> float:
    """Return the half width of ln(time) at 80 % that errors of left-out plans support.

    h = max(spread, t_(n-1) / t_inf Q80(|e|)), t the 90 % quantile of Student's distribution

    ``errors`` are ln(predicted / measured) of n plans, each by a fit without it; ``spread`` is that
    of plans of one software at 80 %, below which no few rows can show an interval to lie.
    Assumes: errors are about normal, so that few of them widen as Student's distribution does.
    Source: docs/models/training_step_today.md, section 12; Student 1908.

    >>> round(own_half_width(np.array([0.1, -0.1]), 0.085), 3)
    0.24
    >>> own_half_width(np.full(9, 0.01), 0.085)
    0.085
    """
    end = 0.5 + SHARE / 2.0
    few = float(stdtrit(len(errors) - 1.0, end) / ndtri(end))
    return max(spread, few * float(np.quantile(np.abs(errors), SHARE)))


def own_half_widths(errors: np.ndarray, kinds: np.ndarray, fewest: int) -> OwnRuns:
    """Return the half widths of each kind of run, 0 for those with fewer plans than ``fewest``.

    ``errors`` are as in ``own_half_width``, ``kinds`` the places of the plans' kinds in REGIMES.

    >>> own_half_widths(np.array([0.1, -0.1, 0.2]), np.array([0, 0, 2]), 2)
    OwnRuns(dense_16_bit=0.240..., dense_8_or_4_bit=0.0, experts=0.0)
    """
    found: list[Any] = []
    for place, spread in enumerate(WITHIN_SOURCE[: len(OwnRuns._fields)]):
        some = errors[kinds == place]
        found.append(own_half_width(some, spread) if len(some) >= fewest else 0.0)
    return OwnRuns(*found)


def outliers(errors: np.ndarray, least: float) -> np.ndarray:
    """Return the places of values that lie far from the median, the furthest first.

    |e - median| / s > max(3.5, sqrt(2 ln n)), s = max(1.4826 median |e - median|, least)

    ``errors`` are ln(predicted / measured) of rows, ``least`` the deviation that rows of one
    software have anyhow, below which no deviation is odd.
    Assumes: fewer than half of the values are odd; of n normal ones the largest is about
    sqrt(2 ln n) deviations away, so that many rows have far ones that are not odd.
    Source: Iglewicz and Hoaglin 1993.

    >>> outliers(np.array([0.1, 0.12, 9.2, 0.11, 0.09]), 0.066).tolist()
    [2]
    """
    if len(errors) < FEWEST_OF_OUTLIERS:
        return np.array([], int)
    away = np.abs(errors - np.median(errors))
    scores = away / max(MAD * float(np.median(away)), least)
    far = np.flatnonzero(scores > max(FAR, math.sqrt(2.0 * math.log(len(errors)))))
    return far[np.argsort(-scores[far], kind="stable")]
