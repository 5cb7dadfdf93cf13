"""Decoding with weights sharded over many chips: along one width, or over a plane."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.defaults import both_ways, value_or
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import serving as costs
from jaxroof.formulas import training_bounds as bounds
from jaxroof.records import Number, quantity, record


@record
class ShardingInputs:
    """One MLP, its batch, and the accelerators that share its weights."""

    system: System
    bandwidth: Number = quantity(
        "B/s",
        "Bandwidth of a collective on one axis, both ways; the machine's if not given.",
        default=None,
    )
    balance: Number = quantity(
        "FLOP/B", "Peak rate over link bandwidth; the machine's if not given.", default=None
    )
    memory_balance: Number = quantity(
        "1", "Memory over link bandwidth; the machine's if not given.", default=None
    )
    batch: Number = quantity("sequence", "Sequences of one step.", symbol="B")
    hidden: Number = quantity("1", "Width of the residual stream.", symbol="D")
    feedforward: Number = quantity("1", "Width inside the MLP.", symbol="F")
    chips: Number = quantity("1", "Accelerators.", symbol="N")
    line_axes: Number = quantity("1", "Torus axes that a line runs over.", default=1.0)
    width: Number = quantity("B", "Bytes of one activation sent.", default=2.0)


@record
class Sharding:
    """Degrees that do not bind yet, and messages of a line and of a plane of weights."""

    memory_over_links: Number = quantity("1", "Memory bandwidth over link bandwidth.")
    tensor_limit: Number = quantity("1", "Tensor degree that arithmetic hides.", better="higher")
    memory_tensor_limit: Number = quantity(
        "1", "Tensor degree that the reading of weights hides.", better="higher"
    )
    product_time: Number = quantity("s", "Time of the product with one of the matrices.")
    line_time: Number = quantity("s", "Time of the messages of a line.")
    plane_time: Number = quantity("s", "Time of the messages of the best plane.")
    plane_rows: Number = quantity("1", "Rows of the best plane, that split the outer width.")
    plane_columns: Number = quantity("1", "Columns of the best plane, that split the inner width.")
    plane_coefficient: Number = quantity(
        "B", "Messages of the best plane, in batch times hidden over the root of the chips."
    )
    plane_from: Number = quantity("1", "Accelerators from which the plane sends less.")
    plane_wins: Any = quantity("1", "The plane sends less.")


def shard(inputs: ShardingInputs, recipe: None) -> Sharding:
    """Return how far weights shard, and the messages of a line and of a plane."""
    i = inputs
    bandwidth = value_or(i.bandwidth, lambda: both_ways(i.system))
    balance = value_or(i.balance, lambda: i.system.matrix_flops / bandwidth)
    memory = value_or(i.memory_balance, lambda: i.system.hbm_bandwidth / bandwidth)
    rows = costs.plane_rows(i.hidden, i.feedforward, i.chips)
    start = costs.plane_from(i.hidden, i.feedforward, i.line_axes)
    one = i.hidden * i.feedforward
    return Sharding(
        memory_over_links=memory,
        tensor_limit=bounds.tensor_bound(i.feedforward, balance * (i.width / 2.0), i.line_axes),
        memory_tensor_limit=costs.memory_tensor_bound(i.feedforward, i.batch, memory),
        product_time=costs.token_time(one, i.batch, i.chips, i.system.matrix_flops),
        line_time=costs.line_time(i.hidden, i.batch, i.line_axes, i.width, bandwidth),
        plane_time=costs.plane_time(i.hidden, i.feedforward, i.batch, i.chips, i.width, bandwidth),
        plane_rows=rows,
        plane_columns=i.chips / rows,
        plane_coefficient=costs.plane_coefficient(i.hidden, i.feedforward, i.width),
        plane_from=start,
        plane_wins=i.chips > start,
    )


weight_sharding = Estimator(
    step=shard,
    inputs=ShardingInputs,
    name="weight_sharding",
    names={"system": named.labelled_system},
    example=lambda: ShardingInputs(
        system=named.system("tpu-v5e"),
        batch=32.0,
        hidden=8192.0,
        feedforward=28672.0,
        chips=64.0,
        line_axes=2.0,
    ),
    about=QUESTIONS["weight_sharding"],
)
