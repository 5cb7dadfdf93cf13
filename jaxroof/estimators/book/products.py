"""One operator on one accelerator: kernels, vectors and matrix products.

Source: docs/models/op_rooflines.md, sections 1, 4 and 9.
"""

import dataclasses

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers
from jaxroof.estimators.book.common import (
    LINKS,
    ROUND,
    WIDTHS,
    Link,
    LinkedRates,
    Product,
    ProductRoofline,
    Rates,
    Roofline,
    Unit,
    Widths,
    critical_rows,
    product_roofline,
    roofline,
)
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record


@record
class KernelInputs:
    """Work of a kernel, a row of its batch at a time, and the machine."""

    system: System
    flops: Number = quantity("FLOP", "Arithmetic of one row.", default=0.0, zero=True)
    traffic: Number = quantity("B", "Bytes that one row moves.", default=0.0, zero=True)
    message: Number = quantity("B", "Bytes that one row sends.", default=0.0, zero=True)
    weights: Number = quantity(
        "B", "Bytes that move once, however many rows there are.", default=0.0, zero=True
    )
    batch: Number = quantity("1", "Rows.", default=1.0, symbol="B")


@record
class KernelRoofline(Roofline):
    """The roofline of a kernel; its critical size is a batch."""

    bounds_ratio: Number = quantity("1", "Upper bound over lower bound.")
    link_balance: Number = quantity(
        "FLOP/B", "Arithmetic per byte at which the link is balanced; 0 without a link."
    )


@answers(ROUND, flops=1e8, traffic=2e4, message=1e3, weights=6e7, batch=100.0)
def kernel(inputs: KernelInputs, recipe: LinkedRates) -> KernelRoofline:
    """Return the roofline of a kernel at the peak rates (no efficiency is applied)."""
    system, batch, rates = inputs.system, inputs.batch, recipe.of(inputs.system)
    message, link_time, link_balance = batch * inputs.message, 0.0 * batch, 0.0 * rates[0]
    if recipe.link is not Link.NONE:
        link = LINKS[recipe.link](system)
        link_time, link_balance = message / link, rates[0] / link
    traffic = inputs.weights + batch * inputs.traffic
    critical = critical_rows(inputs.weights, inputs.flops, inputs.traffic, *rates)
    common = roofline(batch * inputs.flops, traffic, message, link_time, rates, critical)
    ratio = common["upper"] / where(common["lower"] > 0.0, common["lower"], 1.0)
    return KernelRoofline(**common, bounds_ratio=ratio, link_balance=link_balance)


# ---- Vectors ------------------------------------------------------------------------------------


@record
class DotInputs:
    """Two vectors, the second in the place of weights, and the machine."""

    system: System
    length: Number = quantity("1", "Elements of each vector.", symbol="N")
    widths: Widths = WIDTHS


@record
class ElementwiseInputs:
    """Vectors that make one vector, and the machine; the weights' width is not used."""

    system: System
    length: Number = quantity("1", "Elements of each vector.", symbol="N")
    reads: Number = quantity("1", "Vectors that are read.", default=2.0)
    work: Number = quantity("FLOP", "Arithmetic of one element.", default=1.0)
    widths: Widths = WIDTHS


@answers(ROUND, length=4096.0, recipe=Rates(unit=Unit.VECTOR))
def dot(inputs: DotInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of a dot product at the peak rates; its critical size is a length.

    F = 2 N - 1,  bytes (s_x + s_w) N read and s_o written
    """
    length, widths = inputs.length, inputs.widths
    each = widths.input + widths.weight
    once = widths.output
    work = Product(2.0, each, once, -1.0, 2.0 * length - 1.0, length * each, 1.0 * once)
    report = product_roofline(work, 2.0 / each, recipe.of(inputs.system))
    # There is no other size that the length could be small beside.
    return dataclasses.replace(report, critical_small=report.critical)


@answers(ROUND, length=4096.0, recipe=Rates(unit=Unit.VECTOR))
def elementwise(inputs: ElementwiseInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of an element-by-element operation, the same at every length.

    F = w N,  bytes r s_x N read and s_o N written
    """
    length, flops, widths = inputs.length, inputs.work, inputs.widths
    read, written = inputs.reads * widths.input, 1.0 * widths.output
    each, none = read + written, 0.0 * length
    work = Product(flops, each, none, 0.0, flops * length, length * read, length * written)
    return product_roofline(work, flops / each, recipe.of(inputs.system))


# ---- Matrices -----------------------------------------------------------------------------------


@record
class MatmulInputs:
    """Shape and number formats of [B, D] x [D, F], and the machine."""

    system: System
    batch: Number = quantity("1", "Rows of the input: tokens.", symbol="B")
    hidden: Number = quantity("1", "Width that is summed over.", symbol="D")
    feedforward: Number = quantity("1", "Width of the output.", symbol="F")
    experts: Number = quantity("1", "Weight matrices, all of which are read.", default=1.0)
    active: Number = quantity("1", "Weight matrices that a row goes through.", default=1.0)
    memory_speedup: Number = quantity(
        "1", "Times its bandwidth that the memory in use runs at.", default=1.0
    )
    widths: Widths = WIDTHS


@record
class BatchedMatmulInputs:
    """Shape and number formats of [B, D] x [B, D, F], and the machine."""

    system: System
    batch: Number = quantity("1", "Rows of the input, each with its own weights.", symbol="B")
    hidden: Number = quantity("1", "Width that is summed over.", symbol="D")
    feedforward: Number = quantity("1", "Width of the output.", symbol="F")
    widths: Widths = WIDTHS


@answers(ROUND, batch=256.0, hidden=4096.0, feedforward=16384.0)
def matmul(inputs: MatmulInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of a matrix product at the peak rates; its critical size is a batch.

    F = 2 k B D F,  bytes s_x k B D and s_w E D F read and s_o k B F written: every weight is read
    once for any batch, each row goes through k of E matrices
    """
    i, widths = inputs, inputs.widths
    rate, bandwidth = recipe.of(i.system)
    weights = widths.weight * i.experts * i.hidden * i.feedforward
    row_in, row_out = widths.input * i.active * i.hidden, widths.output * i.active * i.feedforward
    flops = 2.0 * i.active * i.hidden * i.feedforward
    read, written = i.batch * row_in + weights, i.batch * row_out
    work = Product(flops, row_in + row_out, weights, 0.0, i.batch * flops, read, written)
    return product_roofline(work, i.batch * flops / weights, (rate, bandwidth * i.memory_speedup))


@answers(ROUND, batch=64.0, hidden=1024.0, feedforward=4096.0)
def batched_matmul(inputs: BatchedMatmulInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of a product of one matrix a row, the same at every batch.

    F = 2 B D F,  bytes B (s_x D + s_w D F) read and s_o B F written
    """
    i, widths = inputs, inputs.widths
    row_in = widths.input * i.hidden + widths.weight * i.hidden * i.feedforward
    row_out = widths.output * i.feedforward
    flops, none = 2.0 * i.hidden * i.feedforward, 0.0 * i.batch
    read, written = i.batch * row_in, i.batch * row_out
    work = Product(flops, row_in + row_out, none, 0.0, i.batch * flops, read, written)
    return product_roofline(work, 2.0 / widths.weight, recipe.of(i.system))
