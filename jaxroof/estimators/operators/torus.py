"""Collectives on a torus of links, or on lines without wraparound."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.recipe import example_system
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import torus as costs
from jaxroof.formulas.arithmetic import larger
from jaxroof.formulas.sharding import mesh_devices, shared
from jaxroof.records import Number, quantity, record


class Collective(enum.Enum):
    """What devices do together; ``send`` is from one to the farthest other, all of the array."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    PERMUTE = "permute"
    SEND = "send"


class Topology(enum.Enum):
    """How an axis is linked: a ring both ways, a line both ways, or a ring used one way."""

    RING = "ring"
    LINE = "line"
    ONE_WAY = "one_way"


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
    return costs.ring_gather(links.message, links.axes, links.axis)


def _line_gather(links: Links) -> Number:
    return costs.line_gather(links.message, links.devices, links.axes, links.link)


def _ring_all_to_all(links: Links) -> Number:
    return costs.ring_all_to_all(links.message, links.devices, links.longest, links.axis)


def _line_all_to_all(links: Links) -> Number:
    return costs.line_all_to_all(links.message, links.devices, links.longest, links.link)


def _one_way_all_to_all(links: Links) -> Number:
    return costs.one_way_all_to_all(links.message, links.devices, links.longest, links.link)


def _shift(links: Links) -> Number:
    return costs.shift(links.message, links.devices, links.link)


def _ring_send(links: Links) -> Number:
    return costs.send(links.message, links.axes * links.axis / links.link, links.link)


def _line_send(links: Links) -> Number:
    return costs.send(links.message, links.axes, links.link)


GATHERS: dict[Topology, Bytes] = {
    Topology.RING: _ring_gather,
    Topology.LINE: _line_gather,
    Topology.ONE_WAY: _line_gather,
}
ALL_TO_ALLS: dict[Topology, Bytes] = {
    Topology.RING: _ring_all_to_all,
    Topology.LINE: _line_all_to_all,
    Topology.ONE_WAY: _one_way_all_to_all,
}
SENDS: dict[Topology, Bytes] = {
    Topology.RING: _ring_send,
    Topology.LINE: _line_send,
    Topology.ONE_WAY: _line_send,
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
ROUNDS: dict[Topology, Hops] = {
    Topology.RING: costs.ring_hops,
    Topology.LINE: costs.line_hops,
    Topology.ONE_WAY: costs.line_hops,
}
FARTHEST: dict[Topology, Hops] = ROUNDS | {Topology.RING: costs.far_hops}


def _one_hop(x: Number, y: Number, z: Number) -> Number:
    return shared(mesh_devices(x, y, z))


HOPS: dict[Collective, dict[Topology, Hops]] = {
    **dict.fromkeys(Collective, ROUNDS),
    Collective.PERMUTE: dict.fromkeys(Topology, _one_hop),
    Collective.SEND: FARTHEST,
}


def step(inputs: TorusInputs, recipe: TorusRecipe) -> Communication:
    """Return the time of a collective at the peak rate of the links, hops included."""
    i, sizes = inputs, (inputs.x, inputs.y, inputs.z)
    link, latency = i.system.link_bandwidth, i.system.link_latency
    devices = mesh_devices(*sizes)
    message = i.rows * i.columns * i.depth * i.width / i.other_shards
    longest = larger(larger(i.x, i.y), i.z)
    links = Links(message, devices, costs.used_axes(*sizes), longest, link, i.directions * link)
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
        critical_message=costs.critical_message(message, hop_time, byte_time),
        hop_message=costs.hop_message(link, latency),
        chunks=costs.chunks(devices),
        gather_ratio=costs.time_ratio(GATHERS[recipe.topology](links), byte_time),
    )


def example() -> TorusInputs:
    """Return a gather over one plane of a torus."""
    return TorusInputs(
        system=example_system(), rows=1024.0, columns=4096.0, x=4.0, y=6.0, other_shards=2.0
    )


torus = Estimator(
    step=step,
    inputs=TorusInputs,
    recipe=TorusRecipe(),
    name="torus",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["torus"],
)
