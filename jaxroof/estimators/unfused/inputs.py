"""What the unfused blocks are computed from.

Source: docs/models/unfused_block_tables.md, sections 1, 2 and 7.
"""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.models import Model
from jaxroof.catalog.system import System
from jaxroof.estimators.published.inputs import Precision
from jaxroof.records import Number, quantity, record


@record
class Plan:
    """How one layer is split over accelerators; what does not divide is dropped."""

    tensor: Number = quantity("1", "Tensor-parallel degree.", whole=True, default=1.0, symbol="tp")
    sequence: Number = quantity(
        "1",
        "Sequence-parallel degree, of the variant that has one.",
        whole=True,
        default=1.0,
        symbol="sp",
    )


@record
class Booking:
    """What this convention counts where others count differently, on the same formulas.

    The training step's are 8, 13, 8, 2, 2, 1, 4 and 2, in this order.
    """

    activation_forward: Number = quantity(
        "FLOP", "Arithmetic of the nonlinearity on one element, forward.", default=1.0
    )
    activation_backward: Number = quantity(
        "FLOP", "Arithmetic of the nonlinearity on one element, backward.", default=1.0
    )
    norm_backward: Number = quantity(
        "FLOP", "Arithmetic of a normalisation on one element, backward.", default=9.0
    )
    gradient_reads: Number = quantity(
        "1", "Reads of the gradient of a product's result, by its two products.", default=1.0
    )
    pointwise_gradients: Number = quantity(
        "1", "Gradient arrays that a nonlinearity or a dropout moves.", default=1.0
    )
    value_gradients: Number = quantity(
        "1", "Gradient arrays of values that the weighted sum writes.", default=0.0, zero=True
    )
    norm_gradients: Number = quantity(
        "1", "Gradient arrays that a normalisation moves.", default=2.0
    )
    norm_statistics: Number = quantity(
        "1", "Statistics of a row that a normalisation moves.", default=0.0, zero=True
    )


@record
class Inputs:
    """The layers of a model on one accelerator of a machine, and how they are split.

    Of the machine, peak rates count alone: no efficiency, no launch, no latency.
    """

    model: Model
    system: System
    precision: Precision = Precision()
    booking: Booking = Booking()
    batch: Number = quantity("sequence", "Sequences of one batch.", whole=True, default=1.0)
    fast_links: Number = quantity(
        "1",
        "1 where a fast domain has fast links, 0 where every message takes the slow ones.",
        whole=True,
        zero=True,
        most=1,
        default=1.0,
    )
    plan: Plan = Plan()


def example() -> Inputs:
    """Return the reference case: GPT-3 on A100 at tensor 4."""
    machine = named.system("a100-unfused")
    return Inputs(model=named.model("gpt3"), system=machine, plan=Plan(tensor=4.0))
