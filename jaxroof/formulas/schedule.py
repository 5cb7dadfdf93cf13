"""The microbatches of a step, and the synchronisation that its work hides.

Source: docs/models/transformer_model.md, sections 1 and 7.
"""

from jaxroof.formulas.arithmetic import larger, whole
from jaxroof.records import Number


def microbatches(global_batch: Number, data: Number, microbatch: Number) -> Number:
    """Return the microbatches of one step on one data-parallel rank, M = floor(floor(G / d) / B).

    Assumes: remainders are dropped (Q6). M is at least 1, so that quotients by M stay finite for
    plans that are not legal.

    >>> float(microbatches(64.0, 4.0, 2.0))
    8.0
    """
    # at a tie, the slope is that of the quotient
    return larger(1.0, whole(whole(global_batch, data), microbatch))


def exposed_sync(collective: Number, layer: Number, layers: Number) -> Number:
    """Return the data-parallel time that one direction cannot hide, r + max(r - t, 0) (K - 1).

    Assumes: one layer's collective is exposed, each of the others hides behind the ``layer`` time
    of one layer (Q16).

    >>> float(exposed_sync(3.0, 2.0, 5.0))
    7.0
    """
    return collective + larger(collective - layer, 0.0) * (layers - 1.0)
