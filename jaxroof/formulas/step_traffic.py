"""Bytes that one rank sends in a training step, and the share of a step that it idles.

They rank changes of a plan; nothing is assumed to overlap, so that they are upper bounds.
"""

from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


def ring_bytes(amount: Number, ranks: Number) -> Number:
    """Return the bytes that a rank sends to gather or to reduce and scatter an amount.

    S = (n - 1) / n A

    Assumes: a ring, or any way that sends as little; an exchange of all with all sends as much.
    Units: amount [B], ranks [1] -> [B].
    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 7.1.

    >>> float(ring_bytes(8.0, 4.0)), float(ring_bytes(8.0, 1.0))
    (6.0, 0.0)
    """
    return amount * (ranks - 1.0) / ranks


def tensor_traffic(state: Number, tensor: Number, sequence_parallel: Number) -> Number:
    """Return the bytes that a tensor rank sends for one layer and microbatch, both passes.

    S = 10 (t - 1) / t x with sequence parallelism, else 8 (t - 1) / t x

    Assumes: two blocks a layer; forward and backward gather and scatter once a block each, and
    sequence parallelism gathers the inputs of the two blocks again in the backward pass.
    Units: state (hidden states of a microbatch) [B], tensor, sequence_parallel [1] -> [B].
    Source: Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2.

    >>> float(tensor_traffic(8.0, 2.0, 0.0)), float(tensor_traffic(8.0, 2.0, 1.0))
    (32.0, 40.0)
    """
    return where(sequence_parallel > 0.0, 10.0, 8.0) * ring_bytes(state, tensor)


def expert_traffic(copies: Number, width: Number, expert: Number, expert_tensor: Number) -> Number:
    """Return the bytes that a rank sends for the experts of one layer and microbatch, both passes.

    S = 4 w ((e - 1) / e R / tau + (tau - 1) / tau R)

    Assumes: copies are exchanged to the experts and back in each pass; expert-tensor ranks gather
    and scatter all copies R of their group.
    Units: copies, expert, expert_tensor [1], width (of one copy) [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5, its count of routed copies.

    >>> float(expert_traffic(8.0, 2.0, 4.0, 1.0))
    48.0
    """
    apart = ring_bytes(copies / expert_tensor, expert)
    return 4.0 * width * (apart + ring_bytes(copies, expert_tensor))


def all_to_all_traffic(queries: Number, keys: Number, context: Number) -> Number:
    """Return the bytes that a context rank sends for one layer and microbatch, both passes.

    S = 2 (C - 1) / C (2 Q + K)

    Assumes: queries, outputs, keys and values are exchanged once in each pass.
    Units: queries (or outputs), keys (with values) [B], context [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 6.

    >>> float(all_to_all_traffic(4.0, 2.0, 2.0))
    10.0
    """
    return 2.0 * ring_bytes(2.0 * queries + keys, context)


def ring_traffic(keys: Number, context: Number) -> Number:
    """Return the bytes that a context rank sends for one layer and microbatch, both passes.

    S = 3 (C - 1) K

    Assumes: keys and values of every rank go round forward and backward, their gradients backward.
    Units: keys (with values, of one rank) [B], context [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 6.

    >>> float(ring_traffic(2.0, 4.0))
    18.0
    """
    return 3.0 * keys * (context - 1.0)


def gradient_traffic(
    parameters: Number,
    ranks: Number,
    microbatches: Number,
    zero_stage: Number,
    weight_bytes: Number,
    gradient_bytes: Number,
) -> Number:
    """Return the bytes that a data rank sends in a step for gradients and weights.

    S = (G - 1) / G N (n_s w_g + n_g w), n_s = 1 scatter, M from ZeRO stage 2 on; n_g = 1 gathering,
    2 M at stage 3

    Assumes: at stage 0 the sums of gradients are gathered instead of weights.
    Units: parameters (of a rank before sharding), ranks, microbatches, zero_stage [1],
    weight_bytes, gradient_bytes [B] -> [B].
    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), section 7;
    docs/models/parameters_flops_memory.md, section 7, zero_pipeline.

    >>> [float(gradient_traffic(10.0, 2.0, 4.0, stage, 2.0, 4.0)) for stage in (0.0, 1.0, 2.0, 3.0)]
    [40.0, 30.0, 90.0, 160.0]
    """
    scatters = where(zero_stage >= 2.0, microbatches, 1.0)
    gathers = where(zero_stage >= 3.0, 2.0 * microbatches, 1.0)
    width = where(zero_stage >= 1.0, weight_bytes, gradient_bytes)
    return ring_bytes(parameters, ranks) * (scatters * gradient_bytes + gathers * width)


def boundary_traffic(
    state: Number, shards: Number, pipeline: Number, microbatches: Number, interleave: Number
) -> Number:
    """Return the bytes that a stage sends to its neighbours in a step.

    S = 2 M r x / sigma, or 0 without a pipeline

    Assumes: a hidden state goes on, and its gradient back, for every chunk.
    Units: state [B], the others [1] -> [B].
    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 3.2.

    >>> float(boundary_traffic(8.0, 2.0, 4.0, 3.0, 1.0))
    24.0
    """
    return where(pipeline > 1.0, 2.0 * microbatches * interleave * state / shards, 0.0)


def host_traffic(
    states: Number, activations: Number, offload_optimizer: Number, offload_activations: Number
) -> Number:
    """Return the bytes that go over the link to the host in a step.

    S = phi_o G + 2 phi_a A

    Assumes: gradients go to the host and new weights come back, G; activations A go and come back.
    Units: states (gradients and weights of the shard), activations (of all microbatches) [B],
    offload_optimizer, offload_activations [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 6.

    >>> float(host_traffic(6.0, 10.0, 1.0, 0.5))
    16.0
    """
    return offload_optimizer * states + 2.0 * offload_activations * activations


def idle_share(
    pipeline: Number, microbatches: Number, interleave: Number, slowest: Number, bubble: Number
) -> Number:
    """Return the time that a rank idles over the time that it works.

    I = s (1 + c (p - 1) / (M r)) - 1

    Assumes: every stage waits for the slowest, s times the mean; c is 1 for GPipe and 1F1B.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> float(idle_share(4.0, 8.0, 1.0, 1.0, 1.0))
    0.375
    """
    return slowest * (1.0 + bubble * (pipeline - 1.0) / (microbatches * interleave)) - 1.0
