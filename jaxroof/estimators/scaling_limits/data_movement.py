"""How runs scale, what a device does, and the data that one layer or a whole batch moves.

Source: docs/models/linear_data_movement.md, parts A to C.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.catalog.system import System
from jaxroof.formulas.arithmetic import exp, larger, log, sqrt, where
from jaxroof.formulas.network import others
from jaxroof.records import Number, quantity, record

LARGEST_RUN = 1e45  # FLOP; larger values are assumed to be typing errors
STEEPEST = 2.0  # larger exponents are assumed to be typing errors, too
SEASON = 7776000.0  # 90 days in s
EXAMPLE_DEVICE = "h100-sxm5"  # of the published study
SLOW_DEVICE = "h100-sxm5-10gb"  # the same over a slow network
LARGEST_EXPONENT = 690.0  # of e, within the range of a float


@record
class Scaling:
    """How tokens, batch and depth scale with the FLOP of a training run."""

    tokens_per_parameter: Number = quantity(
        "1", "Training tokens of each parameter.", default=20.0, symbol="rho"
    )
    reference_flops: Number = quantity(
        "FLOP", "Run whose batch and depth are given.", default=1e25, most=1e45, symbol="C0"
    )
    reference_batch: Number = quantity(
        "token", "Tokens of one batch of that run.", default=4194304.0, symbol="B0"
    )
    reference_layers: Number = quantity(
        "1", "Residual blocks of that run.", default=120.0, symbol="L0"
    )
    batch_exponent: Number = quantity(
        "1",
        "Power of the FLOP that batches grow with.",
        default=1.0 / 6.0,
        zero=True,
        most=STEEPEST,
        symbol="beta",
    )
    depth_exponent: Number = quantity(
        "1",
        "Power of the FLOP that depth grows with.",
        default=1.0 / 6.0,
        zero=True,
        most=STEEPEST,
        symbol="lambda",
    )
    hidden_factor: Number = quantity(
        "1", "Hidden width of a block over its residual width.", default=5.0, symbol="h"
    )


@record
class DeviceInputs:
    """The machine and its number format."""

    system: System
    width: Number = quantity("B", "Bytes of one number.", default=2.0, symbol="w")
    rate_width: Number = quantity(
        "B", "Bytes of the numbers that the matrix rate is for.", default=2.0
    )
    pod_size: Number = quantity("1", "Accelerators taken as one device.", default=1.0)


@record
class RunInputs(DeviceInputs):
    """DeviceInputs with the scaling of runs and the cost of a reduction."""

    traffic_coefficient: Number = quantity(
        "1", "Words sent and received for each word that ranks add up.", default=2.0, symbol="kappa"
    )
    scaling: Scaling = Scaling()


@record
class TimedInputs(RunInputs):
    """RunInputs with the longest time of a run."""

    longest_run: Number = quantity("s", "Longest run that is allowed.", default=SEASON, symbol="T")
    step_latency: Number = quantity(
        "s", "Time of one step of communication.", default=0.0, zero=True, symbol="tau"
    )


class Sizes(NamedTuple):
    """The sizes of a training run: parameters, tokens, tokens per batch, blocks, width."""

    parameters: Number
    tokens: Number
    batch: Number
    layers: Number
    hidden: Number


def sizes_of(training_flops: Number, scaling: Scaling) -> Sizes:
    """Return the sizes of the best model for C FLOP of training, and of its batch.

    N = sqrt(C / (6 rho)), D = rho N, B = B0 (C / C0)^beta, L = L0 (C / C0)^lambda,
    d = sqrt(N / (2 h L))

    Assumes: two h d x d matrices per block hold all parameters; sizes are not rounded.
    """
    parameters = sqrt(training_flops / (6.0 * scaling.tokens_per_parameter))
    scale = training_flops / scaling.reference_flops
    layers = scaling.reference_layers * scale**scaling.depth_exponent
    return Sizes(
        parameters=parameters,
        tokens=scaling.tokens_per_parameter * parameters,
        batch=scaling.reference_batch * scale**scaling.batch_exponent,
        layers=layers,
        hidden=sqrt(parameters / (2.0 * scaling.hidden_factor * layers)),
    )


def latency_floor(layers: Number, latency: Number) -> Number:
    """Return a lower bound on the time of a batch on any hardware, 4 L tau.

    Assumes: each block waits for a reduction and a broadcast, forward and backward; tau is the time
    of one step of communication and cannot be hidden.
    """
    return 4.0 * layers * latency


def step_slack(sizes: Sizes, longest_run: Number) -> Number:
    """Return the time available for each communication step of a run, T / (D / B) / (4 L)."""
    return longest_run * sizes.batch / sizes.tokens / (4.0 * sizes.layers)


def latency_wall(inputs: TimedInputs) -> tuple[Number, Number]:
    """Return the largest run that latency allows, 0 without a limit, and whether there is one.

    C = C0 [T_max B0 / (4 L0 tau sqrt(rho C0 / 6))]^(1 / (1/2 + lambda - beta))

    Assumes: the root of (D / B) 4 L tau = T_max; there is none without latency, where batches grow
    faster than steps, or beyond the range of a float.
    """
    scaling, latency = inputs.scaling, inputs.step_latency
    growth = 0.5 + scaling.depth_exponent - scaling.batch_exponent
    waits = latency > 0.0
    tokens = sqrt(scaling.tokens_per_parameter * scaling.reference_flops / 6.0)
    steps = 4.0 * scaling.reference_layers * where(waits, latency, 1.0) * tokens
    room = log(inputs.longest_run * scaling.reference_batch / steps)
    exponent: Any = log(scaling.reference_flops) + room / where(growth > 0.0, growth, 1.0)
    exists = waits & (growth > 0.0) & (abs(exponent) < LARGEST_EXPONENT)
    return where(exists, exp(where(exists, exponent, 0.0)), 0.0), exists


class Rates(NamedTuple):
    """Sustained rates of a device: FLOP/s on one-byte numbers, bytes/s of memory and network."""

    arithmetic: Number
    memory: Number
    network: Number


def device_rates(inputs: DeviceInputs) -> Rates:
    """Return the sustained rates of a device of one or more accelerators, for one-byte numbers.

    The efficiency applies to arithmetic and memory, not to the network. A pod of accelerators has
    the network bandwidth of one.
    """
    system = inputs.system
    each = system.matrix_efficiency * inputs.pod_size
    return Rates(
        arithmetic=each * (system.matrix_flops * inputs.rate_width),
        memory=each * system.hbm_bandwidth,
        network=1.0 * system.network_bandwidth,
    )


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
