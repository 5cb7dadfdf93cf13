"""Bytes that a layer saves for its backward pass, on one rank for one microbatch.

Letters: T tokens of a microbatch on a context rank, x bytes of a hidden state, sigma ranks that
share the tokens between products, R routed tokens on a rank; beta, lambda and nu bytes of an
activation, of the saved input of a product and of that of a nonlinearity; g = 2 with a gate, else 1

Source: docs/models/parameters_flops_memory.md, sections 1, 4.5 to 4.7.
"""

from jaxroof.formulas.arithmetic import ceiling, larger, where
from jaxroof.records import Number


def microbatch_tokens(sequence: Number, context: Number, microbatch: Number) -> Number:
    """Return the tokens of one microbatch on a context rank, T = b s / C."""
    return microbatch * sequence / context


def hidden_state(tokens: Number, hidden: Number) -> Number:
    """Return the bytes of one hidden state of 2-byte numbers, x = 2 T h."""
    return 2.0 * tokens * hidden


def norm_activations(tokens: Number, hidden: Number, shards: Number, width: Number) -> Number:
    """Return the bytes of both norms' inputs, or of both their outputs.

    M = 2 w T h / sigma, w = beta for the inputs, lambda for the outputs

    Assumes: the inputs are the layer's input and the middle residual; outputs are kept sharded
    and gathered again in backward.
    """
    return 2.0 * width * tokens * hidden / shards


def latent_activations(
    tokens: Number,
    q_rank: Number,
    kv_rank: Number,
    rope_size: Number,
    shards: Number,
    activation_bytes: Number,
    linear_input_bytes: Number,
) -> Number:
    """Return the bytes of both latents of MLA, before and after their norms, and the rotated key.

    M = (beta + lambda) T (q + c) / sigma + beta T e

    Assumes: the rotated key is whole on every tensor rank.
    """
    latents = (activation_bytes + linear_input_bytes) * tokens * (q_rank + kv_rank) / shards
    return latents + activation_bytes * tokens * rope_size


def qkv_activations(
    tokens: Number,
    heads: Number,
    kv_heads: Number,
    head_size: Number,
    qk_norm: Number,
    tensor: Number,
    activation_bytes: Number,
) -> Number:
    """Return the bytes of queries, keys and values.

    M = beta T (a + 2 kappa + [query/key norms] (a + kappa)) d / t

    Assumes: query/key norms (qk_norm = 1, else 0) keep their input as well.
    """
    rows = heads + 2.0 * kv_heads + qk_norm * (heads + kv_heads)
    return activation_bytes * tokens * rows * head_size / tensor


def latent_qkv_activations(
    tokens: Number,
    heads: Number,
    nope_size: Number,
    rope_size: Number,
    value_size: Number,
    tensor: Number,
    activation_bytes: Number,
) -> Number:
    """Return the bytes of queries, keys and values of MLA, M = beta T a (2 (n + e) + v) / t.

    Assumes: keys and values are expanded from the latent for every head.
    """
    width = 2.0 * (nope_size + rope_size) + value_size
    return activation_bytes * tokens * heads * width / tensor


def attention_output(
    tokens: Number, heads: Number, value_size: Number, tensor: Number, width: Number
) -> Number:
    """Return the bytes of the attention's output, the input of the output projection.

    M = w T a v / t, w = lambda, and beta more where a second copy is kept

    Assumes: v = d without latent attention. An all-to-all exchange of the context, or a
    batch-first kernel, keeps the second copy (section 10.3).
    """
    return width * tokens * heads * value_size / tensor


def flash_statistics(tokens: Number, heads: Number, tensor: Number) -> Number:
    """Return the bytes that a fused attention keeps instead of its scores, 4 T a / t.

    Assumes: the logarithm of the sum of exponentials, in fp32.
    """
    return 4.0 * tokens * heads / tensor


def score_activations(
    heads: Number,
    sequence: Number,
    tensor: Number,
    context: Number,
    microbatch: Number,
    attention_dropout: Number,
    activation_bytes: Number,
) -> Number:
    """Return the bytes of the scores that an unfused attention keeps.

    M = (beta + [dropout] (1 + beta)) b a s^2 / (t C)

    Assumes: dropout (1, else 0) keeps a mask of 1 byte and its output.
    """
    width = activation_bytes + attention_dropout * (1.0 + activation_bytes)
    return width * microbatch * heads * sequence * sequence / (tensor * context)


def dropout_masks(tokens: Number, hidden: Number, shards: Number, hidden_dropout: Number) -> Number:
    """Return the bytes of both dropout masks of a layer, 2 T h / sigma with dropout, else 0."""
    return hidden_dropout * 2.0 * tokens * hidden / shards


def mlp_activations(
    tokens: Number,
    feedforward: Number,
    gates: Number,
    tensor: Number,
    nonlinearity_bytes: Number,
    linear_input_bytes: Number,
) -> Number:
    """Return the bytes inside a dense MLP, or inside the shared experts.

    M = T f / t (nu g + lambda)

    Assumes: the input of the nonlinearity and that of the second product; the input of the MLP
    is a norm's output.
    """
    width = nonlinearity_bytes * gates + linear_input_bytes
    return tokens * feedforward / tensor * width


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

    own = b s / (C t); dropless R = own k imbalance tau, with a capacity R = E ceil(own k capacity /
    E) tau

    Assumes: imbalance is that of the fullest rank; capacity_factor = 0 says dropless, else every
    expert is padded to its capacity. The expert degree plays no part: each of epsilon ranks sends
    k copies of its tokens and receives as many.

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
    gates: Number,
    expert_tensor: Number,
    nonlinearity_bytes: Number,
    linear_input_bytes: Number,
) -> Number:
    """Return the bytes of the inputs of the experts' first product and of their nonlinearity.

    M = R (lambda h + nu g f_e / tau)

    Assumes: only the sorted input of the first product is kept from the permutation.
    """
    inner = nonlinearity_bytes * gates * expert_feedforward / expert_tensor
    return routed * (linear_input_bytes * hidden + inner)


def routed_outputs(
    routed: Number, expert_feedforward: Number, expert_tensor: Number, width: Number
) -> Number:
    """Return the bytes of the outputs of the experts' nonlinearity, M = w R f_e / tau.

    Assumes: w = lambda for the input of the second product, and beta more if the router's
    probability multiplies apart.
    """
    return width * routed * expert_feedforward / expert_tensor


def router_activations(tokens: Number, routed: Number, experts: Number, shards: Number) -> Number:
    """Return the bytes of the router's scores and maps, M = 22 (T / sigma) E + 4 R.

    Assumes: 8 bytes a token and expert for the row map of the fused permutation, 14 for scores,
    maps and masks.
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
    """
    return routed_copies * activation_bytes * routed * hidden + 2.0 * state / shards
