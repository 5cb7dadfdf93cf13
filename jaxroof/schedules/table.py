"""A schedule as a table of the visit of each device at each timestep, and its legality."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from jaxroof.errors import refusal

IDLE, FORWARD, BACKWARD, WEIGHT = range(4)
WORDS = ("idle", "forward", "backward", "weight gradient")
Visit = tuple[int, int, int]  # kind, stage, microbatch
Group = tuple[Visit, ...]  # consecutive visits of a device that overlap: sent when the last ends


@dataclasses.dataclass(frozen=True, eq=False)
class Schedule:
    """The ordered visits of every device; timesteps give the order of visits, not their times.

    A *stage* is a part of the model; a device holds one or more stages. ``after`` is the stage that
    receives the output of a stage, or -1 at the end of a route. ``kind``, ``stage``,
    ``microbatch`` and ``handed`` are [timesteps, devices]; kind 0 means that the device is idle. If
    weight gradients are separate visits, a backward visit computes only the gradient of its input.
    ``handed`` is the timestep of the last visit that overlaps a visit: other devices receive its
    output at the end of that one, the same device has it at once.
    """

    name: str
    microbatches: int
    device: np.ndarray
    after: np.ndarray
    kind: np.ndarray
    stage: np.ndarray
    microbatch: np.ndarray
    handed: np.ndarray

    @property
    def devices(self) -> int:
        """Return the number of devices."""
        return int(self.kind.shape[1])

    @property
    def stages(self) -> int:
        """Return the number of stages over all devices and routes."""
        return len(self.device)

    @property
    def timesteps(self) -> int:
        """Return the number of timesteps."""
        return len(self.kind)

    @property
    def routes(self) -> float:
        """Return the number of routes through all layers, each with its own weights."""
        return float((self.after < 0).sum())

    @property
    def split(self) -> bool:
        """Return whether weight gradients are separate visits."""
        return bool(np.any(self.kind == WEIGHT))

    @property
    def chunks(self) -> int:
        """Return the maximum number of stages on one device."""
        return int(np.max(np.bincount(self.device)))

    @functools.cached_property
    def before(self) -> np.ndarray:
        """Return the stage whose output each stage receives, -1 at the start of a route."""
        return before(self.after)

    @functools.cached_property
    def local(self) -> np.ndarray:
        """Return the index of each stage among the stages of its device."""
        earlier = np.tri(self.stages, k=-1, dtype=bool)
        return np.sum(earlier & (self.device[:, None] == self.device[None, :]), axis=1)


def chain(stages: int) -> np.ndarray:
    """Return the stage that receives the output of each stage, for one route through all stages.

    >>> chain(3).tolist()
    [1, 2, -1]
    """
    return np.append(np.arange(1, stages), -1)


def before(after: np.ndarray) -> np.ndarray:
    """Return the stage whose output each stage receives, -1 at the start of a route.

    >>> before(chain(3)).tolist()
    [-1, 0, 1]
    """
    found = np.full(len(after), -1)
    found[after[after >= 0]] = np.flatnonzero(after >= 0)
    return found


def scheduled(
    name: str,
    microbatches: int,
    device: Sequence[int] | np.ndarray,
    after: Sequence[int] | np.ndarray,
    orders: Sequence[Sequence[Group]],
) -> Schedule:
    """Return the schedule in which every device runs its groups in order, as early as possible.

    A group starts in the first timestep in which its device is free and all inputs from outside
    have been sent. Each of its visits takes one timestep.
    Raises: InputError if the orders wait for each other (deadlock).
    """
    device, after = np.asarray(device), np.asarray(after)
    takers, givers = after.tolist(), before(after).tolist()
    cells = np.zeros((sum(len(group) for order in orders for group in order), len(orders), 4), int)
    handed: dict[Visit, int] = {}
    done, free, t = [0] * len(orders), [0] * len(orders), 0
    while any(at < len(order) for at, order in zip(done, orders, strict=True)):
        for one, order in enumerate(orders):
            if free[one] > t or done[one] == len(order):
                continue
            group = order[done[one]]
            needed = (need for visit in group for need in _needs(visit, givers, takers))
            if not all(handed.get(need, t) < t for need in needed if need not in group):
                continue
            free[one], done[one] = t + len(group), done[one] + 1
            handed.update(dict.fromkeys(group, free[one] - 1))
            cells[t : free[one], one] = [(*visit, free[one] - 1) for visit in group]
        t += 1
        if t > max(free):
            waits = next(i for i, order in enumerate(orders) if done[i] < len(order))
            said = f"device {waits} waits for ever at {_words(orders[waits][done[waits]][0])}"
            raise refusal(name, f"{said}; expected orders that do not wait for each other")
    table = np.moveaxis(cells[: max(free)], -1, 0).copy()
    return Schedule(name, microbatches, device, after, *table)


def _needs(visit: Visit, givers: Sequence[int], takers: Sequence[int]) -> list[Visit]:
    """Return the visits whose outputs a visit needs, that of another stage first."""
    kind, stage, microbatch = visit
    if kind == FORWARD:
        return [(FORWARD, givers[stage], microbatch)] if givers[stage] >= 0 else []
    if kind == WEIGHT:
        return [(BACKWARD, stage, microbatch)]
    own = (FORWARD, stage, microbatch)
    return [(BACKWARD, takers[stage], microbatch), own] if takers[stage] >= 0 else [own]


def checked(schedule: Schedule) -> Schedule:
    """Return the schedule if it is legal: every visit once, on its device, after its inputs.

    Raises: InputError that names the visit, its device and its timestep.
    """
    found: dict[Visit, int] = {}
    givers, takers = schedule.before.tolist(), schedule.after.tolist()
    cells = (schedule.kind, schedule.stage, schedule.microbatch)

    def refuse(visit: Visit, said: str) -> None:
        raise refusal(schedule.name, f"{_words(visit)}{said}")

    for t, device in np.argwhere(schedule.kind != IDLE).tolist():
        kind, stage, k = (int(cell[t, device]) for cell in cells)
        visit = (kind, stage, k)
        where = f" at timestep {t} of device {device}"
        if visit in found:
            refuse(visit, f" at timestep {found[visit]} and again{where}; expected each visit once")
        if stage >= schedule.stages or k >= schedule.microbatches:
            refuse(visit, f"{where}: no such stage or microbatch")
        if schedule.device[stage] != device:
            refuse(visit, f"{where}; expected it on device {schedule.device[stage]}")
        for other in _needs(visit, givers, takers):
            if found.get(other, t) >= t:
                refuse(visit, f"{where}; expected {_words(other)} before it")
        found[visit] = t
    last = WEIGHT if schedule.split else BACKWARD
    for kind, stage, k in [*found]:
        if kind == FORWARD and (last, stage, k) not in found:
            refuse((last, stage, k), " is missing; expected each visit once")
    for k in sorted(set(range(schedule.microbatches)) - {k for _, _, k in found}):
        raise refusal(schedule.name, f"microbatch {k} is missing; expected each of them")
    return schedule


def _words(visit: Visit) -> str:
    kind, stage, microbatch = visit
    return f"the {WORDS[kind]} of microbatch {microbatch} in stage {stage}"


def in_flight(schedule: Schedule) -> np.ndarray:
    """Return the peak number of unreleased forwards on each device.

    The backward of a forward releases it, or its weight gradient where that is a separate visit.
    """
    release = WEIGHT if schedule.split else BACKWARD
    change = (schedule.kind == FORWARD).astype(int) - (schedule.kind == release)
    levels: np.ndarray = np.cumsum(change, axis=0).max(axis=0)
    return levels


def work(schedule: Schedule) -> np.ndarray:
    """Return the class of each visit, 3 * chunk + kind (chunk: index on the device); 0 is idle."""
    chunk = schedule.local[schedule.stage]
    return np.where(schedule.kind == IDLE, 0, 3 * chunk + schedule.kind)


def source(schedule: Schedule) -> np.ndarray:
    """Return timestep * devices + device of the visit at whose end the input of a visit is sent.

    It is -1 for a visit that waits for none.
    """
    t, device = np.nonzero(schedule.kind)
    cells = (schedule.kind, schedule.stage, schedule.microbatch, schedule.handed)
    kind, stage, k, ends = (cell[t, device] for cell in cells)
    made = np.full((len(WORDS), schedule.stages, schedule.microbatches, 2), -1)
    made[kind, stage, k] = np.stack([t, ends], axis=1) * schedule.devices + device[:, None]
    taker, giver = schedule.after[stage], schedule.before[stage]
    back = (kind == BACKWARD) & (taker >= 0)
    of = np.where(kind == FORWARD, giver, np.where(back, taker, stage))
    waits, sent = made[np.where(back | (kind == WEIGHT), BACKWARD, FORWARD), of, k].T
    places = np.full(schedule.kind.shape, -1)
    waits = np.where(waits % schedule.devices == device, waits, sent)
    places[t, device] = np.where(of >= 0, waits, -1)
    return places
