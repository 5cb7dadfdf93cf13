"""One linear layer and microbatch, or a whole batch, under a given split or one grown greedily.

Source: docs/models/linear_data_movement.md, parts A and B.
"""

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.answers import answers, higher
from jaxroof.estimators.scaling_limits.data_movement import (
    EXAMPLE_DEVICE,
    LARGEST_RUN,
    Amounts,
    Degrees,
    DeviceInputs,
    Problem,
    RunInputs,
    allreduce_words,
    batch_phases,
    busy,
    device_rates,
    layer_amounts,
    longest,
    outcome,
    point_by_point,
    problem_of,
    sizes,
)
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number, quantity, record


@record
class LayerInputs(DeviceInputs):
    """The widths of a layer, its split and the number of tokens.

    Degrees are real numbers and need not divide the widths.
    """

    inputs: Number = quantity("1", "Width that enters the layer.", symbol="I")
    outputs: Number = quantity("1", "Width that leaves the layer.", symbol="O")
    tokens: Number = quantity("token", "Tokens of one microbatch, all replicas.", symbol="b")
    input_ranks: Number = quantity("1", "Devices that share the entering width.", default=1.0)
    output_ranks: Number = quantity("1", "Devices that share the leaving width.", default=1.0)
    data: Number = quantity("1", "Data-parallel degree.", default=1.0)
    traffic_coefficient: Number = quantity(
        "1", "Words sent and received for each word that ranks add up.", default=3.0, symbol="kappa"
    )


@record
class LayerReport:
    """Work, times and bounds of one layer, forward and backward, on one device."""

    flops: Number = quantity("FLOP", "Arithmetic of one device.")
    memory_words: Number = quantity("1", "Numbers through memory.")
    network_words: Number = quantity("1", "Numbers through the network.")
    intensity: Number = quantity("FLOP/B", "Arithmetic per byte of memory traffic.")
    network_intensity: Number = quantity(
        "FLOP/B", "Arithmetic per byte on the network; 0 where nothing is sent."
    )
    math_time: Number = quantity("s", "Time of the arithmetic.")
    memory_time: Number = quantity("s", "Time of the memory traffic.")
    network_time: Number = quantity("s", "Time of the communication.")
    layer_time: Number = quantity("s", "Time of the layer: everything overlaps.")
    gradient_words: Number = quantity("1", "Numbers of the sum of gradients at a batch's end.")
    end_time: Number = quantity("s", "Time of the sum of gradients at the end of a batch.")
    compute_bound: Any = quantity("1", "Arithmetic takes the longest.")
    memory_bound: Any = quantity("1", "Memory traffic takes the longest.")
    network_bound: Any = quantity("1", "Communication takes the longest.")


@answers(
    EXAMPLE_DEVICE,
    inputs=16384.0,
    outputs=81920.0,
    tokens=32768.0,
    input_ranks=8.0,
    output_ranks=40.0,
    data=32.0,
)
def linear_layer(inputs: LayerInputs, recipe: None) -> LayerReport:
    """Return the work and the times of one layer."""
    i, rates = inputs, device_rates(inputs)
    wide, tall = i.inputs / i.input_ranks, i.outputs / i.output_ranks
    ranks = (i.input_ranks, i.output_ranks)
    amounts = layer_amounts(wide, tall, i.tokens / i.data, ranks, i.traffic_coefficient)
    times = busy(amounts, rates, i.width)
    time = longest(times)
    words = allreduce_words(wide * tall, i.data, i.traffic_coefficient)
    gradient = busy(Amounts(0.0, words, words), rates, i.width)
    sent = amounts.network * i.width
    sends = sent > 0.0
    return LayerReport(
        flops=amounts.flops,
        memory_words=amounts.memory,
        network_words=amounts.network,
        intensity=amounts.flops / (amounts.memory * i.width),
        network_intensity=where(sends, amounts.flops / where(sends, sent, 1.0), 0.0),
        math_time=times.flops,
        memory_time=times.memory,
        network_time=times.network,
        layer_time=time,
        gradient_words=words,
        end_time=larger(gradient.memory, gradient.network),
        compute_bound=times.flops >= time,
        memory_bound=times.memory >= time,
        network_bound=times.network >= time,
    )


@record
class BatchInputs(RunInputs):
    """A training run, its split and the machine; degrees are real numbers."""

    training_flops: Number = quantity(
        "FLOP", "Arithmetic of the whole training run.", most=LARGEST_RUN, symbol="C"
    )
    pipeline: Number = quantity("1", "Pipeline stages.", default=1.0)
    data: Number = quantity("1", "Data-parallel degree.", default=1.0)
    hidden_tensor: Number = quantity("1", "Devices that share the hidden width.", default=1.0)
    residual_tensor: Number = quantity("1", "Devices that share the residual width.", default=1.0)
    microbatches: Number = quantity("1", "Microbatches of a batch.", default=1.0, symbol="M")


@record
class BatchReport:
    """Sizes of the model, busy times of the four phases, and times of the batch and the run."""

    parameters: Number = quantity("1", "Parameters of the model.")
    tokens: Number = quantity("token", "Tokens of the training run.")
    batch: Number = quantity("token", "Tokens of one batch.")
    layers: Number = quantity("1", "Residual blocks.")
    hidden: Number = quantity("1", "Residual width.")
    devices: Number = quantity("1", "Devices in use.")
    boundary_math: Number = quantity("s", "Arithmetic at the boundary of two batches.")
    boundary_memory: Number = quantity("s", "Memory traffic at the boundary of two batches.")
    boundary_network: Number = quantity("s", "Communication at the boundary of two batches.")
    reducing_math: Number = quantity("s", "Arithmetic of the layers that hide gradient sums.")
    reducing_memory: Number = quantity("s", "Memory traffic of the layers that hide gradient sums.")
    reducing_network: Number = quantity(
        "s", "Communication of the layers that hide gradient sums, those included."
    )
    sustained_math: Number = quantity("s", "Arithmetic of the layer that hides none.")
    sustained_memory: Number = quantity("s", "Memory traffic of the layer that hides none.")
    sustained_network: Number = quantity("s", "Communication of the layer that hides none.")
    bubble_math: Number = quantity("s", "Arithmetic that the first stage waits for.")
    bubble_memory: Number = quantity("s", "Memory traffic that the first stage waits for.")
    bubble_network: Number = quantity("s", "Communication that the first stage waits for.")
    batch_time: Number = quantity("s", "Time of one batch.")
    train_time: Number = quantity("s", "Time of the training run.")
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    relative_utilisation: Number = higher("1", "Share of the sustained rate in use.", headline=True)
    legal: Any = quantity("1", "No more stages than blocks or microbatches, no degree below 1.")


@answers(
    EXAMPLE_DEVICE,
    training_flops=1e27,
    pipeline=8.0,
    data=64.0,
    hidden_tensor=8.0,
    residual_tensor=2.0,
    microbatches=64.0,
)
def whole_batch(inputs: BatchInputs, recipe: None) -> BatchReport:
    """Return the phases and times of a batch under a given split."""
    i = inputs
    split = Degrees(i.pipeline, i.data, i.hidden_tensor, i.residual_tensor, i.microbatches)
    problem = problem_of(i, i.training_flops)
    run, found = sizes(problem), outcome(problem, split)
    whole = functools.reduce(operator.and_, (degree >= 1.0 for degree in split))
    fields = ("boundary", "reducing", "sustained", "bubble")
    resources = ("math", "memory", "network")
    seconds = {
        f"{phase}_{resource}": seconds
        for phase, times in zip(fields, batch_phases(problem, split), strict=True)
        for resource, seconds in zip(resources, times, strict=True)
    }
    return BatchReport(
        **run._asdict(),
        **seconds,
        devices=found.devices,
        batch_time=found.batch_time,
        train_time=found.train_time,
        utilisation=found.utilisation * i.system.matrix_efficiency,
        relative_utilisation=found.utilisation,
        legal=whole & (i.pipeline <= run.layers) & (i.pipeline <= i.microbatches),
    )


# ---- A split grows one degree at a time, always the one that reduces time most -------------------

MICROBATCHES = 23.0  # M stays below 2^23
BLOCK = 64  # microbatch counts that are compared at a time
TIE = 1e-12


@record
class GrowthInputs(RunInputs):
    """A training run, the number of growth steps of its split, and the machine."""

    training_flops: Number = quantity(
        "FLOP", "Arithmetic of the whole training run.", most=LARGEST_RUN, symbol="C"
    )
    steps: Number = quantity("1", "Steps of growth.", whole=True, zero=True, most=1e4, symbol="k")
    growth: Number = quantity(
        "1", "Growth of one degree in a step: 1 doubles it.", default=1.0, most=1e3, symbol="g"
    )


@record
class GrowthReport:
    """The split after the growth steps, and its utilisation."""

    devices: Number = quantity("1", "Devices in use.")
    pipeline: Number = quantity("1", "Pipeline stages.")
    data: Number = quantity("1", "Data-parallel degree.")
    hidden_tensor: Number = quantity("1", "Devices that share the hidden width.")
    residual_tensor: Number = quantity("1", "Devices that share the residual width.")
    microbatches: Number = quantity("1", "Microbatches of a batch.")
    batch_time: Number = quantity("s", "Time of one batch.")
    train_time: Number = quantity("s", "Time of the training run.")
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    relative_utilisation: Number = higher("1", "Share of the sustained rate in use.", headline=True)
    legal: Any = quantity("1", "No more stages than blocks or microbatches.")


class _Grown(NamedTuple):
    """The number of times each degree has grown, and the power of M in growth steps."""

    degrees: jax.Array  # [4]: stages, replicas, hidden, residual
    microbatches: jax.Array


@answers(EXAMPLE_DEVICE, training_flops=1e26, steps=10.0)
def growth(inputs: GrowthInputs, recipe: None) -> GrowthReport:
    """Return the result of greedy growth, point by point."""
    problem = problem_of(inputs, inputs.training_flops)
    asked = (problem, inputs.steps, inputs.growth)
    counts = point_by_point(_powers, asked)
    split = split_of(counts, inputs.growth)
    found = outcome(problem, split)
    layers = sizes(problem).layers
    return GrowthReport(
        devices=found.devices,
        **split._asdict(),
        batch_time=found.batch_time,
        train_time=found.train_time,
        utilisation=found.utilisation * inputs.system.matrix_efficiency,
        relative_utilisation=found.utilisation,
        legal=(split.pipeline <= layers) & (split.pipeline <= split.microbatches),
    )


def split_of(counts: Degrees, growth: Number) -> Degrees:
    """Return the split after the counted steps: (1 + growth)^n per degree, M = 2^(growth n)."""
    base = 1.0 + growth
    return Degrees(
        pipeline=base**counts.pipeline,
        data=base**counts.data,
        hidden_tensor=base**counts.hidden_tensor,
        residual_tensor=base**counts.residual_tensor,
        microbatches=2.0 ** (growth * counts.microbatches),
    )


def _powers(asked: tuple[Problem, Number, Number]) -> Degrees:
    """Return the growth count of each degree of one point, and the power of its M."""
    problem, steps, growth = asked

    def grow(number: jax.Array, grown: _Grown) -> _Grown:
        """Grow one degree, except in the first step, which only chooses M."""
        more = jnp.where(number > 0, jnp.eye(4), 0.0)
        return _cheapest(problem, growth, grown.degrees[None, :] + more)

    start = _Grown(jnp.zeros(4), jnp.float64(0.0))
    last = jax.lax.fori_loop(0, jnp.asarray(steps).astype(jnp.int64) + 1, grow, start)
    return _counts(last.degrees, last.microbatches)


def _counts(degrees: jax.Array, microbatches: jax.Array) -> Degrees:
    """Return the counts as Degrees, from an array with the degrees on its first dimension."""
    pipeline, data, hidden, residual = degrees
    return Degrees(pipeline, data, hidden, residual, microbatches)


def _cheapest(problem: Problem, growth: Number, options: jax.Array) -> _Grown:
    """Return the option [4 options, 4 degrees] and M of the least time, the first one at a tie.

    Two passes go over the microbatch counts block by block. The first pass finds the least time.
    The second finds the first option that ties with it, by M and then by the order of degrees.
    """
    limit = jnp.ceil(MICROBATCHES / growth)
    blocks = jnp.ceil(limit / BLOCK).astype(jnp.int64)

    def times(block: jax.Array) -> tuple[jax.Array, jax.Array]:
        powers = (BLOCK * block + jnp.arange(BLOCK)).astype(jnp.float64)[:, None]
        split = split_of(_counts(options.T[:, None, :], powers), growth)
        legal = (split.pipeline <= sizes(problem).layers) & (split.pipeline <= split.microbatches)
        legal = legal & (growth * powers < MICROBATCHES)
        return powers, jnp.where(legal, outcome(problem, split).train_time, jnp.inf)

    def least(block: jax.Array, best: Number) -> Number:
        return smaller(best, jnp.min(times(block)[1]))

    best = jax.lax.fori_loop(0, blocks, least, jnp.inf) * (1.0 + TIE)

    def missed(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return ~state[1] & (state[0] < blocks)

    def look(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        block, _, _ = state
        ties = (times(block)[1] <= best).reshape(-1)
        return block + 1, jnp.any(ties), jnp.argmax(ties)

    block, _, place = jax.lax.while_loop(
        missed, look, (jnp.int64(0), jnp.bool_(False), jnp.int64(0))
    )
    power = (BLOCK * (block - 1) + place // 4).astype(jnp.float64)
    return _Grown(options[place % 4], power)
