"""Layer normalisation."""

from jaxroof.formulas.work import Operation, Work
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
    backward F = 8 z + 4 r (w - 1), bytes of 5 z activations and 2 w gradients; z kept.

    Assumes: whole rows on one accelerator; two statistics a row; gain and bias.
    Units: rows, width [1]; widths of elements [B] -> Operation in [FLOP], [B], [1].
    Source: fact sheet transformer_model, section 5.6.

    >>> work = layer_norm(2.0, 4.0, 2.0, 2.0, 2.0)
    >>> float(work.forward.flops), float(work.backward.flops), float(work.kept)
    (72.0, 88.0, 16.0)
    """
    elements = rows * width
    forward = Work(
        9.0 * elements,
        activation_width * (2.0 * elements + 2.0 * rows) + weight_width * 2.0 * width,
    )
    backward = Work(
        8.0 * elements + 4.0 * rows * (width - 1.0),
        activation_width * 5.0 * elements + gradient_width * 2.0 * width,
    )
    return Operation(forward, backward, activation_width * elements, 2.0 * width)
