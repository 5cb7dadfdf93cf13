"""Bounds on batches and degrees beyond which the links limit a training step.

A layer is an MLP of two matrices, D x F and F x D. All bounds follow from one ratio, communication
time over arithmetic time, with the balance alpha = C / W of the FLOP rate and the link rate. Here
alpha is for elements of 2 bytes. For s bytes it is s / 2 times that, so a format with half the
bytes and twice the rate has the same bounds.
"""

from jaxroof.formulas.arithmetic import sqrt
from jaxroof.records import Number


def communication_share(
    feedforward: Number,
    data: Number,
    tensor: Number,
    tokens: Number,
    balance: Number,
    data_axes: Number,
    tensor_axes: Number,
) -> Number:
    """Return communication time / arithmetic time, for one layer with data and tensor parallelism.

    r = alpha (X / (M_X B) + Y / (M_Y F))

    Assumes: weights gathered over X (4 D F / Y bytes forward) and activations over Y (4 B D / X)
    take turns on their links, and both hide behind 4 B D F / (X Y) FLOP.
    Units: feedforward, data, tensor, axes [1], tokens [token], balance [FLOP/B] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(communication_share(4.0, 2.0, 1.0, 8.0, 2.0, 1.0, 1.0))
    1.0
    """
    return balance * (data / (data_axes * tokens) + tensor / (tensor_axes * feedforward))


def data_bound(
    balance: Number, data_axes: Number, stages: Number, experts: Number, active_experts: Number
) -> Number:
    """Return the tokens per accelerator from which its work hides the gathering of weights.

    b = alpha E / (k M_X p)

    Assumes: data parallel or sharded weights over many ranks; each of p pipeline stages gathers
    only its own share; all E experts move, k of them are active.
    Units: balance [FLOP/B], data_axes, stages, experts, active_experts [1] -> [token].
    Source: docs/models/op_rooflines.md, sections 4, 5 and 9.

    >>> float(data_bound(2550.0, 3.0, 1.0, 1.0, 1.0))
    850.0
    """
    return balance * experts / (active_experts * data_axes * stages)


def few_share(ranks: Number) -> Number:
    """Return the factor of a bound for few ranks, which do not send their own parts.

    s = (X - 1) / X

    Assumes: a gather or a scatter over X >= 1 ranks.
    Units: ranks [1] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(few_share(2.0))
    0.5
    """
    return (ranks - 1.0) / ranks


def tensor_bound(feedforward: Number, balance: Number, tensor_axes: Number) -> Number:
    """Return the tensor degree beyond which gathering activations limits the step.

    Y = M_Y F / alpha

    Assumes: as ``communication_share``, sharding the MLP alone.
    Units: feedforward, tensor_axes [1], balance [FLOP/B] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(tensor_bound(20400.0, 2550.0, 1.0))
    8.0
    """
    return tensor_axes * feedforward / balance


def tensor_feedforward(tensor: Number, balance: Number, tensor_axes: Number) -> Number:
    """Return the inner width of the MLP from which a tensor degree does not limit the step.

    F = alpha Y / M_Y

    Assumes: as ``tensor_bound``, whose inverse this is.
    Units: tensor, tensor_axes [1], balance [FLOP/B] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(tensor_feedforward(8.0, 2550.0, 1.0))
    20400.0
    """
    return balance * tensor / tensor_axes


def two_node_bound(feedforward: Number, balance: Number, node: Number) -> Number:
    """Return the tensor degree that one fast node and the links to a second allow together.

    Y = n + F / alpha

    Assumes: the node itself does not bind; alpha is that of the links between nodes.
    Units: feedforward, node [1], balance [FLOP/B] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(two_node_bound(24750.0, 2475.0, 8.0))
    18.0
    """
    return node + feedforward / balance


def expert_feedforward(balance: Number, node: Number) -> Number:
    """Return the inner width of experts from which expert parallelism scales over nodes.

    F = n alpha

    Assumes: alpha of the links between nodes, one of which n accelerators share.
    Units: balance [FLOP/B], node [1] -> [1].
    Source: docs/models/op_rooflines.md, sections 5 and 9.

    >>> float(expert_feedforward(2475.0, 8.0))
    19800.0
    """
    return node * balance


def mixed_data(
    feedforward: Number, tokens: Number, chips: Number, data_axes: Number, tensor_axes: Number
) -> Number:
    """Return the data degree that minimises communication, with tensor parallelism over the rest.

    X = sqrt((B / F) (M_X / M_Y) N)

    Assumes: as ``communication_share``, of which this is the minimum over X with X Y = N; not
    rounded, and not limited to 1 to N.
    Units: feedforward, chips, axes [1], tokens [token] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(mixed_data(1.0, 4.0, 8.0, 2.0, 1.0))
    8.0
    """
    return sqrt(tokens / feedforward * (data_axes / tensor_axes) * chips)


def mixed_bound(
    feedforward: Number, balance: Number, data_axes: Number, tensor_axes: Number
) -> Number:
    """Return the tokens per accelerator from which the best mixed split is compute bound.

    b = 4 alpha^2 / (M_X M_Y F)

    Assumes: as ``mixed_data``.
    Units: feedforward, axes [1], balance [FLOP/B] -> [token].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(mixed_bound(4.0, 2.0, 2.0, 1.0))
    2.0
    """
    return 4.0 * balance * balance / (data_axes * tensor_axes * feedforward)


def mixed_ratio(
    feedforward: Number,
    tokens: Number,
    chips: Number,
    balance: Number,
    data_axes: Number,
    tensor_axes: Number,
) -> Number:
    """Return arithmetic time / communication time, at the best mixed split.

    r = sqrt(B F M_X M_Y) / (2 alpha sqrt(N))

    Assumes: as ``mixed_data``.
    Units: feedforward, chips, axes [1], tokens [token], balance [FLOP/B] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(mixed_ratio(4.0, 4.0, 1.0, 2.0, 1.0, 1.0))
    1.0
    """
    spread = tokens * feedforward * data_axes * tensor_axes / chips
    return sqrt(spread) / (2.0 * balance)


def hop_time(
    hidden: Number,
    microbatches: Number,
    tokens: Number,
    activation_width: Number,
    bandwidth: Number,
) -> Number:
    """Return the time to send the activations of one microbatch to the next pipeline stage.

    t = s B D / (W M)

    Assumes: one link carries the hop; M microbatches of equal size.
    Units: hidden, microbatches [1], tokens [token], activation_width [B], bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(hop_time(4.0, 2.0, 8.0, 2.0, 16.0))
    2.0
    """
    return activation_width * tokens * hidden / (bandwidth * microbatches)


def hops(microbatches: Number, stages: Number) -> Number:
    """Return the number of consecutive hops in one pass of a pipeline.

    h = M + p - 2

    Assumes: M microbatches one after the other over p >= 2 stages.
    Units: microbatches, stages [1] -> [1].
    Source: docs/models/op_rooflines.md, section 5.

    >>> float(hops(4.0, 3.0))
    5.0
    """
    return microbatches + stages - 2.0
