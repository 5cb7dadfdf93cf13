"""Elementwise operations: bias, GeLU, dropout."""

from jaxroof.formulas.work import Ledger, Operation, Work
from jaxroof.records import Number


def bias(
    rows: Number,
    width: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
) -> Operation:
    """Return the work of adding one bias of ``width`` to ``rows`` rows.

    F = r w in both directions; bytes of r w activations and w weights (backward: gradients).

    Assumes: the rows stay where the previous product left them, so they count once.
    Units: rows, width [1]; widths of elements [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.3.

    >>> float(bias(4.0, 3.0, 2.0, 2.0, 2.0).forward.traffic)
    30.0
    """
    flops = rows * width
    moved = activation_width * flops
    forward = Work(flops, moved + weight_width * width)
    backward = Work(flops, moved + gradient_width * width)
    return Operation(forward, backward, 0.0 * moved, width)


def gelu(elements: Number, activation_width: Number) -> Operation:
    """Return the work of GeLU on ``elements`` elements.

    forward F = 8 m, 2 m elements moved; backward F = 13 m, 3 m moved; m saved.

    Assumes: the tanh form; the backward pass recomputes it from the saved input.
    Units: elements [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.4.

    >>> float(gelu(10.0, 2.0).backward.flops)
    130.0
    """
    return pointwise_ledger(elements, activation_width, 8.0, 13.0, 2.0).operation


def pointwise_ledger(
    elements: Number,
    activation_width: Number,
    flops_forward: Number,
    flops_backward: Number,
    gradient_arrays: Number,
) -> Ledger:
    """Return a nonlinearity on ``elements`` elements, array by array.

    F = f m and b m; m elements read, written and saved, g m gradients moved.

    Assumes: f = ``flops_forward`` and b = ``flops_backward`` an element; g = ``gradient_arrays`` is
    2 where both the gradient read and the one written count.
    Units: elements, arrays [1], FLOP an element [FLOP], width [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.4; docs/models/unfused_block_tables.md,
    sections 2 and 7.

    >>> float(pointwise_ledger(10.0, 2.0, 1.0, 1.0, 1.0).backward.traffic)
    40.0
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


def dropout(elements: Number, activation_width: Number, mask_width: Number) -> Operation:
    """Return the work of dropout on ``elements`` elements.

    F = m and bytes of 2 m activations and m mask elements, both directions; the mask is saved.

    Assumes: the mask is stored, not regenerated.
    Units: elements [1], widths [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.5.

    >>> work = dropout(10.0, 2.0, 1.0)
    >>> float(work.forward.traffic), float(work.kept)
    (50.0, 10.0)
    """
    return dropout_ledger(elements, activation_width, mask_width, 2.0).operation


def dropout_ledger(
    elements: Number, activation_width: Number, mask_width: Number, gradient_arrays: Number
) -> Ledger:
    """Return dropout on ``elements`` elements, array by array.

    F = m in both directions; m elements read and written, m of the mask read and saved, g m
    gradients moved.

    Assumes: the mask is stored, not regenerated; g = ``gradient_arrays`` as in pointwise_ledger.
    Units: elements, arrays [1], widths [B] -> Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.5; docs/models/unfused_block_tables.md,
    sections 2 and 7.

    >>> float(dropout_ledger(10.0, 2.0, 1.0, 1.0).backward.traffic)
    30.0
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
