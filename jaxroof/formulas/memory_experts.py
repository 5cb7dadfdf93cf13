"""Routed tokens on one rank, and what a layer of experts keeps of them."""

from jaxroof.formulas.arithmetic import ceiling, larger, where
from jaxroof.records import Number


def routed_tokens(
    sequence: Number,
    tensor: Number,
    context: Number,
    microbatch: Number,
    experts: Number,
    active_experts: Number,
    expert_tensor: Number,
    routing_imbalance: Number,
    capacity_factor: Number,
) -> Number:
    """Return the copies of tokens that a rank's experts get in one layer.

    own = b s / (C t)
    dropless: R = own k imbalance tau
    with a capacity: R = E ceil(own k capacity / E) tau

    Assumes: imbalance is that of the fullest rank; capacity_factor = 0 says dropless, else every
    expert is padded to its capacity. The expert degree plays no part: each of epsilon ranks sends
    k copies of its tokens and receives as many.
    Units: sequence [token], microbatch [sequence], the others [1] -> [token].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> float(routed_tokens(8.0, 2.0, 1.0, 1.0, 8.0, 2.0, 1.0, 1.5, 0.0))
    12.0
    >>> float(routed_tokens(8.0, 2.0, 1.0, 1.0, 6.0, 2.0, 1.0, 1.0, 1.0))
    12.0
    """
    sent = microbatch * sequence / (context * tensor) * active_experts
    some = larger(experts, 1.0)  # finite without experts
    padded = experts * ceiling(sent * capacity_factor, some) * expert_tensor
    dropless = sent * routing_imbalance * expert_tensor
    return where(capacity_factor > 0.0, padded, dropless)


def routed_inputs(
    routed: Number,
    hidden: Number,
    expert_feedforward: Number,
    gated: Number,
    expert_tensor: Number,
    nonlinearity_bytes: Number,
    linear_input_bytes: Number,
) -> Number:
    """Return the bytes of the inputs of the experts' first product and of their nonlinearity.

    M = R (lambda h + nu g f_e / tau), g = 2 if gated, else 1

    Assumes: only the sorted input of the first product is kept from the permutation.
    Units: routed [token], sizes and degrees [1], widths [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> routed_inputs(2.0, 4.0, 8.0, 1.0, 2.0, 2.0, 1.0)
    40.0
    """
    inner = nonlinearity_bytes * (1.0 + gated) * expert_feedforward / expert_tensor
    return routed * (linear_input_bytes * hidden + inner)


def routed_outputs(
    routed: Number, expert_feedforward: Number, expert_tensor: Number, width: Number
) -> Number:
    """Return the bytes of the outputs of the experts' nonlinearity.

    M = w R f_e / tau, w = lambda, and beta more if the router's probability multiplies apart

    Assumes: the input of the second product; that of a separate multiplication is kept too.
    Units: routed [token], expert_feedforward, expert_tensor [1], width [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> routed_outputs(2.0, 8.0, 2.0, 2.0)
    16.0
    """
    return width * routed * expert_feedforward / expert_tensor


def router_activations(tokens: Number, routed: Number, experts: Number, shards: Number) -> Number:
    """Return the bytes of the router's scores and maps.

    M = 22 (T / sigma) E + 4 R

    Assumes: 8 bytes a token and expert for the row map of the fused permutation, 14 for scores,
    maps and masks.
    Units: tokens, routed [token], experts, shards [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> router_activations(2.0, 3.0, 4.0, 2.0)
    100.0
    """
    return 22.0 * tokens / shards * experts + 4.0 * routed


def expert_exchange(
    routed: Number,
    hidden: Number,
    state: Number,
    shards: Number,
    routed_copies: Number,
    activation_bytes: Number,
) -> Number:
    """Return the momentary bytes at the end of the experts' forward pass.

    M = copies beta R h + 2 x / sigma

    Assumes: 4 copies are alive in Megatron's all-to-all dispatcher: permuted, exchanged, the
    sorted output and the returned one; 2 is the least.
    Units: routed [token], hidden [1], state (x) [B], shards, routed_copies [1], activation_bytes
    [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.7.

    >>> expert_exchange(2.0, 4.0, 8.0, 2.0, 4.0, 2.0)
    72.0
    """
    return routed_copies * activation_bytes * routed * hidden + 2.0 * state / shards
