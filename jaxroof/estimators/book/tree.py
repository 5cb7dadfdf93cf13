"""Collectives in a node of accelerators and over a tree of switches.

A level has D children, each with rate w up to it; a level of one child costs nothing. V is the
whole array (after a gather, before a scatter). Levels overlap: data streams through all at once.

Source: docs/models/op_rooflines.md, sections 6 and 9.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers
from jaxroof.estimators.book.common import ROUND, ratio_or_none, shared
from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.formulas.network import distinct_targets, others
from jaxroof.records import Number, quantity, record


class Collective(enum.Enum):
    """What accelerators do together."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"


# Who adds up what an all-reduce sums: the accelerators, or the switches on the way.
Reduction = enum.Enum("Reduction", {"ENDS": "ends", "SWITCHES": "switches"})
# How much of an all-to-all is sent: all, or what ``active`` places a token need.
Ragged = enum.Enum("Ragged", {"DENSE": "dense", "APPROXIMATE": "approximate", "EXACT": "exact"})


@dataclasses.dataclass(frozen=True)
class TreeRecipe:
    """The collective, who reduces, and how ragged an all-to-all is."""

    collective: Collective = Collective.ALL_GATHER
    reduction: Reduction = Reduction.ENDS
    ragged: Ragged = Ragged.DENSE


@record
class TreeInputs:
    """The array, the levels of the tree and the machine, whose fast domain is a node.

    Unless given, bandwidths of the upper levels are an H100 pod's; a level of 1 costs nothing.
    """

    system: System
    rows: Number = quantity("1", "Elements of the first dimension.", default=1.0)
    columns: Number = quantity("1", "Elements of the second dimension.", default=1.0)
    depth: Number = quantity("1", "Elements of the third dimension.", default=1.0)
    width: Number = quantity("B", "Bytes of one element.", default=2.0)
    nodes: Number = quantity(
        "1", "Nodes of one unit, below one level of switches.", whole=True, default=1.0
    )
    node_bandwidth: Number = quantity("B/s", "Bandwidth of a node to its leaves.", default=4e11)
    units: Number = quantity("1", "Units of the pod, below its spine.", whole=True, default=1.0)
    unit_bandwidth: Number = quantity("B/s", "Bandwidth of a unit to the spine.", default=12.8e12)
    inner: Number = quantity(
        "1", "Accelerators that each copy is sharded over.", whole=True, default=1.0
    )
    active: Number = quantity("1", "Places that each token is sent to.", default=1.0, symbol="k")


@record
class TreeCommunication:
    """Time of a collective over a tree, by levels, which overlap."""

    devices: Number = quantity("1", "Accelerators that take part.")
    message: Number = quantity("B", "The array: after a gather, before a scatter.")
    time: Number = quantity("s", "The longest of the levels' times.", headline=True)
    node_time: Number = quantity("s", "Time inside the nodes.")
    leaf_time: Number = quantity("s", "Time between nodes.")
    spine_time: Number = quantity("s", "Time between units.")
    simple_time: Number = quantity("s", "Time as if every level in use had many children.")
    simple_scale_time: Number = quantity("s", "The same of the levels above the nodes.")
    rate: Number = quantity("B/s", "Bytes of the array over time.", better="higher")
    node_rate: Number = quantity("B/s", "Gather rate of a node; 0 of one member.", better="higher")
    leaf_rate: Number = quantity("B/s", "Gather rate of a unit; 0 of one node.", better="higher")
    spine_rate: Number = quantity("B/s", "Gather rate of the pod; 0 of one unit.", better="higher")
    node_binds: Any = quantity("1", "The nodes' own time is the longest.")
    ragged_share: Number = quantity("1", "Part of an all-to-all that ``active`` places need.")
    ragged_share_exact: Number = quantity("1", "The same where places may coincide.")
    ragged_factor: Number = quantity("1", "The first, of that the part that leaves its place.")
    ragged_factor_exact: Number = quantity("1", "The second, of that the part that leaves.")


class Levels(NamedTuple):
    """Seconds a byte of the array, by level."""

    node: Number
    leaf: Number
    spine: Number


def _spread(inputs: TreeInputs, levels: Levels) -> Levels:
    """Return levels' times where each copy is sharded inside by Y: the node first, then above."""
    accelerators = inputs.system.fast_domain
    out = accelerators / larger(accelerators, inputs.inner)
    inside = smaller(inputs.inner, accelerators)
    return Levels(levels.node / inside, levels.leaf * out, levels.spine * out)


def _each(inputs: TreeInputs, cost: Callable[[Number, Number], Number]) -> Levels:
    i = inputs
    return Levels(
        cost(i.system.fast_domain, i.system.fast_bandwidth),
        cost(i.nodes, i.node_bandwidth),
        cost(i.units, i.unit_bandwidth),
    )


def _gather(inputs: TreeInputs) -> Levels:
    """Return (D - 1) / (D w): each child receives the parts of the others."""
    return _each(inputs, lambda children, rate: others(children) / rate)


def _simple(inputs: TreeInputs) -> Levels:
    """Return 1 / w, for many children, or where the switch reduces."""
    return _each(inputs, lambda children, rate: shared(children) / rate)


def _all_to_all(inputs: TreeInputs) -> Levels:
    """Return o / (M^2 w): each of M members holds V / M, of which each of o others gets 1 / M."""
    i, per_node = inputs, inputs.system.fast_domain
    nodes = i.nodes * i.units
    every = per_node * nodes
    return Levels(
        (per_node - 1.0) / (every * every * i.system.fast_bandwidth),
        (nodes - 1.0) / (nodes * nodes * i.node_bandwidth),
        (i.units - 1.0) / (i.units * i.units * i.unit_bandwidth),
    )


def ragged_share(active: Number, destinations: Number) -> Number:
    """Return min(k / Z, 1), of a full all-to-all, if each token goes to k of Z places."""
    return smaller(active / destinations, 1.0)


def ragged_share_exact(active: Number, destinations: Number) -> Number:
    """Return the same if the k places are drawn at random and may coincide."""
    return distinct_targets(destinations, active) / destinations


def level_rate(children: Number, bandwidth: Number) -> Number:
    """Return w D / (D - 1), the rate at which a level gathers; 0 for one child [B/s]."""
    some = shared(children)
    return some * bandwidth * children / (children - some)


Cost = Callable[[TreeInputs], Levels]
COSTS: dict[tuple[Collective, Reduction], tuple[float, Cost]] = {
    (Collective.ALL_REDUCE, Reduction.ENDS): (2.0, _gather),
    (Collective.ALL_REDUCE, Reduction.SWITCHES): (1.0, _simple),
    **{(Collective.ALL_GATHER, who): (1.0, _gather) for who in Reduction},
    **{(Collective.REDUCE_SCATTER, who): (1.0, _gather) for who in Reduction},
    **{(Collective.ALL_TO_ALL, who): (1.0, _all_to_all) for who in Reduction},
}
SIMPLE: dict[Cost, Cost] = {_gather: _simple, _simple: _simple, _all_to_all: _all_to_all}
SHARES: dict[Ragged, Callable[[Number, Number], Number]] = {
    Ragged.DENSE: lambda active, destinations: 1.0,
    Ragged.APPROXIMATE: ragged_share,
    Ragged.EXACT: ragged_share_exact,
}
RAGGED = dict.fromkeys(Collective, False) | {Collective.ALL_TO_ALL: True}


@answers(ROUND, rows=4096.0, columns=8192.0, nodes=4.0, units=2.0, active=3.0)
def tree(inputs: TreeInputs, recipe: TreeRecipe) -> TreeCommunication:
    """Return the time of a collective over a tree at the peak rates; hops take no time.

    Of an all-to-all, the links of a node carry what stays inside, those above what leaves.
    """
    i, bandwidth = inputs, inputs.system.fast_bandwidth
    devices = i.system.fast_domain * i.nodes * i.units
    message = i.rows * i.columns * i.depth * i.width
    times, cost = COSTS[recipe.collective, recipe.reduction]
    kind = recipe.ragged if RAGGED[recipe.collective] else Ragged.DENSE
    sent = message * times * SHARES[kind](i.active, devices)
    levels = Levels(*(sent * level for level in _spread(i, cost(i))))
    simple = _spread(i, SIMPLE[cost](i))
    longest = larger(larger(levels.node, levels.leaf), levels.spine)
    above = larger(simple.leaf, simple.spine)
    share = ragged_share(i.active, devices)
    exact = ragged_share_exact(i.active, devices)
    leaves = others(devices)
    return TreeCommunication(
        devices=devices,
        message=message,
        time=longest,
        node_time=levels.node,
        leaf_time=levels.leaf,
        spine_time=levels.spine,
        simple_time=sent * larger(simple.node, above),
        simple_scale_time=sent * above,
        rate=ratio_or_none(message, longest),
        node_rate=level_rate(i.system.fast_domain, bandwidth),
        leaf_rate=level_rate(i.nodes, i.node_bandwidth),
        spine_rate=level_rate(i.units, i.unit_bandwidth),
        node_binds=levels.node >= longest,
        ragged_share=share,
        ragged_share_exact=exact,
        ragged_factor=share * leaves,
        ragged_factor_exact=exact * leaves,
    )
