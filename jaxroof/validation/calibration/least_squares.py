"""Bounded least squares with normal priors and a robust loss: values, their covariance, noise."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

Model = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # -> residuals [n], slopes [n, k]
PRIOR_ROWS = 4.0  # rows that the stated noise counts as, beside what the residuals say
ROUNDS = 3  # of fitting, then taking the noise anew


class Prior(NamedTuple):
    """What is known of parameters before any row: normal around 0, between bounds."""

    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Fit(NamedTuple):
    """Fitted parameters, and how far they are to be trusted."""

    values: np.ndarray
    covariance: np.ndarray
    noise: float  # what the rows scatter by, over the noise that was stated


def fit(model: Model, noise: np.ndarray, prior: Prior) -> Fit:
    """Return the parameters x that minimise a robust sum of squares, between bounds.

    S(x) = sum_i rho(r_i(x)^2 / (s noise_i)^2) + sum_k (x_k / deviation_k)^2,
    rho(z) = 2 (sqrt(1 + z) - 1)

    ``model`` returns residuals r and their slopes. The scale s of the noise is that of the rows,
    drawn towards 1 as if ``PRIOR_ROWS`` rows had said so.
    The covariance is that of the normal equations at the solution, rows weighted by rho'.

    >>> rows = np.array([1.0, 2.0, 3.0])
    >>> prior = Prior(np.array([10.0]), np.array([-9.0]), np.array([9.0]))
    >>> found = fit(lambda x: (rows * x[0] - rows, rows[:, None]), np.full(3, 0.1), prior)
    >>> round(float(found.values[0]), 3), found.noise < 1.0
    (1.0, True)
    """
    scale, values = 1.0, np.zeros(len(prior.deviation))
    for _ in range(ROUNDS):
        values = solved(model, scale * noise, prior, values)
        residuals, slopes = model(values)
        squares = np.sum(_rho((residuals / noise) ** 2)[0])
        scale = float(np.sqrt((PRIOR_ROWS + squares) / (PRIOR_ROWS + len(noise))))
    return Fit(values, covariance(residuals, slopes, scale * noise, prior), scale)


def covariance(
    residuals: np.ndarray, slopes: np.ndarray, noise: np.ndarray, prior: Prior
) -> np.ndarray:
    """Return the covariance of parameters, given residuals and slopes at them.

    >>> prior = Prior(np.array([1.0]), np.array([-9.0]), np.array([9.0]))
    >>> covariance(np.zeros(3), np.ones((3, 1)), np.ones(3), prior).tolist()
    [[0.25]]
    """
    weights = _rho((residuals / noise) ** 2)[1] / noise**2
    return np.linalg.inv((slopes.T * weights) @ slopes + np.diag(prior.deviation**-2.0))


def _rho(squares: np.ndarray) -> np.ndarray:
    """Return the loss of squared residuals, and its first two derivatives."""
    root = np.sqrt(1.0 + squares)
    return np.array([2.0 * (root - 1.0), 1.0 / root, -0.5 / root**3])


def solved(model: Model, noise: np.ndarray, prior: Prior, start: np.ndarray) -> np.ndarray:
    """Return the parameters that minimise the sum of squares at a given noise, from a start.

    >>> prior = Prior(np.array([1.0]), np.array([-9.0]), np.array([9.0]))
    >>> model = lambda x: (x - 1.0, np.ones((1, 1)))
    >>> round(float(solved(model, np.ones(1), prior, np.zeros(1))[0]), 2)
    0.47
    """
    rows = len(noise)
    seen: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def both(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = values.tobytes()
        if key not in seen:
            seen.clear()
            residuals, slopes = model(values)
            seen[key] = (
                np.concatenate([residuals / noise, values / prior.deviation]),
                np.vstack([slopes / noise[:, None], np.diag(1.0 / prior.deviation)]),
            )
        return seen[key]

    def loss(squares: np.ndarray) -> np.ndarray:
        plain = np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
        plain[:, :rows] = _rho(squares[:rows])
        return plain

    found = least_squares(
        lambda values: both(values)[0],
        start,
        jac=lambda values: both(values)[1],
        bounds=(prior.low, prior.high),
        loss=loss,
        method="dogbox",
        xtol=1e-6,
        ftol=1e-8,
    )
    return np.asarray(found.x)
