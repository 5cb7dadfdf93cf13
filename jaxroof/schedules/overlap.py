"""Visits that overlap: their outputs are sent when the last of them ends."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from jaxroof.errors import InputError, refusal
from jaxroof.schedules import table
from jaxroof.schedules.table import IDLE, WORDS, Schedule, Visit

Group = tuple[Visit, ...]  # consecutive visits of a device whose outputs are sent together


@dataclasses.dataclass(frozen=True, eq=False)
class OverlappedSchedule(Schedule):
    """A schedule in which some visits overlap; in the table they follow one another.

    ``handed`` [timesteps, devices] is the timestep of the last visit that overlaps a visit. Other
    devices receive the output at the end of that visit, the same device has it at once.
    """

    handed: np.ndarray


def visit_sources(schedule: Schedule) -> np.ndarray:
    """Return timestep * devices + device of the visit at whose end the input of a visit is sent.

    The same as ``table.source`` if no visits overlap.
    """
    places = table.source(schedule)
    if not isinstance(schedule, OverlappedSchedule):
        return places
    t, device = np.divmod(places, schedule.devices)
    together = schedule.handed[t, device] * schedule.devices + device
    elsewhere = (places >= 0) & (device != np.arange(schedule.devices))
    return np.where(elsewhere, together, places)


def overlapped_schedule(
    name: str,
    microbatches: int,
    device: np.ndarray,
    after: np.ndarray,
    orders: Sequence[Sequence[Group]],
) -> OverlappedSchedule:
    """Return the schedule in which every device runs its groups in order, as early as possible.

    A group starts in the first timestep in which its device is free and all inputs from other
    devices have been sent. Each of its visits takes one timestep.
    Raises: InputError if the orders wait for each other (deadlock).
    """
    cells = np.full((_visits(orders), len(orders), 4), 0)
    empty = OverlappedSchedule(name, microbatches, device, after, *np.moveaxis(cells[:0], -1, 0))
    handed: dict[Visit, int] = {}
    done, free, t = [0] * len(orders), [0] * len(orders), 0
    while any(at < len(order) for at, order in zip(done, orders, strict=True)):
        for one, order in enumerate(orders):
            if free[one] > t or done[one] == len(order):
                continue
            group = order[done[one]]
            if not all(handed.get(need, t) < t for need in _needs(empty, group)):
                continue
            free[one], done[one] = t + len(group), done[one] + 1
            handed.update(dict.fromkeys(group, free[one] - 1))
            cells[t : free[one], one] = [(*visit, free[one] - 1) for visit in group]
        t += 1
        if t > max(free):
            raise _deadlock(name, [order[at:] for at, order in zip(done, orders, strict=True)])
    kind, stage, microbatch, ends = np.moveaxis(cells[: max(free)], -1, 0)
    return dataclasses.replace(
        empty, kind=kind, stage=stage, microbatch=microbatch, handed=np.where(kind == IDLE, 0, ends)
    )


def _deadlock(name: str, left: Sequence[Sequence[Group]]) -> InputError:
    """Return the error for the remaining visits of orders that wait for each other."""
    device = next(one for one, groups in enumerate(left) if groups)
    kind, stage, k = left[device][0][0]
    visit = f"the {WORDS[kind]} of microbatch {k} in stage {stage}"
    said = f"device {device} waits for ever at {visit}"
    return refusal(name, f"{said}; expected orders that do not wait for each other")


def _visits(orders: Sequence[Sequence[Group]]) -> int:
    return sum(len(group) for order in orders for group in order)


def _needs(schedule: Schedule, group: Group) -> list[Visit]:
    """Return the visits outside a group whose outputs it needs."""
    every = [need for visit in group for need in table.needs(schedule, visit)]
    return [need for need in every if need not in group]
