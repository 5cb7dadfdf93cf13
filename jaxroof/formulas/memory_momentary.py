"""Momentary memory of a step: a stage needs the largest of these, not their sum."""

from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number


def head_backward(
    tokens: Number,
    state: Number,
    padded_vocabulary: Number,
    tensor: Number,
    shards: Number,
    mtp_layers: Number,
    logit_bytes: Number,
) -> Number:
    """Return the bytes of the logits and hidden states at the start of the backward pass.

    M = (1 + K) Lambda T V_p / t + x + [sigma > 1] x / sigma + 2 x / sigma

    Assumes: 2 bytes a logit if the gradient overwrites the bf16 logits, 6 for a vocabulary-parallel
    loss in fp32, 10 for Megatron's compiled one, 14 for eager PyTorch; the final norm's input and
    output belong here.
    Units: tokens [token], state (x), logit_bytes [B], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.7.

    >>> float(head_backward(1.0, 8.0, 16.0, 4.0, 4.0, 0.0, 2.0))
    22.0
    """
    logits = (1.0 + mtp_layers) * logit_bytes * tokens * padded_vocabulary / tensor
    scattered = where(shards > 1.0, state / shards, 0.0)
    return logits + state + scattered + 2.0 * state / shards


def dense_backward(
    tokens: Number,
    state: Number,
    feedforward: Number,
    gated: Number,
    tensor: Number,
    shards: Number,
    activation_bytes: Number,
) -> Number:
    """Return the momentary bytes of the backward pass of a dense layer.

    M = x / sigma + max(g F, x' + F, x' + x - F), F = beta T f / t, x' = x if sigma > 1, else 0

    Assumes: g = 2 if gated, else 1; what is recomputed comes on top.
    Units: tokens [token], state (x), activation_bytes [B], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.7.

    >>> float(dense_backward(1.0, 8.0, 4.0, 1.0, 1.0, 1.0, 2.0))
    24.0
    """
    inner = activation_bytes * tokens * feedforward / tensor
    gathered = where(shards > 1.0, state, 0.0)
    ends = larger(gathered + inner, gathered + state - inner)
    return state / shards + larger((1.0 + gated) * inner, ends)


def routing_backward(
    routed: Number, hidden: Number, state: Number, shards: Number, activation_bytes: Number
) -> Number:
    """Return the momentary bytes of the backward pass of a layer of experts.

    M = x / sigma + 2 beta R h

    Assumes: what is recomputed comes on top.
    Units: routed [token], hidden, shards [1], state (x), activation_bytes [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.7.

    >>> routing_backward(2.0, 4.0, 8.0, 2.0, 2.0)
    36.0
    """
    return state / shards + 2.0 * activation_bytes * routed * hidden


def embedding_gradient(
    hidden: Number,
    padded_vocabulary: Number,
    tensor: Number,
    activation_bytes: Number,
    released: Number,
) -> Number:
    """Return the bytes of the embedding's gradient beyond those that its microbatch released.

    M = max(beta V_p h / t - released, 0)

    Assumes: it comes after the backward pass of the first chunk's layers.
    Units: hidden, padded_vocabulary, tensor [1], activation_bytes, released [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.7.

    >>> float(embedding_gradient(4.0, 8.0, 2.0, 2.0, 12.0))
    20.0
    """
    return larger(activation_bytes * padded_vocabulary * hidden / tensor - released, 0.0)
