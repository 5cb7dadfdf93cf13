"""What every roofline answers."""

from typing import Any

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
    lower: Number = quantity("s", "Least time: everything overlaps.")
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
