"""Which rates of a machine an operator runs at."""

import dataclasses
import enum
from collections.abc import Callable

from jaxroof.catalog.system import System
from jaxroof.records import Number

Rate = Callable[[System], Number]


class Unit(enum.Enum):
    """What does the arithmetic."""

    MATRIX = "matrix"
    VECTOR = "vector"


class Feed(enum.Enum):
    """Where operands come from and results go to."""

    HBM = "hbm"
    ON_CHIP = "on_chip"
    HOST = "host"


class Link(enum.Enum):
    """What carries messages: none at all, one torus link one way, or an interconnect."""

    NONE = "none"
    TORUS = "torus"
    FAST = "fast"
    SLOW = "slow"
    NETWORK = "network"


@dataclasses.dataclass(frozen=True)
class Rates:
    """The rates at which an operator of one accelerator runs."""

    unit: Unit = Unit.MATRIX
    feed: Feed = Feed.HBM


@dataclasses.dataclass(frozen=True)
class LinkedRates:
    """The rates at which a kernel runs, and the link that carries its messages."""

    unit: Unit = Unit.MATRIX
    feed: Feed = Feed.HBM
    link: Link = Link.NONE


UNITS: dict[Unit, Rate] = {
    Unit.MATRIX: lambda system: system.matrix_flops,
    Unit.VECTOR: lambda system: system.vector_flops,
}
FEEDS: dict[Feed, Rate] = {
    Feed.HBM: lambda system: system.hbm_bandwidth,
    Feed.ON_CHIP: lambda system: system.on_chip_bandwidth,
    Feed.HOST: lambda system: system.pcie_bandwidth,
}
LINKS: dict[Link, Rate] = {
    Link.TORUS: lambda system: system.link_bandwidth,
    Link.FAST: lambda system: system.fast_bandwidth,
    Link.SLOW: lambda system: system.slow_bandwidth * system.nics,
    Link.NETWORK: lambda system: system.network_bandwidth,
}


def example_system() -> System:
    """Return a round machine with every rate that an operator may ask for."""
    return System(
        matrix_flops=2e14,
        vector_flops=4e12,
        hbm_bandwidth=8e11,
        hbm_capacity=16e9,
        fast_domain=8.0,
        fast_bandwidth=4.5e11,
        slow_bandwidth=5e10,
        network_bandwidth=1e11,
        link_bandwidth=4.5e10,
        link_latency=1e-6,
        torus_axes=2.0,
        pcie_bandwidth=1.5e10,
        on_chip_bandwidth=1.8e13,
    )
