"""Constants that rows tell: those that a fit narrows, fitted again without the others."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.validation.calibration.fit import TOLD, Constant
from jaxroof.validation.calibration.problem import DEVIATIONS_OF_80, Model, Prior, fit

Logs = Callable[[np.ndarray], np.ndarray]  # rows of ln(constant / start) -> ln(predicted) of each


class Told(NamedTuple):
    """Constants that rows tell, their places among all, and ln(constant / start) of all."""

    constants: tuple[Constant, ...]
    places: list[int]
    values: np.ndarray
    noise: float  # what the rows scatter by, over the noise that was stated


def model_of(errors: Logs, places: Sequence[int], count: int, step: float) -> Model:
    """Return residuals and their slopes by central differences, with some constants moved.

    ``errors`` takes points of all ``count`` constants, a row each, and is asked once for all.
    """

    def model(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moves = np.vstack(
            [np.zeros(len(values)), *(s * step * np.eye(len(values)) for s in (1, -1))]
        )
        points = np.zeros((len(moves), count))
        points[:, [*places]] = values + moves
        found = errors(points)
        above, below = np.array_split(found[1:], 2)
        return found[0], ((above - below) / (2.0 * step)).T

    return model


def fit_told(
    names: Sequence[str],
    start: np.ndarray,
    errors: Logs,
    noise: np.ndarray,
    prior: Prior,
    step: float,
) -> Told:
    """Return the constants that rows narrow to a share of what was believed, fitted alone."""
    count = len(names)
    whole = fit(model_of(errors, range(count), count, step), noise, prior)
    narrowed = np.sqrt(np.diag(whole.covariance)) < TOLD * prior.deviation
    places = np.flatnonzero(narrowed).tolist()
    values = np.zeros(count)
    if not places:
        return Told((), places, values, whole.noise)
    some = Prior(*(one[places] for one in prior))
    last = fit(model_of(errors, places, count, step), noise, some)
    values[places] = last.values
    half = DEVIATIONS_OF_80 * np.sqrt(np.diag(last.covariance))
    ends = [start[places] * np.exp(last.values + side * half) for side in (0.0, -1.0, 1.0)]
    made = [
        Constant(names[k], float(start[k]), *map(float, (*each, each[0])))
        for k, *each in zip(places, *ends, strict=True)
    ]
    return Told(tuple(made), places, values, last.noise)
