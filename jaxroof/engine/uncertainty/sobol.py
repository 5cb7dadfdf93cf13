"""Sobol indices: the points that they need, and what share of a variance each input explains."""

from typing import NamedTuple

import numpy as np
from scipy.stats import qmc

from jaxroof.errors import refusal

MOST = 1 << 20  # draws
CERTAIN = 1.96  # standard errors that a 95 % interval reaches either way
SAME = 1e-12  # spread, relative to the mean, that is rounding


class Indices(NamedTuple):
    """What share of a variance each input explains, [..., input], and how far it may be off."""

    first: np.ndarray  # by itself
    total: np.ndarray  # with all that it interacts with
    first_error: np.ndarray  # half width of the 95 % interval
    total_error: np.ndarray


def points(inputs: int, draws: int, seed: int) -> np.ndarray:
    """Return points in the unit cube, a row an input: two sets of draws, then their crossings.

    The first ``draws`` columns are two independent halves, A and B, of a scrambled Sobol sequence;
    then, for each input in turn, A again with that input as in B.

    Assumes: ``draws`` is a power of two, for the sequence to be balanced.
    Source: Saltelli et al. 2010 (doi 10.1016/j.cpc.2009.09.018), section 5.
    Raises: InputError for another number of draws, or a seed that is no whole number.

    >>> points(2, 8, seed=0).shape
    (2, 16)
    """
    for name, value in (("samples", draws), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refusal(name, f"expected a whole number of at least 0, given {value!r}")
    if draws < 4 or draws & (draws - 1) or draws > MOST:
        near = 1 << max(2, min(draws, MOST).bit_length() - 1)
        said = f"expected a power of two from 4 to {MOST:,}, such as {near:,}, given {draws:,}"
        raise refusal("samples", said)
    sequence = qmc.Sobol(2 * inputs, rng=np.random.default_rng(seed), bits=64)
    first, second = sequence.random(draws // 2).T.reshape(2, inputs, -1)
    crossed = np.repeat(first[None], inputs, axis=0)
    each = np.arange(inputs)
    crossed[each, each] = second
    return np.concatenate([first, second, *crossed], axis=1)


def indices(values: np.ndarray, inputs: int) -> Indices:
    """Return the first- and total-order indices of a function at ``points``, [..., point].

    S_i = mean(f(B) (f(AB_i) - f(A))) / V, T_i = mean((f(A) - f(AB_i))^2) / 2V, where V is the
    variance at A and B and f is taken less its mean. The errors are those of independent draws, so
    that those of a Sobol sequence are smaller. Where nothing varies, all are 0.
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
        # of a ratio: what moves terms and variance alike moves the share little
        error = (terms - found * variance / scale).std(axis=-1) / np.sqrt(draws)
        return found[..., 0], CERTAIN * error

    alone, alone_error = share(second * (crossed - first))
    total, total_error = share(0.5 * (first - crossed) ** 2)
    return Indices(alone, total, alone_error, total_error)
