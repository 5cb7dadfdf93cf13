"""The orders of visits that were published, one function a schedule."""

from typing import Any, NamedTuple

import numpy as np

from jaxroof.errors import refusal
from jaxroof.formulas.arithmetic import smaller
from jaxroof.schedules.table import (
    BACKWARD,
    FORWARD,
    WEIGHT,
    Group,
    Schedule,
    Visit,
    chain,
    scheduled,
)

# ---- One stage a device, two kinds of visits: closed forms ---------------------------------------


class Chain(NamedTuple):
    """The counts of a chain of stages, one on each device: integers, or arrays of them."""

    stages: Any
    microbatches: Any


class Order(NamedTuple):
    """The timesteps of the visits of each stage, from 0.

    Forward k runs at ``stage + k`` while k < ``warmup``, then at ``steady + 2 (k - warmup)``;
    backward k at ``backward + stride k``.
    """

    warmup: Any
    steady: Any
    backward: Any
    stride: Any


def all_forward(stage: Any, chain: Chain) -> Order:
    """Return GPipe: all forwards, then all backwards, both in the order of the microbatches.

    Source: Huang et al. 2018 (arXiv 1811.06965), section 2.3 (there the backwards run in
    reverse order, in the same number of timesteps); docs/models/distir_model.md, section 4.
    """
    last = chain.microbatches + 2 * (chain.stages - 1) - stage
    return Order(chain.microbatches + 0 * stage, 0 * last, last, 1 + 0 * last)


def greedy(stage: Any, chain: Chain) -> Order:
    """Return greedy 1F1B: a device starts any visit that is ready, alternating if both kinds are.

    Source: docs/models/distir_model.md, section 4.
    """
    return _alternating(stage, chain, 2 * (chain.stages - stage) - 1)


def standard(stage: Any, chain: Chain) -> Order:
    """Return 1F1B with the fewest microbatches in flight that keep the pipeline busy.

    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.1; docs/models/distir_model.md,
    section 10, row 9.
    """
    return _alternating(stage, chain, chain.stages - stage)


def _alternating(stage: Any, chain: Chain, warmup: Any) -> Order:
    warmup = smaller(chain.microbatches, warmup)
    steady = 2 * chain.stages - stage
    return Order(warmup, steady, steady - 1, 2 + 0 * warmup)


CLOSED = {"gpipe": all_forward, "1f1b-greedy": greedy, "1f1b": standard}


def closed_form(name: str, devices: int, microbatches: int) -> Schedule:
    """Return a schedule of the table ``CLOSED``.

    >>> closed_form("gpipe", 2, 3).kind.T.tolist()
    [[1, 1, 1, 0, 0, 2, 2, 2], [0, 1, 1, 1, 2, 2, 2, 0]]
    >>> closed_form("1f1b", 2, 3).kind.T.tolist()
    [[1, 1, 0, 2, 1, 2, 0, 2], [0, 1, 2, 1, 2, 1, 2, 0]]
    """
    i, k = np.meshgrid(np.arange(devices), np.arange(microbatches), indexing="ij")
    order = CLOSED[name](i, Chain(devices, microbatches))
    early = k < order.warmup
    forward = np.where(early, i + k, order.steady + 2 * (k - order.warmup))
    visits = ((FORWARD, forward), (BACKWARD, order.backward + order.stride * k))
    kind, stage, microbatch = np.zeros((3, 2 * (microbatches + devices - 1), devices), np.int64)
    for what, t in visits:
        kind[t, i], stage[t, i], microbatch[t, i] = what, i, k
    handed = np.broadcast_to(np.arange(len(kind))[:, None], kind.shape).copy()
    device = np.arange(devices)
    return Schedule(name, microbatches, device, chain(devices), kind, stage, microbatch, handed)


# ---- Lists of visits ----------------------------------------------------------------------------


def zero_bubble(devices: int, microbatches: int) -> Schedule:
    """Return ZB-H1: 1F1B with weight gradients delayed by i backwards on device i.

    Device i runs P - 1 - i forwards, then alternates one forward and one backward (of the input
    only). The weight gradient of a microbatch runs i backwards later, and the remaining ones run at
    the end. So every device holds at most P microbatches, like the first device of 1F1B.

    Source: Qi et al. 2023 (arXiv 2401.10241), section 2.1.

    >>> zero_bubble(2, 2).kind.T.tolist()
    [[1, 1, 0, 2, 3, 2, 3], [0, 1, 2, 1, 2, 3, 3]]
    """

    def order(device: int) -> list[Group]:
        ahead, lag = min(microbatches, devices - 1 - device), device
        found: list[Visit] = [(FORWARD, device, k) for k in range(ahead)]
        for k in range(microbatches + lag):
            steps = ((FORWARD, k + ahead), (BACKWARD, k), (WEIGHT, k - lag))
            found += [(kind, device, at) for kind, at in steps if 0 <= at < microbatches]
        return [(visit,) for visit in found]

    orders = [order(device) for device in range(devices)]
    return scheduled("zb-h1", microbatches, np.arange(devices), chain(devices), orders)


def interleaved(devices: int, microbatches: int, chunks: int) -> Schedule:
    """Return interleaved 1F1B with stage s on device s mod P, ``chunks`` stages per device.

    A device passes groups of P microbatches through its stages: forwards from its first stage to
    its last, backwards from its last to its first. Device i runs 2 (P - i - 1) + (v - 1) P forwards
    before it alternates one forward with one backward.

    Assumes: the devices divide the microbatches; at least two stages per device.
    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.2 and Figure 4.
    Raises: InputError for numbers of microbatches or chunks that are not allowed.

    >>> interleaved(2, 2, 2).stage.T.tolist()[0]
    [0, 0, 2, 2, 0, 2, 0, 2, 0, 0]
    """
    if chunks < 2:
        said = f"chunks: expected 2 stages a device or more, given {chunks}"
        raise refusal("interleaved", f"{said}; one is the schedule '1f1b'")
    if microbatches % devices:
        said = f"microbatches: expected a multiple of the {devices} devices, given {microbatches}"
        raise refusal("interleaved", said)

    def visits(kind: int, stages: range) -> list[Group]:
        """Return all visits of one kind: group by group of microbatches, through every stage."""
        firsts = range(0, microbatches, devices)
        each = range(devices)
        return [((kind, stage, first + k),) for first in firsts for stage in stages for k in each]

    def order(device: int) -> list[Group]:
        """Return the visits of one device: warmup forwards, alternating pairs, last backwards."""
        up = range(device, devices * chunks, devices)
        forwards, backwards = visits(FORWARD, up), visits(BACKWARD, up[::-1])
        ahead = min(len(forwards), 2 * (devices - device - 1) + (chunks - 1) * devices)
        pairs = zip(forwards[ahead:], backwards, strict=False)
        steady = [visit for pair in pairs for visit in pair]
        return [*forwards[:ahead], *steady, *backwards[len(forwards) - ahead :]]

    stages, orders = devices * chunks, [order(device) for device in range(devices)]
    device = np.arange(stages) % devices
    return scheduled("interleaved", microbatches, device, chain(stages), orders)


# ---- DualPipe -----------------------------------------------------------------------------------

NEAR, FAR = 0, 1  # the route that starts nearer to a device, and the other
Move = tuple[tuple[int, int], ...]  # (kind, route) of the visits that run together


def dualpipe(devices: int, microbatches: int) -> Schedule:
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
    outward, each = np.arange(devices), microbatches // 2

    def order(device: int) -> list[Group]:
        """Return the visits of one device, the microbatches of either route in order."""
        routes = (0, 1) if device < devices // 2 else (1, 0)  # of NEAR and FAR
        stages = (device, 2 * devices - 1 - device)
        seen: dict[tuple[int, int], int] = {}
        found = []
        for move in _moves(min(device, devices - 1 - device), devices, each):
            group = []
            for kind, side in move:
                at = seen[kind, side] = seen.get((kind, side), -1) + 1
                group.append((kind, stages[routes[side]], each * routes[side] + at))
            found.append(tuple(group))
        return found

    device = np.concatenate([outward, outward[::-1]])
    after = np.concatenate([chain(devices), np.append(chain(devices)[:-1] + devices, -1)])
    orders = [order(one) for one in range(devices)]
    return scheduled("dualpipe", microbatches, device, after, orders)


def _moves(end: int, devices: int, each: int) -> list[Move]:
    """Return the moves of a device that is ``end`` devices from the nearer end of the pipeline.

    A backward that runs alone sends its input gradient before its weight gradient if another device
    would wait for it, else after it.
    """
    middle = devices // 2 - 1 - end  # devices between it and the middle

    def one(kind: int, side: int) -> Move:
        return ((kind, side),)

    def whole(side: int) -> Move:
        return ((BACKWARD, side), (WEIGHT, side))

    def pair(forward: int, backward: int) -> Move:
        return ((BACKWARD, backward), (FORWARD, forward), (WEIGHT, backward))

    moves: list[Move] = [one(FORWARD, NEAR)] * (2 * middle)
    moves += [one(FORWARD, NEAR), one(FORWARD, FAR)] * (end + 1)
    moves += [one(BACKWARD, FAR), one(WEIGHT, FAR), one(FORWARD, FAR)] * middle
    moves += [pair(NEAR, FAR), pair(FAR, NEAR)] * (each - devices + end + 1)
    moves += [whole(FAR), pair(FAR, NEAR)] * middle
    drain = [FAR, NEAR] * (end + 1)
    moves += [whole(side) for side in drain[: end + 1]]
    owed = drain[end + 1 :]  # outstanding weight gradients, oldest first
    moves += [one(BACKWARD, side) for side in owed]
    for _ in range(middle):
        moves += [one(WEIGHT, owed.pop(0)), one(BACKWARD, NEAR)]
        owed.append(NEAR)
    return moves + [one(WEIGHT, side) for side in owed]
