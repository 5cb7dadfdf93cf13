"""Data movement in the training of linear layers: one layer and microbatch, or a whole batch."""

from typing import NamedTuple

from jaxroof.estimators.scaling_limits.training_scale import Sizes
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number


class Rates(NamedTuple):
    """Sustained rates of a device: FLOP/s on one-byte numbers, bytes/s of memory and network."""

    arithmetic: Number
    memory: Number
    network: Number


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
    """Return the words that each rank sends and receives in an all-reduce of an array.

    R(n, p) = kappa (p - 1) n / p

    Assumes: kappa = 3 where ranks exchange pieces and multicast the sums, 2 if the network adds.
    Source: docs/models/linear_data_movement.md, part A.
    """
    return coefficient * (ranks - 1.0) * words / ranks


def layer_amounts(
    inputs: Number,
    outputs: Number,
    tokens: Number,
    input_ranks: Number,
    output_ranks: Number,
    coefficient: Number,
) -> Amounts:
    """Return the work of one device for one layer and microbatch, forward and backward.

    flop = 6 a c x, net = R(c x, p_in) + R(a x, p_out), io = 4 a c + a x + net

    Assumes: a = d_in / p_in and c = d_out / p_out are the device's widths and x = ``tokens`` its
    tokens; weights are read twice, their gradient read and written, inputs read once more.
    Source: docs/models/linear_data_movement.md, part A.

    >>> [float(amount) for amount in layer_amounts(4.0, 6.0, 8.0, 2.0, 1.0, 2.0)]
    [576.0, 112.0, 48.0]
    """
    wide, tall = inputs / input_ranks, outputs / output_ranks
    network = allreduce_words(tall * tokens, input_ranks, coefficient) + allreduce_words(
        wide * tokens, output_ranks, coefficient
    )
    memory = 4.0 * wide * tall + wide * tokens + network
    return Amounts(6.0 * wide * tall * tokens, memory, network)


def busy(amounts: Amounts, rates: Rates, width: Number) -> Amounts:
    """Return the seconds that each resource is busy with amounts of FLOP and of words.

    t = w (flop / F, io / H, net / W)

    Assumes: the peak rate is inversely proportional to the width of a number.
    Source: docs/models/linear_data_movement.md, part A.
    """
    return Amounts(*(amount * width / rate for amount, rate in zip(amounts, rates, strict=True)))


def intensity(flops: Number, traffic: Number) -> Number:
    """Return the FLOP per byte moved, or 0 if no byte moves.

    I = F / Y

    Assumes: an operation that moves no bytes does not wait for any.
    Source: docs/models/op_rooflines.md, section 1.
    """
    moves = traffic > 0.0
    return where(moves, flops / where(moves, traffic, 1.0), 0.0)


def longest(times: Amounts) -> Number:
    """Return the time of resources that work in parallel: the longest of their times.

    t = max(t_flop, t_io, t_net)

    Assumes: arithmetic, memory and network overlap perfectly.
    Source: docs/models/linear_data_movement.md, part A.
    """
    return larger(larger(times.flops, times.memory), times.network)


def batch_phases(
    sizes: Sizes,
    degrees: Degrees,
    rates: Rates,
    width: Number,
    hidden_factor: Number,
    coefficient: Number,
) -> Phases:
    """Return the seconds that each resource is busy in the four phases of a batch.

    boundary l + g; sustained (J - 1)(M l + g) and (M - 1) l; bubble 2 (pp - 1) l, with l a layer
    and microbatch, g the sum of a layer's gradients, J = 2 L / pp layers a stage

    Assumes: each layer is d x h d with p_in = p_r, p_out = p_h; memory moves weights alone (4 P
    words, and those of the gradients' sum); pipeline hops are free, so stages interleave fully.
    Source: docs/models/linear_data_movement.md, part B.

    >>> sizes = Sizes(16.0, 64.0, 8.0, 2.0, 2.0)
    >>> whole = Degrees(1.0, 1.0, 1.0, 1.0, 1.0)
    >>> phases = batch_phases(sizes, whole, Rates(1.0, 1.0, 1.0), 1.0, 1.0, 2.0)
    >>> [float(longest(phase)) for phase in phases]
    [192.0, 576.0, 0.0, 0.0]
    """
    microbatches = degrees.microbatches
    tokens = sizes.batch / (microbatches * degrees.data)
    weights = hidden_factor * sizes.hidden**2.0 / (degrees.hidden_tensor * degrees.residual_tensor)
    amounts = layer_amounts(
        sizes.hidden,
        hidden_factor * sizes.hidden,
        tokens,
        degrees.residual_tensor,
        degrees.hidden_tensor,
        coefficient,
    )
    layer = busy(Amounts(amounts.flops, 4.0 * weights, amounts.network), rates, width)
    words = allreduce_words(weights, degrees.data, coefficient)
    gradient = busy(Amounts(0.0, words, words), rates, width)
    stage = 2.0 * sizes.layers / degrees.pipeline

    def phase(layers: Number, gradients: Number) -> Amounts:
        pairs = zip(layer, gradient, strict=True)
        return Amounts(*(layers * one + gradients * summed for one, summed in pairs))

    return Phases(
        boundary=phase(1.0, 1.0),
        sustained_data=phase((stage - 1.0) * microbatches, stage - 1.0),
        sustained=phase(microbatches - 1.0, 0.0),
        bubble=phase(2.0 * (degrees.pipeline - 1.0), 0.0),
    )


def phases_time(phases: Phases) -> Number:
    """Return the time of a batch: each phase takes as long as its busiest resource.

    T = sum over the four phases of max(flop, io, net)

    Assumes: resources overlap within a phase, phases follow each other.
    Source: docs/models/linear_data_movement.md, part B.
    """
    first, second, third, fourth = (longest(phase) for phase in phases)
    return first + second + third + fourth


def utilisation(
    training_flops: Number, train_time: Number, devices: Number, arithmetic: Number, width: Number
) -> Number:
    """Return the utilisation of a run: the share of a rate that it uses.

    u = C / (T n F / w)

    Assumes: F is the rate on numbers of one byte, and w divides it.
    Source: docs/models/linear_data_movement.md, part B.
    """
    return training_flops * width / (train_time * devices * arithmetic)
