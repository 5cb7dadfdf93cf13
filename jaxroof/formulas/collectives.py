"""Time of one collective over a group that spans one or more fast domains.

Every function takes ``message`` (the full buffer: gathered size of an all-gather, size before the
reduction of a reduce-scatter) [B], ``group`` (members) and ``fast`` (members that share one fast
domain) [1], bandwidths in use [B/s], latencies per hop [s] and network interfaces per accelerator
[1], and returns seconds. A group of one and an empty message cost nothing. Rings only (M8).
"""

from collections.abc import Callable

from jaxroof.formulas.arithmetic import larger, where, whole
from jaxroof.records import Number

Collective = Callable[[Number, Number, Number, Number, Number, Number, Number, Number], Number]


def all_gather(
    message: Number,
    group: Number,
    fast: Number,
    fast_bandwidth: Number,
    fast_latency: Number,
    slow_bandwidth: Number,
    slow_latency: Number,
    nics: Number,
) -> Number:
    """Return the time of a ring all-gather or reduce-scatter.

    one tier:  t = l (g - 1) + (g - 1) / g V / b
    two tiers: t = max(k V / (n s bs), k V / bf) + ls (N - 1) + lf (g - N)
    with k = (g - 1) / g and N = g / s

    Assumes: Q5, with only slow links the interfaces do not count; Q27, N is rounded down.
    Units: message [B], group, fast, nics [1], bandwidths [B/s], latencies [s] -> [s].
    Source: docs/models/transformer_model.md, section 4.

    >>> float(all_gather(8.0, 4.0, 4.0, 2.0, 0.5, 1.0, 1.0, 1.0))
    4.5
    """
    links = (fast_bandwidth, fast_latency, slow_bandwidth, slow_latency, nics)
    return _ring(message, (group - 1.0) / group, 1.0, group, fast, *links)


reduce_scatter = all_gather


def all_reduce(
    message: Number,
    group: Number,
    fast: Number,
    fast_bandwidth: Number,
    fast_latency: Number,
    slow_bandwidth: Number,
    slow_latency: Number,
    nics: Number,
) -> Number:
    """Return the time of a ring all-reduce.

    As all_gather, with the two-tier bandwidth term doubled.

    Assumes: Q3, one tier costs no more than a reduce-scatter.
    Units: message [B], group, fast, nics [1], bandwidths [B/s], latencies [s] -> [s].
    Source: docs/models/transformer_model.md, section 4, rules 5 to 7.

    >>> float(all_reduce(8.0, 4.0, 2.0, 2.0, 0.5, 1.0, 1.0, 1.0))
    8.0
    """
    links = (fast_bandwidth, fast_latency, slow_bandwidth, slow_latency, nics)
    return _ring(message, (group - 1.0) / group, 2.0, group, fast, *links)


def broadcast(
    message: Number,
    group: Number,
    fast: Number,
    fast_bandwidth: Number,
    fast_latency: Number,
    slow_bandwidth: Number,
    slow_latency: Number,
    nics: Number,
) -> Number:
    """Return the time of a broadcast along a ring, or of a reduction to one member.

    As all_gather, with the full message on every link: k = 1.

    Assumes: Q29, no pipelining over a tree.
    Units: message [B], group, fast, nics [1], bandwidths [B/s], latencies [s] -> [s].
    Source: docs/models/transformer_model.md, section 4, rule 4.

    >>> float(broadcast(8.0, 4.0, 4.0, 2.0, 0.5, 1.0, 1.0, 1.0))
    5.5
    """
    links = (fast_bandwidth, fast_latency, slow_bandwidth, slow_latency, nics)
    return _ring(message, 1.0, 1.0, group, fast, *links)


reduce = broadcast


def point_to_point(
    message: Number,
    group: Number,
    fast: Number,
    fast_bandwidth: Number,
    fast_latency: Number,
    slow_bandwidth: Number,
    slow_latency: Number,
    nics: Number,
) -> Number:
    """Return the time to send a message to one neighbour, over a fast link where ``fast`` > 1.

    t = l + V / b

    Assumes: Q5, one network interface, for any value of ``nics``.
    Units: message [B], group (2, or 1 without a neighbour), fast [1], bandwidths [B/s],
    latencies [s], nics (unused) [1] -> [s].
    Source: docs/models/transformer_model.md, section 4, rule 3.

    >>> float(point_to_point(8.0, 2.0, 1.0, 2.0, 0.5, 1.0, 1.0, 1.0))
    9.0
    """
    slow = slow_latency + message / slow_bandwidth
    near = fast_latency + message / fast_bandwidth
    time = where(fast > 1.0, near, slow)
    return where((message > 0.0) & (group > 1.0), time, 0.0)


def _ring(
    message: Number,
    share: Number,
    passes: float,
    group: Number,
    fast: Number,
    fast_bandwidth: Number,
    fast_latency: Number,
    slow_bandwidth: Number,
    slow_latency: Number,
    nics: Number,
) -> Number:
    """Return the time by rules 5 to 7 of section 4: all slow, all fast, or two tiers."""
    sent = share * message
    hops = group - 1.0
    domains = whole(group, fast)
    slow = slow_latency * hops + sent / slow_bandwidth
    near = fast_latency * hops + sent / fast_bandwidth
    both = (
        passes * larger(sent / (nics * fast * slow_bandwidth), sent / fast_bandwidth)
        + slow_latency * (domains - 1.0)
        + fast_latency * (group - domains)
    )
    time = where(fast <= 1.0, slow, where(domains <= 1.0, near, both))
    return where((message > 0.0) & (group > 1.0), time, 0.0)
