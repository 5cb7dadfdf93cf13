"""Arrays, contractions and matrix products over several devices.

Source: docs/models/op_rooflines.md, sections 3 and 9.
"""

import dataclasses
import enum
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers
from jaxroof.estimators.book.common import (
    FEEDS,
    ROUND,
    WIDTHS,
    Feed,
    Roofline,
    Widths,
    critical_rows,
    roofline,
    shared,
)
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number, quantity, record


class Over(enum.Enum):
    """The mesh axes that something is sharded over."""

    NONE = "none"
    X = "x"
    Y = "y"
    Z = "z"
    XY = "xy"
    XZ = "xz"
    YZ = "yz"
    XYZ = "xyz"


@dataclasses.dataclass(frozen=True)
class ArrayRecipe:
    """The axes that an array is sharded over, and where each device reads it from."""

    over: Over = Over.X
    feed: Feed = Feed.HBM


@dataclasses.dataclass(frozen=True)
class ContractionRecipe:
    """The axes that a contraction's work is sharded over."""

    over: Over = Over.X


@record
class Mesh:
    """A mesh of devices."""

    x: Number = quantity("1", "Devices along the first axis.", whole=True, default=1.0, symbol="X")
    y: Number = quantity("1", "Devices along the second axis.", whole=True, default=1.0, symbol="Y")
    z: Number = quantity("1", "Devices along the third axis.", whole=True, default=1.0, symbol="Z")


ONE_DEVICE = Mesh()


@record
class ArrayInputs:
    """An array of up to three dimensions, the mesh that it lies on, and the machine."""

    system: System
    rows: Number = quantity("1", "Elements of the first dimension.")
    columns: Number = quantity("1", "Elements of the second dimension.", default=1.0)
    depth: Number = quantity("1", "Elements of the third, or arrays of this kind.", default=1.0)
    width: Number = quantity("B", "Bytes of one element.", default=2.0)
    mesh: Mesh = ONE_DEVICE


@record
class Array:
    """Bytes of an array and of its shards."""

    bytes: Number = quantity("B", "The whole array, once.")
    shard_bytes: Number = quantity("B", "What each device holds.")
    mesh_bytes: Number = quantity("B", "What all devices hold together.")
    devices: Number = quantity("1", "Devices of the mesh.")
    shards: Number = quantity("1", "Parts that the array is cut into.")
    copies: Number = quantity("1", "Copies of the array on the mesh.")
    load_time: Number = quantity("s", "Time in which each device reads its shard.")


@record
class ContractionInputs:
    """The sizes of all indices of a contraction, each once, and the mesh that it is computed on."""

    first: Number = quantity("1", "Size of an index.")
    second: Number = quantity("1", "Size of an index.", default=1.0)
    third: Number = quantity("1", "Size of an index.", default=1.0)
    fourth: Number = quantity("1", "Size of an index.", default=1.0)
    fifth: Number = quantity("1", "Size of an index.", default=1.0)
    sixth: Number = quantity("1", "Size of an index.", default=1.0)
    seventh: Number = quantity("1", "Size of an index.", default=1.0)
    eighth: Number = quantity("1", "Size of an index.", default=1.0)
    mesh: Mesh = ONE_DEVICE


@record
class Contraction:
    """Arithmetic of a contraction, and how a mesh shares it."""

    flops: Number = quantity("FLOP", "Arithmetic, computed once.")
    device_flops: Number = quantity("FLOP", "Arithmetic of each device.")
    mesh_flops: Number = quantity(
        "FLOP", "Arithmetic of all devices: unused axes do the same again."
    )


def _spread(mesh: Mesh, over: Over) -> tuple[Number, Number]:
    """Return the devices of a mesh, and the shards over its axes in use: X Y Z, 1 if unused."""
    used = (over is not Over.NONE and axis in over.value for axis in "xyz")
    sizes = zip((mesh.x, mesh.y, mesh.z), used, strict=True)
    return mesh.x * mesh.y * mesh.z, math.prod(size if one else 1.0 for size, one in sizes)


@answers(ROUND, rows=2048.0, columns=8192.0, mesh=Mesh(x=4.0, y=8.0, z=2.0))
def array(inputs: ArrayInputs, recipe: ArrayRecipe) -> Array:
    """Return what a mesh holds of an array: as many copies as its unused axes have places."""
    devices, shards = _spread(inputs.mesh, recipe.over)
    whole = inputs.rows * inputs.columns * inputs.depth * inputs.width
    copies, shard = devices / shards, whole / shards
    return Array(
        bytes=whole,
        shard_bytes=shard,
        mesh_bytes=whole * copies,
        devices=devices,
        shards=shards,
        copies=copies,
        load_time=shard / FEEDS[recipe.feed](inputs.system),
    )


@answers(first=64.0, second=128.0, third=256.0, mesh=Mesh(x=4.0, y=2.0))
def contraction(inputs: ContractionInputs, recipe: ContractionRecipe) -> Contraction:
    """Return the arithmetic of a contraction on a mesh: 2 FLOP for each point of all indices."""
    i = inputs
    flops = 2.0 * i.first * i.second * i.third * i.fourth * i.fifth * i.sixth * i.seventh * i.eighth
    devices, shards = _spread(i.mesh, recipe.over)
    each = flops / shards
    return Contraction(flops=flops, device_flops=each, mesh_flops=each * devices)


# ---- A product: what each case must send, and which way is cheapest ------------------------------


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


# How sums of partial products end: whole on every device, or scattered over them.
Result = enum.Enum("Result", {"WHOLE": "whole", "SCATTERED": "scattered"})
# What joins the devices: axes of a torus, or the switch of a node.
Fabric = enum.Enum("Fabric", {"TORUS": "torus", "SWITCH": "switch"})


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


class Way(NamedTuple):
    """What one device does and sends, one way of doing it."""

    flops: Number
    traffic: Number
    message: Number
    link_time: Number


class Parts(NamedTuple):
    """What all cases share: the whole product's arithmetic and arrays, and the links."""

    flops: Number
    input: Number
    weight: Number
    output: Number
    shards: Number
    bandwidth: Number
    passes: float


def _gathered(parts: Parts, message: Number, flops: Number, traffic: Number) -> Way:
    sent = shared(parts.shards) * message
    return Way(flops, traffic, sent, sent / parts.bandwidth)


def _product_first(parts: Parts) -> Way:
    """Return the local product of shards of D, then the sum of its whole output."""
    sent = shared(parts.shards) * parts.output
    traffic = (parts.input + parts.weight) / parts.shards + parts.output
    return Way(parts.flops / parts.shards, traffic, sent, parts.passes * sent / parts.bandwidth)


def _free(parts: Parts) -> tuple[Way, Way]:
    traffic = (parts.input + parts.output) / parts.shards + parts.weight
    way = _gathered(parts, 0.0 * parts.weight, parts.flops / parts.shards, traffic)
    return way, way


def _reduced(parts: Parts, also: float) -> tuple[Way, Way]:
    """Return the ways of a split contraction; ``also``: the input would be gathered as well."""
    traffic = parts.input + parts.weight + parts.output
    message = parts.weight + also * parts.input
    return _gathered(parts, message, parts.flops, traffic), _product_first(parts)


def _outputs(parts: Parts) -> tuple[Way, Way]:
    flops, every = parts.flops / parts.shards, parts.input + parts.weight
    less = smaller(parts.input, parts.weight)
    more = every - less
    return (
        _gathered(parts, less, flops, less + (more + parts.output) / parts.shards),
        _gathered(parts, more, flops, more + (less + parts.output) / parts.shards),
    )


WAYS: dict[Case, Callable[[Parts], tuple[Way, Way]]] = {
    Case.FREE: _free,
    Case.ONE: functools.partial(_reduced, also=0.0),
    Case.BOTH: functools.partial(_reduced, also=1.0),
    Case.OUTPUTS: _outputs,
}
CHOICES: dict[Strategy, Callable[[Any], Any]] = {
    Strategy.GATHER: lambda wins: True,
    Strategy.PRODUCT: lambda wins: False,
    Strategy.CHEAPEST: lambda wins: wins,
}
PASSES = {Result.WHOLE: 2.0, Result.SCATTERED: 1.0}
FABRICS: dict[Fabric, Callable[[ShardedInputs], Number]] = {
    Fabric.TORUS: lambda i: i.axes * i.directions * i.system.link_bandwidth,
    Fabric.SWITCH: lambda i: i.system.fast_bandwidth,
}


class Turns(NamedTuple):
    """Sizes at which what binds, or what is cheapest, turns; 0 where there is none."""

    critical: Number  # of what is multiplied first, or has no choice
    hides: Any  # whether what is gathered first hides at all
    shards: Number
    batch: Number
    exchange: Number
    exchange_large: Number


def _free_turns(inputs: ShardedInputs, parts: Parts, rate: Number) -> Turns:
    none = 0.0 * rate
    return Turns(none, True, none, none, none, none)


def critical_contraction(
    out_width: Number, passes: Number, shards: Number, rate: Number, bandwidth: Number
) -> Number:
    """Return the contraction width from which multiplying first and reducing is compute bound.

    D* = p s_o X C / (2 W), at which 2 B D F / (X C) = p s_o B F / W

    Assumes: p = 2 passes for an all-reduce, 1 for a reduce-scatter; neither B nor F matters.
    """
    return passes * out_width * shards * rate / (2.0 * bandwidth)


def _reduced_turns(inputs: ShardedInputs, parts: Parts, rate: Number, also: float) -> Turns:
    """Return the turns of a split contraction; ``also``: the input would be gathered as well.

    Multiplying first hides its reduction up to X* = 2 D W / (p s_o C) shards; it beats gathering
    from D* = p s_o B F / max(2 B F W / C, g) on, g bytes gathered for every unit of D
    """
    i, widths = inputs, inputs.widths
    links = (rate, parts.bandwidth)
    row_bytes = also * widths.input * i.hidden
    gathered = widths.weight * i.feedforward + also * widths.input * i.batch
    row_flops, reduced = parts.flops / i.batch, parts.passes * widths.output
    outputs = i.batch * i.feedforward
    hidden_gather = 2.0 * outputs * parts.bandwidth / rate
    batch, _, hides = critical_rows(parts.weight, row_flops, row_bytes, *links)
    return Turns(
        critical_contraction(widths.output, parts.passes, i.shards, *links),
        hides,
        2.0 * i.hidden * parts.bandwidth / (reduced * rate),
        batch,
        reduced * outputs / larger(hidden_gather, gathered),
        critical_contraction(widths.output, parts.passes, 1.0, *links),
    )


def _gathered_turns(inputs: ShardedInputs, parts: Parts, rate: Number) -> Turns:
    """Return the turns of a gather of the smaller operand, in the size that it lacks."""
    i, widths, none = inputs, inputs.widths, 0.0 * rate
    first = parts.input < parts.weight
    width = where(first, widths.input, widths.weight)
    lacking = where(first, i.feedforward, i.batch)
    return Turns(
        critical_contraction(width, 1.0, i.shards, rate, parts.bandwidth),
        True,
        2.0 * lacking * parts.bandwidth / (width * rate),
        none,
        none,
        none,
    )


# A split contraction that is gathered first turns in the batch; all else as the case has it.
IN_BATCH = {(Strategy.GATHER, Case.ONE), (Strategy.GATHER, Case.BOTH)}
TURNS: dict[Case, Callable[[ShardedInputs, Parts, Number], Turns]] = {
    Case.FREE: _free_turns,
    Case.ONE: functools.partial(_reduced_turns, also=0.0),
    Case.BOTH: functools.partial(_reduced_turns, also=1.0),
    Case.OUTPUTS: _gathered_turns,
}


def _parts(inputs: ShardedInputs, recipe: ShardedRecipe) -> Parts:
    i, widths = inputs, inputs.widths
    return Parts(
        2.0 * i.batch * i.hidden * i.feedforward,
        widths.input * i.batch * i.hidden,
        widths.weight * i.hidden * i.feedforward,
        widths.output * i.batch * i.feedforward,
        i.shards,
        FABRICS[recipe.fabric](i),
        PASSES[recipe.result],
    )


@answers(ROUND, batch=512.0, hidden=8192.0, feedforward=4096.0, shards=4.0)
def sharded_matmul(inputs: ShardedInputs, recipe: ShardedRecipe) -> ShardedRoofline:
    """Return the roofline of one device of a sharded product, at the peak rates.

    Messages take V / W, or twice that for an all-reduce, as if the group were large; hops take no
    time (the estimator ``torus`` has both). A way takes the longer of arithmetic and messages.
    """
    rate = inputs.system.matrix_flops
    parts = _parts(inputs, recipe)
    ways = WAYS[recipe.case](parts)
    gather, product = (larger(way.flops / rate, way.link_time) for way in ways)
    wins = gather <= product
    chosen = CHOICES[recipe.strategy](wins)
    way = Way(*(where(chosen, a, b) for a, b in zip(*ways, strict=True)))
    turns = TURNS[recipe.case](inputs, parts, rate)
    in_batch = (recipe.strategy, recipe.case) in IN_BATCH
    size, exists = (turns.batch, turns.hides) if in_batch else (turns.critical, True)
    return ShardedRoofline(
        **roofline(*way, (rate, inputs.system.hbm_bandwidth), (size, size, exists)),
        gather_time=gather,
        product_time=product,
        cheapest_time=smaller(gather, product),
        gather_wins=wins,
        link_balance=rate / parts.bandwidth,
        critical_shards=turns.shards,
        critical_batch=turns.batch,
        exchange=turns.exchange,
        exchange_large=turns.exchange_large,
        message_ratio=parts.input / parts.output,
    )
