"""Two older models of training at scale: a step with routed experts, and closed-form degrees."""

from typing import NamedTuple

from jaxroof.formulas.arithmetic import larger, smaller, sqrt, where
from jaxroof.records import Number


class Crowd(NamedTuple):
    """Degrees of the closed form, words per token and block, and the stage of growth (of three)."""

    tensor: Number
    hidden_tensor: Number
    data: Number
    traffic: Number
    stage: Number


def expert_matmul_time(
    inputs: Number, outputs: Number, tokens: Number, width: Number, rate: Number, bandwidth: Number
) -> Number:
    """Return the time of one product: the larger of its arithmetic and its memory traffic.

    t = max(2 A C t (q / 8) / F, (q / 8) (A C + C t + A t) / H)

    Assumes: F is the rate on 8-bit numbers; q / 8 = ``width`` also scales the traffic (the sheet
    assumes 8 bits).
    Source: docs/models/linear_data_movement.md, section D1.
    """
    moved = inputs * outputs + outputs * tokens + inputs * tokens
    return larger(2.0 * inputs * outputs * tokens * width / rate, width * moved / bandwidth)


def transfer_time(size: Number, ways: Number, width: Number, bandwidth: Number) -> Number:
    """Return the time to send and receive an array that is sharded over devices.

    X = 2 (n / p) (q / 8) / W

    Assumes: the times of sent and received bytes add.
    Source: docs/models/linear_data_movement.md, section D1.
    """
    return 2.0 * (size / ways) * width / bandwidth


def sum_time(
    size: Number, ways: Number, degree: Number, width: Number, bandwidth: Number
) -> Number:
    """Return the time to reduce an array over ranks: one transfer, or 0 for a single rank.

    AR = X for more than one rank

    Assumes: the network reduces, for any number of ranks.
    Source: docs/models/linear_data_movement.md, section D1.
    """
    return where(degree > 1.0, transfer_time(size, ways, width, bandwidth), 0.0)


def predecessor_parameters(layers: Number, hidden: Number, head_size: Number) -> Number:
    """Return the parameters of one expert of the larger predecessor, with one key-value head.

    P = L (10 d^2 + 2 d d_head)

    Assumes: multi-query attention and an MLP of 4 d, no biases.
    Source: docs/models/linear_data_movement.md, section D2.
    """
    return layers * (10.0 * hidden**2.0 + 2.0 * hidden * head_size)


def crowd(
    layers: Number,
    hidden: Number,
    parameters: Number,
    batch: Number,
    devices: Number,
    hidden_factor: Number,
    allowed: Number,
) -> Crowd:
    """Return the degrees that the first optimiser chooses, and the words per token and block.

    words = 4 d (L - 1) / L + 8 d (tp - 1) + 8 h d (tp2 - 1) + (p_d - 1) 4 N / (L B), pp = L,
    tp2 = tp / h: first tp = sqrt(h n / L) and p_d = 1. When this sends more than is allowed, tp
    stays where it reached the bound and p_d grows. When p_d would cost more than tp, all three cost
    the same

    Assumes: degrees are real. tp stays exactly at the bound, not at the last grid point below it,
    or at its value for n = L if even that exceeds the bound. Degrees below 1, near n = L, count
    with negative words, but the sum is at least 0.
    Source: docs/models/linear_data_movement.md, section D2.

    >>> small = crowd(4.0, 8.0, 4096.0, 64.0, 36.0, 1.0, 1e9)
    >>> float(small.tensor), float(small.data), float(small.traffic), float(small.stage)
    (3.0, 1.0, 280.0, 1.0)
    """
    tensor_words, hidden_words = 8.0 * hidden, 8.0 * hidden_factor * hidden
    data_words = 4.0 * parameters / (layers * batch)
    hops = (layers - 1.0) * 4.0 * hidden / layers
    share = devices / layers
    grown = sqrt(hidden_factor * share)
    fixed = hops - tensor_words - hidden_words
    first = fixed + 2.0 * tensor_words * grown  # tp2 times its words is tp times its own
    hidden_away = first <= allowed

    bound = larger((allowed - fixed) / (2.0 * tensor_words), sqrt(hidden_factor))
    frozen = smaller(bound, grown)
    data = share * hidden_factor / frozen**2.0
    equal = data * data_words > frozen * tensor_words
    cost = (tensor_words * hidden_words * data_words * share) ** (1.0 / 3.0)
    tensor = where(hidden_away, grown, where(equal, cost / tensor_words, frozen))
    replicas = where(hidden_away, 1.0, where(equal, cost / data_words, data))
    return Crowd(
        tensor=tensor,
        hidden_tensor=tensor / hidden_factor,
        data=replicas,
        traffic=larger(fixed + 2.0 * tensor_words * tensor + (replicas - 1.0) * data_words, 0.0),
        stage=where(hidden_away, 1.0, where(equal, 3.0, 2.0)),
    )
