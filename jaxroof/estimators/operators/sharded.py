"""A matrix product over several devices: what each case must send, and which way is cheapest."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.catalog import lookup as named
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.recipe import example_system
from jaxroof.estimators.operators.report import roofline
from jaxroof.estimators.operators.sharded_inputs import (
    Case,
    Fabric,
    Result,
    ShardedInputs,
    ShardedRecipe,
    ShardedRoofline,
    Strategy,
)
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import roofline as roof
from jaxroof.formulas import sharding as costs
from jaxroof.formulas.arithmetic import smaller, where
from jaxroof.formulas.matmul import contraction_flops
from jaxroof.records import Number


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
    sent = costs.shared(parts.shards) * message
    return Way(flops, traffic, sent, costs.gather_time(sent, parts.bandwidth))


def _product_first(parts: Parts) -> Way:
    """Return the local product of shards of D, then the sum of its whole output."""
    sent = costs.shared(parts.shards) * parts.output
    traffic = (parts.input + parts.weight) / parts.shards + parts.output
    time = parts.passes * costs.gather_time(sent, parts.bandwidth)
    return Way(parts.flops / parts.shards, traffic, sent, time)


def _free(parts: Parts) -> tuple[Way, Way]:
    traffic = (parts.input + parts.output) / parts.shards + parts.weight
    way = _gathered(parts, 0.0 * parts.weight, parts.flops / parts.shards, traffic)
    return way, way


def _one(parts: Parts) -> tuple[Way, Way]:
    traffic = parts.input + parts.weight + parts.output
    return _gathered(parts, parts.weight, parts.flops, traffic), _product_first(parts)


def _both(parts: Parts) -> tuple[Way, Way]:
    traffic = parts.input + parts.weight + parts.output
    message = parts.input + parts.weight
    return _gathered(parts, message, parts.flops, traffic), _product_first(parts)


def _outputs(parts: Parts) -> tuple[Way, Way]:
    flops, every = parts.flops / parts.shards, parts.input + parts.weight
    less = costs.gather_message(parts.input, parts.weight)
    more = every - less
    return (
        _gathered(parts, less, flops, less + (more + parts.output) / parts.shards),
        _gathered(parts, more, flops, more + (less + parts.output) / parts.shards),
    )


WAYS: dict[Case, Callable[[Parts], tuple[Way, Way]]] = {
    Case.FREE: _free,
    Case.ONE: _one,
    Case.BOTH: _both,
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


def _reduced_turns(inputs: ShardedInputs, parts: Parts, rate: Number, also: float) -> Turns:
    """Return the turns of a split contraction; ``also``: the input would be gathered as well."""
    i, widths = inputs, inputs.widths
    links = (rate, parts.bandwidth)
    row_bytes = also * widths.input * i.hidden
    gathered = widths.weight * i.feedforward + also * widths.input * i.batch
    reduced = (widths.output, parts.passes)
    row_flops = parts.flops / i.batch
    return Turns(
        costs.critical_contraction(*reduced, i.shards, *links),
        roof.rows_can_bind(row_flops, row_bytes, *links),
        costs.critical_shards(i.hidden, *reduced, *links),
        roof.critical_rows(parts.weight, row_flops, row_bytes, *links),
        costs.exchange_width(i.batch, i.feedforward, gathered, *reduced, *links),
        costs.exchange_width_large(*reduced, *links),
    )


def _gathered_turns(inputs: ShardedInputs, parts: Parts, rate: Number) -> Turns:
    """Return the turns of a gather of the smaller operand, in the size that it lacks."""
    i, widths, none = inputs, inputs.widths, 0.0 * rate
    first = parts.input < parts.weight
    width = where(first, widths.input, widths.weight)
    lacking = where(first, i.feedforward, i.batch)
    return Turns(
        costs.critical_contraction(width, 1.0, i.shards, rate, parts.bandwidth),
        True,
        costs.critical_shards(lacking, width, 1.0, rate, parts.bandwidth),
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
        contraction_flops([i.batch, i.hidden, i.feedforward]),
        widths.input * i.batch * i.hidden,
        widths.weight * i.hidden * i.feedforward,
        widths.output * i.batch * i.feedforward,
        i.shards,
        FABRICS[recipe.fabric](i),
        PASSES[recipe.result],
    )


def step(inputs: ShardedInputs, recipe: ShardedRecipe) -> ShardedRoofline:
    """Return the roofline of one device of a sharded product, at the peak rates.

    Messages take V / W, or twice that for an all-reduce, as if the group were large; hops take no
    time (the estimator ``torus`` has both).
    """
    rate, memory = inputs.system.matrix_flops, inputs.system.hbm_bandwidth
    parts = _parts(inputs, recipe)
    ways = WAYS[recipe.case](parts)
    gather, product = (costs.strategy_time(way.flops / rate, way.link_time) for way in ways)
    wins = gather <= product
    chosen = CHOICES[recipe.strategy](wins)
    way = Way(*(where(chosen, a, b) for a, b in zip(*ways, strict=True)))
    turns = TURNS[recipe.case](inputs, parts, rate)
    in_batch = (recipe.strategy, recipe.case) in IN_BATCH
    size, exists = (turns.batch, turns.hides) if in_batch else (turns.critical, True)
    common = roofline(
        way.flops, way.traffic, way.message, way.link_time, rate, memory, size, size, exists
    )
    return ShardedRoofline(
        **common,
        gather_time=gather,
        product_time=product,
        cheapest_time=smaller(gather, product),
        gather_wins=wins,
        link_balance=roof.balance(rate, parts.bandwidth),
        critical_shards=turns.shards,
        critical_batch=turns.batch,
        exchange=turns.exchange,
        exchange_large=turns.exchange_large,
        message_ratio=costs.message_ratio(parts.input, parts.output),
    )


def example() -> ShardedInputs:
    """Return a product over four devices of one axis."""
    return ShardedInputs(
        system=example_system(), batch=512.0, hidden=8192.0, feedforward=4096.0, shards=4.0
    )


sharded_matmul = Estimator(
    step=step,
    inputs=ShardedInputs,
    recipe=ShardedRecipe(),
    name="sharded_matmul",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["sharded_matmul"],
)
