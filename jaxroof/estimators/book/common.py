"""What the chapters share: machines, rates, number formats and the answer of every roofline.

Source: docs/models/op_rooflines.md, section 1.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.catalog.system import System
from jaxroof.errors import refusal
from jaxroof.estimators.answers import higher
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where
from jaxroof.records import Absent, Number, quantity, record

Rate = Callable[[System], Number]
DAY = 86400.0  # seconds
YEAR = 365.0  # days


def value_or(value: Any, otherwise: Callable[[], Number]) -> Number:
    """Return a number of the inputs, or what takes its place where the inputs lack it."""
    return otherwise() if isinstance(value, Absent) else value


def machine(system: System | None) -> System:
    """Return the machine of inputs that may lack one.

    Raises: InputError where the answer needs it.
    """
    if system is None:
        raise refusal("system", "missing; expected a name of the catalogue, or system.FIELD")
    return system


def both_ways(system: System | None) -> Number:
    """Return the bandwidth of a collective on one torus axis, or else inside the fast domain.

    An axis has two links, one each way.
    """
    held = machine(system)
    if isinstance(held.link_bandwidth, Absent):
        return value_or(held.fast_bandwidth, lambda: held.link_bandwidth * 2.0)
    return 2.0 * held.link_bandwidth


def rounded_up(a: Number, b: Number) -> Any:
    """Return a / b rounded up, as a whole number: it has no slope, what it was rounded from has.

    >>> int(rounded_up(7.0, 2.0)), int(rounded_up(6.0, 2.0))
    (4, 3)
    """
    value = ceiling(a, b)
    return value.astype(np.int64) if hasattr(value, "astype") else np.int64(value)


def ratio_or_none(first: Number, second: Number) -> Number:
    """Return first / second, and 0 where the second is 0."""
    some = second > 0.0
    return where(some, first / where(some, second, 1.0), 0.0)


def shared(devices: Number) -> Number:
    """Return 0 for a group of one device, which sends nothing, and 1 for any other."""
    return where(devices > 1.0, 1.0, 0.0)


# ---- Number formats and rates -------------------------------------------------------------------

# Bytes of one element by number format.
DTYPES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}


@record
class Widths:
    """Bytes of one element: of the input, of the weights (or cache) and of the output."""

    input: Number = quantity("B", "Bytes of one element of the input.", default=2.0)
    weight: Number = quantity("B", "Bytes of one element of the weights or cache.", default=2.0)
    output: Number = quantity("B", "Bytes of one element of the output.", default=2.0)


WIDTHS = Widths()


# What does the arithmetic.
Unit = enum.Enum("Unit", {"MATRIX": "matrix", "VECTOR": "vector"})
# Where operands come from and results go to.
Feed = enum.Enum("Feed", {"HBM": "hbm", "ON_CHIP": "on_chip", "HOST": "host"})
# What carries messages: none at all, one torus link one way, or an interconnect.
Link = enum.Enum(
    "Link", {"NONE": "none", "TORUS": "torus", "FAST": "fast", "SLOW": "slow", "NETWORK": "network"}
)


@dataclasses.dataclass(frozen=True)
class Rates:
    """The rates at which an operator of one accelerator runs."""

    unit: Unit = Unit.MATRIX
    feed: Feed = Feed.HBM

    def of(self, system: System) -> tuple[Number, Number]:
        """Return the peak rates of arithmetic and of memory."""
        return UNITS[self.unit](system), FEEDS[self.feed](system)


@dataclasses.dataclass(frozen=True)
class LinkedRates(Rates):
    """The rates at which a kernel runs, and the link that carries its messages."""

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


# A round machine with every rate that an operator may ask for.
ROUND = System(
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


# ---- Rooflines ----------------------------------------------------------------------------------


@record
class Roofline:
    """Work, times, bounds and what binds, of one operator on one accelerator.

    ``lower`` overlaps all transfers with arithmetic, ``upper`` overlaps nothing: their ratio is at
    most the number of resources. What an operator does not use takes no time.
    """

    flops: Number = quantity("FLOP", "Arithmetic of one accelerator.")
    traffic: Number = quantity("B", "Bytes between memory and the chip.")
    message: Number = quantity("B", "Bytes that the links carry, as the collective counts them.")
    math_time: Number = quantity("s", "Time of the arithmetic at the peak rate.")
    memory_time: Number = quantity("s", "Time of the memory traffic.")
    link_time: Number = quantity("s", "Time of the communication.")
    lower: Number = quantity("s", "Least time: everything overlaps.", headline=True)
    upper: Number = quantity("s", "Most time: nothing overlaps.")
    intensity: Number = quantity("FLOP/B", "Arithmetic per byte of memory traffic.")
    balance: Number = quantity("FLOP/B", "Arithmetic per byte at which the machine is balanced.")
    reachable: Number = higher("FLOP/s", "Rate that memory traffic allows, at most the peak.")
    compute_bound: Any = quantity("1", "Arithmetic takes the longest.")
    memory_bound: Any = quantity("1", "Memory traffic takes the longest.")
    link_bound: Any = quantity("1", "Communication takes the longest.")
    critical: Number = quantity("1", "Size from which arithmetic binds, exactly; 0 if none does.")
    critical_small: Number = quantity("1", "The same where that size is small beside the others.")
    critical_exists: Any = quantity("1", "There is a size from which arithmetic binds.")


@record
class ProductRoofline(Roofline):
    """The roofline of a product, and what it tends to."""

    loaded: Number = quantity("B", "Bytes read.")
    written: Number = quantity("B", "Bytes written.")
    row_bytes: Number = quantity("B", "Bytes that one more row, or element, moves.")
    small_intensity: Number = quantity(
        "FLOP/B", "What intensity tends to: a small batch, a long vector, wide matrices."
    )
    small_ratio: Number = quantity("1", "Arithmetic's time over memory's time at that intensity.")


Critical = tuple[Number, Number, Any]  # exact, small beside the others, whether there is one


def critical_rows(
    fixed: Number, row_flops: Number, row_traffic: Number, rate: Number, bandwidth: Number
) -> Critical:
    """Return the rows from which a product is compute bound, 0 where no number of them is.

    B* = (w / W) / (f / C - a / W), at which B f / C = (w + B a) / W; w C / (f W) if rows move
    nothing; there is one where f / C > a / W

    Units: fixed w, row_traffic a [B], row_flops f [FLOP], rates [FLOP/s], [B/s] -> [1].
    """
    gain = row_flops / rate - row_traffic / bandwidth
    some = np.True_ & (row_flops / rate > row_traffic / bandwidth)
    rows = fixed / bandwidth / where(gain > 0.0, gain, 1.0)
    small = fixed * rate / (where(row_flops > 0.0, row_flops, 1.0) * bandwidth)
    return where(gain > 0.0, rows, 0.0), small, some


def roofline(
    flops: Number,
    traffic: Number,
    message: Number,
    link_time: Number,
    rates: tuple[Number, Number],
    critical: Critical,
) -> dict[str, Any]:
    """Return every field of a Roofline, from work, rates in use and critical sizes.

    max(t_math, t_memory, t_link) <= t <= their sum; intensity I = F / n, balance C / W, reachable
    rate min(C, W I)
    """
    rate, bandwidth = rates
    math_time, memory_time = flops / rate, traffic / bandwidth
    intensity = flops / where(traffic > 0.0, traffic, 1.0)
    transfers = larger(memory_time, link_time)
    return {
        "flops": flops,
        "traffic": traffic,
        "message": message,
        "math_time": math_time,
        "memory_time": memory_time,
        "link_time": link_time,
        "lower": larger(larger(math_time, memory_time), link_time),
        "upper": math_time + memory_time + link_time,
        "intensity": intensity,
        "balance": rate / bandwidth,
        "reachable": smaller(bandwidth * intensity, rate),
        "compute_bound": math_time >= transfers,
        "memory_bound": (memory_time > math_time) & (memory_time >= link_time),
        "link_bound": (link_time > math_time) & (link_time > memory_time),
        **dict(zip(("critical", "critical_small", "critical_exists"), critical, strict=True)),
    }


class Product(NamedTuple):
    """The cost of a product of equal rows: FLOP and bytes per row, and bytes moved once.

    ``extra_flops`` do not depend on the rows; ``loaded`` and ``written`` are bytes of all rows.
    """

    row_flops: Number
    row_traffic: Number
    fixed_traffic: Number
    extra_flops: Number
    flops: Number
    loaded: Number
    written: Number


def product_roofline(
    work: Product, small_intensity: Number, rates: tuple[Number, Number]
) -> ProductRoofline:
    """Return the roofline of a product that sends nothing; its critical size is one of rows."""
    rate, bandwidth = rates
    each = (work.row_flops, work.row_traffic, rate, bandwidth)
    _, small, some = critical_rows(work.fixed_traffic, *each)
    exact, _, _ = critical_rows(work.fixed_traffic - work.extra_flops * bandwidth / rate, *each)
    moved = work.loaded + work.written
    return ProductRoofline(
        **roofline(work.flops, moved, 0.0, 0.0, rates, (exact, small, some)),
        loaded=work.loaded,
        written=work.written,
        row_bytes=work.row_traffic,
        small_intensity=small_intensity,
        small_ratio=small_intensity * bandwidth / rate,
    )
