"""Smooth maxima and minima of times: what overlaps takes a little longer than its longest part."""

from collections.abc import Sequence

from jaxroof.formulas.arithmetic import larger, sqrt, where
from jaxroof.records import Number

SHARP = 2  # doublings: q = 4, for work and traffic of one kernel, or work and a message beside it
SHARPER = 4  # q = 16, for whole layers and stages
NOTHING = 1e-30  # added to a time, so that the slope is finite where both are 0 [s]


def smooth_larger(a: Number, b: Number, doublings: int = SHARP) -> Number:
    """Return a smooth maximum of two times.

    t = m (1 + (s / m)^q)^(1 / q) with m the larger, s the smaller, 1e-30 s added to both

    Assumes: times are not negative; q is 2 to the power of ``doublings``, so that products and
    roots serve. Value and slopes are smooth in both.
    Source: docs/models/training_step_today.md, conventions.

    >>> float(smooth_larger(1.0, 1.0)) == 2.0**0.25
    True
    """
    a, b = a + NOTHING, b + NOTHING
    most = larger(a, b)
    power = where(a > b, b, a) / most
    for _ in range(doublings):
        power = power * power
    root = 1.0 + power
    for _ in range(doublings):
        root = sqrt(root)
    return most * root


def smooth_largest(values: Sequence[Number], doublings: int = SHARP) -> Number:
    """Return a smooth maximum of any number of times.

    t = m (sum of (x / m)^q)^(1 / q) with m the largest, 1e-30 s added to each

    Source: docs/models/networks.md, sections 1 and 7.

    >>> float(smooth_largest((1.0, 1.0, 1.0, 1.0))) == 4.0**0.25
    True
    """
    values = [value + NOTHING for value in values]
    most = values[0]
    for value in values[1:]:
        most = larger(most, value)
    root: Number = 0.0
    for value in values:
        power = value / most
        for _ in range(doublings):
            power = power * power
        root = root + power
    for _ in range(doublings):
        root = sqrt(root)
    return most * root


def smooth_smaller(a: Number, b: Number) -> Number:
    """Return a smooth minimum of two positive numbers, t = 1 / smooth_larger(1 / a, 1 / b).

    Source: docs/models/training_step_today.md, conventions.

    >>> float(smooth_smaller(2.0, 2.0)) == 2.0 / 2.0**0.25
    True
    """
    return 1.0 / smooth_larger(1.0 / a, 1.0 / b)


def smooth_power(a: Number, b: Number, power: Number) -> Number:
    """Return the smooth maximum of two times with any power q, as ``smooth_larger`` with its own.

    Source: docs/models/networks.md, conventions.

    >>> round(float(smooth_power(1.0, 1.0, 2.0)), 6)
    1.414214
    """
    a, b = a + NOTHING, b + NOTHING
    most = larger(a, b)
    return most * (1.0 + (where(a > b, b, a) / most) ** power) ** (1.0 / power)
