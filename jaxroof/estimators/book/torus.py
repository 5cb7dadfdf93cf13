"""Collectives on a torus of links, or on lines without wraparound.

V is the whole array (after a gather, before a scatter), W1 the rate of a link one way, W that of a
ring's axis both ways, n the devices, a the axes of more than one device, X the longest of them.

Source: docs/models/op_rooflines.md, sections 3 and 9; several axes share the load equally (ours).
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers
from jaxroof.estimators.book.common import ROUND, ratio_or_none, shared
from jaxroof.formulas.arithmetic import larger, where, whole
from jaxroof.formulas.network import others
from jaxroof.records import Number, quantity, record


class Collective(enum.Enum):
    """What devices do together; ``send`` is from one to the farthest other, all of the array."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    PERMUTE = "permute"
    SEND = "send"


# How an axis is linked: a ring both ways, a line both ways, or a ring used one way.
Topology = enum.Enum("Topology", {"RING": "ring", "LINE": "line", "ONE_WAY": "one_way"})


@dataclasses.dataclass(frozen=True)
class TorusRecipe:
    """The collective and the links of its axes."""

    collective: Collective = Collective.ALL_GATHER
    topology: Topology = Topology.RING


@record
class TorusInputs:
    """The array that is gathered, scattered or sent, the axes that it goes over, the machine."""

    system: System
    rows: Number = quantity("1", "Elements of the first dimension.")
    columns: Number = quantity("1", "Elements of the second dimension.", default=1.0)
    depth: Number = quantity("1", "Elements of the third dimension.", default=1.0)
    width: Number = quantity("B", "Bytes of one element.", default=2.0)
    x: Number = quantity("1", "Devices along the first axis in use.", whole=True, symbol="X")
    y: Number = quantity(
        "1", "Devices along the second axis in use.", whole=True, default=1.0, symbol="Y"
    )
    z: Number = quantity(
        "1", "Devices along the third axis in use.", whole=True, default=1.0, symbol="Z"
    )
    other_shards: Number = quantity(
        "1", "Parts that other axes of the mesh cut the array into.", default=1.0
    )
    directions: Number = quantity(
        "1",
        "Directions in which a ring sends at once; 1 if link_bandwidth counts both.",
        default=2.0,
    )


@record
class Communication:
    """Time of a collective by its bytes and by its hops."""

    devices: Number = quantity("1", "Devices that take part.")
    message: Number = quantity("B", "The array: after a gather, before a scatter.")
    link_bytes: Number = quantity("B", "Bytes that the busiest link carries one way.")
    hops: Number = quantity("1", "Hops that data goes, one after the other.")
    time: Number = quantity(
        "s", "The larger of the time of hops and the time of bytes.", headline=True
    )
    serial_time: Number = quantity("s", "Their sum.")
    latency_time: Number = quantity("s", "Time of the hops: when the first byte is there.")
    bandwidth_time: Number = quantity("s", "Time of the bytes.")
    latency_bound: Any = quantity("1", "Hops take longer than bytes.")
    critical_message: Number = quantity("B", "Array below which hops take longer than bytes.")
    hop_message: Number = quantity("B", "Buffer that a link carries in the latency of one hop.")
    chunks: Number = quantity("1", "Chunks that a device of a two-way ring sends, all to all.")
    gather_ratio: Number = quantity("1", "Bytes' time of an all-gather over that of this.")


class Links(NamedTuple):
    """What every collective reads: bytes, sizes, hops and rates."""

    message: Number
    devices: Number
    axes: Number
    longest: Number
    link: Number  # one way
    axis: Number  # of a ring, both ways


Bytes = Callable[[Links], Number]


def _ring_gather(links: Links) -> Number:
    """Return V / (a W); a device's own shard counts, too (large axes)."""
    return where(links.axes > 0.0, links.message, 0.0) / (larger(links.axes, 1.0) * links.axis)


def _line_gather(links: Links) -> Number:
    """Return V (1 - 1 / n) / (a W1): a device at the end receives over one link an axis."""
    return links.message * others(links.devices) / (larger(links.axes, 1.0) * links.link)


def _middle(links: Links, rate: Number) -> Number:
    """Return V X / (4 n W): the middle of an axis carries a quarter of what its devices hold."""
    sent = shared(links.devices) * links.message * links.longest
    return sent / (4.0 * links.devices * rate)


def _one_way_all_to_all(links: Links) -> Number:
    """Return V (X - 1) / (2 n W1): a chunk takes (X - 1) / 2 hops on average."""
    return links.message * (links.longest - 1.0) / (2.0 * links.devices * links.link)


def _shift(links: Links) -> Number:
    """Return V / (n W1): each device sends its shard to its neighbour."""
    return shared(links.devices) * links.message / (links.devices * links.link)


def _send(links: Links, ports: Number) -> Number:
    """Return V / (p W1), from corner to corner over disjoint paths: a of a line, 2 a of a ring."""
    return where(ports > 0.0, links.message, 0.0) / (larger(ports, 1.0) * links.link)


GATHERS: dict[Topology, Bytes] = {
    Topology.RING: _ring_gather,
    Topology.LINE: _line_gather,
    Topology.ONE_WAY: _line_gather,
}
ALL_TO_ALLS: dict[Topology, Bytes] = {
    Topology.RING: lambda links: _middle(links, links.axis),
    Topology.LINE: lambda links: _middle(links, links.link),
    Topology.ONE_WAY: _one_way_all_to_all,
}
SENDS: dict[Topology, Bytes] = {
    Topology.RING: lambda links: _send(links, links.axes * links.axis / links.link),
    Topology.LINE: lambda links: _send(links, links.axes),
    Topology.ONE_WAY: lambda links: _send(links, links.axes),
}
BYTES: dict[Collective, dict[Topology, Bytes]] = {
    Collective.ALL_GATHER: GATHERS,
    Collective.REDUCE_SCATTER: GATHERS,
    Collective.ALL_REDUCE: GATHERS,
    Collective.ALL_TO_ALL: ALL_TO_ALLS,
    Collective.PERMUTE: dict.fromkeys(Topology, _shift),
    Collective.SEND: SENDS,
}
# An all-reduce is a reduce-scatter, then an all-gather.
TIMES = dict.fromkeys(Collective, 1.0) | {Collective.ALL_REDUCE: 2.0}

Hops = Callable[[Number, Number, Number], Number]


def _ring_hops(x: Number, y: Number, z: Number) -> Number:
    """Return half of each axis in use, both directions at once."""
    return (x * shared(x) + y * shared(y) + z * shared(z)) / 2.0


def _line_hops(x: Number, y: Number, z: Number) -> Number:
    """Return the hops from end to end of every axis; the same for rings that run one way."""
    return (x - 1.0) + (y - 1.0) + (z - 1.0)


def _far_hops(x: Number, y: Number, z: Number) -> Number:
    """Return the hops to the farthest device where axes wrap around."""
    return whole(x, 2.0) + whole(y, 2.0) + whole(z, 2.0)


ROUNDS: dict[Topology, Hops] = {
    Topology.RING: _ring_hops,
    Topology.LINE: _line_hops,
    Topology.ONE_WAY: _line_hops,
}
FARTHEST: dict[Topology, Hops] = ROUNDS | {Topology.RING: _far_hops}


def _one_hop(x: Number, y: Number, z: Number) -> Number:
    return shared(x * y * z)


HOPS: dict[Collective, dict[Topology, Hops]] = {
    **dict.fromkeys(Collective, ROUNDS),
    Collective.PERMUTE: dict.fromkeys(Topology, _one_hop),
    Collective.SEND: FARTHEST,
}


@answers(ROUND, rows=1024.0, columns=4096.0, x=4.0, y=6.0, other_shards=2.0)
def torus(inputs: TorusInputs, recipe: TorusRecipe) -> Communication:
    """Return the time of a collective at the peak rate of the links, hops included.

    A two-way ring of N sends floor(N^2 / 4) chunks a device, all to all; a link carries W1 tau B
    in the latency tau of a hop.
    """
    i, sizes = inputs, (inputs.x, inputs.y, inputs.z)
    link, latency = i.system.link_bandwidth, i.system.link_latency
    devices = i.x * i.y * i.z
    message = i.rows * i.columns * i.depth * i.width / i.other_shards
    axes, longest = shared(i.x) + shared(i.y) + shared(i.z), larger(larger(i.x, i.y), i.z)
    links = Links(message, devices, axes, longest, link, i.directions * link)
    times = TIMES[recipe.collective]
    hops = times * HOPS[recipe.collective][recipe.topology](*sizes)
    hop_time = hops * latency
    byte_time = times * BYTES[recipe.collective][recipe.topology](links)
    return Communication(
        devices=devices,
        message=message,
        link_bytes=byte_time * link,
        hops=hops,
        time=larger(hop_time, byte_time),
        serial_time=hop_time + byte_time,
        latency_time=hop_time,
        bandwidth_time=byte_time,
        latency_bound=hop_time > byte_time,
        critical_message=ratio_or_none(message * hop_time, byte_time),
        hop_message=link * latency,
        chunks=whole(devices * devices, 4.0),
        gather_ratio=ratio_or_none(GATHERS[recipe.topology](links), byte_time),
    )
