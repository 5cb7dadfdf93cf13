"""A pipeline simulated event by event, in plain Python: messages in a heap, devices with queues.

It knows nothing of tables, sources or clocks: a visit that ends tells whom its result concerns,
and a device starts the next visit of its order once it was told all that this one waits for.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

FORWARD, BACKWARD, WEIGHT = 1, 2, 3
Visit = tuple[int, int, int]  # kind, stage, microbatch
News = tuple[str, int, int]  # what it is, the stage that it is for, microbatch


class Ran(NamedTuple):
    """When every visit started and ended, and when every device was done, in seconds."""

    start: dict[Visit, float]
    end: dict[Visit, float]
    clock: list[float]


class Pipeline(NamedTuple):
    """Who holds what, how long it takes, and whether a send keeps its sender."""

    device: Sequence[int]  # of a stage
    after: Sequence[int]  # the stage that takes a stage's output, -1: none
    seconds: Callable[[int, int], float]  # of a kind of visit to a stage
    send: Sequence[float]  # seconds of a message between a stage and the one after it, either way
    blocking: bool = False

    def awaited(self, visit: Visit) -> set[News]:
        """Return what a visit has to be told before it starts."""
        kind, stage, k = visit
        if kind == FORWARD:
            return {("activation", stage, k)} if stage in self.after else set()
        if kind == BACKWARD:
            return {("gradient", stage, k), ("kept", stage, k)}
        return {("differentiated", stage, k)}

    def told(self, visit: Visit) -> list[tuple[float, News]]:
        """Return what a visit tells, each with the length of the message."""
        kind, stage, k = visit
        if kind == WEIGHT:
            return []
        if kind == FORWARD:
            kept, to, link = ("kept", stage, k), self.after[stage], self.send[stage]
            if to < 0:
                return [(0.0, kept), (0.0, ("gradient", stage, k))]
            news = ("activation", to, k)
        else:
            kept = ("differentiated", stage, k)
            if stage not in self.after:
                return [(0.0, kept)]
            to = self.after.index(stage)
            news, link = ("gradient", to, k), self.send[to]
        near = self.device[to] == self.device[stage]
        return [(0.0, kept), (0.0 if near else link, news)]


class _Device:
    """A queue of visits, each with whether it ends its group, and what was told so far."""

    def __init__(self, groups: Sequence[Sequence[Visit]]) -> None:
        self.queue = [
            (visit, at + 1 == len(group)) for group in groups for at, visit in enumerate(group)
        ]
        self.told: set[News] = set()
        self.outbox: list[tuple[float, News]] = []
        self.busy = False
        self.clock = 0.0


def simulate(pipeline: Pipeline, orders: Sequence[Sequence[Sequence[Visit]]]) -> Ran:
    """Run every device's groups of visits in order and return when all of it happened.

    What the visits of a group tell other devices leaves when the last of them ends.
    """
    devices = [_Device(groups) for groups in orders]
    ran = Ran({}, {}, [])
    heap: list[tuple[float, int, int, News | None]] = []  # None: the device is free

    number = itertools.count()  # events of one moment come in the order in which they were posted

    def post(time: float, to: int, news: News | None) -> None:
        heapq.heappush(heap, (time, next(number), to, news))

    def begin(one: int, now: float) -> None:
        here = devices[one]
        if here.busy or not here.queue or not pipeline.awaited(here.queue[0][0]) <= here.told:
            return
        visit, last = here.queue.pop(0)
        here.busy, ran.start[visit] = True, now
        here.clock = ran.end[visit] = now + pipeline.seconds(visit[0], visit[1])
        for length, news in pipeline.told(visit):
            here.clock += length if pipeline.blocking else 0.0
            if pipeline.device[news[1]] == one:
                post(here.clock, one, news)
            else:
                here.outbox.append((0.0 if pipeline.blocking else length, news))
        while last and here.outbox:
            length, news = here.outbox.pop()
            post(here.clock + length, pipeline.device[news[1]], news)
        post(here.clock, one, None)

    for one in range(len(devices)):
        begin(one, 0.0)
    while heap:
        now, _, one, news = heapq.heappop(heap)
        if news is None:
            devices[one].busy = False
        else:
            devices[one].told.add(news)
        begin(one, now)
    left = [here.queue[0][0] for here in devices if here.queue]
    if left:
        raise RuntimeError(f"devices wait for ever at {left}")
    return ran._replace(clock=[here.clock for here in devices])
