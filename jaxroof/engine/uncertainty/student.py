"""What few values say less of a spread than many: Student's distribution over the normal one.

Source: Student, "The probable error of a mean", Biometrika 6 (1908).
"""

from scipy.special import stdtrit

FAR = 1e12  # degrees of freedom at which Student's distribution is the normal one


def widening(values: int, share: float) -> float:
    """Return how much wider an interval is whose deviation is known from some values alone.

    t_(n-1) / t_inf at the upper end of an interval that holds a share

    Assumes: normal values, two of them or more.
    Units: [1] -> [1].
    Source: Student 1908.

    >>> round(widening(2, 0.8), 2), round(widening(1000, 0.8), 2)
    (2.4, 1.0)
    """
    end = 0.5 + share / 2.0
    return float(stdtrit(values - 1.0, end) / stdtrit(FAR, end))
