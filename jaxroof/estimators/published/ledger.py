"""Exact costs of one operation of a layer, array by array: FLOP, bytes, what is saved.

Widths are bytes of an element, sizes those of this accelerator's shard; where bookkeepings differ,
the count stands in ``Booking``. Attention is dense (M2: no causal halving) and the scaling by
1 / sqrt(q) is not counted. A dot product of n terms is 2 n - 1 FLOP.

Source: docs/models/transformer_model.md, section 5; docs/models/unfused_block_tables.md, section 7.
"""

from typing import NamedTuple

from jaxroof.estimators.published.inputs import Booking, Precision
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


class Costs(NamedTuple):
    """How a bookkeeping counts: the bytes of an element of each array, and its conventions."""

    width: Precision
    booking: Booking


class Core(NamedTuple):
    """Attention on one accelerator; each of A = B h (sequence, head) pairs has its own scores."""

    sequences: Number  # A
    queries: Number  # rows p
    keys: Number  # rows L
    head_size: Number  # q

    @property
    def sizes(self) -> tuple[Number, Number, Number]:
        """Return the elements of scores, queries and keys: S = A p L, Q = A p q, K = A L q."""
        rows = self.sequences * self.queries
        return rows * self.keys, rows * self.head_size, self.sequences * self.keys * self.head_size

    @property
    def products(self) -> tuple[Number, Number, Number]:
        """Return the FLOP of products that give scores S (2 q - 1), queries and keys."""
        scores, query, key = self.sizes
        return (
            scores * (2.0 * self.head_size - 1.0),
            query * (2.0 * self.keys - 1.0),
            key * (2.0 * self.queries - 1.0),
        )

    @property
    def softmax(self) -> tuple[Number, Number]:
        """Return the FLOP of the softmax, forward and backward: 2 S or 3 S + A p (L - 1)."""
        rows = self.sequences * self.queries
        scores, sums = rows * self.keys, rows * (self.keys - 1.0)
        return 2.0 * scores + sums, 3.0 * scores + sums


# ---- Products with weights ----------------------------------------------------------------------


def linear(tokens: Number, inputs: Number, outputs: Number, costs: Costs) -> Ledger:
    """Return Y = X W with X [tokens, inputs] and W [inputs, outputs], without bias.

    forward  F = T o (2 i - 1),  X read, Y written, W read
    backward F = T i (2 o - 1) + i o (2 T - 1),  X and W read, dX written, dY read n times, dW
    written; X saved.

    Assumes: n = ``gradient_reads``, 2 where each backward product reads dY separately.
    """
    width, parameters = costs.width, inputs * outputs
    entering, leaving = width.activation * tokens * inputs, width.activation * tokens * outputs
    weights = width.weight * parameters
    return Ledger(
        flops_forward=tokens * outputs * (2.0 * inputs - 1.0),
        flops_backward=tokens * inputs * (2.0 * outputs - 1.0) + parameters * (2.0 * tokens - 1.0),
        entering=entering,
        leaving=leaving,
        kept=entering,
        gradients=entering + costs.booking.gradient_reads * leaving,
        parameters=parameters,
        weights=weights,
        weights_again=weights,
        weight_gradients=width.gradient * parameters,
    )


def biased(ledger: Ledger, tokens: Number, outputs: Number, costs: Costs) -> Ledger:
    """Return a product with a fused bias, which is added before the output is written.

    F + T o in both directions; o more weights, read in both directions, and their gradients.

    Source: docs/models/unfused_block_tables.md, section 2.
    """
    flops, weights = tokens * outputs, costs.width.weight * outputs
    return ledger._replace(
        flops_forward=ledger.flops_forward + flops,
        flops_backward=ledger.flops_backward + flops,
        parameters=ledger.parameters + outputs,
        weights=ledger.weights + weights,
        weights_again=ledger.weights_again + weights,
        weight_gradients=ledger.weight_gradients + costs.width.gradient * outputs,
    )


def bias(rows: Number, outputs: Number, costs: Costs) -> Operation:
    """Return the separate addition of one bias of w = ``outputs`` to ``rows`` rows.

    F = r w in both directions; bytes of r w activations and w weights (backward: gradients).

    Assumes: the rows stay where the previous product left them, so they count once.
    """
    width, flops = costs.width, rows * outputs
    moved = width.activation * flops
    forward = Work(flops, moved + width.weight * outputs)
    backward = Work(flops, moved + width.gradient * outputs)
    return Operation(forward, backward, 0.0 * moved, outputs)


def summa(
    tokens: Number,
    inputs: Number,
    outputs: Number,
    kept_inputs: Number,
    held_inputs: Number,
    panels: Number,
    costs: Costs,
) -> Operation:
    """Return one rank's part of Y = X W on a SUMMA grid, panel by panel.

    forward  F = 2 T o I, bytes of T I + T o n activations and I o weights
    backward F = T I (2 o - 1) + I o (2 T - 1), twice those activations, I o weights read and as
    many gradients written; T k activations are saved and h o weights stored.

    Assumes: T = ``tokens`` and o = ``outputs`` are this rank's, I = ``inputs`` is the whole inner
    dimension, of which the rank saves k = ``kept_inputs`` columns of X and h = ``held_inputs`` rows
    of W; Q19, the sum is written once per panel (n = ``panels``) and never read.
    Source: docs/models/transformer_model.md, section 5.2; van de Geijn and Watts 1997, SUMMA.
    """
    width, weights = costs.width, inputs * outputs
    moved = width.activation * (tokens * inputs + tokens * outputs * panels)
    forward = Work(2.0 * tokens * weights, moved + width.weight * weights)
    backward = Work(
        tokens * inputs * (2.0 * outputs - 1.0) + weights * (2.0 * tokens - 1.0),
        2.0 * moved + (width.weight + width.gradient) * weights,
    )
    return Operation(
        forward, backward, width.activation * tokens * kept_inputs, held_inputs * outputs
    )


# ---- Element by element, and norms --------------------------------------------------------------


def _pointwise(array: Number, forward: Number, backward: Number, gradients: Number) -> Ledger:
    """Return what reads, writes and saves an array, and moves so many gradient arrays."""
    return Ledger(forward, backward, array, array, array, gradients * array, 0.0 * array)


def nonlinearity(elements: Number, costs: Costs) -> Ledger:
    """Return a nonlinearity on m = ``elements``; of the study, GeLU in its tanh form.

    F = f m and b m; m elements read, written and saved, g m gradients moved.

    Assumes: the backward pass recomputes it from the saved input.
    """
    booking, gradients = costs.booking, costs.booking.pointwise_gradients
    flops = (booking.activation_forward * elements, booking.activation_backward * elements)
    return _pointwise(costs.width.activation * elements, *flops, gradients)


def dropout(elements: Number, costs: Costs) -> Ledger:
    """Return dropout on m = ``elements``.

    F = m in both directions; m elements read and written, m of the mask read and saved, g m
    gradients moved.

    Assumes: the mask is stored, not regenerated.
    """
    array, mask, once = (
        costs.width.activation * elements,
        costs.width.mask * elements,
        1.0 * elements,
    )
    moved = _pointwise(array, once, once, costs.booking.pointwise_gradients)
    return moved._replace(kept=mask, beside=mask)


def layer_norm(rows: Number, columns: Number, costs: Costs) -> Ledger:
    """Return layer normalisation of r rows of w columns, z = r w.

    forward  F = 9 z,  z read and written, s r statistics moved, 2 w weights read; z saved
    backward F = b z + 4 r (w - 1),  g z gradients moved, 2 w weight gradients written.

    Assumes: mean 2, variance 3, scale 2 and gain 2 FLOP per element; gain and bias.
    """
    width, booking = costs.width, costs.booking
    elements, parameters = rows * columns, 2.0 * columns
    array = width.activation * elements
    return Ledger(
        flops_forward=9.0 * elements,
        flops_backward=booking.norm_backward * elements + 4.0 * rows * (columns - 1.0),
        entering=array,
        leaving=array,
        kept=array,
        gradients=booking.norm_gradients * array,
        parameters=parameters,
        beside=width.activation * booking.norm_statistics * rows,
        weights=width.weight * parameters,
        weight_gradients=width.gradient * parameters,
    )


# ---- Attention ----------------------------------------------------------------------------------


def fused(core: Core, vector_cost: Number, costs: Costs) -> Operation:
    """Return one fused attention kernel, whose backward pass recomputes the scores.

    forward  F = S (2 q - 1) + Q (2 L - 1) + k (softmax + dropout), 2 Q + 2 K + A p moved
    backward F = [Q (2 L - 1) + K (2 p - 1)] + [S (2 q - 1) + K (2 p - 1)]
               + k (softmax' + dropout) + S (2 q - 1) + k (softmax + dropout),
    2 K + 2 Q + Z moved and Z = 4 Q + 2 A p saved.

    Assumes: Q11, vector FLOP are multiplied by k = ``vector_cost`` (matrix rate / vector rate), so
    that their time is right at the matrix rate; Q12, the backward pass moves only local keys.
    """
    width, rows = costs.width.activation, core.sequences * core.queries
    scores, query, key = core.sizes
    score_flops, query_flops, key_flops = core.products
    vector_forward, vector_backward = (vector_cost * (one + scores) for one in core.softmax)
    kept = width * (4.0 * query + 2.0 * rows)
    forward = Work(
        score_flops + query_flops + vector_forward, width * (2.0 * query + 2.0 * key + rows)
    )
    backward = Work(
        (query_flops + key_flops)
        + (score_flops + key_flops)
        + vector_backward
        + (score_flops + vector_forward),
        width * (2.0 * key + 2.0 * query) + kept,
    )
    return Operation(forward, backward, kept, 0.0 * rows)


def logits(core: Core, costs: Costs) -> Ledger:
    """Return the scores Q K^T as a separate kernel.

    forward  F = S (2 q - 1),  Q and K read, S written; 2 Q saved
    backward F = Q (2 L - 1) + K (2 p - 1),  dQ and dK written, dS read n times.

    Assumes: saved queries and keys both have the size of the queries (Q and K where p = L).
    """
    width, (scores, query, key) = costs.width.activation, core.sizes
    score_flops, query_flops, key_flops = core.products
    return Ledger(
        flops_forward=score_flops,
        flops_backward=query_flops + key_flops,
        entering=width * query,
        leaving=width * scores,
        kept=width * 2.0 * query,
        gradients=width * (query + key + costs.booking.gradient_reads * scores),
        parameters=0.0 * scores,
        beside=width * key,
    )


def softmax(core: Core, costs: Costs) -> Ledger:
    """Return the softmax over keys as a separate kernel: S read, written and saved, 2 S gradients.

    Assumes: the subtraction of the row maximum is not counted.
    """
    scores = core.sequences * core.queries * core.keys
    return _pointwise(costs.width.activation * scores, *core.softmax, 2.0)


def attend(core: Core, costs: Costs) -> Ledger:
    """Return the weighted sum P V as a separate kernel.

    forward  F = Q (2 L - 1),  S and K read, Q written; S + Q saved
    backward F = S (2 q - 1) + K (2 p - 1),  dP written, the output gradient read n times,
    v K gradients of values written.

    Assumes: saved values have the size of the queries (Q and K where p = L); v is 0 if the
    convention omits the gradients of the values.
    Source: docs/models/transformer_model.md, section 5.9 (attend, seqp; 1D where p = L).
    """
    width, booking, (scores, query, key) = costs.width.activation, costs.booking, core.sizes
    score_flops, query_flops, key_flops = core.products
    moved = scores + booking.gradient_reads * query + booking.value_gradients * key
    return Ledger(
        flops_forward=query_flops,
        flops_backward=score_flops + key_flops,
        entering=width * scores,
        leaving=width * query,
        kept=width * (scores + query),
        gradients=width * moved,
        parameters=0.0 * scores,
        beside=width * key,
    )


def logits_summa(core: Core, panels: Number, costs: Costs) -> Operation:
    """Return the scores Q K^T of one rank of a SUMMA grid, panel by panel.

    forward F = S (2 q - 1), K + n Q + S moved; backward F = Q (2 L - 1) + K (2 p - 1), twice the
    forward bytes moved; 2 Q saved.

    Assumes: every head on every rank, q columns of each; n = ``panels``.
    Source: docs/models/transformer_model.md, section 5.9 (SUMMA unfused attention).
    """
    width, (scores, query, key) = costs.width.activation, core.sizes
    score_flops, query_flops, key_flops = core.products
    moved = width * (key + panels * query + scores)
    forward, backward = Work(score_flops, moved), Work(query_flops + key_flops, 2.0 * moved)
    return Operation(forward, backward, width * 2.0 * query, 0.0 * scores)


def attend_summa(core: Core, own_keys: Number, panels: Number, costs: Costs) -> Operation:
    """Return the weighted sum P V of one rank of a SUMMA grid, panel by panel.

    forward F = 2 Q L, S + K + n Q moved; backward F = S (2 q - 1) + K (2 p - 1), twice the
    forward bytes moved; Z + Q saved.

    Assumes: as logits_summa; a rank saves its scores of j = ``own_keys`` keys, Z = A p j.
    Source: docs/models/transformer_model.md, section 5.9 (SUMMA unfused attention).
    """
    width, (scores, query, key) = costs.width.activation, core.sizes
    score_flops, _, key_flops = core.products
    moved = width * (scores + key + panels * query)
    kept = width * (core.sequences * core.queries * own_keys + query)
    forward = Work(2.0 * query * core.keys, moved)
    backward = Work(score_flops + key_flops, 2.0 * moved)
    return Operation(forward, backward, kept, 0.0 * scores)
