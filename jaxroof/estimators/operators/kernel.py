"""A kernel of known arithmetic and bytes, whole or by the row of its batch."""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.recipe import (
    FEEDS,
    LINKS,
    UNITS,
    Link,
    LinkedRates,
    example_system,
)
from jaxroof.estimators.operators.report import Roofline, roofline
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import roofline as roof
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


def step(inputs: KernelInputs, recipe: LinkedRates) -> KernelRoofline:
    """Return the roofline of a kernel at the peak rates (no efficiency is applied)."""
    system, batch = inputs.system, inputs.batch
    rate, bandwidth = UNITS[recipe.unit](system), FEEDS[recipe.feed](system)
    message, link_time, link_balance = batch * inputs.message, 0.0 * batch, 0.0 * rate
    if recipe.link is not Link.NONE:
        link = LINKS[recipe.link](system)
        link_time, link_balance = message / link, roof.balance(rate, link)
    work = (inputs.flops, inputs.traffic, rate, bandwidth)
    common = roofline(
        batch * inputs.flops,
        inputs.weights + batch * inputs.traffic,
        message,
        link_time,
        rate,
        bandwidth,
        roof.critical_rows(inputs.weights, *work),
        roof.critical_rows_small(inputs.weights, _one(inputs.flops), rate, bandwidth),
        roof.rows_can_bind(*work),
    )
    ratio = common["upper"] / _one(common["lower"])
    return KernelRoofline(**common, bounds_ratio=ratio, link_balance=link_balance)


def _one(amount: Number) -> Number:
    """Return an amount, or 1 in place of nothing."""
    return where(amount > 0.0, amount, 1.0)


def example() -> KernelInputs:
    """Return a kernel that moves weights once."""
    return KernelInputs(
        system=example_system(), flops=1e8, traffic=2e4, message=1e3, weights=6e7, batch=100.0
    )


kernel = Estimator(
    step=step,
    inputs=KernelInputs,
    recipe=LinkedRates(),
    name="kernel",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["kernel"],
)
