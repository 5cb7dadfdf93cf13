"""The times of all visits: the clocks of all devices, in one scan over timesteps.

A device starts a visit when it is free and the input of the visit has arrived. This is an exact
recurrence of sums and maxima, which is differentiable unless two paths tie.
"""

import enum
from typing import Any, NamedTuple

import numpy as np

from jaxroof.formulas.arithmetic import alike, larger, loop, put, stack, take, where
from jaxroof.schedules import table
from jaxroof.schedules.table import Schedule


class Sends(enum.Enum):
    """How a device sends its output to the next one."""

    OVERLAPPED = "overlapped"  # the sender continues; the next stage waits
    BLOCKING = "blocking"  # the sender waits until the send is complete
    FREE = "free"  # sends take no time


class Costs(NamedTuple):
    """Seconds by class of visit (see ``table.work``) and device: [classes, devices, *lanes]."""

    seconds: Any  # of the visit itself
    arrival: Any  # from the end of the visit that produces its input to the arrival
    leave: Any  # sending time that occupies the device; the output arrives at its end


class VisitTimes(NamedTuple):
    """The start and end of each visit; for an idle device, both are its clock.

    ``end`` is the end of the work; sends that occupy the device follow it.
    """

    start: Any  # [timesteps, devices, *lanes], seconds
    end: Any
    clock: Any  # [devices, *lanes]: end of the device's last visit and its sends
    busy: Any  # [devices, *lanes]: seconds in visits and in sends that occupy the device


def visit_times(work: Any, source: Any, costs: Costs, steps: Any = None) -> VisitTimes:
    """Return the times of the visits of a schedule.

    start = max(clock, end of the source + leave there + arrival), end = start + seconds

    Assumes: messages never wait for each other; a device runs its visits in order.
    Arguments: ``work`` and ``source`` [timesteps, devices] as in ``table``, optionally with lanes
    on a third axis; costs in seconds; ``steps`` is the number of timesteps to run (default: all).
    A traced number allows only forward-mode derivatives.
    Source: docs/models/distir_model.md, section 6, with asynchronous sends.
    """
    every, devices = np.shape(work)[:2]
    lanes = np.shape(costs.seconds)[2:]
    nothing = np.zeros((devices, *lanes)) + 0.0 * costs.seconds[0]
    begun = [np.zeros((every, devices, *lanes)) + nothing[None] for _ in range(3)]
    work, source = (alike(rows, nothing, work, source) for rows in (work, source))

    def advance(t: Any, state: Any) -> Any:
        clock, busy, sent, starts, ends = state
        seconds, arrival, leave = (_picked(cost, work[t]) for cost in costs)
        origin = _wide(source[t], lanes)
        made = sent.reshape(every * devices, *lanes)
        there = take(made, larger(origin, 0)) + arrival
        start = where(origin >= 0, larger(clock, there), clock)
        end = start + seconds
        left = end + leave
        kept = (put(sent, t, left), put(starts, t, start), put(ends, t, end))
        return left, busy + seconds + leave, *kept

    steps = every if steps is None else steps
    clock, busy, _, start, end = loop(steps, advance, (nothing, nothing, *begun))
    return VisitTimes(start, end, clock, busy)


def peaks(work: Any, rise: Any, net: Any) -> Any:
    """Return the peak bytes of each device above its start.

    Arguments: ``work`` [timesteps, devices]; ``rise`` and ``net`` [classes, devices, *lanes]: the
    peak of a visit above the level before it, and its net change of that level.
    """
    begun = np.zeros(np.shape(net)[1:]) + 0.0 * net[0]
    kinds = alike(work, begun)

    def visit(t: Any, state: Any) -> Any:
        live, most = state
        return live + _picked(net, kinds[t]), larger(most, live + _picked(rise, kinds[t]))

    return loop(len(work), visit, (begun, begun))[1]


def _picked(cost: Any, kind: Any) -> Any:
    return take(cost, _wide(kind, np.shape(cost)[2:])[None])[0]


def _wide(values: Any, lanes: tuple[int, ...]) -> Any:
    return values.reshape(values.shape + (1,) * (1 + len(lanes) - values.ndim))


def stage_costs(
    schedule: Schedule, forward: Any, backward: Any, weight: Any, send: Any, blocking: bool = False
) -> Costs:
    """Return the costs of the visits of a schedule from the costs of its stages.

    Arguments: seconds of the visits of each stage [stages, *lanes]. If the schedule has separate
    weight gradients, ``backward`` excludes them; otherwise ``weight`` is unused. A send takes the
    same time from a stage to the next one (forward) and back (backward), and no time between
    stages on one device. ``blocking`` sends occupy the sender.
    """
    visits = stack([forward, backward, weight])
    before, after = schedule.before, schedule.after
    other = np.where(after >= 0, schedule.device[after] != schedule.device, False)
    from_before = np.where(before >= 0, schedule.device[before] != schedule.device, False)
    lanes = visits.shape[2:]
    onward = where(_wide(other, lanes), send, 0.0)
    back = where(_wide(from_before, lanes), send[np.maximum(before, 0)], 0.0)
    nothing = 0.0 * onward
    # a forward receives from the stage before and sends to the next; a backward the reverse
    arrival, leave = stack([back, onward, nothing]), stack([onward, back, nothing])
    none = 0.0 * visits
    whole = (visits, none, leave) if blocking else (visits, arrival, none)
    return Costs(*(by_class(schedule, cost) for cost in whole))


def by_class(schedule: Schedule, cost: Any) -> Any:
    """Return values by kind and stage [3, stages, *lanes] as [classes, devices, *lanes]."""
    shape = (1 + 3 * schedule.chunks, schedule.devices, *cost.shape[2:])
    classes = 3 * schedule.local[None, :] + np.arange(1, 4)[:, None]
    devices = np.broadcast_to(schedule.device, classes.shape)
    return put(np.zeros(shape, cost.dtype), (classes, devices), cost)


# ---- Stages -------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """The devices that hold the stages of all routes of a pipeline: arrays [stages].

    A route passes through all layers once. Each route has its own copy of the weights.
    """

    device: Any
    taker: Any  # the device that takes a stage's output; its own at the end of a route
    first: Any  # 1 where a route starts, else 0
    last: Any  # 1 where a route ends, else 0
    routes: float


class StageSeconds(NamedTuple):
    """Seconds of one microbatch in every stage: arrays [stages]."""

    forward: Any
    backward: Any  # both gradients
    input_gradient: Any  # the part of backward that the previous stage waits for
    weight_gradient: Any  # the rest of backward
    send: Any  # of a message to the next stage


class Visits(NamedTuple):
    """The costs of the visits of a schedule, and when each runs."""

    costs: Costs
    times: VisitTimes


def layout_of(pipeline: Schedule) -> Layout:
    """Return the devices that hold the stages of a schedule."""
    ends = pipeline.after < 0
    taker = np.where(ends, pipeline.device, pipeline.device[pipeline.after])
    every = (pipeline.device, taker, pipeline.before < 0, ends)
    device, taker, first, last = (np.asarray(one, np.float64) for one in every)
    return Layout(device, taker, first, last, pipeline.routes)


def stage_visits(pipeline: Schedule, seconds: StageSeconds, blocking: bool) -> Visits:
    """Return when each visit of a schedule runs."""
    backward = seconds.input_gradient if pipeline.split else seconds.backward
    kinds = (seconds.forward, backward, seconds.weight_gradient)
    costs = stage_costs(pipeline, *kinds, seconds.send, blocking)
    return Visits(costs, visit_times(table.work(pipeline), table.source(pipeline), costs))
