"""What a sharded matrix product is asked with, and what it answers."""

import dataclasses
import enum
from typing import Any

from jaxroof.catalog.system import System
from jaxroof.estimators.operators.dtypes import WIDTHS, Widths
from jaxroof.estimators.operators.report import Roofline
from jaxroof.records import Number, quantity, record


class Case(enum.Enum):
    """Which dimensions of [B, D] x [D, F] are sharded over the same devices."""

    FREE = "free"  # the batch: nothing is sent
    ONE = "one"  # D of the weights alone
    BOTH = "both"  # D of input and weights
    OUTPUTS = "outputs"  # the batch of the input and F of the weights


class Strategy(enum.Enum):
    """What is done first. Of the case ``outputs``: the smaller operand, or the other one."""

    GATHER = "gather"  # gather what is sharded, then multiply
    PRODUCT = "product"  # multiply shards, then reduce the sums
    CHEAPEST = "cheapest"


class Result(enum.Enum):
    """How sums of partial products end: whole on every device, or scattered over them."""

    WHOLE = "whole"
    SCATTERED = "scattered"


class Fabric(enum.Enum):
    """What joins the devices: axes of a torus, or the switch of a node."""

    TORUS = "torus"
    SWITCH = "switch"


@dataclasses.dataclass(frozen=True)
class ShardedRecipe:
    """The case, the strategy, how sums end, and what joins the devices."""

    case: Case = Case.BOTH
    strategy: Strategy = Strategy.CHEAPEST
    result: Result = Result.WHOLE
    fabric: Fabric = Fabric.TORUS


@record
class ShardedInputs:
    """Shape and number formats of [B, D] x [D, F], how many devices share it, and the machine."""

    system: System
    batch: Number = quantity("1", "Rows of the input: tokens.", symbol="B")
    hidden: Number = quantity("1", "Width that is summed over.", symbol="D")
    feedforward: Number = quantity("1", "Width of the output.", symbol="F")
    shards: Number = quantity("1", "Devices that share the product.", whole=True, symbol="X")
    axes: Number = quantity("1", "Mesh axes that the devices lie on.", whole=True, default=1.0)
    directions: Number = quantity(
        "1",
        "Directions in which an axis sends at once; 1 if link_bandwidth counts both.",
        default=2.0,
    )
    widths: Widths = WIDTHS


@record
class ShardedRoofline(Roofline):
    """The roofline of one device by the strategy in use, and how the strategies compare.

    Its critical size is the contraction width D from which shards that are multiplied first hide
    the reduction; of the strategy ``gather``, the batch B from which the gather hides; of the case
    ``outputs``, the size that the gathered operand lacks. Times of strategies leave memory out.
    """

    gather_time: Number = quantity("s", "Time if what is sharded is gathered first.")
    product_time: Number = quantity("s", "Time if shards are multiplied first.")
    cheapest_time: Number = quantity("s", "The smaller of the two.")
    gather_wins: Any = quantity("1", "To gather first takes no longer.")
    link_balance: Number = quantity("FLOP/B", "Arithmetic per byte that balances the links.")
    critical_shards: Number = quantity(
        "1", "Shards up to which arithmetic takes longer than messages; 0 where none are sent."
    )
    critical_batch: Number = quantity(
        "1", "Batch from which what is gathered first hides behind arithmetic; 0 if none does."
    )
    exchange: Number = quantity(
        "1", "Contraction width from which multiplying first is faster; 0 where it is no choice."
    )
    exchange_large: Number = quantity("1", "The same where the batch is large.")
    message_ratio: Number = quantity(
        "1", "Bytes of gathering the input over those of scattering the output."
    )
