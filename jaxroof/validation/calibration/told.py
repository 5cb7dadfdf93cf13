"""Constants that rows tell: those that a fit narrows, fitted again without the others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.validation.calibration.fit import TOLD, Constant
from jaxroof.validation.calibration.problem import DEVIATIONS_OF_80, Model, Prior, fit

Logs = Callable[[np.ndarray], np.ndarray]  # rows of ln(constant / start) -> ln(predicted) of each


class Told(NamedTuple):
    """Constants that rows tell, and how far predictions are from what was measured."""

    constants: tuple[Constant, ...]
    untold: tuple[str, ...]
    places: list[int]  # of these constants among all
    values: np.ndarray  # ln(constant / start) of all
    noise: float  # what the rows scatter by, over the noise that was stated
    before: np.ndarray  # ln(predicted / measured) of every row before the fit
    after: np.ndarray


class Fitted(NamedTuple):
    """Constants of a software or of a fabric that were fitted to what was measured."""

    about: dict[str, Any]  # what was measured, by name
    words: str  # the same
    written: tuple[str, ...]  # lines of the file that has these constants
    constants: tuple[Constant, ...]  # those that the rows tell
    untold: tuple[str, ...]
    before: np.ndarray  # ln(predicted / measured) of every row before the fit
    after: np.ndarray
    apart: np.ndarray = np.array([])  # of each row by a fit without it
    own: Mapping[str, float] = {}  # half widths at 80 % that the rows support, by kind
    left_out: tuple[tuple[str, str], ...] = ()  # name of a row, why it was not used


def file_lines(rows: str, found: Fitted) -> Iterator[str]:
    """Yield the lines with which a file of fitted constants begins, of measured ``rows``."""
    yield f"# Constants fitted by jaxroof calibrate to {rows}:"
    yield f"# {found.words}, with intervals of 80 %:"
    for one in found.constants:
        ends = f"{one.low:.4g} to {one.high:.4g}"
        yield f"# {one.name}: {one.value:.4g} ({ends}; before the fit {one.catalogue:.4g})."
    yield f"# Median error on these rows: {100.0 * median_error(found.after):.1f} %."


def median_error(errors: np.ndarray) -> float:
    """Return the median of the absolute errors of rows, of those that are known."""
    return float(np.median(np.abs(np.expm1(errors[np.isfinite(errors)]))))


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
    some = Prior(*(one[places] for one in prior))
    last = (
        fit(model_of(errors, places, count, step), noise, some)
        if places
        else whole._replace(values=values[:0], covariance=np.zeros((0, 0)))
    )
    values[places] = last.values
    half = DEVIATIONS_OF_80 * np.sqrt(np.diag(last.covariance))
    ends = [start[places] * np.exp(last.values + side * half) for side in (0.0, -1.0, 1.0)]
    made = [
        Constant(names[k], float(start[k]), *map(float, (*each, each[0])))
        for k, *each in zip(places, *ends, strict=True)
    ]
    untold = tuple(name for k, name in enumerate(names) if k not in places)
    before, after = errors(np.stack([np.zeros(count), values]))
    return Told(tuple(made), untold, places, values, last.noise, before, after)
