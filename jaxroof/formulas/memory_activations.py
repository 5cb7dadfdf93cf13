"""Activations that one layer saves for its backward pass, on one rank for one microbatch."""

from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


def microbatch_tokens(sequence: Number, context: Number, microbatch: Number) -> Number:
    """Return the tokens of one microbatch on a context rank, T = b s / C.

    Assumes: equal shares of a sequence.
    Units: sequence [token], context [1], microbatch [sequence] -> [token].
    Source: docs/models/parameters_flops_memory.md, section 1.

    >>> microbatch_tokens(8192.0, 4.0, 1.0)
    2048.0
    """
    return microbatch * sequence / context


def hidden_state(tokens: Number, hidden: Number) -> Number:
    """Return the bytes of one hidden state, x = 2 T h.

    Assumes: 2-byte numbers.
    Units: tokens [token], hidden [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 1.

    >>> hidden_state(2.0, 3.0)
    12.0
    """
    return 2.0 * tokens * hidden


def norm_activations(tokens: Number, hidden: Number, shards: Number, width: Number) -> Number:
    """Return the bytes of both norms' inputs, or of both their outputs.

    M = 2 w T h / sigma, w = beta for the inputs, lambda for the outputs

    Assumes: the inputs are the layer's input and the middle residual; outputs are kept sharded
    and gathered again in backward.
    Units: tokens [token], hidden, shards [1], width [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> norm_activations(4.0, 3.0, 2.0, 2.0)
    24.0
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
    Units: tokens [token], sizes [1], widths [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> latent_activations(1.0, 4.0, 2.0, 3.0, 2.0, 2.0, 2.0)
    18.0
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
    Units: tokens [token], counts and sizes [1], activation_bytes [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> qkv_activations(1.0, 4.0, 2.0, 8.0, 1.0, 2.0, 2.0)
    112.0
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
    """Return the bytes of queries, keys and values of MLA.

    M = beta T a (2 (n + e) + v) / t

    Assumes: keys and values are expanded from the latent for every head.
    Units: tokens [token], counts and sizes [1], activation_bytes [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> latent_qkv_activations(1.0, 2.0, 2.0, 1.0, 2.0, 2.0, 2.0)
    16.0
    """
    width = 2.0 * (nope_size + rope_size) + value_size
    return activation_bytes * tokens * heads * width / tensor


def attention_output(
    tokens: Number, heads: Number, value_size: Number, tensor: Number, width: Number
) -> Number:
    """Return the bytes of the attention's output, the input of the output projection.

    M = w T a v / t, w = lambda, and beta more where a second copy is kept

    Assumes: v = d without latent attention. An all-to-all exchange of the context, or a
    batch-first kernel, keeps the second copy.
    Units: tokens [token], counts and sizes [1], width [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, sections 4.5 and 10.3.

    >>> attention_output(1.0, 4.0, 8.0, 2.0, 2.0)
    32.0
    """
    return width * tokens * heads * value_size / tensor


def flash_statistics(tokens: Number, heads: Number, tensor: Number) -> Number:
    """Return the bytes that a fused attention keeps instead of its scores, 4 T a / t.

    Assumes: the logarithm of the sum of exponentials, in fp32.
    Units: tokens [token], heads, tensor [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> flash_statistics(2.0, 4.0, 2.0)
    16.0
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
    Units: sequence [token], microbatch [sequence], degrees [1], activation_bytes [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> score_activations(4.0, 2.0, 2.0, 1.0, 1.0, 1.0, 2.0)
    40.0
    """
    width = activation_bytes + attention_dropout * (1.0 + activation_bytes)
    return width * microbatch * heads * sequence * sequence / (tensor * context)


def dropout_masks(tokens: Number, hidden: Number, shards: Number, hidden_dropout: Number) -> Number:
    """Return the bytes of both dropout masks of a layer, 2 T h / sigma with dropout, else 0.

    Assumes: 1 byte an element; hidden_dropout is 1 or 0.
    Units: tokens [token], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> dropout_masks(4.0, 3.0, 2.0, 1.0)
    12.0
    """
    return hidden_dropout * 2.0 * tokens * hidden / shards


def mlp_activations(
    tokens: Number,
    feedforward: Number,
    gated: Number,
    tensor: Number,
    nonlinearity_bytes: Number,
    linear_input_bytes: Number,
) -> Number:
    """Return the bytes inside a dense MLP, or inside the shared experts.

    M = T f / t (nu g + lambda), g = 2 if gated, else 1

    Assumes: the input of the nonlinearity and that of the second product; the input of the MLP
    is a norm's output.
    Units: tokens [token], feedforward, gated, tensor [1], widths [B] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.5.

    >>> mlp_activations(1.0, 8.0, 1.0, 2.0, 2.0, 2.0)
    24.0
    """
    width = nonlinearity_bytes * (1.0 + gated) + linear_input_bytes
    return tokens * feedforward / tensor * width


def prediction_activations(
    layer: Number,
    tokens: Number,
    hidden: Number,
    shards: Number,
    mtp_layers: Number,
    activation_bytes: Number,
) -> Number:
    """Return the bytes that multi-token prediction keeps on the last stage.

    M = K (layer + 6 beta T h / sigma)

    Assumes: one microbatch; layer is what one layer of the last kind keeps.
    Units: layer, activation_bytes [B], tokens [token], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> prediction_activations(10.0, 2.0, 2.0, 2.0, 1.0, 2.0)
    34.0
    """
    return mtp_layers * (layer + 6.0 * activation_bytes * tokens * hidden / shards)


def embedding_activations(
    tokens: Number, hidden: Number, shards: Number, hidden_dropout: Number
) -> Number:
    """Return the bytes that the embedding keeps of one microbatch.

    M = 8 T + [dropout] T h / sigma

    Assumes: 8-byte token ids; hidden_dropout is 1 or 0.
    Units: tokens [token], the others [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> embedding_activations(2.0, 4.0, 2.0, 1.0)
    20.0
    """
    return 8.0 * tokens + hidden_dropout * tokens * hidden / shards


def boundary_activations(state: Number, shards: Number, pipeline: Number) -> Number:
    """Return the bytes of the boundary tensors that a pipeline's schedule keeps alive.

    M = 2 x / sigma if p > 1, else 0

    Assumes: one received and one sent tensor.
    Units: state (x) [B], shards, pipeline [1] -> [B].
    Source: docs/models/parameters_flops_memory.md, section 4.6.

    >>> float(boundary_activations(8.0, 2.0, 4.0)), float(boundary_activations(8.0, 2.0, 1.0))
    (8.0, 0.0)
    """
    return where(pipeline > 1.0, 2.0 * state / shards, 0.0)
