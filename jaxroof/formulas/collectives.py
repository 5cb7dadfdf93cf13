"""One collective over tiers of links, by algorithm and protocol.

A machine has four tiers, innermost first; one that is not there has the size of the one below it.
Of a group of g ranks, i_k share a domain of tier k, n_k = i_k / i_{k - 1} domains of the tier below
meet there (n_0 = i_0), p_k = i_{k - 1} of them share the way out of such a domain (p_0 = 1), and
above_k = n_{k + 1} .. n_3. V is the full buffer [B]: gathered, or before a reduction; of an
all-to-all, what each rank holds. Every algorithm is a row of steps h_k and bytes b_k of each tier:

    T = base + outer base_net + sum of h_k hop_k + V max of b_k / rate_k + extra

so that its time is affine in V. A group of one and an empty buffer cost nothing.

Source: docs/models/networks.md, sections 1 to 5, and 7.
"""

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxroof.formulas.arithmetic import larger, log, smaller, where
from jaxroof.formulas.network import LN2, distinct_targets, others
from jaxroof.formulas.smooth import NOTHING, SHARP, smooth_largest
from jaxroof.records import Number

TREE = 0.92  # share of the links' rate that a tree's messages of two ways reach
TREE_LOW = 3.8  # the cap of the low-latency protocol, over that of a tree
PAT = 0.75  # share of the links' rate under PAT
PAT_STEPS = 3.5  # steps of PAT that overlap
OVERLAP_SLOWDOWN = 0.556  # slowdown of work by a message's kernels, while these send


# what the ranks of a group do together; how; and of low latency, or at the full rate
Op = enum.Enum("Op", {
    "ALL_REDUCE": "all_reduce", "ALL_GATHER": "all_gather", "REDUCE_SCATTER": "reduce_scatter",
    "ALL_TO_ALL": "all_to_all", "BROADCAST": "broadcast", "REDUCE": "reduce",
    "SENDRECV": "sendrecv",
})  # fmt: skip
Method = enum.Enum("Method", {
    "RING": "ring", "TREE": "tree", "NVLS": "nvls", "NVLS_TREE": "nvls_tree", "SHARP": "sharp",
    "PAT": "pat", "DIRECT": "direct", "LADDER": "ladder", "HALVING": "halving",
    "ONE_SHOT": "one_shot", "TWO_SHOT": "two_shot",
})  # fmt: skip
Protocol = enum.Enum("Protocol", {"LOW": "low", "BULK": "bulk"})


class Spread(NamedTuple):
    """How a group lies over the tiers."""

    members: Number  # g
    here: tuple[Number, ...]  # n_k
    below: tuple[Number, ...]  # p_k
    above: tuple[Number, ...]  # above_k

    @property
    def used(self) -> tuple[Any, ...]:
        """Return where a tier joins domains of the group."""
        return tuple(here > 1.0 for here in self.here)

    @property
    def outer(self) -> Any:
        """Return whether the group leaves the innermost tier."""
        return self.members > self.here[0]


def spread_over(sizes: Sequence[Number], members: Number, stride: Number = 1.0) -> Spread:
    """Return how a group lies over tiers of ``sizes``, with ``stride`` ranks from one to the next.

    i_k = clip(D_k / s, 1, g) for k < 3, i_3 = g; ratios that do not divide stay real numbers.

    >>> [float(here) for here in spread_over((8.0, 32.0, 32.0, 1e15), 64.0, 2.0).here]
    [4.0, 4.0, 1.0, 4.0]
    """
    inside = [smaller(larger(size / stride, 1.0), members) for size in sizes[:-1]]
    inside.append(members)
    here = (inside[0], *(a / b for a, b in zip(inside[1:], inside[:-1], strict=True)))
    above = (here[1] * here[2] * here[3], here[2] * here[3], here[3], 1.0)
    return Spread(members, here, (1.0, *inside[:-1]), above)


class Rows(NamedTuple):
    """Steps of each tier, and the bytes that it carries per byte of the buffer."""

    steps: tuple[Number, ...]
    shares: tuple[Number, ...]


class Algorithm(NamedTuple):
    """One way of doing a collective."""

    rows: Callable[[Spread, float], Rows]  # of a group, and how often everything is sent
    bulk_alone: bool = False
    switched: tuple[bool, ...] = (False,) * 4  # tiers whose switches add and multicast
    low_rate: float = 1.0  # of the cap of the low-latency protocol
    low_steps: tuple[float, ...] = (1.0,) * 4  # steps of that protocol, for each of the other
    scattered: bool = False  # to every rank another message
    single: bool = False  # over one link of a mesh
    # (library, group) -> seconds that no tier takes
    setup: Callable[[Any, Spread], Number] = lambda library, spread: 0.0
    # (group, shares at which the switches of tiers add) -> whether it exists
    exists: Callable[[Spread, Sequence[Number]], Any] = lambda spread, reductions: True


# ---- Rows: section 3 ----------------------------------------------------------------------------


def _ring(spread: Spread, sent: float) -> Rows:
    """h_k = two (n_k - 1) above_k, b_k = two used_k (g - 1) / (g p_k)."""
    steps = (sent * (n - 1.0) * a for n, a in zip(spread.here, spread.above, strict=True))
    share = sent * others(spread.members)
    return Rows(tuple(steps), _where_used(spread, (share / below for below in spread.below)))


def _ladder(spread: Spread, sent: float) -> Rows:
    """h_k = two (n_k - 1), b_k = two (n_k - 1) / (n_k p_k): tier by tier, streamed."""
    steps = tuple(sent * (here - 1.0) for here in spread.here)
    every = zip(spread.here, spread.below, strict=True)
    return Rows(steps, tuple(sent * others(here) / below for here, below in every))


def _halving(spread: Spread, sent: float) -> Rows:
    """h_k = 2 log2 n_k, b_k = 2 (n_k - 1) / (n_k p_k)."""
    return Rows(_doublings(spread, 2.0), _ladder(spread, 2.0).shares)


def _tree(spread: Spread, sent: float) -> Rows:
    """A chain in tier 0, a double binary tree above: two domains send V / 2 up in each tree."""
    steps, shares = _doublings(spread, 2.0), _tree_shares(spread, TREE)
    chain = 2.0 * (spread.here[0] - 1.0)
    return Rows((chain, *steps[1:]), (where(spread.used[0], 2.0 / TREE, 0.0), *shares))


def _nvls(spread: Spread, sent: float) -> Rows:
    """h_0 = 0, b_0 = used_0 (1 + 1 / n_0): each pushes V once and receives the multicast."""
    return Rows((0.0,) * 4, (_pushed(spread), 0.0, 0.0, 0.0))


def _nvls_tree(spread: Spread, sent: float) -> Rows:
    """h_k = 2 log2 n_k, b_k = used_k min(N_k / 2, 2) / p_k above tier 0."""
    steps = (0.0, *_doublings(spread, 2.0)[1:])
    return Rows(steps, (_pushed(spread), *_tree_shares(spread, 1.0)))


def _sharp(spread: Spread, sent: float) -> Rows:
    """A ring in tier 0; above it every domain pushes V / p_k up to a switch that adds."""
    near = spread.here[0]
    steps = (2.0 * (near - 1.0), *(where(used, 2.0, 0.0) for used in spread.used[1:]))
    shares = _where_used(spread, (1.0 / below for below in spread.below))
    return Rows(steps, (2.0 * others(near), *shares[1:]))


def _pat(spread: Spread, sent: float) -> Rows:
    """h_k = log2(n_k) / 3.5, b_k = used_k (g - 1) / (0.75 g p_k): one rank a node."""
    share = others(spread.members) / PAT
    shares = _where_used(spread, (share / below for below in spread.below))
    return Rows(_doublings(spread, 1.0 / PAT_STEPS), shares)


def _one_shot(spread: Spread, sent: float) -> Rows:
    """h_0 = 1, b_0 = n_0 - 1: each sends all to all others, and adds."""
    return Rows((1.0, 0.0, 0.0, 0.0), (spread.here[0] - 1.0, 0.0, 0.0, 0.0))


def _two_shot(spread: Spread, sent: float) -> Rows:
    """h_0 = 2, b_0 = 2 (n_0 - 1) / n_0."""
    return Rows((2.0, 0.0, 0.0, 0.0), (2.0 * others(spread.here[0]), 0.0, 0.0, 0.0))


def _exchange(spread: Spread, sent: float) -> Rows:
    """h_k = used_k, b_k = used_k (1 - p_k / g)."""
    steps = tuple(where(used, 1.0, 0.0) for used in spread.used)
    away = (1.0 - below / spread.members for below in spread.below)
    return Rows(steps, _where_used(spread, away))


def _pipelined(spread: Spread, sent: float) -> Rows:
    """h_k = (n_k - 1) above_k, b_k = used_k / p_k."""
    shares = _where_used(spread, (1.0 / below for below in spread.below))
    return Rows(_ring(spread, 1.0).steps, shares)


def _outermost(spread: Spread, sent: float) -> Rows:
    """h_k = b_k = 1 in the outermost tier in use, else 0."""
    every = zip(spread.used, spread.above, strict=True)
    ones = tuple(where(used & (above <= 1.0), 1.0, 0.0) for used, above in every)
    return Rows(ones, ones)


def _where_used(spread: Spread, values: Any) -> tuple[Number, ...]:
    return tuple(where(u, value, 0.0) for u, value in zip(spread.used, values, strict=True))


def _doublings(spread: Spread, each: float) -> tuple[Number, ...]:
    """Return log2 n_k, ``each`` times, without the slope that it has where n_k = 1."""
    return _where_used(spread, (each * (log(here) / LN2) for here in spread.here))


def _tree_shares(spread: Spread, rate: float) -> tuple[Number, ...]:
    """Return used_k min(N_k / 2, 2) / (rate p_k) of the tiers above the first."""
    joined = (here * above for here, above in zip(spread.here, spread.above, strict=True))
    halves = [smaller(n / 2.0, 2.0) / (rate * p) for n, p in zip(joined, spread.below, strict=True)]
    return _where_used(spread, halves)[1:]


def _pushed(spread: Spread) -> Number:
    return where(spread.used[0], 1.0 + 1.0 / spread.here[0], 0.0)


# ---- Which algorithm exists: section 4 ----------------------------------------------------------


def _adds_inside(spread: Spread, reductions: Sequence[Number]) -> Any:
    return spread.used[0] & (reductions[0] > 0.0) & (spread.members <= spread.here[0])


def _adds_below(spread: Spread, reductions: Sequence[Number]) -> Any:
    return spread.used[0] & (reductions[0] > 0.0) & spread.outer


def _adds_above(spread: Spread, reductions: Sequence[Number]) -> Any:
    able = spread.outer
    for used, reduction in zip(spread.used[1:], reductions[1:], strict=True):
        able = able & (where(used, reduction, 1.0) > 0.0)
    return able


def _alone_in_its_node(spread: Spread, reductions: Sequence[Number]) -> Any:
    return (spread.here[0] <= 1.0) & spread.outer


def _inside(spread: Spread, reductions: Sequence[Number]) -> Any:
    return spread.members <= spread.here[0]


def _switch_latency(library: Any, _: Spread) -> Any:
    return library.nvls_latency


def _pat_ranks(library: Any, spread: Spread) -> Any:
    return library.pat_rank * spread.members


def _peers(library: Any, spread: Spread) -> Any:
    return (spread.members - 1.0) * library.peer


FIRST = (True, False, False, False)  # tiers whose switches add
RING, LADDER = Algorithm(_ring), Algorithm(_ladder)
GATHERS = {
    Method.RING: RING,
    Method.PAT: Algorithm(_pat, True, setup=_pat_ranks, exists=_alone_in_its_node),
    Method.LADDER: LADDER,
}
REDUCTIONS = {
    Method.RING: RING,
    Method.TREE: Algorithm(_tree, low_rate=1.0 / TREE_LOW, low_steps=(1.0, 2.0, 2.0, 2.0)),
    Method.NVLS: Algorithm(_nvls, True, FIRST, setup=_switch_latency, exists=_adds_inside),
    Method.NVLS_TREE: Algorithm(_nvls_tree, True, FIRST, setup=_switch_latency, exists=_adds_below),
    Method.SHARP: Algorithm(_sharp, True, (False, True, True, True), exists=_adds_above),
    Method.LADDER: LADDER,
    Method.HALVING: Algorithm(_halving),
    Method.ONE_SHOT: Algorithm(_one_shot, exists=_inside),
    Method.TWO_SHOT: Algorithm(_two_shot, exists=_inside),
}
EXCHANGE = Algorithm(_exchange, scattered=True, setup=_peers)
ALGORITHMS = {
    Op.ALL_REDUCE: REDUCTIONS,
    Op.ALL_GATHER: GATHERS,
    Op.REDUCE_SCATTER: GATHERS,
    Op.ALL_TO_ALL: {Method.DIRECT: EXCHANGE},
    Op.BROADCAST: {Method.RING: Algorithm(_pipelined)},
    Op.REDUCE: {Method.RING: Algorithm(_pipelined)},
    Op.SENDRECV: {Method.DIRECT: Algorithm(_outermost, single=True)},
}
SENT = dict.fromkeys(Op, 1.0) | {Op.ALL_REDUCE: 2.0}  # how often a ring sends everything
COPIED = (Op.ALL_GATHER, Op.REDUCE_SCATTER)  # operations that copy out of place
NAMED_ALONE = (Method.LADDER, Method.HALVING, Method.ONE_SHOT, Method.TWO_SHOT)
CANDIDATES = {  # of each operation in the order of preference: the first wins a tie
    op: tuple(
        (method, protocol)
        for method, one in methods.items()
        if method not in NAMED_ALONE
        for protocol in Protocol
        if protocol is Protocol.BULK or not one.bulk_alone
    )
    for op, methods in ALGORITHMS.items()
}
FACTORS = {  # bus bandwidth over V / time, of g ranks
    **dict.fromkeys(Op, lambda members: 1.0),
    Op.ALL_REDUCE: lambda members: 2.0 * others(members),
    **dict.fromkeys((Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL), others),
}


# ---- The time of one algorithm ------------------------------------------------------------------


class Lane(NamedTuple):
    """What a collective takes under one algorithm and protocol, affine in the buffer."""

    start: Number  # of an empty buffer [s]
    tiers: tuple[Number, ...]  # each tier's transfers [s/B]
    copied: Number  # [s/B]
    capped: tuple[Any, ...]  # where the low-latency protocol caps a tier's rate

    def sent(self, message: Any) -> Any:
        """Return the seconds of the transfers alone."""
        slowest = self.tiers[0]
        for tier in self.tiers[1:]:
            slowest = larger(slowest, tier)
        return message * slowest

    def time(self, message: Any) -> Any:
        """Return the seconds of the collective, 0 for an empty buffer."""
        time = self.start + self.sent(message) + message * self.copied
        return where(message > 0.0, time, 0.0)


def link_rate(tier: Any, here: Number, single: bool = False) -> Number:
    """Return what endless messages reach in a tier, R = B health / o e mesh [B/s].

    Of a full mesh of m links without switch, n ranks use n - 1; one message uses one.
    """
    links = larger(tier.mesh, 1.0)
    used = 1.0 if single else smaller(larger(here - 1.0, 1.0), links)
    meshed = where(tier.mesh > 1.0, used / links, 1.0)
    return tier.bandwidth * tier.health / tier.oversubscription * tier.efficiency * meshed


def switch_rate(tier: Any) -> Number:
    """Return the rate at which a tier's switches add and multicast, Q = B health / o r [B/s]."""
    return tier.bandwidth * tier.health / tier.oversubscription * tier.reduction


def lane(
    op: Op,
    method: Method,
    protocol: Protocol,
    spread: Spread,
    tiers: Sequence[Any],
    library: Any,
) -> Lane:
    """Return what a collective takes under an algorithm and a protocol.

    bulk: rate_k = R_k (Q_k where switches add); low: rate_k = min(R_k, rate_low_k)
    """
    way, low = ALGORITHMS[op][method], protocol is Protocol.LOW
    rows = way.rows(spread, SENT[op])
    several = spread.members > 1.0
    start = library.base + where(spread.outer, library.base_net, 0.0) + way.setup(library, spread)
    seconds, capped = [], []
    for level, tier in enumerate(tiers):
        rate = link_rate(tier, spread.here[level], way.single)
        if way.switched[level]:
            rate = switch_rate(tier)
        rate = rate * (library.scatter if way.scattered else 1.0)
        hop, cap = tier.hop, False
        if low:
            most = tier.rate_low * way.low_rate
            cap, rate = most < rate, smaller(rate, most)
            relayed = where(spread.outer, library.relay_low, 0.0) if level == 0 else 0.0
            hop = (tier.hop_low + relayed) * way.low_steps[level]
        start = start + rows.steps[level] * hop
        share = where(several, rows.shares[level], 0.0)
        seconds.append(share / (rate + NOTHING))  # finite where a tier has no rate, or no bytes
        capped.append(cap)
    copied: Number = 0.0
    if op in COPIED and not low:  # out of place: V / (g copy)
        copies = several & (library.copy > 0.0)
        copied = where(copies, 1.0 / (spread.members * (library.copy + NOTHING)), 0.0)
    return Lane(where(several, start, 0.0), tuple(seconds), copied, tuple(capped))


def first_least(times: Sequence[Number], exists: Sequence[Any]) -> Number:
    """Return the number of the least time among those that exist; the first wins a tie.

    >>> float(first_least((3.0, 1.0, 1.0), (True, True, True)))
    1.0
    """
    least: Number = where(exists[0], times[0], math.inf)
    chosen: Number = where(exists[0], 0.0, 0.0)
    for number, (time, there) in enumerate(zip(times[1:], exists[1:], strict=True), 1):
        better = there & (time < least)
        least, chosen = where(better, time, least), where(better, float(number), chosen)
    return chosen


# ---- Tokens to their experts: section 5 ---------------------------------------------------------


def dispatch(
    tokens: Number,
    choices: Number,
    spread: Spread,
    tiers: Sequence[Any],
    shares: Sequence[Number],
    base: Number,
    base_net: Number,
    targets: Callable[[Number, Number], Number] = distinct_targets,
) -> Number:
    """Return the time in which each rank sends its tokens to the ranks of their experts.

    bytes_0 = N U(e) (1 - 1 / i_0), bytes_k = N U(e / p_1) (1 - p_k / e), one copy a fast domain;
    time = base + outer base_net + max of bytes_k / (B_k health_k / o_k share_k)

    Arguments: ``tokens`` is what a rank's tokens weigh [B]; ``shares`` what the kernels reach of
    each tier; ``targets`` gives U(z): ``least_targets`` of balanced routing, and ``every_choice``
    without copies forwarded.
    """
    near, ranks = spread.here[0], spread.members
    far = targets(larger(ranks / near, 1.0), choices)
    slowest: Number = 0.0
    for level, (tier, share) in enumerate(zip(tiers, shares, strict=True)):
        here = targets(ranks, choices) * (1.0 - 1.0 / near)
        away = where(spread.used[level], far * (1.0 - spread.below[level] / ranks), 0.0)
        carried = tokens * (away if level else here)
        rate = tier.bandwidth * tier.health / tier.oversubscription * share
        slowest = larger(slowest, carried / (rate + NOTHING))
    time = base + where(spread.outer, base_net, 0.0) + slowest
    return where(ranks > 1.0, time, 0.0)


def least_targets(targets: Number, choices: Number) -> Number:
    """Return U(z) = min(T, z): choices that fall on different targets."""
    return smaller(choices, targets)


def every_choice(targets: Number, choices: Number) -> Number:
    """Return U(z) = T: a copy for every choice."""
    return choices


# ---- Several messages beside work: section 7 ----------------------------------------------------


def window(
    work: Number,
    times: Sequence[Number],
    loads: Sequence[Sequence[Number]],
    drags: Sequence[Number],
    slow: Number = OVERLAP_SLOWDOWN,
) -> Number:
    """Return the time of work with collectives beside it, each of which loads every tier.

    t = smax(C + slow sum of Z_c, T_1, T_2, .., sum of L_c0, sum of L_c1, ..)

    Assumes: a tier serves its collectives one after the other; ``loads`` are those of a collective
    by tier.
    """
    slowed = work + slow * sum(drags[1:], drags[0])
    tiers = [sum(column[1:], column[0]) for column in zip(*loads, strict=True)]
    return smooth_largest((slowed, *times, *tiers), SHARP)
