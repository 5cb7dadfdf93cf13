"""Serving a model: the time of a decode step, the free memory, and the turnover of sequences.

A step generates one token of every sequence, which determines the units.
"""

from jaxroof.formulas.arithmetic import larger, sqrt, whole
from jaxroof.records import Number


def read_time(held: Number, chips: Number, hbm_bandwidth: Number) -> Number:
    """Return the time to read once an array that is spread over the memories of all chips.

    t = M / (n W)

    Assumes: equal shares, read at the full bandwidth.
    Units: held [B], chips [1], hbm_bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, sections 1 and 7.

    >>> float(read_time(16e9, 2.0, 8e11))
    0.01
    """
    return held / (chips * hbm_bandwidth)


def token_time(parameters: Number, batch: Number, chips: Number, matrix_flops: Number) -> Number:
    """Return the time of the products of one token of every sequence with the weights.

    t = 2 b P / (n C)

    Assumes: P parameters multiply each token; scores are not counted.
    Units: parameters, chips [1], batch [sequence], matrix_flops [FLOP/s] -> [s].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(token_time(10.0, 4.0, 2.0, 8.0))
    5.0
    """
    return 2.0 * batch * parameters / (chips * matrix_flops)


def step_time(caches_read: Number, weights_read: Number, products: Number) -> Number:
    """Return the time of one decode step.

    t = t_cache + max(t_products, t_weights)

    Assumes: attention is memory bound for any batch; products and the reading of weights overlap;
    messages are hidden, too.
    Units: all [s] -> [s].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(step_time(1.0, 2.0, 3.0))
    4.0
    """
    return caches_read + larger(products, weights_read)


def critical_batch(
    weights: Number, parameters: Number, matrix_flops: Number, hbm_bandwidth: Number
) -> Number:
    """Return the batch from which products take longer than reading the weights.

    b = M C / (2 P W): E / k times the balance at 2 bytes per weight, with k of E experts active

    Assumes: each step reads M bytes; P parameters multiply each token.
    Units: weights [B], parameters [1], matrix_flops [FLOP/s], hbm_bandwidth [B/s] -> [sequence].
    Source: docs/models/op_rooflines.md, sections 1, 4 and 7.

    >>> float(critical_batch(2.0, 1.0, 240.0, 1.0))
    240.0
    """
    return weights * matrix_flops / (2.0 * parameters * hbm_bandwidth)


def prefill_time(
    parameters: Number, prompt: Number, chips: Number, utilised: Number, matrix_flops: Number
) -> Number:
    """Return the time to prefill a prompt.

    t = 2 P T / (n u C)

    Assumes: compute bound; scores are not counted.
    Units: parameters, chips, utilised [1], prompt [token], matrix_flops [FLOP/s] -> [s].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(prefill_time(10.0, 8.0, 2.0, 0.5, 4.0))
    40.0
    """
    return 2.0 * parameters * prompt / (chips * utilised * matrix_flops)


def prefill_servers(batch: Number, prefill: Number, step: Number, generated: Number) -> Number:
    """Return the number of prefill servers per generating server.

    r = b t_prefill / (t_step G)

    Assumes: a prefill server takes one prompt at a time; both kinds are always busy.
    Units: batch [sequence], prefill, step [s], generated [token] -> [1].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(prefill_servers(4.0, 2.0, 0.5, 16.0))
    1.0
    """
    return batch * prefill / (step * generated)


def finishing(batch: Number, generated: Number) -> Number:
    """Return the average number of sequences that finish in one step.

    f = b / G

    Assumes: all answers are G tokens long, with evenly spread starts.
    Units: batch [sequence], generated [token] -> [sequence].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(finishing(32.0, 64.0))
    0.5
    """
    return batch / generated


def evicted(batch: Number, prompt: Number, generated: Number) -> Number:
    """Return the average number of tokens whose cache is freed in one step.

    e = b (T + G) / G

    Assumes: as ``finishing``; a sequence leaves with its prompt and its answer.
    Units: batch [sequence], prompt, generated [token] -> [token].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(evicted(32.0, 8192.0, 4096.0))
    96.0
    """
    return batch * (prompt + generated) / generated


def free_memory(weights: Number, chips: Number, hbm_capacity: Number) -> Number:
    """Return the bytes free for caches beside one copy of the weights, 0 if that does not fit.

    M = max(n V - weights, 0)

    Assumes: every byte of the memories can be filled.
    Units: weights [B], chips [1], hbm_capacity [B] -> [B].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(free_memory(70e9, 8.0, 16e9))
    58000000000.0
    """
    return larger(chips * hbm_capacity - weights, 0.0)


def whole_up(a: Number, b: Number) -> Number:
    """Return the least whole number of at least a / b, with the slope of a / b.

    n = ceil(a / b)

    Assumes: b above 0.
    Units: a, b of one unit -> [1].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(whole_up(7.0, 2.0)), float(whole_up(6.0, 2.0))
    (4.0, 3.0)
    """
    return -whole(-a, b)


def readers(weights: Number, within: Number, hbm_bandwidth: Number) -> Number:
    """Return the number of chips that read the weights within a given time, not rounded.

    n = M / (W t)

    Assumes: as ``read_time``.
    Units: weights [B], within [s], hbm_bandwidth [B/s] -> [1].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(readers(405e9, 0.015, 9e11))
    30.0
    """
    return weights / (hbm_bandwidth * within)


def memory_tensor_bound(feedforward: Number, batch: Number, memory_balance: Number) -> Number:
    """Return the tensor degree from which messages take longer than reading the weights.

    Y = F / (b beta), beta = W_hbm / W_link

    Assumes: weights and activations of one width; bound by memory, not by arithmetic.
    Units: feedforward, memory_balance [1], batch [sequence] -> [1].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(memory_tensor_bound(16384.0, 32.0, 8.0))
    64.0
    """
    return feedforward / (batch * memory_balance)


def line_time(
    hidden: Number, batch: Number, axes: Number, width: Number, bandwidth: Number
) -> Number:
    """Return the time of messages if weights are sharded only over their inner width.

    t = 2 s b D / (M W)

    Assumes: one gather and one scatter of activations of s bytes, each over M axes.
    Units: hidden, axes [1], batch [sequence], width [B], bandwidth (both ways of an axis) [B/s] ->
    [s].
    Source: docs/models/op_rooflines.md, sections 3 and 7.

    >>> float(line_time(8.0, 4.0, 2.0, 2.0, 16.0))
    4.0
    """
    return 2.0 * width * batch * hidden / (axes * bandwidth)


def plane_rows(hidden: Number, feedforward: Number, chips: Number) -> Number:
    """Return the rows X of the best plane to shard weights over; its columns are n / X.

    X = sqrt(n D / (2 F)), which is sqrt(n / 8) for F = 4 D

    Assumes: the least of 2 s b F / (Y W), a sum of inner activations of s bytes over one axis, and
    s b D / (X W), a gather and a scatter of outer ones over two, with X Y = n.
    Units: all [1] -> [1].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(plane_rows(1.0, 4.0, 128.0))
    4.0
    """
    return sqrt(chips * hidden / (2.0 * feedforward))


def plane_coefficient(hidden: Number, feedforward: Number, width: Number) -> Number:
    """Return the message time of the best plane, in units of b D / (sqrt(n) W).

    c = s sqrt(8 F / D), which is sqrt(128) for F = 4 D and 2 bytes

    Assumes: as ``plane_rows``.
    Units: hidden, feedforward [1], width [B] -> [B].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(plane_coefficient(1.0, 2.0, 2.0))
    8.0
    """
    return width * sqrt(8.0 * feedforward / hidden)


def plane_time(
    hidden: Number,
    feedforward: Number,
    batch: Number,
    chips: Number,
    width: Number,
    bandwidth: Number,
) -> Number:
    """Return the time of messages if weights are sharded over the best plane.

    t = s sqrt(8 F / D) b D / (sqrt(n) W)

    Assumes: as ``plane_rows``.
    Units: hidden, feedforward, chips [1], batch [sequence], width [B], bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 7.

    >>> float(plane_time(1.0, 2.0, 4.0, 16.0, 2.0, 2.0))
    4.0
    """
    moved = plane_coefficient(hidden, feedforward, width) * batch * hidden
    return moved / (sqrt(chips) * bandwidth)


def plane_from(hidden: Number, feedforward: Number, axes: Number) -> Number:
    """Return the chips from which the best plane sends less than a line over a number of axes.

    n = 2 M^2 F / D, which is 72 for F = 4 D and three axes (a book prints 81)

    Assumes: as ``plane_rows`` and ``line_time``.
    Units: all [1] -> [1].
    Source: docs/models/op_rooflines.md, sections 7 and 8.

    >>> float(plane_from(1.0, 4.0, 3.0))
    72.0
    """
    return 2.0 * axes * axes * feedforward / hidden
