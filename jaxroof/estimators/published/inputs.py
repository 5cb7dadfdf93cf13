"""Inputs of a training step, how a bookkeeping counts, and structural choices, which are static."""

import dataclasses
import enum
from typing import Any

from jaxroof.catalog.models import Model
from jaxroof.catalog.system import System
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record


class Split(enum.Enum):
    """How the matrices of one layer are divided among accelerators."""

    ONE_D = "1d"  # one tensor-parallel group: split by columns, then by rows
    SUMMA = "summa"  # a grid of tensor x context ranks multiplies panel by panel
    CONTEXT = "context"  # as 1d, with each sequence also divided among the context ranks


class Attention(enum.Enum):
    """How the attention core is executed."""

    FUSED = "fused"  # one kernel; the backward pass recomputes the scores
    UNFUSED = "unfused"  # separate kernels for logits, softmax, dropout and weighted sum
    RECOMPUTE = "recompute"  # unfused; the backward pass recomputes the first three
    PANELS = "panels"  # unfused; products are computed panel by panel (summa only)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The structural choices of a training step.

    >>> Recipe().split
    <Split.ONE_D: '1d'>
    """

    split: Split = Split.ONE_D
    attention: Attention = Attention.FUSED


@record
class Precision:
    """Bytes per element, by type of array."""

    weight: Number = quantity("B", "Bytes of one weight.", default=2.0)
    activation: Number = quantity("B", "Bytes of one activation, stored or sent.", default=2.0)
    gradient: Number = quantity("B", "Bytes of one weight gradient, stored or sent.", default=2.0)
    optimizer: Number = quantity(
        "B", "Bytes of optimizer state for one weight: a master copy and two moments.", default=12.0
    )
    mask: Number = quantity("B", "Bytes of one element of a dropout mask.", default=1.0)


@record
class Booking:
    """What the unfused tables count where others count differently, on the same formulas.

    The training step's are 8, 13, 8, 2, 2, 1, 4 and 2, in this order.
    Source: docs/models/unfused_block_tables.md, section 7.
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


STUDY = Booking(
    activation_forward=8.0,  # GeLU in its tanh form: docs/models/transformer_model.md, section 5.4
    activation_backward=13.0,
    norm_backward=8.0,
    gradient_reads=2.0,
    pointwise_gradients=2.0,
    value_gradients=1.0,
    norm_gradients=4.0,
    norm_statistics=2.0,
)


def _fast(doc: str, words: str) -> Any:
    """Declare a share of a group in one fast domain."""
    return quantity("1", doc, whole=True, default=None, symbol=f"fast_{words}", words=words)


@record
class Plan:
    """A split of the work over accelerators, and the placement of each group in fast domains.

    The product of the degrees is the number of accelerators in use. A fast degree is the number
    of members of a group that share one fast domain. If no fast degree is given, the best
    placement is used. If some are given, the others are 1.
    """

    data: Number = quantity("1", "Data-parallel degree.", whole=True, symbol="dp", label="data")
    tensor: Number = quantity(
        "1", "Tensor-parallel degree.", whole=True, symbol="tp", label="tensor", headline=True
    )
    context: Number = quantity(
        "1",
        "Context-parallel degree; of summa, the second side of its grid.",
        whole=True,
        default=1.0,
        symbol="cp",
        label="context",
        headline=True,
    )
    pipeline: Number = quantity(
        "1",
        "Pipeline stages.",
        whole=True,
        most=BOUNDS["layers"],
        symbol="pp",
        label="pipeline",
        headline=True,
    )
    microbatch: Number = quantity(
        "sequence", "Sequences of one microbatch.", whole=True, symbol="mb", label="microbatch"
    )
    panels: Number = quantity("1", "Panels of a SUMMA product.", whole=True, default=1.0)
    fast_data: Number = _fast("Data ranks in one fast domain.", "dp")
    fast_tensor: Number = _fast("Tensor ranks in one fast domain.", "tp")
    fast_context: Number = _fast("Context ranks in one fast domain.", "cp")
    fast_pipeline: Number = _fast("Pipeline stages in one fast domain.", "pp")


@record
class Inputs:
    """A training step: the model, the machine, the number of accelerators, the batch and the plan.

    ``gpus`` is the number of accelerators for a search. A given plan uses the product of its
    degrees instead.
    """

    model: Model
    system: System
    precision: Precision = Precision()
    gpus: Number | None = quantity("1", "Accelerators to split over.", whole=True, default=None)
    global_batch: Number = quantity(
        "sequence", "Sequences of one optimizer step.", whole=True, default=4096.0
    )
    plan: Plan | None = None
