"""Exact costs of one operation of a layer, array by array: FLOP, bytes, what is saved.

Where bookkeepings differ, the formula has an argument; the defaults are those of the study (arXiv
2410.00273). Widths are bytes of an element, sizes those of this accelerator's shard. Of attention,
``sequences`` counts (sequence, head) pairs, A = B h; queries are p = ``queries`` rows, keys L =
``keys`` rows, each q = ``head_size`` wide: S = A p L scores, Q = A p q and K = A L q elements.
Attention is dense (M2: no causal halving) and the scaling by 1 / sqrt(q) is not counted.

Source: docs/models/transformer_model.md, section 5; docs/models/unfused_block_tables.md, section 7.
"""

from typing import NamedTuple

from jaxroof.records import Number


class Work(NamedTuple):
    """Arithmetic and memory traffic of one operation in one direction."""

    flops: Number  # [FLOP]
    traffic: Number  # bytes moved between HBM and the chip [B]


class Operation(NamedTuple):
    """One operation of a layer: its work in both directions and its saved activations."""

    forward: Work
    backward: Work
    kept: Number  # activations held for the backward pass [B]
    parameters: Number  # weights on this accelerator [1]


class Ledger(NamedTuple):
    """One operation, array by array: the bytes it reads, writes and saves, and its FLOP.

    The backward pass reads saved activations once.
    """

    flops_forward: Number  # [FLOP]
    flops_backward: Number  # [FLOP]
    entering: Number  # activations read, forward [B]
    leaving: Number  # activations written, forward [B]
    kept: Number  # activations and masks held for the backward pass [B]
    gradients: Number  # gradients of activations read and written, backward [B]
    parameters: Number  # weights on this accelerator [1]
    beside: Number = 0.0  # a second operand, a mask or statistics, forward [B]
    weights: Number = 0.0  # weights read, forward [B]
    weights_again: Number = 0.0  # weights read again, backward [B]
    weight_gradients: Number = 0.0  # [B]

    @property
    def forward(self) -> Work:
        """Return the work of the forward pass."""
        moved = self.entering + self.beside + self.leaving
        return Work(self.flops_forward, moved + self.weights)

    @property
    def backward(self) -> Work:
        """Return the work of the backward pass."""
        moved = self.gradients + self.kept
        return Work(self.flops_backward, moved + self.weights_again + self.weight_gradients)

    @property
    def operation(self) -> Operation:
        """Return the sums over the arrays."""
        return Operation(self.forward, self.backward, self.kept, self.parameters)


# ---- Products with weights ----------------------------------------------------------------------


def linear(
    tokens: Number,
    inputs: Number,
    outputs: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
    gradient_reads: Number = 2.0,
) -> Ledger:
    """Return Y = X W with X [tokens, inputs] and W [inputs, outputs].

    forward  F = T o (2 i - 1),  X read, Y written, W read
    backward F = T i (2 o - 1) + i o (2 T - 1),  X and W read, dX written, dY read n times, dW
    written; X saved.

    Assumes: dot products counted exactly, 2 n - 1 FLOP each; n = ``gradient_reads``, 2 where each
    backward product reads dY separately; no bias.
    Source: docs/models/transformer_model.md, section 5.1.

    >>> work = linear(1.0, 2.0, 3.0, 2.0, 2.0, 2.0).operation
    >>> float(work.forward.flops), float(work.forward.traffic)
    (9.0, 22.0)
    """
    parameters = inputs * outputs
    entering = activation_width * tokens * inputs
    leaving = activation_width * tokens * outputs
    weights = weight_width * parameters
    return Ledger(
        flops_forward=tokens * outputs * (2.0 * inputs - 1.0),
        flops_backward=tokens * inputs * (2.0 * outputs - 1.0) + parameters * (2.0 * tokens - 1.0),
        entering=entering,
        leaving=leaving,
        kept=entering,
        gradients=entering + gradient_reads * leaving,
        parameters=parameters,
        weights=weights,
        weights_again=weights,
        weight_gradients=gradient_width * parameters,
    )


def biased(
    ledger: Ledger, tokens: Number, outputs: Number, weight_width: Number, gradient_width: Number
) -> Ledger:
    """Return a product with a fused bias, which is added before the output is written.

    F + T o in both directions; o more weights, read in both directions, and their gradients.

    Source: docs/models/unfused_block_tables.md, section 2.

    >>> float(biased(linear(1.0, 2.0, 3.0, 2.0, 2.0, 2.0, 1.0), 1.0, 3.0, 2.0, 2.0).weights)
    18.0
    """
    flops, weights = tokens * outputs, weight_width * outputs
    return ledger._replace(
        flops_forward=ledger.flops_forward + flops,
        flops_backward=ledger.flops_backward + flops,
        parameters=ledger.parameters + outputs,
        weights=ledger.weights + weights,
        weights_again=ledger.weights_again + weights,
        weight_gradients=ledger.weight_gradients + gradient_width * outputs,
    )


def bias(
    rows: Number,
    width: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
) -> Operation:
    """Return the separate addition of one bias of ``width`` to ``rows`` rows.

    F = r w in both directions; bytes of r w activations and w weights (backward: gradients).

    Assumes: the rows stay where the previous product left them, so they count once.
    Source: docs/models/transformer_model.md, section 5.3.

    >>> float(bias(4.0, 3.0, 2.0, 2.0, 2.0).forward.traffic)
    30.0
    """
    flops = rows * width
    moved = activation_width * flops
    forward = Work(flops, moved + weight_width * width)
    backward = Work(flops, moved + gradient_width * width)
    return Operation(forward, backward, 0.0 * moved, width)


def summa(
    tokens: Number,
    inputs: Number,
    outputs: Number,
    kept_inputs: Number,
    held_inputs: Number,
    panels: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
) -> Operation:
    """Return one rank's part of Y = X W on a SUMMA grid, panel by panel.

    forward  F = 2 T o I, bytes of T I + T o n activations and I o weights
    backward F = T I (2 o - 1) + I o (2 T - 1), twice those activations, I o weights read and as
    many gradients written; T k activations are saved and h o weights stored.

    Assumes: T = ``tokens`` and o = ``outputs`` are this rank's, I = ``inputs`` is the whole inner
    dimension, of which the rank saves k = ``kept_inputs`` columns of X and h = ``held_inputs`` rows
    of W; Q19, the sum is written once per panel (n = ``panels``) and never read.
    Source: docs/models/transformer_model.md, section 5.2; van de Geijn and Watts 1997, SUMMA.

    >>> float(summa(1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0).forward.traffic)
    28.0
    """
    weights = inputs * outputs
    moved = activation_width * (tokens * inputs + tokens * outputs * panels)
    forward = Work(2.0 * tokens * weights, moved + weight_width * weights)
    backward = Work(
        tokens * inputs * (2.0 * outputs - 1.0) + weights * (2.0 * tokens - 1.0),
        2.0 * moved + (weight_width + gradient_width) * weights,
    )
    return Operation(
        forward, backward, activation_width * tokens * kept_inputs, held_inputs * outputs
    )


# ---- Element by element, and norms --------------------------------------------------------------


def pointwise(
    elements: Number,
    activation_width: Number,
    flops_forward: Number = 8.0,
    flops_backward: Number = 13.0,
    gradient_arrays: Number = 2.0,
) -> Ledger:
    """Return a nonlinearity on ``elements`` elements, by default GeLU in its tanh form.

    F = f m and b m; m elements read, written and saved, g m gradients moved.

    Assumes: the backward pass recomputes it from the saved input; g = ``gradient_arrays`` is 2
    where both the gradient read and the one written count.
    Source: docs/models/transformer_model.md, section 5.4.

    >>> float(pointwise(10.0, 2.0).operation.backward.flops)
    130.0
    """
    array = activation_width * elements
    return Ledger(
        flops_forward=flops_forward * elements,
        flops_backward=flops_backward * elements,
        entering=array,
        leaving=array,
        kept=array,
        gradients=gradient_arrays * array,
        parameters=0.0 * elements,
    )


def dropout(
    elements: Number, activation_width: Number, mask_width: Number, gradient_arrays: Number = 2.0
) -> Ledger:
    """Return dropout on ``elements`` elements.

    F = m in both directions; m elements read and written, m of the mask read and saved, g m
    gradients moved.

    Assumes: the mask is stored, not regenerated.
    Source: docs/models/transformer_model.md, section 5.5.

    >>> work = dropout(10.0, 2.0, 1.0).operation
    >>> float(work.forward.traffic), float(work.kept)
    (50.0, 10.0)
    """
    array, mask = activation_width * elements, mask_width * elements
    return Ledger(
        flops_forward=1.0 * elements,
        flops_backward=1.0 * elements,
        entering=array,
        leaving=array,
        kept=mask,
        gradients=gradient_arrays * array,
        parameters=0.0 * elements,
        beside=mask,
    )


def layer_norm(
    rows: Number,
    width: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
    flops_backward: Number = 8.0,
    gradient_arrays: Number = 4.0,
    statistics: Number = 2.0,
) -> Ledger:
    """Return layer normalisation of ``rows`` rows of ``width`` elements, z = r w.

    forward  F = 9 z,  z read and written, s r statistics moved, 2 w weights read; z saved
    backward F = b z + 4 r (w - 1),  g z gradients moved, 2 w weight gradients written.

    Assumes: mean 2, variance 3, scale 2 and gain 2 FLOP per element; gain and bias.
    Source: docs/models/transformer_model.md, section 5.6.

    >>> work = layer_norm(2.0, 4.0, 2.0, 2.0, 2.0).operation
    >>> float(work.forward.flops), float(work.backward.flops), float(work.kept)
    (72.0, 88.0, 16.0)
    """
    elements, parameters = rows * width, 2.0 * width
    array = activation_width * elements
    return Ledger(
        flops_forward=9.0 * elements,
        flops_backward=flops_backward * elements + 4.0 * rows * (width - 1.0),
        entering=array,
        leaving=array,
        kept=array,
        gradients=gradient_arrays * array,
        parameters=parameters,
        beside=activation_width * statistics * rows,
        weights=weight_width * parameters,
        weight_gradients=gradient_width * parameters,
    )


# ---- Attention ----------------------------------------------------------------------------------


def _sizes(
    sequences: Number, queries: Number, keys: Number, head_size: Number
) -> tuple[Number, Number, Number]:
    """Return the elements of scores, queries and keys: S, Q and K."""
    rows = sequences * queries
    return rows * keys, rows * head_size, sequences * keys * head_size


def softmax_flops(scores: Number, rows: Number, keys: Number) -> tuple[Number, Number]:
    """Return the FLOP of the softmax, forward 2 S + A p (L - 1) and backward 3 S + A p (L - 1)."""
    return 2.0 * scores + rows * (keys - 1.0), 3.0 * scores + rows * (keys - 1.0)


def fused(
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    vector_cost: Number,
    activation_width: Number,
) -> Operation:
    """Return one fused attention kernel, whose backward pass recomputes the scores.

    forward  F = S (2 q - 1) + Q (2 L - 1) + k (softmax + dropout), 2 Q + 2 K + A p moved
    backward F = [Q (2 L - 1) + K (2 p - 1)] + [S (2 q - 1) + K (2 p - 1)]
               + k (softmax' + dropout) + S (2 q - 1) + k (softmax + dropout),
    2 K + 2 Q + Z moved and Z = 4 Q + 2 A p saved.

    Assumes: Q11, vector FLOP are multiplied by k = ``vector_cost`` (matrix rate / vector rate), so
    that their time is right at the matrix rate; Q12, the backward pass moves only local keys.
    Source: docs/models/transformer_model.md, section 5.8.

    >>> work = fused(1.0, 2.0, 2.0, 1.0, 1.0, 2.0)
    >>> float(work.forward.flops), float(work.kept)
    (24.0, 24.0)
    """
    rows = sequences * queries
    scores, query, key = _sizes(sequences, queries, keys, head_size)
    score_flops = scores * (2.0 * head_size - 1.0)
    query_flops = query * (2.0 * keys - 1.0)
    key_flops = key * (2.0 * queries - 1.0)
    vectors = softmax_flops(scores, rows, keys)
    vector_forward, vector_backward = (vector_cost * (one + scores) for one in vectors)
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
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    activation_width: Number,
    gradient_reads: Number = 2.0,
) -> Ledger:
    """Return the scores Q K^T as a separate kernel.

    forward  F = S (2 q - 1),  Q and K read, S written; 2 Q saved
    backward F = Q (2 L - 1) + K (2 p - 1),  dQ and dK written, dS read n times.

    Assumes: saved queries and keys both have the size of the queries (Q and K where p = L).
    Source: docs/models/transformer_model.md, section 5.9.

    >>> float(logits(1.0, 2.0, 2.0, 1.0, 2.0).operation.forward.flops)
    4.0
    """
    scores, query, key = _sizes(sequences, queries, keys, head_size)
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


def softmax(sequences: Number, queries: Number, keys: Number, activation_width: Number) -> Ledger:
    """Return the softmax over keys as a separate kernel: S read, written and saved, 2 S gradients.

    Assumes: the subtraction of the row maximum is not counted.
    Source: docs/models/transformer_model.md, section 5.9.

    >>> float(softmax(1.0, 2.0, 2.0, 2.0).operation.forward.flops)
    10.0
    """
    rows = sequences * queries
    scores = rows * keys
    array = activation_width * scores
    forward, backward = softmax_flops(scores, rows, keys)
    return Ledger(
        flops_forward=forward,
        flops_backward=backward,
        entering=array,
        leaving=array,
        kept=array,
        gradients=2.0 * array,
        parameters=0.0 * scores,
    )


def attend(
    sequences: Number,
    queries: Number,
    keys: Number,
    head_size: Number,
    activation_width: Number,
    gradient_reads: Number = 2.0,
    value_gradients: Number = 1.0,
) -> Ledger:
    """Return the weighted sum P V as a separate kernel.

    forward  F = Q (2 L - 1),  S and K read, Q written; S + Q saved
    backward F = S (2 q - 1) + K (2 p - 1),  dP written, the output gradient read n times,
    v K gradients of values written.

    Assumes: saved values have the size of the queries (Q and K where p = L); v =
    ``value_gradients`` is 0 if the convention omits the gradients of the values.
    Source: docs/models/transformer_model.md, section 5.9 (attend, seqp; 1D where p = L).

    >>> float(attend(1.0, 2.0, 2.0, 1.0, 2.0).operation.kept)
    12.0
    """
    scores, query, key = _sizes(sequences, queries, keys, head_size)
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
    """Return the scores Q K^T of one rank of a SUMMA grid, panel by panel.

    forward F = S (2 q - 1), K + n Q + S moved; backward F = Q (2 L - 1) + K (2 p - 1), twice the
    forward bytes moved; 2 Q saved.

    Assumes: every head on every rank, q = ``head_size`` columns of each; n = ``panels``.
    Source: docs/models/transformer_model.md, section 5.9 (SUMMA unfused attention).

    >>> float(logits_summa(1.0, 2.0, 2.0, 1.0, 2.0, 2.0).forward.traffic)
    20.0
    """
    scores, query, key = _sizes(sequences, queries, keys, head_size)
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
    """Return the weighted sum P V of one rank of a SUMMA grid, panel by panel.

    forward F = 2 Q L, S + K + n Q moved; backward F = S (2 q - 1) + K (2 p - 1), twice the
    forward bytes moved; Z + Q saved.

    Assumes: as logits_summa; a rank saves its scores of j = ``own_keys`` keys, Z = A p j.
    Source: docs/models/transformer_model.md, section 5.9 (SUMMA unfused attention).

    >>> float(attend_summa(1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0).kept)
    8.0
    """
    scores, query, key = _sizes(sequences, queries, keys, head_size)
    moved = activation_width * (scores + key + panels * query)
    forward = Work(2.0 * query * keys, moved)
    backward = Work(scores * (2.0 * head_size - 1.0) + key * (2.0 * queries - 1.0), 2.0 * moved)
    kept = activation_width * (sequences * queries * own_keys + query)
    return Operation(forward, backward, kept, 0.0 * scores)
