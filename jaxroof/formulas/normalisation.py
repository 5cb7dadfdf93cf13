"""Layer normalisation."""

from jaxroof.formulas.work import Ledger, Operation
from jaxroof.records import Number


def layer_norm(
    rows: Number,
    width: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
) -> Operation:
    """Return the work of layer normalisation of ``rows`` rows of ``width`` elements, z = r w.

    forward  F = 9 z, bytes of 2 z + 2 r activations and 2 w weights
    backward F = 8 z + 4 r (w - 1), bytes of 5 z activations and 2 w gradients; z saved.

    Assumes: whole rows on one accelerator; two statistics per row; gain and bias.
    Units: rows, width [1]; widths of elements [B] -> Operation in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.6.

    >>> work = layer_norm(2.0, 4.0, 2.0, 2.0, 2.0)
    >>> float(work.forward.flops), float(work.backward.flops), float(work.kept)
    (72.0, 88.0, 16.0)
    """
    widths = (weight_width, activation_width, gradient_width)
    return layer_norm_ledger(rows, width, *widths, 8.0, 4.0, 2.0).operation


def layer_norm_ledger(
    rows: Number,
    width: Number,
    weight_width: Number,
    activation_width: Number,
    gradient_width: Number,
    flops_backward: Number,
    gradient_arrays: Number,
    statistics: Number,
) -> Ledger:
    """Return layer normalisation of ``rows`` rows of ``width`` elements, array by array.

    forward  F = 9 z,  z read and written, s r statistics moved, 2 w weights read; z saved
    backward F = b z + 4 r (w - 1),  g z gradients moved, 2 w weight gradients written.

    Assumes: mean 2, variance 3, scale 2 and gain 2 FLOP per element. The convention sets
    b = ``flops_backward`` per element, g = ``gradient_arrays`` and s = ``statistics`` per row.
    Units: rows, width, arrays, statistics [1]; FLOP an element [FLOP]; widths of elements [B] ->
    Ledger in [FLOP], [B], [1].
    Source: docs/models/transformer_model.md, section 5.6; docs/models/unfused_block_tables.md,
    section 2.

    >>> ledger = layer_norm_ledger(2.0, 4.0, 2.0, 2.0, 2.0, 9.0, 2.0, 0.0)
    >>> float(ledger.flops_backward), float(ledger.backward.traffic)
    (96.0, 64.0)
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
