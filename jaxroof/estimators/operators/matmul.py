"""The matrix product of a layer, dense or of experts, and that of weights of each row's own."""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.dtypes import WIDTHS, Widths
from jaxroof.estimators.operators.recipe import FEEDS, UNITS, Rates, example_system
from jaxroof.estimators.operators.report import ProductRoofline, product_roofline
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import matmul as products
from jaxroof.records import Number, quantity, record


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


def matmul_step(inputs: MatmulInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of a matrix product at the peak rates; its critical size is a batch."""
    rate = UNITS[recipe.unit](inputs.system)
    bandwidth = FEEDS[recipe.feed](inputs.system) * inputs.memory_speedup
    widths = inputs.widths
    work = products.matmul(
        inputs.batch,
        inputs.hidden,
        inputs.feedforward,
        inputs.experts,
        inputs.active,
        widths.input,
        widths.weight,
        widths.output,
    )
    limit = products.small_intensity(inputs.batch * work.row_flops, work.fixed_traffic)
    return product_roofline(work, limit, rate, bandwidth)


def batched_matmul_step(inputs: BatchedMatmulInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of a product of one matrix a row, at the peak rates.

    Its intensity is the same at every batch, so that no batch is critical.
    """
    rate, bandwidth = UNITS[recipe.unit](inputs.system), FEEDS[recipe.feed](inputs.system)
    widths = inputs.widths
    shape = (inputs.batch, inputs.hidden, inputs.feedforward)
    work = products.batched_matmul(*shape, widths.input, widths.weight, widths.output)
    limit = products.small_intensity(2.0, widths.weight)
    return product_roofline(work, limit, rate, bandwidth)


matmul = Estimator(
    step=matmul_step,
    inputs=MatmulInputs,
    recipe=Rates(),
    name="matmul",
    names={"system": named.labelled_system},
    example=lambda: MatmulInputs(
        system=example_system(), batch=256.0, hidden=4096.0, feedforward=16384.0
    ),
    about=QUESTIONS["matmul"],
)
batched_matmul = Estimator(
    step=batched_matmul_step,
    inputs=BatchedMatmulInputs,
    recipe=Rates(),
    name="batched_matmul",
    names={"system": named.labelled_system},
    example=lambda: BatchedMatmulInputs(
        system=example_system(), batch=64.0, hidden=1024.0, feedforward=4096.0
    ),
    about=QUESTIONS["batched_matmul"],
)
