"""FLOP of training on one token, under the conventions that people print.

One multiply-add is 2 FLOP, and backward costs twice what forward does: 6 FLOP a multiply-add.
"""

from jaxroof.formulas.arithmetic import smaller, where
from jaxroof.records import Number


def score_products(heads: Number, query_size: Number, value_size: Number) -> Number:
    """Return the multiply-adds of scores and values for one query and one key, in one layer.

    A = a (d_q + d_v): 2 a d, or a (n + e + v) with latent attention

    Assumes: no causal mask; softmax is not counted.
    Units: heads, query_size, value_size [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(score_products(4.0, 8.0, 8.0))
    64.0
    """
    return heads * (query_size + value_size)


def halved_context(sequence: Number, window: Number) -> Number:
    """Return the keys that a causal query meets on average, by the half of a square.

    c = w (1 - w / 2 s), which is s / 2 without a window

    Assumes: w = 0 stands for no window; a window longer than the sequence is as long as it.
    Units: sequence, window [token] -> [token].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(halved_context(8.0, 0.0)), float(halved_context(8.0, 4.0))
    (4.0, 3.0)
    """
    width = _width(sequence, window)
    return width * (1.0 - width / (2.0 * sequence))


def exact_context(sequence: Number, window: Number) -> Number:
    """Return the keys that a causal query meets on average, its own included.

    c = (w s - w (w - 1) / 2) / s, which is (s + 1) / 2 without a window

    Assumes: as ``halved_context``.
    Units: sequence, window [token] -> [token].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(exact_context(8.0, 0.0)), float(exact_context(8.0, 4.0))
    (4.5, 3.25)
    """
    width = _width(sequence, window)
    return (width * sequence - width * (width - 1.0) / 2.0) / sequence


def _width(sequence: Number, window: Number) -> Number:
    return where(window > 0.0, smaller(window, sequence), sequence)


def prediction_products(hidden: Number, vocabulary: Number, layer: Number) -> Number:
    """Return the multiply-adds of one module of multi-token prediction for one token.

    W = one layer + V h + 2 h^2 + 3 h

    Assumes: its three norms count too, as Megatron-LM books them; scores are counted beside.
    Units: hidden, vocabulary, layer [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 3, convention megatron_mtp.

    >>> float(prediction_products(4.0, 10.0, 100.0))
    184.0
    """
    return layer + vocabulary * hidden + 2.0 * hidden * hidden + 3.0 * hidden


def token_flops(products: Number) -> Number:
    """Return the FLOP of training on one token: forward, and backward twice as much.

    F = 6 W

    Assumes: nothing is computed again.
    Units: products, multiply-adds of one token in forward [1] -> [FLOP/token].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(token_flops(3.0))
    18.0
    """
    return 6.0 * products


def full_recompute(products: Number, scores: Number) -> Number:
    """Return the FLOP that are computed again for a token where only layer inputs are saved.

    F = 2 (W_att + W_mlp) + 2 L A s: one more forward pass of all layers, without the head

    Assumes: convention megatron_full.
    Units: products (of all layers' weights), scores [1] -> [FLOP/token].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(full_recompute(3.0, 2.0))
    10.0
    """
    return 2.0 * (products + scores)


def selective_recompute(scores: Number) -> Number:
    """Return the FLOP that are computed again for a token if only attention's core is.

    F = 2 L A s: one more forward pass of scores and values

    Assumes: convention megatron_full.
    Units: scores, multiply-adds of a token in all layers [1] -> [FLOP/token].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(selective_recompute(2.0))
    4.0
    """
    return 2.0 * scores


def flash_recompute(scores: Number) -> Number:
    """Return the FLOP that a flash kernel computes again for a token on the way back.

    F = L A s: the scores once more, not the weighted values

    Assumes: convention megatron_full; heads of queries and values are equally wide.
    Units: scores, multiply-adds of a token in all layers [1] -> [FLOP/token].
    Source: docs/models/parameters_flops_memory.md, section 3.

    >>> float(flash_recompute(2.0))
    2.0
    """
    return scores
