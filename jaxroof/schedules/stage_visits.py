"""Stages on the devices of a schedule, and when each of their visits runs."""

import enum
from typing import Any, NamedTuple

import numpy as np

from jaxroof.schedules import clock, overlap, table


class Sends(enum.Enum):
    """How a device sends its output to the next one."""

    OVERLAPPED = "overlapped"  # the sender continues; the next stage waits
    BLOCKING = "blocking"  # the sender waits until the send is complete
    FREE = "free"  # sends take no time


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

    costs: clock.Costs
    times: clock.VisitTimes


def routes_of(pipeline: table.Schedule) -> float:
    """Return the number of routes through all layers, each with its own weights."""
    return float((pipeline.after < 0).sum())


def layout_of(pipeline: table.Schedule) -> Layout:
    """Return the devices that hold the stages of a schedule."""
    ends = pipeline.after < 0
    taker = np.where(ends, pipeline.device, pipeline.device[pipeline.after])
    every = (pipeline.device, taker, pipeline.before < 0, ends)
    device, taker, first, last = (np.asarray(one, np.float64) for one in every)
    return Layout(device, taker, first, last, routes_of(pipeline))


def stage_visits(pipeline: table.Schedule, seconds: StageSeconds, blocking: bool) -> Visits:
    """Return when each visit of a schedule runs."""
    backward = seconds.input_gradient if pipeline.split else seconds.backward
    kinds = (seconds.forward, backward, seconds.weight_gradient)
    costs = clock.stage_costs(pipeline, *kinds, seconds.send, blocking)
    times = clock.visit_times(table.work(pipeline), overlap.visit_sources(pipeline), costs)
    return Visits(costs, times)
