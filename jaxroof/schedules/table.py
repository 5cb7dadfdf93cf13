"""A schedule as a table of the visit of each device at each timestep, and its legality checks."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from jaxroof.errors import refusal

IDLE, FORWARD, BACKWARD, WEIGHT = range(4)
WORDS = ("idle", "forward", "backward", "weight gradient")
Visit = tuple[int, int, int]  # kind, stage, microbatch


@dataclasses.dataclass(frozen=True, eq=False)
class Schedule:
    """The ordered visits of every device; timesteps give the order of visits, not their times.

    A *stage* is a part of the model; a device holds one or more stages. ``after`` is the stage that
    receives the output of a stage, or -1 at the end of a route. ``kind``, ``stage`` and
    ``microbatch`` are [timesteps, devices]; kind 0 means that the device is idle. If weight
    gradients are separate visits, a backward visit computes only the gradient of its input.
    """

    name: str
    microbatches: int
    device: np.ndarray
    after: np.ndarray
    kind: np.ndarray
    stage: np.ndarray
    microbatch: np.ndarray

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
        found = np.full(self.stages, -1)
        takers = self.after[self.after >= 0]
        found[takers] = np.flatnonzero(self.after >= 0)
        return found

    @functools.cached_property
    def local(self) -> np.ndarray:
        """Return the index of each stage among the stages of its device."""
        earlier = np.tri(self.stages, k=-1, dtype=bool)
        return np.sum(earlier & (self.device[:, None] == self.device[None, :]), axis=1)


def schedule_table(
    name: str,
    microbatches: int,
    device: Sequence[int] | np.ndarray,
    after: Sequence[int] | np.ndarray,
    orders: Sequence[Sequence[Visit]],
) -> Schedule:
    """Return the schedule in which every device runs its visits in order, as early as possible.

    A visit takes the first timestep in which its device is free and its inputs are available.
    Raises: InputError if the orders wait for each other (deadlock).
    """
    table = Schedule(name, microbatches, np.asarray(device), np.asarray(after), *_nothing(orders))
    made: dict[Visit, int] = {}
    done = [0] * len(orders)
    rows: list[list[Visit]] = []
    while any(at < len(order) for at, order in zip(done, orders, strict=True)):
        row: list[Visit] = [(IDLE, 0, 0)] * len(orders)
        for one, order in enumerate(orders):
            if done[one] < len(order) and _ready(table, order[done[one]], made):
                row[one] = order[done[one]]
        if all(visit[0] == IDLE for visit in row):
            waits = next(i for i, order in enumerate(orders) if done[i] < len(order))
            said = f"device {waits} waits for ever at {_words(orders[waits][done[waits]])}"
            raise refusal(name, f"{said}; expected orders that do not wait for each other")
        for one, visit in enumerate(row):
            if visit[0] != IDLE:
                made[visit], done[one] = len(rows), done[one] + 1
        rows.append(row)
    return _filled(table, np.array(rows))


def _nothing(orders: Sequence[Sequence[Visit]]) -> list[np.ndarray]:
    return [np.zeros((0, len(orders)), np.int64) for _ in range(3)]


def _filled(table: Schedule, rows: np.ndarray) -> Schedule:
    kind, stage, microbatch = np.moveaxis(rows, -1, 0)
    return dataclasses.replace(table, kind=kind, stage=stage, microbatch=microbatch)


def needs(table: Schedule, visit: Visit) -> list[Visit]:
    """Return the visits whose outputs a visit needs, that of another stage first."""
    kind, stage, microbatch = visit
    if kind == FORWARD:
        before = int(table.before[stage])
        return [(FORWARD, before, microbatch)] if before >= 0 else []
    if kind == WEIGHT:
        return [(BACKWARD, stage, microbatch)]
    after, own = int(table.after[stage]), (FORWARD, stage, microbatch)
    return [(BACKWARD, after, microbatch), own] if after >= 0 else [own]


def _ready(table: Schedule, visit: Visit, made: dict[Visit, int]) -> bool:
    return all(other in made for other in needs(table, visit))


def visits(schedule: Schedule) -> dict[Visit, tuple[int, int]]:
    """Return the timestep and the device of every visit.

    Raises: InputError for a duplicate visit.
    """
    found: dict[Visit, tuple[int, int]] = {}
    for t, device in np.argwhere(schedule.kind != IDLE).tolist():
        visit = _at(schedule, t, device)
        if visit in found:
            there, first = found[visit][::-1]
            said = f"{_words(visit)} at timestep {first} of device {there} and again at {t}"
            raise refusal(schedule.name, f"{said} of device {device}; expected each visit once")
        found[visit] = t, device
    return found


def _at(schedule: Schedule, t: int, device: int) -> Visit:
    cells = (schedule.kind, schedule.stage, schedule.microbatch)
    kind, stage, microbatch = (int(cell[t, device]) for cell in cells)
    return kind, stage, microbatch


def checked(schedule: Schedule, most_in_flight: Sequence[int] | None = None) -> Schedule:
    """Return the schedule if it is legal: every visit once, on its device, after its inputs.

    Arguments: ``most_in_flight`` is the maximum number of unreleased forwards of each device.
    Raises: InputError that names the visit, its device and its timestep.
    """
    found = visits(schedule)
    kinds = (FORWARD, BACKWARD, WEIGHT) if schedule.split else (FORWARD, BACKWARD)
    routes = _routes(schedule)
    for visit, (t, device) in found.items():
        where = f"{_words(visit)} at timestep {t} of device {device}"
        if visit[1] >= schedule.stages or visit[2] >= schedule.microbatches:
            raise refusal(schedule.name, f"{where}: no such stage or microbatch")
        if int(schedule.device[visit[1]]) != device:
            holder = int(schedule.device[visit[1]])
            raise refusal(schedule.name, f"{where}; expected it on device {holder}")
        for other in needs(schedule, visit):
            if other not in found or found[other][0] >= t:
                raise refusal(schedule.name, f"{where}; expected {_words(other)} before it")
    for route in routes:
        taken = {k for kind, stage, k in found if stage == route[0]}
        for stage in route:
            for kind in kinds:
                for k in taken:
                    if (kind, stage, k) not in found:
                        said = f"{_words((kind, stage, k))} is missing; expected each visit once"
                        raise refusal(schedule.name, said)
    _all_there(schedule, {k for _, _, k in found})
    if most_in_flight is not None:
        _capacity(schedule, most_in_flight)
    return schedule


def _all_there(schedule: Schedule, seen: set[int]) -> None:
    lost = sorted(set(range(schedule.microbatches)) - seen)
    if lost:
        raise refusal(schedule.name, f"microbatch {lost[0]} is missing; expected each of them")


def _routes(schedule: Schedule) -> list[list[int]]:
    """Return the stages of every route, in order."""
    routes = []
    for first in np.flatnonzero(schedule.before < 0).tolist():
        route = [first]
        while schedule.after[route[-1]] >= 0:
            route.append(int(schedule.after[route[-1]]))
        routes.append(route)
    return routes


def _levels(schedule: Schedule) -> np.ndarray:
    """Return the number of unreleased forwards on each device after each timestep."""
    release = WEIGHT if schedule.split else BACKWARD
    change = (schedule.kind == FORWARD).astype(int) - (schedule.kind == release)
    return np.cumsum(change, axis=0)


def in_flight(schedule: Schedule) -> np.ndarray:
    """Return the peak number of unreleased forwards on each device.

    The backward of a forward releases it, or its weight gradient where that is a separate visit.
    """
    levels: np.ndarray = _levels(schedule).max(axis=0)
    return levels


def _capacity(schedule: Schedule, most: Sequence[int]) -> None:
    levels, allowed = _levels(schedule), np.asarray(most)
    for t, device in np.argwhere(levels > allowed).tolist():
        said = f"device {device} holds {levels[t, device]} microbatches at timestep {t}"
        raise refusal(schedule.name, f"{said}; expected at most {allowed[device]}")


def work(schedule: Schedule) -> np.ndarray:
    """Return the class of each visit, 3 * chunk + kind (chunk: index on the device); 0 is idle."""
    chunk = schedule.local[schedule.stage]
    return np.where(schedule.kind == IDLE, 0, 3 * chunk + schedule.kind)


def source(schedule: Schedule) -> np.ndarray:
    """Return timestep * devices + device of the visit that each visit waits for, or -1."""
    found = visits(schedule)
    places = np.full(schedule.kind.shape, -1)
    for visit, place in found.items():
        for other in needs(schedule, visit)[:1]:
            t, device = found[other]
            places[place] = t * schedule.devices + device
    return places


def _words(visit: Visit) -> str:
    kind, stage, microbatch = visit
    return f"the {WORDS[kind]} of microbatch {microbatch} in stage {stage}"
