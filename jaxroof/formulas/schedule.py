"""Pipeline counts, and the synchronisation that backward and forward hide."""

from jaxroof.formulas.arithmetic import larger, smaller, where, whole
from jaxroof.records import Number


def microbatches(global_batch: Number, data: Number, microbatch: Number) -> Number:
    """Return the microbatches of one step on one data-parallel rank, M = floor(floor(G / d) / B).

    Assumes: remainders are dropped (Q6). M is at least 1, so that quotients by M stay finite for
    plans that are not legal.
    Units: global_batch, microbatch [sequence], data [1] -> [1].
    Source: docs/models/transformer_model.md, section 1.

    >>> float(microbatches(64.0, 4.0, 2.0))
    8.0
    """
    return larger(
        1.0, whole(whole(global_batch, data), microbatch)
    )  # at a tie, the slope is that of the quotient


def bubble_1f1b(busy: Number, pipeline: Number, microbatches: Number) -> Number:
    """Return the time a stage idles while the pipeline fills and drains, (p - 1) t / M.

    Assumes: Q15, the busy time includes the sends between stages; M4, no interleaving.
    Units: busy [s], pipeline, microbatches [1] -> [s].
    Source: docs/models/transformer_model.md, section 9.

    >>> float(bubble_1f1b(8.0, 5.0, 4.0))
    8.0
    """
    return (pipeline - 1.0) * busy / microbatches


def in_flight_1f1b(pipeline: Number, microbatches: Number) -> Number:
    """Return the microbatches whose activations the first stage holds at once, min(M, p).

    Assumes: 1F1B; the first stage, which holds the most (Q30).
    Units: pipeline, microbatches [1] -> [1].
    Source: docs/models/transformer_model.md, section 9.

    >>> float(in_flight_1f1b(8.0, 4.0))
    4.0
    """
    return smaller(microbatches, pipeline)


def exposed_sync(collective: Number, layer: Number, layers: Number) -> Number:
    """Return the data-parallel time that one direction cannot hide, r + max(r - t, 0) (K - 1).

    Assumes: one layer's collective is exposed, each of the others hides behind one layer (Q16).
    Units: collective, layer (its compute in that direction) [s], layers (of the stage) [1] -> [s].
    Source: docs/models/transformer_model.md, section 7.

    >>> float(exposed_sync(3.0, 2.0, 5.0))
    7.0
    """
    return collective + larger(collective - layer, 0.0) * (layers - 1.0)


def send_share(pipeline: Number, fast_pipeline: Number) -> Number:
    """Return the share of one send's time that an average link of the pipeline costs.

    fast_pipeline = 1: 1, or 0 without a pipeline; else (links - slow) / links with links = p - 1
    and slow = trunc(p / fp - 1).

    Assumes: Q2, links between fast domains cost nothing.
    Units: pipeline, fast_pipeline [1] -> [1].
    Source: docs/models/transformer_model.md, section 8.

    >>> float(send_share(8.0, 1.0)), float(send_share(8.0, 4.0)), float(send_share(1.0, 1.0))
    (1.0, 0.8571428571428571, 0.0)
    """
    links = pipeline - 1.0
    # trunc(p / fp - 1): a pipeline shorter than its fast share (never legal) has no slow link
    slow = larger(whole(pipeline, fast_pipeline) - 1.0, 0.0)
    share = where(fast_pipeline > 1.0, (links - slow) / larger(links, 1.0), 1.0)
    return where(pipeline > 1.0, share, 0.0)
