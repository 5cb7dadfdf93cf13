"""Counts of a transformer: parameters, FLOP, caches and the memory of training."""

from jaxroof.records import Number


def mlp_parameters(
    layers: Number, hidden: Number, feedforward: Number, matrices: Number, experts: Number
) -> Number:
    """Return the parameters of the MLPs of all layers.

    P = L E m D F

    Assumes: no biases, no router; m = 3 with a gate, 2 without.
    Units: layers, hidden, feedforward, matrices, experts [1] -> [1].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(mlp_parameters(2.0, 4.0, 16.0, 3.0, 1.0))
    384.0
    """
    return layers * experts * matrices * hidden * feedforward


def attention_parameters(
    layers: Number, hidden: Number, heads: Number, kv_heads: Number, head_size: Number
) -> Number:
    """Return the parameters of the attention projections of all layers.

    P = L (2 D N H + 2 D K H), which is 4 L D N H where every query head has its own keys

    Assumes: no biases; query and output are N H wide, key and value K H.
    Units: layers, hidden, heads, kv_heads, head_size [1] -> [1].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(attention_parameters(1.0, 8.0, 4.0, 1.0, 2.0))
    160.0
    """
    return 2.0 * layers * hidden * head_size * (heads + kv_heads)


def vocabulary_parameters(hidden: Number, vocabulary: Number, tables: Number) -> Number:
    """Return the parameters of the embedding and of the output projection.

    P = v D V, v = 2, or 1 where both share one table

    Assumes: no position embedding.
    Units: hidden, vocabulary, tables [1] -> [1].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(vocabulary_parameters(8.0, 100.0, 2.0))
    1600.0
    """
    return tables * hidden * vocabulary


def norm_parameters(layers: Number, hidden: Number, norms: Number) -> Number:
    """Return the parameters of the normalisations of all layers.

    P = L n D

    Assumes: a norm scales and does not shift; n norms a layer.
    Units: layers, hidden, norms [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(norm_parameters(2.0, 8.0, 1.0))
    16.0
    """
    return layers * norms * hidden


def forward_flops(parameters: Number) -> Number:
    """Return the arithmetic of one token's forward pass through matrices of weights.

    F = 2 P

    Assumes: every parameter multiplies every token once; scores are counted separately.
    Units: parameters [1] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(forward_flops(3.0))
    6.0
    """
    return 2.0 * parameters


def training_flops(parameters: Number) -> Number:
    """Return the arithmetic of training on one token: forward, and backward twice as much.

    F = 6 P

    Assumes: as ``forward_flops``; no recomputation.
    Units: parameters [1] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(training_flops(3.0))
    18.0
    """
    return 6.0 * parameters


def score_flops(
    layers: Number, heads: Number, sequence: Number, head_size: Number, sequences: Number
) -> Number:
    """Return the arithmetic of attention scores and their averages, forward.

    F = 4 L B T^2 N H; training takes three times that, or four times if only the outputs of matrix
    products are saved, because the scores are then recomputed

    Assumes: no causal mask.
    Units: layers, heads, head_size [1], sequence [token], sequences [sequence] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(score_flops(1.0, 2.0, 8.0, 4.0, 1.0))
    2048.0
    """
    return 4.0 * layers * sequences * sequence * sequence * heads * head_size


def projection_context(hidden: Number, heads: Number, kv_heads: Number) -> Number:
    """Return the sequence length at which scores cost as much as the projections.

    T = D (1 + K / N), which is 2 D where every query head has its own keys

    Assumes: as ``score_flops`` and ``forward_flops``.
    Units: hidden, heads, kv_heads [1] -> [token].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(projection_context(4096.0, 32.0, 32.0))
    8192.0
    """
    return hidden * (1.0 + kv_heads / heads)


def matrix_context(
    hidden: Number,
    feedforward: Number,
    heads: Number,
    kv_heads: Number,
    head_size: Number,
    matrices: Number,
    active_experts: Number,
) -> Number:
    """Return the sequence length at which scores cost as much as all matrices of a layer.

    T = D (1 + K / N) + k m D F / (2 N H), which is 8 D for F = 4 D, N H = D, K = N, three matrices

    Assumes: as ``score_flops`` and ``forward_flops``.
    Units: all [1] -> [token].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(matrix_context(4096.0, 16384.0, 32.0, 32.0, 128.0, 3.0, 1.0))
    32768.0
    """
    mlp = active_experts * matrices * hidden * feedforward / (2.0 * heads * head_size)
    return projection_context(hidden, heads, kv_heads) + mlp


def cache_per_token(
    layers: Number, kv_heads: Number, head_size: Number, cache_width: Number
) -> Number:
    """Return the bytes of keys and values that one token leaves in the cache.

    M = 2 L K H s

    Assumes: keys and values of equal width; every layer has its own cache.
    Units: layers, kv_heads, head_size [1], cache_width [B] -> [B].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(cache_per_token(64.0, 8.0, 256.0, 1.0))
    262144.0
    """
    return 2.0 * layers * kv_heads * head_size * cache_width


def checkpoints(
    layers: Number, hidden: Number, tokens: Number, kept: Number, activation_width: Number
) -> Number:
    """Return the bytes of saved activations, for a given number of vectors per layer.

    M = s c B D L, B in tokens

    Assumes: each saved vector is as wide as the residual stream.
    Units: layers, hidden, kept [1], tokens [token], activation_width [B] -> [B].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(checkpoints(2.0, 8.0, 10.0, 4.0, 2.0))
    1280.0
    """
    return activation_width * kept * tokens * hidden * layers


def wide_checkpoints(
    layers: Number, hidden: Number, feedforward: Number, tokens: Number, activation_width: Number
) -> Number:
    """Return the bytes of saved activations: per layer, one vector and two of the MLP's width.

    M = s L B (D + 2 F), B in tokens

    Assumes: the whole outputs of the two inner matrices of the MLP are saved.
    Units: layers, hidden, feedforward [1], tokens [token], activation_width [B] -> [B].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(wide_checkpoints(2.0, 8.0, 16.0, 10.0, 2.0))
    1600.0
    """
    return activation_width * layers * tokens * (hidden + 2.0 * feedforward)


def training_state(parameters: Number, weight_width: Number, optimizer_width: Number) -> Number:
    """Return the bytes of weights and optimizer state.

    M = P (w + o): 10 bytes a parameter with 2 of weight and 8 of optimizer

    Assumes: gradients do not count.
    Units: parameters [1], widths [B] -> [B].
    Source: docs/models/op_rooflines.md, sections 4 and 9.

    >>> float(training_state(70e9, 2.0, 8.0))
    700000000000.0
    """
    return parameters * (weight_width + optimizer_width)


def utilisation(flops: Number, chip_time: Number, matrix_flops: Number) -> Number:
    """Return the model FLOP utilisation: useful FLOP over peak FLOP in the time taken.

    u = F / (n t C), F = 6 P x tokens

    Assumes: chip_time is accelerators times seconds; recomputation is not useful.
    Units: flops [FLOP], chip_time [s], matrix_flops [FLOP/s] -> [1].
    Source: docs/models/op_rooflines.md, section 4.

    >>> float(utilisation(30.0, 20.0, 3.0))
    0.5
    """
    return flops / (chip_time * matrix_flops)


def run_time(flops: Number, chips: Number, utilised: Number, matrix_flops: Number) -> Number:
    """Return the time of a whole training run.

    t = F / (n u C)

    Assumes: every accelerator reaches the same share u of its peak all the time.
    Units: flops [FLOP], chips, utilised [1], matrix_flops [FLOP/s] -> [s].
    Source: docs/models/op_rooflines.md, sections 4 and 9.

    >>> float(run_time(30.0, 2.0, 0.5, 3.0))
    10.0
    """
    return flops / (chips * utilised * matrix_flops)
