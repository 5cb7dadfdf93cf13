"""The interval that a user's own measured steps support, by kind of run.

Source: docs/models/training_step_today.md, section 12 (spread in a source); Student, "The probable
error of a mean", Biometrika 6 (1908), for few rows.
"""

from typing import Any

import numpy as np

from jaxroof.engine.uncertainty.student import widening
from jaxroof.estimators.training.interval import LEVEL, WITHIN_SOURCE, OwnRuns

FEWEST = 2  # plans of a kind that say how far rows lie from a fit without them
FEWEST_OF_ANOTHER_CHIP = 5  # where the constants are those of another chip
SHARE = LEVEL / 100.0


def own_half_width(errors: np.ndarray, spread: float) -> float:
    """Return the half width of ln(time) at 80 % that errors of left-out plans support.

    h = max(spread, t_(n-1) / t_inf Q80(|e|)), t the 90 % quantile of Student's distribution

    Arguments: ln(predicted / measured) of n plans, each by a fit without it; the spread of plans of
    one software at 80 %, below which no few rows can show an interval to lie.

    Assumes: errors are about normal, so that few of them widen as Student's distribution does.
    Units: all [1] -> [1].
    Source: docs/models/training_step_today.md, section 12; Student 1908.

    >>> round(own_half_width(np.array([0.1, -0.1]), 0.085), 3)
    0.24
    >>> own_half_width(np.full(9, 0.01), 0.085)
    0.085
    """
    few = widening(len(errors), SHARE)
    return max(spread, few * float(np.quantile(np.abs(errors), SHARE)))


def own_half_widths(errors: np.ndarray, kinds: np.ndarray, fewest: int) -> OwnRuns:
    """Return the half widths of each kind of run, 0 for those with fewer plans than ``fewest``.

    Arguments: errors as in ``own_half_width``, and the place of each plan's kind in ``REGIMES``.

    >>> own_half_widths(np.array([0.1, -0.1, 0.2]), np.array([0, 0, 2]), 2)
    OwnRuns(dense_16_bit=0.240..., dense_8_or_4_bit=0.0, experts=0.0)
    """
    found: list[Any] = []
    for place, spread in enumerate(WITHIN_SOURCE[: len(OwnRuns._fields)]):
        some = errors[kinds == place]
        found.append(own_half_width(some, spread) if len(some) >= fewest else 0.0)
    return OwnRuns(*found)
