"""DualPipe: two routes through the same devices, one from each end."""

import numpy as np

from jaxroof.errors import refusal
from jaxroof.schedules.gpipe_1f1b import chain
from jaxroof.schedules.overlap import Group, OverlappedSchedule, overlapped_schedule
from jaxroof.schedules.table import BACKWARD, FORWARD, WEIGHT

NEAR, FAR = 0, 1  # the route that starts nearer to a device, and the other
Move = tuple[tuple[int, int], ...]  # (kind, route) of the visits that run together


def dualpipe(devices: int, microbatches: int) -> OverlappedSchedule:
    """Return DualPipe: half of the microbatches enter at each end of the pipeline.

    Device i holds stage i of the first route and stage P - 1 - i of the second (stages P to 2 P - 1
    here), so there are two copies of each part of the model. A forward of one route runs together
    with a backward of the other. In the table they follow one another, so the pair takes
    F&B = F + B (with the whole B), and both outputs are sent when both visits are done.

    Assumes: an even number of devices and of microbatches; at least two microbatches per device;
    the first half of the microbatches takes the first route.
    Source: DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1, Figure 5 and Table 2. The authors'
    program does not overlap the first pair on the two middle devices, so its bubble is smaller
    than in Table 2 where F < B.
    Raises: InputError for numbers of devices or microbatches that are not allowed.

    >>> dualpipe(2, 4).kind.T.tolist()[0]
    [1, 1, 2, 1, 3, 2, 1, 3, 2, 3, 2, 3]
    """
    if devices % 2:
        said = f"devices: expected an even number, one half to either route, given {devices}"
        raise refusal("dualpipe", said)
    if microbatches % 2 or microbatches < 2 * devices:
        said = f"microbatches: expected an even number from {2 * devices}, two a device"
        raise refusal("dualpipe", f"{said}, given {microbatches}")
    outward = np.arange(devices)
    device = np.concatenate([outward, outward[::-1]])
    after = np.concatenate([chain(devices), np.append(chain(devices)[:-1] + devices, -1)])
    orders = [_order(one, devices, microbatches // 2) for one in range(devices)]
    return overlapped_schedule("dualpipe", microbatches, device, after, orders)


def _order(device: int, devices: int, each: int) -> list[Group]:
    """Return the visits of one device for ``each`` microbatches per route, numbered in order."""
    first = device < devices // 2
    routes = (0, 1) if first else (1, 0)  # of NEAR and FAR
    stages = (device, 2 * devices - 1 - device)
    seen: dict[tuple[int, int], int] = {}
    order = []
    for move in _moves(min(device, devices - 1 - device), devices, each):
        group = []
        for kind, side in move:
            at = seen.get((kind, side), 0)
            seen[kind, side] = at + 1
            group.append((kind, stages[routes[side]], each * routes[side] + at))
        order.append(tuple(group))
    return order


def _moves(end: int, devices: int, each: int) -> list[Move]:
    """Return the moves of a device that is ``end`` devices from the nearer end of the pipeline.

    A backward that runs alone sends its input gradient before its weight gradient if another device
    would wait for it, else after it.
    """
    middle = devices // 2 - 1 - end  # devices between it and the middle
    moves: list[Move] = [_one(FORWARD, NEAR)] * (2 * middle)
    moves += [_one(FORWARD, NEAR), _one(FORWARD, FAR)] * (end + 1)
    moves += [_one(BACKWARD, FAR), _one(WEIGHT, FAR), _one(FORWARD, FAR)] * middle
    moves += [_pair(NEAR, FAR), _pair(FAR, NEAR)] * (each - devices + end + 1)
    moves += [_whole(FAR), _pair(FAR, NEAR)] * middle
    drain = [FAR, NEAR] * (end + 1)
    moves += [_whole(side) for side in drain[: end + 1]]
    owed = drain[end + 1 :]  # outstanding weight gradients, oldest first
    moves += [_one(BACKWARD, side) for side in owed]
    for _ in range(middle):
        moves += [_one(WEIGHT, owed.pop(0)), _one(BACKWARD, NEAR)]
        owed.append(NEAR)
    return moves + [_one(WEIGHT, side) for side in owed]


def _one(kind: int, side: int) -> Move:
    return ((kind, side),)


def _whole(side: int) -> Move:
    return ((BACKWARD, side), (WEIGHT, side))


def _pair(forward: int, backward: int) -> Move:
    """Return a forward and the whole backward of the other route, run together."""
    return ((BACKWARD, backward), (FORWARD, forward), (WEIGHT, backward))
