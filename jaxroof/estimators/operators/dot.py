"""The dot product of two vectors, and operations that go element by element."""

import dataclasses

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.dtypes import WIDTHS, Widths
from jaxroof.estimators.operators.recipe import FEEDS, UNITS, Rates, Unit, example_system
from jaxroof.estimators.operators.report import ProductRoofline, product_roofline
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import matmul as products
from jaxroof.records import Number, quantity, record


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


def dot_step(inputs: DotInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of a dot product at the peak rates; its critical size is a length."""
    rate, bandwidth = UNITS[recipe.unit](inputs.system), FEEDS[recipe.feed](inputs.system)
    widths = inputs.widths
    work = products.dot(inputs.length, widths.input, widths.weight, widths.output)
    limit = products.small_intensity(work.row_flops, work.row_traffic)
    report = product_roofline(work, limit, rate, bandwidth)
    # There is no other size that the length could be small beside.
    return dataclasses.replace(report, critical_small=report.critical)


def elementwise_step(inputs: ElementwiseInputs, recipe: Rates) -> ProductRoofline:
    """Return the roofline of an element-by-element operation at the peak rates.

    Its intensity is the same at every length, so that no length is critical.
    """
    rate, bandwidth = UNITS[recipe.unit](inputs.system), FEEDS[recipe.feed](inputs.system)
    widths = inputs.widths
    work = products.elementwise(
        inputs.length, inputs.reads, inputs.work, widths.input, widths.output
    )
    limit = products.small_intensity(work.row_flops, work.row_traffic)
    return product_roofline(work, limit, rate, bandwidth)


dot = Estimator(
    step=dot_step,
    inputs=DotInputs,
    recipe=Rates(unit=Unit.VECTOR),
    name="dot",
    names={"system": named.labelled_system},
    example=lambda: DotInputs(system=example_system(), length=4096.0),
    about=QUESTIONS["dot"],
)
elementwise = Estimator(
    step=elementwise_step,
    inputs=ElementwiseInputs,
    recipe=Rates(unit=Unit.VECTOR),
    name="elementwise",
    names={"system": named.labelled_system},
    example=lambda: ElementwiseInputs(system=example_system(), length=4096.0),
    about=QUESTIONS["elementwise"],
)
