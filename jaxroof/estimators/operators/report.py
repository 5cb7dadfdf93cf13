"""What every roofline answers."""

from typing import Any

from jaxroof.formulas import roofline as roof
from jaxroof.formulas.arithmetic import larger
from jaxroof.formulas.matmul import Product
from jaxroof.records import Number, quantity, record


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
    reachable: Number = quantity(
        "FLOP/s", "Rate that memory traffic allows, at most the peak.", better="higher"
    )
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


def roofline(
    flops: Number,
    traffic: Number,
    message: Number,
    link_time: Number,
    rate: Number,
    bandwidth: Number,
    critical: Number,
    critical_small: Number,
    critical_exists: Any,
) -> dict[str, Any]:
    """Return every field of a Roofline, from work, rates in use and critical sizes."""
    math_time, memory_time = flops / rate, traffic / bandwidth
    amount = roof.intensity(flops, traffic)
    memory_wins = memory_time > math_time
    transfers = larger(memory_time, link_time)
    return {
        "flops": flops,
        "traffic": traffic,
        "message": message,
        "math_time": math_time,
        "memory_time": memory_time,
        "link_time": link_time,
        "lower": roof.lower_bound(math_time, memory_time, link_time),
        "upper": roof.upper_bound(math_time, memory_time, link_time),
        "intensity": amount,
        "balance": roof.balance(rate, bandwidth),
        "reachable": roof.reachable_rate(amount, rate, bandwidth),
        "compute_bound": math_time >= transfers,
        "memory_bound": memory_wins & (memory_time >= link_time),
        "link_bound": (link_time > math_time) & (link_time > memory_time),
        "critical": critical,
        "critical_small": critical_small,
        "critical_exists": critical_exists,
    }


def product_roofline(
    work: Product, small_intensity: Number, rate: Number, bandwidth: Number
) -> ProductRoofline:
    """Return the roofline of a product that sends nothing; its critical size is one of rows."""
    fixed = work.fixed_traffic - work.extra_flops * bandwidth / rate
    common = roofline(
        work.flops,
        work.loaded + work.written,
        0.0,
        0.0,
        rate,
        bandwidth,
        roof.critical_rows(fixed, work.row_flops, work.row_traffic, rate, bandwidth),
        roof.critical_rows_small(work.fixed_traffic, work.row_flops, rate, bandwidth),
        roof.rows_can_bind(work.row_flops, work.row_traffic, rate, bandwidth),
    )
    return ProductRoofline(
        **common,
        loaded=work.loaded,
        written=work.written,
        row_bytes=work.row_traffic,
        small_intensity=small_intensity,
        small_ratio=small_intensity / roof.balance(rate, bandwidth),
    )
