"""Bounded least squares: the linear case in closed form, outliers, bounds, the noise."""

import numpy as np
import pytest

from jaxroof.validation.calibration.problem import Prior, fit, solved

RANDOM = np.random.default_rng(0)
SLOPES = RANDOM.normal(size=(60, 2))
TRUE = np.array([0.3, -0.2])
WIDE = Prior(np.full(2, 10.0), np.full(2, -20.0), np.full(2, 20.0))


def linear(measured):
    return lambda values: (SLOPES @ values - measured, SLOPES)


def test_one_outlier_moves_little():
    measured = SLOPES @ TRUE + RANDOM.normal(size=60, scale=0.01)
    outlier = measured.copy()
    outlier[0] += 5.0
    noise = np.full(60, 0.01)
    plain, moved = (solved(linear(rows), noise, WIDE, np.zeros(2)) for rows in (measured, outlier))
    assert np.max(np.abs(moved - plain)) < 0.01
    squares, *_ = np.linalg.lstsq(SLOPES, outlier, rcond=None)
    assert np.max(np.abs(squares - plain)) > 5.0 * np.max(np.abs(moved - plain))


def test_bounds_hold():
    prior = WIDE._replace(high=np.array([0.1, 20.0]))
    values = solved(linear(SLOPES @ TRUE), np.full(60, 0.1), prior, np.zeros(2))
    assert values[0] == pytest.approx(0.1, abs=1e-6)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        measured = SLOPES @ TRUE + random.normal(size=60, scale=0.1)
        found = fit(linear(measured), np.full(60, 0.1), WIDE)
        half = 1.2816 * np.sqrt(np.diag(found.covariance))
        held.append(np.abs(found.values - TRUE) <= half)
    assert 0.72 <= np.mean(held) <= 0.90
