"""Traces: every event of every device in one step of one configuration."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof import schedules as pipelines
from jaxroof.analyses.evaluate import resolve_settings
from jaxroof.analyses.schedule import ScheduleProblem, built, schedule_problem
from jaxroof.analyses.schedule_results import check_schedules
from jaxroof.analyses.training_schedule import simulated, training_problem
from jaxroof.engine.grid.dataset import provenance
from jaxroof.errors import refusal, unknown
from jaxroof.estimators import estimator as named
from jaxroof.estimators.mlp_pipeline.costs import prices
from jaxroof.estimators.mlp_pipeline.event_counts import counts
from jaxroof.estimators.mlp_pipeline.event_times import events
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.layers import widths
from jaxroof.estimators.mlp_pipeline.legality import legal
from jaxroof.estimators.mlp_pipeline.program import Network, program
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Sends
from jaxroof.estimators.published.scheduled_step import scheduled_step
from jaxroof.estimators.published.stages import LayerCosts, send_times, under_plan
from jaxroof.estimators.published.step import send_time
from jaxroof.io.trace_events import COLUMNS, NONE, trace_of
from jaxroof.limits import check_memory, counted
from jaxroof.missing import naming_all
from jaxroof.records import checked, with_named_absences
from jaxroof.schedules import clock
from jaxroof.schedules.clock import Sends as Messages
from jaxroof.schedules.clock import layout_of
from jaxroof.schedules.table import BACKWARD, FORWARD, IDLE, WEIGHT, Schedule, work

EVENT = 2000  # bytes of an event while a trace is made and written
KINDS = {FORWARD: "forward", BACKWARD: "backward", WEIGHT: "weight"}


def trace(
    estimator: str = "pipeline", settings: Mapping[str, Any] | None = None, /, **more: Any
) -> xr.Dataset:
    """Return every event of one step: a Dataset over ``event``, in program order.

    Arguments: ``settings`` and ``more`` as of ``evaluate``. An MLP (``"pipeline"``) is traced
    operation by operation, in the order of its recipe; a transformer (``"training"``,
    ``"published"``) visit by visit, under a ``schedule`` and with the other arguments of
    ``training_schedule`` or ``schedule``.
    Returns: name, kind and phase of each event, its device (numbered from 1, stages innermost,
    replicas outermost), replica, tensor rank, stage, microbatch, start and duration [s]. ``write``
    makes a .json of it that Chrome and Perfetto open, ``plot.timeline`` a picture.
    Raises: InputError for settings that are missing, unknown (with the nearest name), out of range
    or not allowed.

    >>> mlp = {"model.layers": 4, "model.hidden": 512, "system": "distir-a"}
    >>> plan = {"data": 1, "tensor": 1, "pipeline": 2, "microbatches": 2}
    >>> asked = {**mlp, **{f"plan.{field}": degree for field, degree in plan.items()}}
    >>> trace("pipeline", asked, profile="distir-a").sizes["event"]
    56
    """
    if estimator not in TRACED:
        raise unknown("", estimator, "estimator with traces", TRACED)
    chosen = {**(settings or {}), **more}
    for path, value in chosen.items():
        if getattr(value, "shape", ()):
            raise refusal(path, "a trace is of one configuration; expected one number")
    return TRACED[estimator](chosen)


# ---- An MLP, by operation ------------------------------------------------------------------------


def _pipeline(settings: Mapping[str, Any]) -> xr.Dataset:
    asked = named("pipeline")
    given, recipe = resolve_settings(asked, settings)
    inputs, choices = with_named_absences(checked(given)), recipe.chosen()
    asked.refuse_contradictions(given)
    legal(inputs, choices)
    _check_events(inputs, choices)
    network = network_of(inputs)
    order = choices.order.value
    table = pipelines.build(order, network.pipeline, network.microbatches)
    rows = np.stack([table.kind, table.microbatch], axis=-1).tolist()
    operations = program(network, rows, choices)
    posted = choices.sends is Sends.POSTED
    with naming_all(asked, given, asked.sized_recipe(given, recipe)):
        found = events(operations, network, prices(inputs, choices), posted)
    degrees = f"{network.data} x {network.tensor} x {network.pipeline} (data x tensor x pipeline)"
    many = f"{network.microbatches} microbatch{'es' if network.microbatches > 1 else ''}"
    split = f"{degrees}, {many}"
    title = f"{len(network.widths) - 1}-layer MLP, {split}, {order}, {recipe.profile.value}"
    about = provenance(asked, given, recipe, title=title, schedule=order)
    return trace_of(_columns(found), about)


def _check_events(inputs: Inputs, choices: Choices) -> None:
    """Check that the events of a step fit in memory.

    Raises: TooLarge with the size, the limit and the way out.
    """
    count = int(counts(inputs, choices)[1])
    remedy = "expected fewer microbatches, devices or layers"
    check_memory(counted(count, "event"), EVENT * count, remedy)


def network_of(inputs: Inputs) -> Network:
    """Return the network and the split of some inputs as plain numbers."""
    plan, layers = inputs.plan, int(inputs.model.layers)
    assert plan is not None
    into, inner, hidden, out = map(float, widths(inputs.model))
    between = [hidden if layer % 2 else inner for layer in range(layers - 1)]
    degrees = (int(getattr(plan, name)) for name in Network._fields[2:])
    return Network((into, *between, out), float(inputs.global_batch), *degrees)


# ---- A transformer, by visit ---------------------------------------------------------------------


def _published(settings: Mapping[str, Any]) -> xr.Dataset:
    own = ("schedule", "chunks", "first", "last", "sends")
    given: dict[str, Any] = {
        "schedule": "1f1b",
        "chunks": 2,
        "first": 0.0,
        "last": 0.0,
        "sends": "overlapped",
    }
    given |= {name: value for name, value in settings.items() if name in own}
    rest = {name: value for name, value in settings.items() if name not in own}
    (name,) = check_schedules(given.pop("schedule"), "schedule")
    asked = schedule_problem(rest, None, {}, **given)
    table = built(asked, name)
    with naming_all(named("published"), *asked[:2]):
        report, times = scheduled_step(*asked[:2], table, asked.sends, asked.extra)
    title = _title(table, asked)
    about = provenance(named("published"), asked.inputs, asked.recipe, title=title, schedule=name)
    return of_visits(
        table,
        times.start,
        times.end,
        leave=_leave(asked, table),
        synchronisation=report.data_time,
        attrs=about,
    )


def _title(table: Schedule, asked: Any) -> str:
    layers = int(asked.inputs.model.layers)
    sizes = f"{layers} layers on {table.devices} stages, {table.microbatches} microbatches"
    return f"{sizes}, {table.name}"


def _leave(asked: ScheduleProblem, table: Schedule) -> Any:
    """Return how long sending each visit's output occupies its device; None if not at all."""
    if asked.sends is not Messages.BLOCKING:
        return None
    inputs, recipe = asked[:2]
    assert inputs.plan is not None
    near = under_plan(send_time, inputs, recipe)
    far = under_plan(send_time, inputs, recipe, fast_pipeline=1.0)
    other: Any = None  # the costs of layers do not matter here
    costs = LayerCosts(block=other, weight_gradient=other, near=near, far=far, sync=other)
    send = send_times(costs, layout_of(table), inputs.plan.fast_pipeline)
    none = 0.0 * send
    leave = np.asarray(clock.stage_costs(table, none, none, none, send, blocking=True).leave)
    return leave[work(table), np.arange(table.devices)]


def _training(settings: Mapping[str, Any]) -> xr.Dataset:
    given: dict[str, Any] = {"schedule": "1f1b", "chunks": None, "sends": None}
    rest = {name: value for name, value in settings.items() if name not in given}
    given |= {name: value for name, value in settings.items() if name in given}
    (name,) = check_schedules(given.pop("schedule"), "schedule")
    asked = training_problem(rest, None, {}, **given)
    table, step, _ = simulated(asked, name)
    places = work(table), np.arange(table.devices)
    about = provenance(
        named("training"), asked.inputs, asked.recipe, title=_title(table, asked), schedule=name
    )
    return of_visits(
        table,
        step.visits.times.start,
        step.visits.times.end,
        leave=np.asarray(step.visits.costs.leave)[places],
        synchronisation=step.report.data_time,
        update=step.report.update_time,
        attrs=about,
    )


def of_visits(
    table: Schedule,
    start: Any,
    end: Any,
    *,
    leave: Any = None,
    synchronisation: Any = None,
    update: Any = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return the trace of a schedule's visits, ordered by timestep.

    Arguments: ``start`` and ``end`` of each visit [timesteps, devices] [s]; ``leave`` is how long
    sending each visit's output occupies its device afterwards; ``synchronisation`` is the time that
    each device communicates with its replicas after all its visits, ``update`` what the update of
    its parameters takes then [s].
    """
    start, end = np.asarray(start, np.float64), np.asarray(end, np.float64)
    kept = np.zeros_like(start) if leave is None else np.asarray(leave, np.float64)
    found: list[tuple[Any, ...]] = []
    for t, device in np.argwhere(table.kind != IDLE).tolist():
        place = (device + 1, NONE, NONE, int(table.stage[t, device]), table.microbatch[t, device])
        kind = KINDS[int(table.kind[t, device])]
        begun, done = float(start[t, device]), float(end[t, device])
        found.append((NAMES[kind], kind, kind, *place, begun, done - begun))
        if kept[t, device] > 0.0:
            found.append(("Send", "send", kind, *place, done, float(kept[t, device])))
    done = np.where(table.kind != IDLE, end + kept, 0.0).max(axis=0)
    ends = (("Data-parallel sums", "all-reduce", synchronisation), ("Update", "optimizer", update))
    for name, kind, seconds in ends:
        each = np.zeros(table.devices) if seconds is None else np.asarray(seconds, np.float64)
        for device in np.flatnonzero(each > 0.0).tolist():
            place = (device + 1, NONE, NONE, NONE, NONE)
            took = float(each[device])
            found.append((name, kind, "end", *place, float(done[device]), took))
        done = done + each
    return trace_of(_columns(found), attrs or {})


NAMES = {"forward": "Forward", "backward": "Backward", "weight": "Weight gradient"}


def _columns(found: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return dict(zip(COLUMNS, map(list, zip(*found, strict=True)), strict=True))


TRACED = {"pipeline": _pipeline, "training": _training, "published": _published}
