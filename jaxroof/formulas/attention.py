"""The attention core: one fused kernel, or separate logits, softmax, dropout and weighted sum.

``sequences`` counts (sequence, head) pairs on this accelerator, A = B h. Queries are p =
``queries`` rows, keys L = ``keys`` rows, each q = ``head_size`` wide: S = A p L scores, Q = A p q
and K = A L q elements.
Attention is dense (M2: no causal halving) and the scaling by 1 / sqrt(q) is not counted.
"""

from jaxroof.formulas.work import Ledger, Operation, Work
from jaxroof.records import Number


def fused(
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    vector_cost: Number,
    activation_width: Number,
) -> Operation:
    """Return the work of one fused attention kernel, whose backward recomputes the scores.

    forward  F = S (2 q - 1) + Q (2 L - 1) + k (softmax + dropout), 2 Q + 2 K + A p moved
    backward F = [Q (2 L - 1) + K (2 p - 1)] + [S (2 q - 1) + K (2 p - 1)]
               + k (softmax' + dropout) + S (2 q - 1) + k (softmax + dropout),
    2 K + 2 Q + Z moved and Z = 4 Q + 2 A p saved. softmax = 2 S + A p (L - 1), softmax' = 3 S + ...

    Assumes: Q11, vector FLOP are multiplied by k = ``vector_cost`` (matrix rate / vector rate), so
    that their time is right at the matrix rate; Q12, the backward pass moves only local keys.
    Units: counts [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.8.

    >>> work = fused(1.0, 2.0, 2.0, 1.0, 1.0, 2.0)
    >>> float(work.forward.flops), float(work.kept)
    (24.0, 24.0)
    """
    rows = sequences * queries
    scores = rows * keys
    query = rows * head_size
    key = sequences * keys * head_size
    score_flops = scores * (2.0 * head_size - 1.0)
    query_flops = query * (2.0 * keys - 1.0)
    key_flops = key * (2.0 * queries - 1.0)
    vector_forward = vector_cost * (_softmax_forward(scores, rows, keys) + scores)
    vector_backward = vector_cost * (_softmax_backward(scores, rows, keys) + scores)

    kept = activation_width * (4.0 * query + 2.0 * rows)
    forward = Work(
        score_flops + query_flops + vector_forward,
        activation_width * (2.0 * query + 2.0 * key + rows),
    )
    backward = Work(
        (query_flops + key_flops)
        + (score_flops + key_flops)
        + vector_backward
        + (score_flops + vector_forward),
        activation_width * (2.0 * key + 2.0 * query) + kept,
    )
    return Operation(forward, backward, kept, 0.0 * rows)


def logits(
    sequences: Number, queries: Number, keys: Number, head_size: Number, activation_width: Number
) -> Operation:
    """Return the work of the scores Q K^T as a separate kernel.

    forward F = S (2 q - 1), Q + K + S moved; backward F = Q (2 L - 1) + K (2 p - 1),
    3 Q + K + 2 S moved; 2 Q saved.

    Assumes: saved queries and keys both have the size of the queries (Q and K where p = L).
    Units: counts [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9.

    >>> float(logits(1.0, 2.0, 2.0, 1.0, 2.0).forward.flops)
    4.0
    """
    return logits_ledger(sequences, queries, keys, head_size, activation_width, 2.0).operation


def logits_ledger(
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    activation_width: Number,
    gradient_reads: Number,
) -> Ledger:
    """Return the scores Q K^T as a separate kernel, array by array.

    forward  F = S (2 q - 1),  Q and K read, S written; 2 Q saved
    backward F = Q (2 L - 1) + K (2 p - 1),  dQ and dK written, dS read n times.

    Assumes: as logits; n = ``gradient_reads`` as in linear_ledger.
    Units: counts, gradient_reads [1], width [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9; docs/models/unfused_block_tables.md,
    section 2.

    >>> float(logits_ledger(1.0, 2.0, 2.0, 1.0, 2.0, 1.0).backward.traffic)
    24.0
    """
    scores = sequences * queries * keys
    query = sequences * queries * head_size
    key = sequences * keys * head_size
    return Ledger(
        flops_forward=scores * (2.0 * head_size - 1.0),
        flops_backward=query * (2.0 * keys - 1.0) + key * (2.0 * queries - 1.0),
        entering=activation_width * query,
        leaving=activation_width * scores,
        kept=activation_width * 2.0 * query,
        gradients=activation_width * (query + key + gradient_reads * scores),
        parameters=0.0 * scores,
        beside=activation_width * key,
    )


def softmax(
    sequences: Number, queries: Number, keys: Number, activation_width: Number
) -> Operation:
    """Return the work of the softmax over keys as a separate kernel.

    forward F = 2 S + A p (L - 1), 2 S moved; backward F = 3 S + A p (L - 1), 3 S moved; S saved.

    Assumes: the subtraction of the row maximum is not counted.
    Units: counts [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9.

    >>> float(softmax(1.0, 2.0, 2.0, 2.0).forward.flops)
    10.0
    """
    return softmax_ledger(sequences, queries, keys, activation_width).operation


def softmax_ledger(
    sequences: Number, queries: Number, keys: Number, activation_width: Number
) -> Ledger:
    """Return the softmax over keys as a separate kernel, array by array.

    S read, written and saved; 2 S gradients moved; FLOP as in softmax.

    Assumes: as softmax.
    Units: counts [1], width [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9; docs/models/unfused_block_tables.md,
    section 2.

    >>> float(softmax_ledger(1.0, 2.0, 2.0, 2.0).backward.traffic)
    24.0
    """
    rows = sequences * queries
    scores = rows * keys
    array = activation_width * scores
    return Ledger(
        flops_forward=_softmax_forward(scores, rows, keys),
        flops_backward=_softmax_backward(scores, rows, keys),
        entering=array,
        leaving=array,
        kept=array,
        gradients=2.0 * array,
        parameters=0.0 * scores,
    )


def attend(
    sequences: Number, queries: Number, keys: Number, head_size: Number, activation_width: Number
) -> Operation:
    """Return the work of the weighted sum P V as a separate kernel.

    forward F = Q (2 L - 1), S + K + Q moved; backward F = S (2 q - 1) + K (2 p - 1),
    3 Q + 2 S + K moved; S + Q saved.

    Assumes: saved and scattered values have the size of the queries (Q and K where p = L).
    Units: counts [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9 (attend, seqp; 1D where p = L).

    >>> float(attend(1.0, 2.0, 2.0, 1.0, 2.0).kept)
    12.0
    """
    shape = (sequences, queries, keys, head_size)
    return attend_ledger(*shape, activation_width, 2.0, 1.0).operation


def attend_ledger(
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    activation_width: Number,
    gradient_reads: Number,
    value_gradients: Number,
) -> Ledger:
    """Return the weighted sum P V as a separate kernel, array by array.

    forward  F = Q (2 L - 1),  S and K read, Q written; S + Q saved
    backward F = S (2 q - 1) + K (2 p - 1),  dP written, the output gradient read n times,
    v K gradients of values written.

    Assumes: as attend; n = ``gradient_reads`` as in linear_ledger; v = ``value_gradients`` is 0
    if the convention omits the gradients of the values.
    Units: counts, gradient_reads, value_gradients [1], width [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9; docs/models/unfused_block_tables.md,
    sections 2 and 7.

    >>> float(attend_ledger(1.0, 2.0, 2.0, 1.0, 2.0, 1.0, 0.0).backward.traffic)
    24.0
    """
    scores = sequences * queries * keys
    query = sequences * queries * head_size
    key = sequences * keys * head_size
    moved = scores + gradient_reads * query + value_gradients * key
    return Ledger(
        flops_forward=query * (2.0 * keys - 1.0),
        flops_backward=scores * (2.0 * head_size - 1.0) + key * (2.0 * queries - 1.0),
        entering=activation_width * scores,
        leaving=activation_width * query,
        kept=activation_width * (scores + query),
        gradients=activation_width * moved,
        parameters=0.0 * scores,
        beside=activation_width * key,
    )


def logits_summa(
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    panels: Number,
    activation_width: Number,
) -> Operation:
    """Return the work of the scores Q K^T of one rank of a SUMMA grid, panel by panel.

    forward F = S (2 q - 1), K + n Q + S moved; backward F = Q (2 L - 1) + K (2 p - 1), twice the
    forward bytes moved; 2 Q saved.

    Assumes: every head on every rank, q = ``head_size`` columns of each; n = ``panels``.
    Units: counts [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9 (SUMMA unfused attention).

    >>> float(logits_summa(1.0, 2.0, 2.0, 1.0, 2.0, 2.0).forward.traffic)
    20.0
    """
    scores = sequences * queries * keys
    query = sequences * queries * head_size
    key = sequences * keys * head_size
    moved = activation_width * (key + panels * query + scores)
    forward = Work(scores * (2.0 * head_size - 1.0), moved)
    backward = Work(query * (2.0 * keys - 1.0) + key * (2.0 * queries - 1.0), 2.0 * moved)
    return Operation(forward, backward, activation_width * 2.0 * query, 0.0 * scores)


def attend_summa(
    sequences: Number,
    queries: Number,
    keys: Number,
    own_keys: Number,
    head_size: Number,
    panels: Number,
    activation_width: Number,
) -> Operation:
    """Return the work of the weighted sum P V of one rank of a SUMMA grid, panel by panel.

    forward F = 2 Q L, S + K + n Q moved; backward F = S (2 q - 1) + K (2 p - 1), twice the
    forward bytes moved; Z + Q saved.

    Assumes: as logits_summa; a rank saves its scores of j = ``own_keys`` keys, Z = A p j.
    Units: counts [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.9 (SUMMA unfused attention).

    >>> float(attend_summa(1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0).kept)
    8.0
    """
    scores = sequences * queries * keys
    query = sequences * queries * head_size
    key = sequences * keys * head_size
    moved = activation_width * (scores + key + panels * query)
    forward = Work(2.0 * query * keys, moved)
    backward = Work(scores * (2.0 * head_size - 1.0) + key * (2.0 * queries - 1.0), 2.0 * moved)
    kept = activation_width * (sequences * queries * own_keys + query)
    return Operation(forward, backward, kept, 0.0 * scores)


def _softmax_forward(scores: Number, rows: Number, keys: Number) -> Number:
    return 2.0 * scores + rows * (keys - 1.0)


def _softmax_backward(scores: Number, rows: Number, keys: Number) -> Number:
    return 3.0 * scores + rows * (keys - 1.0)
