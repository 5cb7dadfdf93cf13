"""The matrix product of a linear layer, on one shard or on a SUMMA grid."""

from jaxroof.formulas.work import Ledger, Operation, Work
from jaxroof.records import Number


def linear(
    tokens: Number,
    inputs: Number,
    outputs: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
) -> Operation:
    """Return the work of Y = X W with X [tokens, inputs] and W [inputs, outputs].

    forward  F = T o (2 i - 1),  bytes of T i + T o activations and i o weights
    backward F = T i (2 o - 1) + i o (2 T - 1), bytes of 2 T i + 2 T o activations, i o weights
    read and i o weight gradients written; T i activations are saved.

    Assumes: widths are those of this accelerator's shard; no bias (a separate operation).
    Units: tokens, inputs, outputs [1]; widths [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.1.

    >>> work = linear(1.0, 2.0, 3.0, 2.0, 2.0, 2.0)
    >>> float(work.forward.flops), float(work.forward.traffic)
    (9.0, 22.0)
    """
    widths = (weight_width, activation_width, gradient_width)
    return linear_ledger(tokens, inputs, outputs, *widths, 2.0).operation


def linear_ledger(
    tokens: Number,
    inputs: Number,
    outputs: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
    gradient_reads: Number,
) -> Ledger:
    """Return Y = X W with X [tokens, inputs] and W [inputs, outputs], array by array.

    forward  F = T o (2 i - 1),  X read, Y written, W read
    backward F = T i (2 o - 1) + i o (2 T - 1),  X and W read, dX written, dY read n times, dW
    written; X saved.

    Assumes: dot products counted exactly, 2 n - 1 FLOP each; n = ``gradient_reads``, 2 where each
    backward product reads dY separately.
    Units: tokens, inputs, outputs, gradient_reads [1]; widths [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.1; docs/models/unfused_block_tables.md,
    section 2.

    >>> ledger = linear_ledger(1.0, 2.0, 3.0, 2.0, 2.0, 2.0, 1.0)
    >>> float(ledger.flops_backward), float(ledger.gradients)
    (16.0, 10.0)
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

    Assumes: no activation traffic, unlike a bias that is a separate operation.
    Units: tokens, outputs [1]; widths [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/unfused_block_tables.md, section 2.

    >>> float(biased(linear_ledger(1.0, 2.0, 3.0, 2.0, 2.0, 2.0, 1.0), 1.0, 3.0, 2.0, 2.0).weights)
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
    """Return the work of one rank of a SUMMA grid: Y = X W, panel by panel.

    forward  F = 2 T o I, bytes of T I + T o n activations and I o weights
    backward F = T I (2 o - 1) + I o (2 T - 1), bytes of 2 T I + 2 T o n activations, I o weights
    read and I o weight gradients written; T k activations are saved and h o weights stored.

    Assumes: T = ``tokens`` and o = ``outputs`` are this rank's, I = ``inputs`` is the whole inner
    dimension, of which the rank saves k = ``kept_inputs`` columns of X and h = ``held_inputs`` rows
    of W; Q19, the sum is written once per panel (n = ``panels``) and never read.
    Units: tokens, inputs, outputs, kept_inputs, held_inputs, panels [1]; widths [B] -> Operation in
    [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.2; van de Geijn and Watts 1997, SUMMA.

    >>> work = summa(1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0)
    >>> float(work.forward.flops), float(work.forward.traffic), float(work.kept)
    (12.0, 28.0, 2.0)
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
