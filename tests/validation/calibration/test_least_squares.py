"""Bounded least squares: the linear case in closed form, outliers, bounds, the noise."""

import numpy as np
import pytest

from jaxroof.validation.calibration.problem import PRIOR_ROWS, Prior, covariance, fit, solved

RANDOM = np.random.default_rng(0)
SLOPES = RANDOM.normal(size=(60, 2))
TRUE = np.array([0.3, -0.2])
WIDE = Prior(np.full(2, 10.0), np.full(2, -20.0), np.full(2, 20.0))


def linear(measured):
    return lambda values: (SLOPES @ values - measured, SLOPES)


def test_rows_without_noise_are_met_and_the_noise_shrinks():
    found = fit(linear(SLOPES @ TRUE), np.full(60, 0.1), WIDE)
    np.testing.assert_allclose(found.values, TRUE, atol=1e-4)
    assert found.noise == pytest.approx(np.sqrt(PRIOR_ROWS / (PRIOR_ROWS + 60)), rel=1e-3)


def test_a_prior_without_rows_that_tell_is_the_answer():
    prior = Prior(np.array([0.1, 0.2]), np.full(2, -1.0), np.full(2, 1.0))
    found = fit(lambda values: (np.zeros(1), np.zeros((1, 2))), np.ones(1), prior)
    np.testing.assert_allclose(found.values, 0.0, atol=1e-12)
    np.testing.assert_allclose(found.covariance, np.diag(prior.deviation**2))


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


def test_the_covariance_is_that_of_the_normal_equations():
    noise = np.full(60, 0.5)
    found = covariance(np.zeros(60), SLOPES, noise, WIDE)
    expected = np.linalg.inv(SLOPES.T @ SLOPES / 0.25 + np.eye(2) / 100.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        measured = SLOPES @ TRUE + random.normal(size=60, scale=0.1)
        found = fit(linear(measured), np.full(60, 0.1), WIDE)
        half = 1.2816 * np.sqrt(np.diag(found.covariance))
        held.append(np.abs(found.values - TRUE) <= half)
    assert 0.72 <= np.mean(held) <= 0.90
