"""Seconds of collectives over two tiers of links, and of work with a message beside it."""

from typing import NamedTuple

from jaxroof.formulas.arithmetic import larger, log, where
from jaxroof.formulas.smooth import NOTHING, smooth_larger, smooth_smaller
from jaxroof.records import Number

TREE = 1e-12  # added to latencies, so that their smooth minimum has none that is 0 [s]


class Links(NamedTuple):
    """Effective rates and latencies of the links of one accelerator."""

    fast: Number  # ring rate inside a fast domain [B/s]
    slow: Number  # rate of the network interface [B/s]
    base: Number  # start of a collective [s]
    fast_hop: Number  # [s]
    slow_hop: Number  # [s]


def ring_rate(group: Number, inside: Number, links: Links) -> Number:
    """Return the rate of a ring over a group of which some share a fast domain.

    rate = fast if g <= i, else smin(fast, slow i): a ring in every rail

    Assumes: every member of a domain has an interface of its own.
    Units: group, inside [1], links as its fields -> [B/s].
    Source: docs/models/training_step_today.md, section 3.

    >>> float(ring_rate(8.0, 8.0, Links(4.0, 1.0, 0.0, 0.0, 0.0)))
    4.0
    """
    return where(group <= inside, links.fast, smooth_smaller(links.fast, links.slow * inside))


def gather(message: Number, group: Number, inside: Number, links: Links) -> Number:
    """Return the time of a ring all-gather or reduce-scatter; ``message`` is the gathered size.

    t = base + fast_hop (g - N) + slow_hop (N - 1) + (g - 1) / g V / rate, N = max(1, g / i)

    Assumes: a group of one takes no time.
    Units: message [B], group, inside [1], links as its fields -> [s].
    Source: docs/models/training_step_today.md, section 3.

    >>> float(gather(8.0, 4.0, 4.0, Links(2.0, 1.0, 0.5, 0.0, 0.0)))
    3.5
    """
    nodes = larger(group / inside, 1.0)
    hops = links.fast_hop * (group - nodes) + links.slow_hop * (nodes - 1.0)
    sent = (group - 1.0) / group * message / ring_rate(group, inside, links)
    return where(group > 1.0, links.base + hops + sent, 0.0)


def all_reduce(message: Number, group: Number, inside: Number, links: Links) -> Number:
    """Return the time of an all-reduce, by a ring or a tree, whichever has the shorter latency.

    t = base + smin(2 hops, 2 (fast_hop (i - 1) + slow_hop log2(N + 1))) + 2 (g - 1) / g V / rate

    Assumes: a group of one takes no time; both send as much.
    Units: message [B], group, inside [1], links as its fields -> [s].
    Source: docs/models/training_step_today.md, section 3.

    >>> round(float(all_reduce(8.0, 4.0, 4.0, Links(2.0, 1.0, 0.5, 0.0, 0.0))), 6)
    6.5
    """
    nodes = larger(group / inside, 1.0)
    ring = 2.0 * (links.fast_hop * (group - nodes) + links.slow_hop * (nodes - 1.0))
    levels = log(nodes + 1.0) / 0.6931471805599453
    tree = 2.0 * (links.fast_hop * (inside - 1.0) + links.slow_hop * levels)
    sent = 2.0 * (group - 1.0) / group * message / ring_rate(group, inside, links)
    hops = smooth_smaller(ring + TREE, tree + TREE)
    return where(group > 1.0, links.base + hops + sent, 0.0)


def at_full_rate(message: Number, group: Number, links: Links) -> Number:
    """Return the time that a ring's bytes take at the full rate of the fast links.

    t = (g - 1) / g V / fast

    Assumes: a group of one sends nothing.
    Units: message [B], group [1], links as its fields -> [s].
    Source: docs/models/training_step_today.md, section 3.

    >>> float(at_full_rate(8.0, 4.0, Links(2.0, 1.0, 0.0, 0.0, 0.0)))
    3.0
    """
    return where(group > 1.0, (group - 1.0) / group * message / links.fast, 0.0)


def beside(work: Number, message: Number, fast: Number, slowdown: Number) -> Number:
    """Return the time of work with a message beside it.

    t = smax(C + s C Z / (C + Z), X)

    Assumes: the ring's kernels take multiprocessors from the work for as long as its bytes take at
    the full rate of the fast links, Z; a ring that waits for the network leaves them alone.
    Units: work C, message X, fast Z [s], slowdown s [1] -> [s].
    Source: docs/models/training_step_today.md, section 3.

    >>> round(float(beside(1.0, 0.0, 1.0, 0.5)), 6)
    1.25
    """
    return smooth_larger(work + slowdown * work * fast / (work + fast + NOTHING), message)


def distinct_targets(targets: Number, choices: Number) -> Number:
    """Return how many different targets a token's choices fall on, on average.

    U = z (1 - (1 - 1 / z)^T)

    Assumes: choices are independent and even.
    Units: targets, choices [1] -> [1].
    Source: docs/models/training_step_today.md, section 11.

    >>> float(distinct_targets(2.0, 2.0))
    1.5
    """
    return targets * (1.0 - (1.0 - 1.0 / targets) ** choices)


def all_to_all(
    near: Number, far: Number, group: Number, inside: Number, links: Links, share: Number
) -> Number:
    """Return the time of an exchange among all members of a group.

    t = base + fast_hop (i - 1) + slow_hop (N - 1)
        + smax(V (1 - 1 / i) / (fast share), V' (1 - 1 / N) / (slow share)), N = g / i

    Assumes: both tiers send at the same time; a group of one takes no time.
    Units: near V, far V' [B], group, inside, share [1], links as its fields -> [s].
    Source: docs/models/training_step_today.md, section 11.

    >>> round(float(all_to_all(8.0, 8.0, 4.0, 4.0, Links(2.0, 1.0, 0.5, 0.0, 0.0), 1.0)), 6)
    3.5
    """
    nodes = group / inside
    hops = links.fast_hop * (inside - 1.0) + links.slow_hop * (nodes - 1.0)
    sent = smooth_larger(
        near * (1.0 - 1.0 / inside) / (links.fast * share),
        far * (1.0 - 1.0 / nodes) / (links.slow * share),
    )
    return where(group > 1.0, links.base + hops + sent, 0.0)
