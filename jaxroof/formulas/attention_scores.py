"""Attention scores: arithmetic, bytes, and critical sequence lengths."""

from jaxroof.records import Number


def score_flops(
    batch: Number,
    queries: Number,
    keys: Number,
    passes: Number,
    heads: Number,
    head_size: Number,
) -> Number:
    """Return the FLOP of the scores and of the weighted sum of the values.

    F = 4 p B T S N H, p = 1 forward, 3 with the backward pass

    Assumes: no causal mask; the softmax does not count.
    Units: batch, queries, keys, passes, heads, head_size [1] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 4.

    >>> score_flops(1.0, 2.0, 2.0, 3.0, 1.0, 1.0)
    48.0
    """
    return 4.0 * passes * batch * queries * keys * heads * head_size


def query_bytes(
    batch: Number,
    queries: Number,
    heads: Number,
    head_size: Number,
    in_width: Number,
    out_width: Number,
) -> Number:
    """Return the bytes of the queries read and of the outputs written, forward.

    Y = (s_q + s_o) B T N H

    Assumes: scores stay on the chip.
    Units: batch, queries, heads, head_size [1], widths [B] -> [B].
    Source: docs/models/op_rooflines.md, section 4 (its intensity).

    >>> query_bytes(1.0, 2.0, 3.0, 4.0, 2.0, 2.0)
    96.0
    """
    return (in_width + out_width) * batch * queries * heads * head_size


def cache_bytes(
    batch: Number, keys: Number, kv_heads: Number, head_size: Number, cache_width: Number
) -> Number:
    """Return the bytes of the keys and values of one layer, the cache that is read.

    Y = 2 s B S K H

    Assumes: every sequence has its own cache; each key and value is read once.
    Units: batch, keys, kv_heads, head_size [1], cache_width [B] -> [B].
    Source: docs/models/op_rooflines.md, section 4.

    >>> cache_bytes(1.0, 2.0, 3.0, 4.0, 2.0)
    96.0
    """
    return 2.0 * cache_width * batch * keys * kv_heads * head_size


def critical_length(
    heads: Number,
    kv_heads: Number,
    in_width: Number,
    cache_width: Number,
    out_width: Number,
    balance: Number,
) -> Number:
    """Return the length from which self-attention (T = S) is compute bound.

    T* = beta (s_q + s_o + 2 s K / N) / 4, which is beta (G + 1) / G at 2 bytes, G = N / K

    Assumes: as score_flops, query_bytes and cache_bytes; intensity is proportional to T.
    Units: heads, kv_heads [1], widths [B], balance [FLOP/B] -> [1].
    Source: docs/models/op_rooflines.md, section 4, TG / (G + 1) solved for T.

    >>> critical_length(1.0, 1.0, 2.0, 2.0, 2.0, 240.0)
    480.0
    """
    return balance * (in_width + out_width + 2.0 * cache_width * kv_heads / heads) / 4.0


def query_row(
    heads: Number, keys: Number, in_width: Number, out_width: Number
) -> tuple[Number, Number]:
    """Return the FLOP and bytes of one more query, per unit of batch and head size.

    f = 4 S N, a = (s_q + s_o) N

    Assumes: the keys and values are read whatever the number of queries.
    Units: heads, keys [1], widths [B] -> [FLOP], [B].
    Source: docs/models/op_rooflines.md, section 4, TSG / (TG + S) per query.

    >>> query_row(2.0, 3.0, 2.0, 2.0)
    (24.0, 8.0)
    """
    return 4.0 * keys * heads, (in_width + out_width) * heads


def projection_flops(
    hidden: Number,
    heads: Number,
    kv_heads: Number,
    head_size: Number,
    tokens: Number,
    passes: Number,
) -> Number:
    """Return the arithmetic of the four projections around attention.

    F = 2 p T D H (2 N + 2 K)

    Assumes: queries, keys, values and output, without bias; p = 3 with the backward pass.
    Units: hidden, heads, kv_heads, head_size, tokens, passes [1] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 4.

    >>> projection_flops(2.0, 1.0, 1.0, 2.0, 1.0, 1.0)
    32.0
    """
    return 4.0 * passes * tokens * hidden * head_size * (heads + kv_heads)


def mlp_flops(
    hidden: Number, feedforward: Number, tokens: Number, matrices: Number, passes: Number
) -> Number:
    """Return the arithmetic of the matrices of the MLP.

    F = 2 p m T D F

    Assumes: m matrices, 3 with a gate; p = 3 with the backward pass.
    Units: hidden, feedforward, tokens, matrices, passes [1] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 4.

    >>> mlp_flops(2.0, 8.0, 1.0, 3.0, 1.0)
    96.0
    """
    return 2.0 * passes * matrices * tokens * hidden * feedforward


def equal_length(tokens: Number, other_flops: Number, scores: Number) -> Number:
    """Return the length at which the scores take as many FLOP as another part of the model.

    T* = T F_other / F_scores, since scores grow with the square of the length: 2 D against the
    projections, 8 D against all matrices if F = 4 D

    Assumes: the other FLOP are proportional to the length; the batch does not matter.
    Units: tokens [1], other_flops, scores [FLOP] -> [1].
    Source: docs/models/op_rooflines.md, section 4.

    >>> equal_length(16.0, 8.0, 4.0)
    32.0
    """
    return tokens * other_flops / scores
