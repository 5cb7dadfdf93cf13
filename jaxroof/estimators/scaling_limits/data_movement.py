"""Data movement in the training of linear layers: one layer and microbatch, or a whole batch.

Source: docs/models/linear_data_movement.md, parts A and B.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.scaling_limits.inputs import (
    Rates,
    RunInputs,
    Scaling,
    Sizes,
    device_rates,
    latency_floor,
    sizes_of,
)
from jaxroof.formulas.arithmetic import larger
from jaxroof.formulas.network import others
from jaxroof.records import Number

UNLIMITED = 1e30  # s: no limit on the run


class Amounts(NamedTuple):
    """FLOP, words through memory and words through the network; or the seconds of each."""

    flops: Number
    memory: Number
    network: Number


class Degrees(NamedTuple):
    """The split of a batch: stages, replicas, both widths of a layer, microbatches."""

    pipeline: Number
    data: Number
    hidden_tensor: Number
    residual_tensor: Number
    microbatches: Number


class Phases(NamedTuple):
    """Seconds that each resource is busy in each of the four phases of a batch."""

    boundary: Amounts
    sustained_data: Amounts
    sustained: Amounts
    bubble: Amounts


def allreduce_words(words: Number, ranks: Number, coefficient: Number) -> Number:
    """Return the words that each rank sends and receives to sum an array, kappa n (p - 1) / p.

    Assumes: kappa = 3 where ranks exchange pieces and multicast the sums, 2 if the network adds.
    """
    return coefficient * words * others(ranks)


def layer_amounts(
    wide: Number, tall: Number, tokens: Number, ranks: tuple[Number, Number], coefficient: Number
) -> Amounts:
    """Return the work of one device for one layer and microbatch, forward and backward.

    flop = 6 a c x, net = R(c x, p_in) + R(a x, p_out), io = 4 a c + a x + net

    Assumes: a = ``wide`` and c = ``tall`` are the device's widths, in and out, which ``ranks``
    share, and x = ``tokens`` its tokens; weights are read twice, their gradient read and written,
    inputs read once more.
    """
    network = allreduce_words(tall * tokens, ranks[0], coefficient)
    network = network + allreduce_words(wide * tokens, ranks[1], coefficient)
    memory = 4.0 * wide * tall + wide * tokens + network
    return Amounts(6.0 * wide * tall * tokens, memory, network)


def busy(amounts: Amounts, rates: Rates, width: Number) -> Amounts:
    """Return the seconds that each resource is busy, w (flop / F, io / H, net / W).

    Assumes: the peak rate is inversely proportional to the width of a number.
    """
    return Amounts(*(amount * width / rate for amount, rate in zip(amounts, rates, strict=True)))


def longest(times: Amounts) -> Number:
    """Return the time of resources that work in parallel: the longest of their times."""
    return larger(larger(times.flops, times.memory), times.network)


class Problem(NamedTuple):
    """A training run, its limits and the device as plain numbers."""

    training_flops: Number
    rates: Rates
    width: Number
    coefficient: Number
    longest_run: Number
    latency: Number
    scaling: Scaling


def problem_of(
    inputs: RunInputs,
    training_flops: Number,
    longest_run: Number = UNLIMITED,
    latency: Number = 0.0,
) -> Problem:
    """Return the problem of a point from its inputs; by default without limit and latency."""
    rates, coefficient = device_rates(inputs), inputs.traffic_coefficient
    limits = (longest_run, latency, inputs.scaling)
    return Problem(training_flops, rates, inputs.width, coefficient, *limits)


def sizes(problem: Problem) -> Sizes:
    """Return the sizes of a point's model."""
    return sizes_of(problem.training_flops, problem.scaling)


def batch_phases(problem: Problem, split: Degrees) -> Phases:
    """Return the seconds that each resource is busy in the four phases of a batch.

    boundary l + g; sustained (J - 1)(M l + g) and (M - 1) l; bubble 2 (pp - 1) l, with l a layer
    and microbatch, g the sum of a layer's gradients, J = 2 L / pp layers a stage

    Assumes: each layer is d x h d with p_in = p_r, p_out = p_h; memory moves weights alone (4 P
    words, and those of the gradients' sum); pipeline hops are free, so stages interleave fully.
    """
    run, rates, width = sizes(problem), problem.rates, problem.width
    factor, microbatches = problem.scaling.hidden_factor, split.microbatches
    amounts = layer_amounts(
        run.hidden / split.residual_tensor,
        factor * run.hidden / split.hidden_tensor,
        run.batch / (microbatches * split.data),
        (split.residual_tensor, split.hidden_tensor),
        problem.coefficient,
    )
    weights = factor * run.hidden**2.0 / (split.hidden_tensor * split.residual_tensor)
    layer = busy(Amounts(amounts.flops, 4.0 * weights, amounts.network), rates, width)
    words = allreduce_words(weights, split.data, problem.coefficient)
    gradient = busy(Amounts(0.0, words, words), rates, width)
    stage = 2.0 * run.layers / split.pipeline

    def phase(layers: Number, gradients: Number) -> Amounts:
        pairs = zip(layer, gradient, strict=True)
        return Amounts(*(layers * one + gradients * summed for one, summed in pairs))

    return Phases(
        boundary=phase(1.0, 1.0),
        sustained_data=phase((stage - 1.0) * microbatches, stage - 1.0),
        sustained=phase(microbatches - 1.0, 0.0),
        bubble=phase(2.0 * (split.pipeline - 1.0), 0.0),
    )


def batch_seconds(problem: Problem, split: Degrees) -> Number:
    """Return the time of a batch without the latency floor: the longest of each phase, summed.

    Assumes: resources overlap within a phase, phases follow each other.
    """
    first, second, third, fourth = (longest(phase) for phase in batch_phases(problem, split))
    return first + second + third + fourth


def batch_limit(problem: Problem) -> Number:
    """Return the longest batch time for which the run meets its time limit."""
    found = sizes(problem)
    return problem.longest_run * found.batch / found.tokens


class Outcome(NamedTuple):
    """The outcome of a run under a split."""

    batch_time: Number
    train_time: Number
    devices: Number
    utilisation: Number  # of the sustained rate


def outcome(problem: Problem, split: Degrees) -> Outcome:
    """Return the outcome of a run under a split, including the latency floor; u = C / (T n F / w).

    Assumes: F is the rate on numbers of one byte, and w divides it.
    """
    found = sizes(problem)
    floor = latency_floor(found.layers, problem.latency)
    batch_time = larger(batch_seconds(problem, split), floor)
    train_time = found.tokens / found.batch * batch_time
    devices = split.pipeline * split.data * split.hidden_tensor * split.residual_tensor
    needed = train_time * devices * problem.rates.arithmetic
    share = problem.training_flops * problem.width / needed
    return Outcome(batch_time, train_time, devices, share)


def point_by_point(function: Callable[[Any], Any], asked: Any) -> Any:
    """Evaluate a function of scalars at every point of a tree of numbers that broadcast.

    The result at a point may be an array, whose dimensions come last. Points run one after the
    other, because in parallel they would compete for the cache. The results have no derivatives:
    a caller that differentiates must evaluate them again.
    """
    asked = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), asked)
    leaves, structure = jax.tree.flatten(jax.lax.stop_gradient(asked))
    shape = jnp.broadcast_shapes(*(leaf.shape for leaf in leaves))
    columns = [jnp.broadcast_to(leaf, shape).reshape(-1) for leaf in leaves]
    found = jax.lax.map(function, jax.tree.unflatten(structure, columns))
    return jax.tree.map(lambda column: column.reshape(*shape, *column.shape[1:]), found)
