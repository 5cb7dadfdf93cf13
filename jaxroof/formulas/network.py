"""What a group of ranks pays to exchange data over tiers of links, for every estimator.

A network is a row of tiers, innermost first: NVLink, then the network between nodes, of one tier or
of leaves, spines and pods. A ring, a tree and an exchange take any number of them. Of a group of g
ranks, i_k share a domain of tier k, and m_k = g / i_{k - 1} domains of the tier below are on the
way at tier k (m_0 = g); the outermost tier holds the whole group. Messages are bytes, times
seconds; a group of one takes no time.

The study of 2024 has its own bookkeeping of two tiers, at the foot.

Source: docs/models/training_step_today.md, section 3; docs/models/networks.md, sections 2 and 7.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxroof.formulas.arithmetic import larger, log, smaller, where, whole
from jaxroof.formulas.smooth import NOTHING, smooth_larger, smooth_smaller
from jaxroof.records import Number

LN2 = 0.6931471805599453
POSITIVE = 1e-12  # added to latencies, so that their smooth minimum has none that is 0 [s]


class Tier(NamedTuple):
    """The links of one accelerator at one distance."""

    domain: Number  # accelerators that they reach; of the outermost tier, never read
    bandwidth: Number  # of one interface, in use [B/s]
    hop: Number  # latency of one hop [s]
    interfaces: Number = 1.0

    @property
    def rate(self) -> Number:
        """Return the bandwidth of all its interfaces."""
        return self.bandwidth * self.interfaces


class Network(NamedTuple):
    """Tiers of links, innermost first."""

    tiers: tuple[Tier, ...]
    start: Number = 0.0  # start of a collective [s]


class Group(NamedTuple):
    """Ranks that exchange data, and how many of them share a domain of each tier but the last."""

    members: Number
    inside: tuple[Number, ...]

    @property
    def domains(self) -> tuple[Number, ...]:
        """Return how many take part in each tier: m_0 = g, m_k = g / i_{k - 1}, at last 1."""
        return (self.members, *(self.members / inside for inside in self.inside), 1.0)


def placed(
    network: Network,
    members: Number,
    inner: Number = 1.0,
    block: Number | None = None,
    apart: Number = 1.0,
) -> Group:
    """Return a group that lies in the domains beside what is inner to it.

    i_k = min(max(D_k / s, 1), g) with s = ``inner``, the product of the degrees inside the group;
    where only blocks of b members lie so, a ranks for each of another group between them:
    max(min(D_k / s, b), D_k / (s a)) in place of D_k / s

    Source: docs/models/networks.md, section 2.

    >>> tiers = (Tier(8.0, 1.0, 0.0), Tier(0.0, 1.0, 0.0))
    >>> [float(part) for part in placed(Network(tiers), 4.0, 4.0).domains]
    [4.0, 2.0, 1.0]
    """
    near = tuple(tier.domain / inner for tier in network.tiers[:-1])
    if block is not None:
        near = tuple(larger(smaller(one, block), one / apart) for one in near)
    return Group(members, tuple(smaller(larger(one, 1.0), members) for one in near))


def pair(network: Network, span: Number) -> Group:
    """Return two ranks at the ends of ``span`` accelerators: inside a domain that holds them all.

    >>> tiers = (Tier(8.0, 1.0, 0.0), Tier(0.0, 1.0, 0.0))
    >>> [float(pair(Network(tiers), span).inside[0]) for span in (8.0, 9.0)]
    [2.0, 1.0]
    """
    return Group(2.0, tuple(where(span > t.domain, 1.0, 2.0) for t in network.tiers[:-1]))


def others(members: Number) -> Number:
    """Return (g - 1) / g, the share of a buffer that the other members of a group hold."""
    return (members - 1.0) / members


def distinct_targets(targets: Number, choices: Number) -> Number:
    """Return how many different targets a token's choices fall on, on average.

    U = z (1 - (1 - 1 / z)^T)

    Assumes: choices are independent and even.
    Source: docs/models/training_step_today.md, section 11.

    >>> float(distinct_targets(2.0, 2.0))
    1.5
    """
    return targets * (1.0 - (1.0 - 1.0 / targets) ** choices)


# ---- Any number of tiers ------------------------------------------------------------------------


def ring_rate(group: Group, network: Network) -> Number:
    """Return the rate of a ring: the smooth least of what the tiers in use carry.

    rate = smin of R_k i_{k - 1} (R_0 of the innermost): a ring in every rail

    Assumes: every member of a domain has an interface of its own.
    """
    domains, rate = group.domains, network.tiers[0].rate
    for level, tier in enumerate(network.tiers[1:]):
        rails = smooth_smaller(rate, tier.rate * group.inside[level])
        rate = where(domains[level + 1] > domains[level + 2], rails, rate)
    return rate


def ring_hops(domains: tuple[Number, ...], network: Network) -> Number:
    """Return the latency of one round of a ring, sum of hop_k (m_k - m_{k + 1}) [s]."""
    hops: Number = 0.0
    for tier, here, above in zip(network.tiers, domains[:-1], domains[1:], strict=True):
        hops = hops + tier.hop * (here - above)
    return hops


def tree_hops(group: Group, network: Network) -> Number:
    """Return the latency of one way through a chain of each domain and a double tree above [s].

    h = hop_0 (i_0 - 1) + sum of hop_k log2((m_k + 1) / (m_{k + 1} + 1)), where the m of a tier
    without domains to join counts 0 (at the first tier above a domain: 1)
    """
    domains = group.domains
    hops = network.tiers[0].hop * (group.inside[0] - 1.0)
    here = log(domains[1] + 1.0)
    for tier, joined in zip(network.tiers[1:], domains[2:], strict=True):
        above = where(joined > 1.0, log(joined + 1.0), 0.0)
        hops, here = hops + tier.hop * ((here - above) / LN2), above
    return hops


def gather(message: Number, group: Group, network: Network) -> Number:
    """Return the time of a ring all-gather or reduce-scatter; ``message`` is the gathered size.

    t = base + hops + (g - 1) / g V / rate

    >>> near = Network((Tier(4.0, 2.0, 0.5), Tier(0.0, 1.0, 0.0)))
    >>> float(gather(8.0, placed(near, 4.0), near))
    4.5
    """
    sent = others(group.members) * message / ring_rate(group, network)
    time = network.start + ring_hops(group.domains, network) + sent
    return where(group.members > 1.0, time, 0.0)


def ladder(message: Number, group: Group, network: Network) -> Number:
    """Return the time of a gather tier by tier, streamed: as a ring where one tier is in use.

    t = base + sum of hop_k (n_k - 1) + smax of (n_k - 1) / (n_k i_{k - 1} R_k) V
    with n_k = i_k / i_{k - 1}

    Source: docs/models/networks.md, section 7. No software of ours runs it: for comparison.
    """
    below: Number = 1.0
    hops: Number = 0.0
    slowest: Number = 0.0
    for tier, inside in zip(network.tiers, (*group.inside, group.members), strict=True):
        many = inside / below
        hops = hops + tier.hop * (many - 1.0)
        slowest = smooth_larger(slowest, others(many) / (below * tier.rate) * message)
        below = inside
    return where(group.members > 1.0, network.start + hops + slowest, 0.0)


def all_reduce(message: Number, group: Group, network: Network) -> Number:
    """Return the time of an all-reduce, by a ring or a tree, whichever has the shorter latency.

    t = base + smin(2 ring hops, 2 tree hops) + 2 (g - 1) / g V / rate

    Assumes: both send as much.
    """
    ring, tree = 2.0 * ring_hops(group.domains, network), 2.0 * tree_hops(group, network)
    sent = 2.0 * others(group.members) * message / ring_rate(group, network)
    hops = smooth_smaller(ring + POSITIVE, tree + POSITIVE)
    return where(group.members > 1.0, network.start + hops + sent, 0.0)


def all_to_all(
    messages: tuple[Number, ...], group: Group, network: Network, share: Number
) -> Number:
    """Return the time of an exchange among all members.

    t = base + hop_0 (i_0 - 1) + sum of hop_k (i_k - i_{k - 1}) / i_0
        + smax of V_0 (1 - 1 / i_0) / (R_0 share) and V_k (1 - 1 / m_k) / (R_k share)

    Assumes: all tiers send at the same time.
    Source: docs/models/training_step_today.md, section 11.
    """
    near, inside = group.inside[0], (*group.inside, group.members)
    first = network.tiers[0]
    hops = first.hop * (near - 1.0)
    sent = messages[0] * (1.0 - 1.0 / near) / (first.rate * share)
    for level, tier in enumerate(network.tiers[1:]):
        hops = hops + tier.hop * (inside[level + 1] / near - inside[level] / near)
        here, above = group.domains[level + 1 : level + 3]
        away = where(here > above, 1.0 - 1.0 / here, 0.0)
        sent = smooth_larger(sent, messages[level + 1] * away / (tier.rate * share))
    return where(group.members > 1.0, network.start + hops + sent, 0.0)


def send(message: Number, pair: Group, network: Network) -> Number:
    """Return the time of a message between two ranks, over the innermost tier that joins them.

    t = base + hop + V / R

    Source: docs/models/training_step_today.md, section 6.
    """
    time: Number = network.tiers[-1].hop + message / network.tiers[-1].rate
    for tier, inside in zip(reversed(network.tiers[:-1]), reversed(pair.inside), strict=True):
        time = where(inside > 1.0, tier.hop + message / tier.rate, time)
    return network.start + time


def at_full_rate(message: Number, members: Number, network: Network) -> Number:
    """Return the time that a ring's bytes take at the full rate of the fast links.

    t = (g - 1) / g V / R_0
    """
    return where(members > 1.0, others(members) * message / network.tiers[0].rate, 0.0)


def beside(work: Number, message: Number, fast: Number, slowdown: Number) -> Number:
    """Return the time of work with a message beside it.

    t = smax(C + s C Z / (C + Z), X)

    Assumes: the ring's kernels take multiprocessors from the work for as long as its bytes take at
    the full rate of the fast links, Z; a ring that waits for the network leaves them alone.
    Units: work C, message X, fast Z [s], slowdown s [1] -> [s].

    >>> round(float(beside(1.0, 0.0, 1.0, 0.5)), 6)
    1.25
    """
    return smooth_larger(work + slowdown * work * fast / (work + fast + NOTHING), message)


# ---- The rings of the study of 2024 (arXiv 2410.00273) ------------------------------------------
#
# ``message`` is the full buffer (gathered, or before the reduction), ``fast`` the members that
# share a fast domain. A group of one and an empty message cost nothing. Rings only (M8).
# Source: docs/models/transformer_model.md, section 4.

Collective = Callable[[Number, Number, Number, Network], Number]


def study_gather(message: Number, group: Number, fast: Number, network: Network) -> Number:
    """Return the time of a ring all-gather or reduce-scatter.

    one tier:  t = l (g - 1) + (g - 1) / g V / b
    two tiers: t = max(k V / (n s bs), k V / bf) + ls (N - 1) + lf (g - N)
    with k = (g - 1) / g and N = g / s

    Assumes: Q5, with only slow links the interfaces do not count; Q27, N is rounded down.
    Source: docs/models/transformer_model.md, section 4.

    >>> float(study_gather(8.0, 4.0, 4.0, Network((Tier(4.0, 2.0, 0.5), Tier(0.0, 1.0, 1.0)))))
    4.5
    """
    return _study_ring(message, others(group), 1.0, group, fast, network)


def study_all_reduce(message: Number, group: Number, fast: Number, network: Network) -> Number:
    """Return the time of a ring all-reduce: as a gather, with the bytes of two tiers doubled.

    Assumes: Q3, one tier costs no more than a reduce-scatter.
    Source: docs/models/transformer_model.md, section 4, rules 5 to 7.
    """
    return _study_ring(message, others(group), 2.0, group, fast, network)


def study_broadcast(message: Number, group: Number, fast: Number, network: Network) -> Number:
    """Return the time of a broadcast along a ring, or of a reduction to one member: k = 1.

    Assumes: Q29, no pipelining over a tree.
    Source: docs/models/transformer_model.md, section 4, rule 4.
    """
    return _study_ring(message, 1.0, 1.0, group, fast, network)


def study_send(message: Number, group: Number, fast: Number, network: Network) -> Number:
    """Return the time to send to one neighbour, over a fast link where ``fast`` > 1: l + V / b.

    Assumes: Q5, one network interface. ``group`` is 2, or 1 without a neighbour.
    Source: docs/models/transformer_model.md, section 4, rule 3.
    """
    near, far = (tier.hop + message / tier.bandwidth for tier in network.tiers)
    return where((message > 0.0) & (group > 1.0), where(fast > 1.0, near, far), 0.0)


def _study_ring(
    message: Number, share: Number, passes: float, group: Number, fast: Number, network: Network
) -> Number:
    """Return the time by rules 5 to 7 of section 4: all slow, all fast, or two tiers."""
    inner, outer = network.tiers
    sent, domains = share * message, whole(group, fast)
    far, near = (tier.hop * (group - 1.0) + sent / tier.bandwidth for tier in (outer, inner))
    moved = larger(sent / (outer.rate * fast), sent / inner.bandwidth)
    both = passes * moved + ring_hops((group, domains, 1.0), network)
    time = where(fast <= 1.0, far, where(domains <= 1.0, near, both))
    return where((message > 0.0) & (group > 1.0), time, 0.0)
