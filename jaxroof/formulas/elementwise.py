"""Operations that touch each element by itself: bias, GeLU, dropout."""

from jaxroof.formulas.work import Operation, Work
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

    Assumes: the rows are read where the product before left them, so that they count once.
    Units: rows, width [1]; widths of elements [B] -> Operation in [FLOP], [B], [1].
    Source: fact sheet transformer_model, section 5.3.

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

    forward F = 8 m, 2 m elements moved; backward F = 13 m, 3 m moved; m kept.

    Assumes: the tanh form, its backward recomputed from the input that is kept.
    Units: elements [1], width [B] -> Operation in [FLOP], [B], [1].
    Source: fact sheet transformer_model, section 5.4.

    >>> float(gelu(10.0, 2.0).backward.flops)
    130.0
    """
    moved = activation_width * elements
    forward = Work(8.0 * elements, 2.0 * moved)
    return Operation(forward, Work(13.0 * elements, 3.0 * moved), moved, 0.0 * elements)


def dropout(elements: Number, activation_width: Number, mask_width: Number) -> Operation:
    """Return the work of dropout on ``elements`` elements.

    F = m and bytes of 2 m activations and m mask elements, both directions; the mask is kept.

    Assumes: the mask is stored, not drawn again.
    Units: elements [1], widths [B] -> Operation in [FLOP], [B], [1].
    Source: fact sheet transformer_model, section 5.5.

    >>> work = dropout(10.0, 2.0, 1.0)
    >>> float(work.forward.traffic), float(work.kept)
    (50.0, 10.0)
    """
    mask = mask_width * elements
    work = Work(1.0 * elements, 2.0 * activation_width * elements + mask)
    return Operation(work, work, mask, 0.0 * elements)
