"""How large a call of a compiled search is, by the properties of the device that computes it."""

from typing import Any, NamedTuple

NUMBER = 8  # bytes
RESIDENT = 2048  # threads in flight on a multiprocessor (CUDA C++ Programming Guide, table 28)
SHARE = 1 / 16  # of a device's memory that the block minima of one call may take


class CallSize(NamedTuple):
    """The most that one call gives each device."""

    lanes: int  # machines times limits
    cells: int  # block minima, or plans of the second pass


CPU = CallSize(lanes=1024, cells=1 << 23)  # the lanes stay in the cache of a core


def call_size(device: Any) -> CallSize:
    """Return the most that one call gives a device.

    A GPU gets a lane for each thread that its multiprocessors keep in flight, and as many cells as
    a share of its memory holds. Whatever says nothing of its memory is treated as a CPU core.
    """
    multiprocessors = getattr(device, "core_count", None)
    memory = (device.memory_stats() or {}).get("bytes_limit")
    if device.platform == "cpu" or not multiprocessors or not memory:
        return CPU
    lanes, cells = multiprocessors * RESIDENT, int(memory * SHARE) // NUMBER
    return CallSize(max(CPU.lanes, lanes), max(CPU.cells, cells))
