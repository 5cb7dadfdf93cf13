"""Collectives inside a node of accelerators on switches, and over a tree of switches above it.

A level has D children, each with rate w up to it; a level of one child costs nothing. V is the
whole array (after a gather, before a scatter).
"""

from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.sharding import shared
from jaxroof.records import Number


def gather_cost(children: Number, bandwidth: Number) -> Number:
    """Return the time of one byte of a gather, or reduce-scatter, at one level.

    c = (D - 1) / (D w)

    Assumes: each child receives the parts of the others.
    Units: children [1], bandwidth (of a child) [B/s] -> [s/B].
    Source: docs/models/op_rooflines.md, section 6.

    >>> gather_cost(8.0, 2.0)
    0.4375
    """
    return (children - 1.0) / (children * bandwidth)


def simple_cost(children: Number, bandwidth: Number) -> Number:
    """Return gather_cost for many children, or the cost of a reduction inside the switch.

    c = 1 / w, 0 for one child

    Assumes: D - 1 is about D; or the switch reduces the data, so that each child sends and receives
    its array once.
    Units: children [1], bandwidth (of a child) [B/s] -> [s/B].
    Source: docs/models/op_rooflines.md, section 6.

    >>> float(simple_cost(8.0, 2.0)), float(simple_cost(1.0, 2.0))
    (0.5, 0.0)
    """
    return shared(children) / bandwidth


def level_rate(children: Number, bandwidth: Number) -> Number:
    """Return the rate at which one level gathers: 0 for one child, which does not gather.

    r = w D / (D - 1)

    Assumes: as gather_cost.
    Units: children [1], bandwidth (of a child) [B/s] -> [B/s].
    Source: docs/models/op_rooflines.md, sections 6 and 9.

    >>> float(level_rate(32.0, 400.0)) / 413.0 > 0.999
    True
    """
    others = children - 1.0
    return shared(children) * bandwidth * children / (others + 1.0 - shared(children))


def all_to_all_cost(others: Number, members: Number, bandwidth: Number) -> Number:
    """Return the time of one byte of an all-to-all at one level.

    c = o / (M^2 w); in one node (N - 1) / (N^2 w), over M nodes (M - 1) / (M^2 w)

    Assumes: each of M members holds V / M, of which each of o others gets 1 / M.
    Units: others, members [1], bandwidth (of a member) [B/s] -> [s/B].
    Source: docs/models/op_rooflines.md, section 6.

    >>> all_to_all_cost(7.0, 8.0, 2.0)
    0.0546875
    """
    return others / (members * members * bandwidth)


def inner_node(accelerators: Number, inner: Number) -> Number:
    """Return the divisor of the node's term if arrays are sharded inside by Y.

    d = min(Y, N)

    Assumes: the inner shards fill a node first.
    Units: accelerators (of a node), inner [1] -> [1].
    Source: docs/models/op_rooflines.md, section 6.

    >>> float(inner_node(8.0, 16.0))
    8.0
    """
    return smaller(inner, accelerators)


def inner_scale_out(accelerators: Number, inner: Number) -> Number:
    """Return the factor of the scale-out term if arrays are sharded inside by Y.

    m = N / max(N, Y)

    Assumes: as inner_node.
    Units: accelerators (of a node), inner [1] -> [1].
    Source: docs/models/op_rooflines.md, section 6.

    >>> float(inner_scale_out(8.0, 16.0)), float(inner_scale_out(8.0, 4.0))
    (0.5, 1.0)
    """
    return accelerators / larger(accelerators, inner)


def largest(node: Number, leaf: Number, spine: Number) -> Number:
    """Return the largest of the terms of three levels, which overlap.

    t = max_i t_i

    Assumes: data streams through all levels at once.
    Units: three of one unit -> the same.
    Source: docs/models/op_rooflines.md, section 6.

    >>> float(largest(1.0, 3.0, 2.0))
    3.0
    """
    return larger(larger(node, leaf), spine)


def ragged_share(active: Number, destinations: Number) -> Number:
    """Return the share of a full all-to-all that is sent if each token goes to k of Z places.

    s = min(k / Z, 1)

    Assumes: every place is on a different accelerator, so no two of the k coincide.
    Units: active, destinations [1] -> [1].
    Source: docs/models/op_rooflines.md, section 6.

    >>> float(ragged_share(4.0, 8.0)), float(ragged_share(9.0, 8.0))
    (0.5, 1.0)
    """
    return smaller(active / destinations, 1.0)


def ragged_share_exact(active: Number, destinations: Number) -> Number:
    """Return ragged_share if the k places are drawn at random and may coincide.

    s = 1 - ((Z - 1) / Z)^k, at most min(k / Z, 1)

    Assumes: a token is sent once to an accelerator that holds several of its places; a single
    accelerator receives all tokens.
    Units: active, destinations [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> round(float(ragged_share_exact(8.0, 64.0)), 6)
    0.118374
    """
    missed = where(destinations > 1.0, 1.0 - 1.0 / destinations, 1.0) ** active
    return where(destinations > 1.0, 1.0 - missed, 1.0)


def others_share(destinations: Number) -> Number:
    """Return the share of data, spread over Z places, that leaves its place.

    s = (Z - 1) / Z

    Assumes: all places are equal.
    Units: destinations [1] -> [1].
    Source: docs/models/op_rooflines.md, section 6.

    >>> others_share(8.0)
    0.875
    """
    return (destinations - 1.0) / destinations


def switch_bandwidth(
    switches: Number, ports: Number, links: Number, port_bandwidth: Number
) -> Number:
    """Return the rate of all ports of all switches, or of all links that leave a group.

    W = n p l w

    Assumes: every port at its full rate, one direction.
    Units: switches, ports, links [1], port_bandwidth [B/s] -> [B/s].
    Source: docs/models/op_rooflines.md, section 9.

    >>> switch_bandwidth(4.0, 64.0, 1.0, 25e9)
    6400000000000.0
    """
    return switches * ports * links * port_bandwidth


def bisection_bandwidth(members: Number, bandwidth: Number) -> Number:
    """Return the rate between two halves of a group, both directions together.

    W = 2 (N / 2) w = N w

    Assumes: switches that do not block; each member sends and receives at w.
    Units: members [1], bandwidth [B/s] -> [B/s].
    Source: docs/models/op_rooflines.md, section 9.

    >>> bisection_bandwidth(8.0, 450e9)
    3600000000000.0
    """
    return members * bandwidth


def reached_rate(message: Number, time: Number) -> Number:
    """Return the bytes of an array divided by the time of its collective.

    r = V / t

    Assumes: 0 where it takes no time.
    Units: message [B], time [s] -> [B/s].
    Source: docs/models/op_rooflines.md, section 6.

    >>> float(reached_rate(4.0, 2.0)), float(reached_rate(4.0, 0.0))
    (2.0, 0.0)
    """
    some = time > 0.0
    return where(some, message / where(some, time, 1.0), 0.0)
