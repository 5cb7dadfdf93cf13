"""Pipeline schedules as data, by name: the order of visits on every device.

A schedule is independent of the model: stages, devices and microbatches are integers, and the costs
of visits are arguments of ``clock.visit_times``. A new schedule needs its order in ``orders``, a
line here, and its published figures in ``published``.
"""

import functools
from typing import TYPE_CHECKING

from jaxroof.errors import refusal, shown, spelled, unknown
from jaxroof.limits import BOUNDS, check_memory, counted

if TYPE_CHECKING:
    from jaxroof.schedules.table import Schedule

NAMES = ("gpipe", "1f1b-greedy", "1f1b", "interleaved", "zb-h1", "dualpipe")
LISTED = {"interleaved": "interleaved", "zb-h1": "zero_bubble", "dualpipe": "dualpipe"}
VISIT = 1000  # bytes of a visit while a schedule is built
CHUNKED = ("interleaved",)  # schedules with a choice of stages per device


@functools.lru_cache(maxsize=256)
def build(name: str, devices: int, microbatches: int, chunks: int = 1) -> "Schedule":
    """Return a schedule by name.

    Arguments: ``chunks`` is the number of stages per device, if the schedule has that choice.
    Raises: InputError for sizes that the schedule does not allow, with those it does, and TooLarge
    for more visits than fit in memory.

    >>> build("1f1b", 4, 8).timesteps
    22
    """
    name = spelled(name, NAMES)
    if name not in NAMES:
        raise unknown("", name, "schedule", NAMES)
    for what, count in (("devices", devices), ("microbatches", microbatches), ("chunks", chunks)):
        if not count >= 1 or count % 1:
            raise refusal(name, f"{what}: expected a whole number from 1, given {shown(count)}")
    if chunks != 1 and name not in CHUNKED:
        said = f"chunks: not a choice of this schedule, given {chunks}; expected 1"
        raise refusal(name, f"{said}, or the schedule {CHUNKED[0]!r}")
    from jaxroof.schedules import orders

    devices, microbatches, chunks = int(devices), int(microbatches), int(chunks)
    _check_visits(name, devices, microbatches, chunks)
    if name in LISTED:
        more = (chunks,) if name in CHUNKED else ()
        found: Schedule = getattr(orders, LISTED[name])(devices, microbatches, *more)
    else:
        found = orders.closed_form(name, devices, microbatches)
    for cells in (found.kind, found.stage, found.microbatch, found.handed):
        cells.flags.writeable = False  # all callers share it
    return found


def _check_visits(name: str, devices: int, microbatches: int, chunks: int = 1) -> None:
    """Check that the visits of a schedule are not too many, and fit in memory while it is built.

    visits = 3 devices x microbatches x chunks: forward, backward and weight gradient
    Raises: InputError with the size, the limit and the way out.
    """
    visits = 3 * devices * microbatches * chunks
    many, remedy = counted(visits, "visit"), "expected fewer microbatches"
    if visits > BOUNDS["visits"]:
        said = f"{many} of stages, and at most {BOUNDS['visits']:,} are followed"
        raise refusal(name, f"{said}; {remedy}")
    check_memory(f"{name}: {many}", VISIT * visits, remedy)
