"""FLOP and bytes of one product: vectors, matrices, batches of matrices, any contraction."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxroof.records import Number


class Product(NamedTuple):
    """The cost of a product of ``rows`` equal rows: FLOP and bytes per row, and bytes moved once.

    ``extra_flops`` do not depend on the rows; ``loaded`` and ``written`` are bytes of all rows.
    """

    row_flops: Number
    row_traffic: Number
    fixed_traffic: Number
    extra_flops: Number
    flops: Number
    loaded: Number
    written: Number


def dot(length: Number, first_width: Number, second_width: Number, out_width: Number) -> Product:
    """Return the work of a dot product of two vectors of ``length`` elements.

    F = 2 N - 1,  bytes (s_x + s_w) N read and s_o written

    Assumes: N products and N - 1 sums; a row of the product is one element of both vectors.
    Units: length [1], widths [B] -> [FLOP], [B].
    Source: docs/models/op_rooflines.md, section 1.

    >>> work = dot(8.0, 2.0, 2.0, 2.0)
    >>> work.flops, work.loaded, work.written
    (15.0, 32.0, 2.0)
    """
    each = first_width + second_width
    return Product(2.0, each, out_width, -1.0, 2.0 * length - 1.0, length * each, 1.0 * out_width)


def elementwise(
    length: Number, reads: Number, work: Number, in_width: Number, out_width: Number
) -> Product:
    """Return the work of an operation on vectors element by element, such as a sum of two.

    F = w N,  bytes r s_x N read and s_o N written

    Assumes: ``reads`` vectors are read and one is written, ``work`` FLOP per element.
    Units: length, reads [1], work [FLOP], widths [B] -> [FLOP], [B].
    Source: docs/models/op_rooflines.md, section 9.

    >>> total = elementwise(8.0, 2.0, 1.0, 4.0, 4.0)
    >>> total.flops, total.loaded + total.written
    (8.0, 96.0)
    """
    read, written = reads * in_width, 1.0 * out_width
    return Product(
        work, read + written, 0.0 * length, 0.0, work * length, length * read, length * written
    )


def matmul(
    batch: Number,
    hidden: Number,
    feedforward: Number,
    experts: Number,
    active: Number,
    in_width: Number,
    weight_width: Number,
    out_width: Number,
) -> Product:
    """Return the work of [B, D] x [D, F], each row through ``active`` of ``experts`` weights.

    F = 2 k B D F,  bytes s_x k B D and s_w E D F read and s_o k B F written

    Assumes: every weight is read once for any batch; k = E = 1 is one dense matrix.
    Units: batch, hidden, feedforward, experts, active [1], widths [B] -> [FLOP], [B].
    Source: docs/models/op_rooflines.md, sections 1 and 4.

    >>> work = matmul(4.0, 2.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    >>> work.flops, work.loaded, work.written
    (48.0, 14.0, 12.0)
    """
    weights = weight_width * experts * hidden * feedforward
    row_in, row_out = in_width * active * hidden, out_width * active * feedforward
    row_flops = 2.0 * active * hidden * feedforward
    return Product(
        row_flops,
        row_in + row_out,
        weights,
        0.0,
        batch * row_flops,
        batch * row_in + weights,
        batch * row_out,
    )


def batched_matmul(
    batch: Number,
    hidden: Number,
    feedforward: Number,
    in_width: Number,
    weight_width: Number,
    out_width: Number,
) -> Product:
    """Return the work of [B, D] x [B, D, F], where every row has its own weight matrix.

    F = 2 B D F,  bytes B (s_x D + s_w D F) read and s_o B F written

    Assumes: rows share no data, so intensity does not depend on the batch.
    Units: batch, hidden, feedforward [1], widths [B] -> [FLOP], [B].
    Source: docs/models/op_rooflines.md, section 1.

    >>> work = batched_matmul(4.0, 2.0, 3.0, 1.0, 1.0, 1.0)
    >>> work.flops, work.loaded, work.written
    (48.0, 32.0, 12.0)
    """
    row_in = in_width * hidden + weight_width * hidden * feedforward
    row_out = out_width * feedforward
    row_flops = 2.0 * hidden * feedforward
    return Product(
        row_flops,
        row_in + row_out,
        0.0 * batch,
        0.0,
        batch * row_flops,
        batch * row_in,
        batch * row_out,
    )


def contraction_flops(sizes: Sequence[Number]) -> Number:
    """Return the arithmetic of any contraction of two arrays.

    F = 2 prod_i n_i over all indices, contracted or not

    Assumes: one product and one sum for each element of the space of all indices.
    Units: sizes of the indices [1] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 9.

    >>> contraction_flops([2.0, 3.0, 4.0])
    48.0
    """
    elements: Number = 1.0
    for size in sizes:
        elements = elements * size
    return 2.0 * elements


def small_intensity(row_flops: Number, traffic: Number) -> Number:
    """Return the limit of the intensity of a product if some of its bytes are negligible.

    I = f / a, with f FLOP and a bytes per unit of the growing size

    Assumes: the other bytes are negligible.
    Units: row_flops [FLOP], traffic [B] -> [FLOP/B].
    Source: docs/models/op_rooflines.md, section 1.

    >>> small_intensity(2.0, 4.0)
    0.5
    """
    return row_flops / traffic


def systolic_rate(
    rows: Number, depth: Number, columns: Number, cycles: Number, units: Number, clock: Number
) -> Number:
    """Return the arithmetic rate of systolic matrix units.

    C = u f 2 r d c / n, one product of [r, d] x [d, c] in n cycles

    Assumes: every unit is busy in every cycle.
    Units: rows, depth, columns, cycles, units [1], clock [1/s] -> [FLOP/s].
    Source: docs/models/op_rooflines.md, section 9.

    >>> systolic_rate(8.0, 128.0, 128.0, 8.0, 4.0, 1.5e9)
    196608000000000.0
    """
    return units * clock * 2.0 * rows * depth * columns / cycles
