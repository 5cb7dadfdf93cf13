"""Sobol indices: their sample points, and the share of a variance that each input explains."""

from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from jaxroof.errors import refusal, shown
from jaxroof.limits import BOUNDS

CERTAIN = 1.96  # half width of a 95 % interval in standard errors
SAME = 1e-12  # spread relative to the mean that counts as rounding


class Indices(NamedTuple):
    """The share of a variance that each input explains, [..., input], with errors."""

    first: np.ndarray  # of the input by itself
    total: np.ndarray  # of the input with all its interactions
    first_error: np.ndarray  # half width of the 95 % interval
    total_error: np.ndarray


def points(inputs: int, draws: int, seed: int) -> np.ndarray:
    """Return points in the unit cube, one row per input: two sets of draws and their crossings.

    The first ``draws`` columns are two independent halves, A and B, of a scrambled Sobol sequence.
    Then, for each input in turn, A is repeated with that input taken from B.

    Assumes: ``draws`` is a power of two, so that the sequence is balanced.
    Source: Saltelli et al. 2010 (doi 10.1016/j.cpc.2009.09.018), section 5.
    """
    check_draws(draws, seed)
    sequence = qmc.Sobol(2 * inputs, rng=np.random.default_rng(seed), bits=64)
    first, second = sequence.random(draws // 2).T.reshape(2, inputs, -1)
    crossed = np.repeat(first[None], inputs, axis=0)
    each = np.arange(inputs)
    crossed[each, each] = second
    return np.concatenate([first, second, *crossed], axis=1)


def check_draws(draws: int, seed: int) -> None:
    """Check that a number of draws is a power of two, and a seed a whole number."""
    for name, value in (("samples", draws), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refusal(name, f"expected a whole number of at least 0, given {shown(value)}")
    most = BOUNDS["draws"]
    if draws < 4 or draws & (draws - 1) or draws > most:
        near = 1 << max(2, min(draws, most).bit_length() - 1)
        said = f"expected a power of two from 4 to {most:,}, such as {near:,}, given {draws:,}"
        raise refusal("samples", said)


def indices(values: np.ndarray, inputs: int) -> Indices:
    """Return the first- and total-order indices of a function at ``points``, [..., point].

    S_i = mean(f(B) (f(AB_i) - f(A))) / V, T_i = mean((f(A) - f(AB_i))^2) / 2V, where V is the
    variance at A and B and f has its mean subtracted. The errors are those of independent draws;
    those of a Sobol sequence are smaller. Where the function does not vary, all indices are 0.
    Source: Saltelli et al. 2010 (doi 10.1016/j.cpc.2009.09.018), Table 2 (b) and (f).
    """
    draws = values.shape[-1] // (inputs + 2)
    shape = (*values.shape[:-1], inputs + 2, draws)
    pages = values.reshape(shape)
    mean = pages[..., :2, :].mean(axis=(-2, -1), keepdims=True)
    first, second, crossed = np.split(pages - mean, [1, 2], axis=-2)
    variance = 0.5 * (first**2 + second**2)  # terms of the variance, draw by draw
    size = variance.mean(axis=-1, keepdims=True)
    still = size <= (SAME * mean) ** 2
    scale = np.where(still, 1.0, size)

    def share(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        terms = np.where(still, 0.0, terms / scale)
        found = terms.mean(axis=-1, keepdims=True)
        # the error of a ratio: noise common to the terms and the variance largely cancels
        error = (terms - found * variance / scale).std(axis=-1) / np.sqrt(draws)
        return found[..., 0], CERTAIN * error

    alone, alone_error = share(second * (crossed - first))
    total, total_error = share(0.5 * (first - crossed) ** 2)
    return Indices(alone, total, alone_error, total_error)
