"""Parameters on one rank, and the bytes of their weights, gradients and optimizer states."""

from jaxroof.formulas.arithmetic import ceiling, where
from jaxroof.records import Number


def padded_vocabulary(
    vocabulary: Number, tensor: Number, vocabulary_multiple: Number, extra_token: Number
) -> Number:
    """Return the entries of the vocabulary after padding, so that every shard is equal.

    V_p = ceil((V + extra) / (m t)) m t

    Assumes: m = 128 in Megatron; its NullTokenizer adds one entry before padding.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.2.

    >>> float(padded_vocabulary(128256.0, 8.0, 128.0, 1.0))
    129024.0
    """
    columns = vocabulary_multiple * tensor
    return ceiling(vocabulary + extra_token, columns) * columns


def layer_parameters(sharded: Number, replicated: Number, tensor: Number) -> Number:
    """Return the parameters of one layer on a rank, without its routed experts.

    N = sharded / t + replicated

    Assumes: norms, the router and the down-projections of latent attention are replicated.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, sections 2.1 and 4.1.

    >>> layer_parameters(8.0, 1.0, 4.0)
    3.0
    """
    return sharded / tensor + replicated


def expert_parameters(routed: Number, expert: Number, expert_tensor: Number) -> Number:
    """Return the parameters of one layer's routed experts on a rank.

    N_e = E (g + 1) h f_e / (epsilon tau)

    Assumes: whole experts on a rank, each cut by columns over the expert-tensor group.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, sections 2.1 and 4.1.

    >>> expert_parameters(64.0, 8.0, 2.0)
    4.0
    """
    return routed / (expert * expert_tensor)


def prediction_parameters(
    layer: Number, hidden: Number, norm: Number, tensor: Number, mtp_layers: Number
) -> Number:
    """Return the parameters of multi-token prediction on the last stage, without its embedding.

    N = K (layer + 2 h^2 / t + 3 norm)

    Assumes: each module is a layer of the last kind and a matrix that joins two hidden states.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, sections 2.2 and 4.3.

    >>> prediction_parameters(10.0, 2.0, 2.0, 4.0, 1.0)
    18.0
    """
    return mtp_layers * (layer + 2.0 * hidden * hidden / tensor + 3.0 * norm)


def replicas(data: Number, context: Number) -> Number:
    """Return the ranks that average the gradients of dense parameters and may shard their states.

    G_d = D C

    Assumes: a context rank holds every weight.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.1.

    >>> replicas(4.0, 2.0)
    8.0
    """
    return data * context


def expert_replicas(
    data: Number, tensor: Number, context: Number, expert: Number, expert_tensor: Number
) -> Number:
    """Return the ranks that average the gradients of one expert and may shard its states.

    G_e = D C t / (epsilon tau)

    Assumes: the same ranks as those of the dense parameters, regrouped.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.1.

    >>> expert_replicas(8.0, 2.0, 1.0, 8.0, 1.0)
    2.0
    """
    return data * context * tensor / (expert * expert_tensor)


def sharding_ranks(zero_stage: Number, sharded_from: Number, group: Number) -> Number:
    """Return how many ranks share one kind of state: G if the ZeRO stage shards it, else 1.

    Assumes: ZeRO 1 shards the optimizer, 2 also gradients, 3 also weights.
    Units: all [1] -> [1].
    Source: docs/models/parameters_flops_memory.md, section 4.4.

    >>> float(sharding_ranks(1.0, 1.0, 8.0)), float(sharding_ranks(1.0, 2.0, 8.0))
    (8.0, 1.0)
    """
    return where(zero_stage >= sharded_from, group, 1.0)


def state_memory(parameters: Number, width: Number, ranks: Number) -> Number:
    """Return the bytes of one kind of state on a rank.

    M = N w / G

    Assumes: equal shards.
    Units: width [B], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.4.

    >>> state_memory(8.0, 4.0, 2.0)
    16.0
    """
    return parameters * width / ranks


def optimizer_width(master_bytes: Number, moment_bytes: Number, offload: Number) -> Number:
    """Return the optimizer's bytes of one parameter in the accelerator's memory.

    w = (master + moments) (1 - phi)

    Assumes: a share phi lies in the memory of the host.
    Units: widths [B], offload [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, sections 4.4 and 6.

    >>> optimizer_width(4.0, 8.0, 0.5)
    6.0
    """
    return (master_bytes + moment_bytes) * (1.0 - offload)
