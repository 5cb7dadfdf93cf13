"""Measured rows that lie so far from the others that somebody should look at them.

Source: Iglewicz and Hoaglin, "How to detect and handle outliers", ASQC 1993: the modified z-score.
"""

import math

import numpy as np

FAR = 3.5  # modified z-score from which a value counts as an outlier
MAD = 1.4826  # deviation of a normal distribution over its median absolute deviation
FEWEST = 4  # rows among which one can be odd


def outliers(errors: np.ndarray, least: float) -> np.ndarray:
    """Return the places of values that lie far from the median, the furthest first.

    |e - median| / s > max(3.5, sqrt(2 ln n)), s = max(1.4826 median |e - median|, least)

    Arguments: ln(predicted / measured) of rows, and the deviation that rows of one software have
    anyhow, below which no deviation is odd.

    Assumes: fewer than half of the values are odd; of n normal ones the largest is about
    sqrt(2 ln n) deviations away, so that many rows have far ones that are not odd.
    Units: [1] -> [1].
    Source: Iglewicz and Hoaglin 1993.

    >>> outliers(np.array([0.1, 0.12, 9.2, 0.11, 0.09]), 0.066).tolist()
    [2]
    """
    if len(errors) < FEWEST:
        return np.array([], int)
    away = np.abs(errors - np.median(errors))
    scores = away / max(MAD * float(np.median(away)), least)
    far = np.flatnonzero(scores > max(FAR, math.sqrt(2.0 * math.log(len(errors)))))
    return far[np.argsort(-scores[far], kind="stable")]
