"""The study's training step in detail: a layer's operations, the stages under schedules.

Source: docs/models/transformer_model.md, sections 3 and 5 to 9, but stages may differ.
"""

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.errors import refusal, shown
from jaxroof.estimator import Column, Detail, Rows, reads
from jaxroof.estimators.pipelines import (
    SCHEDULES,
    Ran,
    Run,
    ScheduledTimes,
    check_chunks,
    check_pipeline,
    check_schedules,
    check_sends,
    microbatches_of,
    side_by_side,
    visits,
)
from jaxroof.estimators.published.inputs import Inputs, Recipe
from jaxroof.estimators.published.layer_time import (
    LayerTimes,
    layer_times,
    timings,
    weight_gradient,
)
from jaxroof.estimators.published.legality import RULES, UNPLACED
from jaxroof.estimators.published.operations import LayerOperation, Operations, Ranks, operations
from jaxroof.estimators.published.step import (
    REPLICAS,
    SyncTimes,
    exposed_sync_times,
    memory_limit,
    published,
    send_time,
    step,
    sync_times,
)
from jaxroof.estimators.published.step import published as estimator
from jaxroof.formulas.arithmetic import floor, largest, put, stack, where
from jaxroof.records import Number, quantity, record, units, value_or, with_named_absences
from jaxroof.schedules import clock, table
from jaxroof.schedules.clock import Sends, StageSeconds, Visits, layout_of, stage_visits
from jaxroof.schedules.table import work
from jaxroof.structure import results
from jaxroof.units import parse

# ---- The operations of a layer -------------------------------------------------------------------


@record
class LayerReport:
    """One operation of one layer and one microbatch on one accelerator."""

    flops_forward: Number = quantity("FLOP", "Arithmetic, forward.")
    flops_backward: Number = quantity("FLOP", "Arithmetic, backward.")
    traffic_forward: Number = quantity("B", "Bytes moved in HBM, forward.")
    traffic_backward: Number = quantity("B", "Bytes moved in HBM, backward.")
    message_forward: Number = quantity("B", "Messages of the collectives, forward.")
    message_backward: Number = quantity("B", "Messages of the collectives, backward.")
    compute_forward: Number = quantity("s", "Time in arithmetic and launch, forward.")
    compute_backward: Number = quantity("s", "Time in arithmetic and launch, backward.")
    memory_forward: Number = quantity("s", "Time in HBM that arithmetic does not hide, forward.")
    memory_backward: Number = quantity("s", "Time in HBM that arithmetic does not hide, backward.")
    tensor_forward: Number = quantity("s", "Time in tensor-parallel communication, forward.")
    tensor_backward: Number = quantity("s", "Time in tensor-parallel communication, backward.")
    time_forward: Number = quantity("s", "Time forward.")
    time_backward: Number = quantity("s", "Time backward, with what is computed again.")
    kept: Number = quantity("B", "Activations kept for the backward pass.")
    weights: Number = quantity("B", "Weights.")


def layer_of_plan(inputs: Inputs, recipe: Recipe) -> Operations:
    """Return the operations of one layer, for the plan of the inputs."""
    plan = inputs.plan
    assert plan is not None
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    return operations(bare, recipe, **{name: getattr(plan, name) for name in Ranks._fields})


def layer_reports(inputs: Inputs, recipe: Recipe) -> OrderedDict[str, LayerReport]:
    """Return every operation of one layer by name, in order, for the plan of the inputs."""
    layer = layer_of_plan(inputs, recipe)
    # jit would return a plain dict sorted by name
    return OrderedDict(
        (name, _report(one, with_named_absences(inputs))) for name, one in layer.items()
    )


def _report(operation: LayerOperation, inputs: Inputs) -> LayerReport:
    found: dict[str, Any] = {}
    work = operation.work
    again: Any = 0.0
    sent = (operation.forward, operation.backward)
    each = zip((FORWARD, BACKWARD), work[:2], sent, timings(operation, inputs.system), strict=True)
    for way, done, messages, time in each:
        found |= {
            f"flops_{way}": done.flops,
            f"traffic_{way}": done.traffic,
            f"message_{way}": sum((message.volume for message in messages), 0.0),
            f"compute_{way}": time.compute,
            f"memory_{way}": time.memory,
            f"tensor_{way}": time.communication,
            f"time_{way}": sum(time) + again,
        }
        again = sum(time) if operation.recomputed else 0.0
    return LayerReport(**found, kept=work.kept, weights=work.parameters * inputs.precision.weight)


WORDS = {  # of the operations, for people
    "fc1": "MLP up",
    "fc1-bias": "MLP up, bias",
    "act1": "MLP activation",
    "dpr1": "MLP dropout",
    "fc2": "MLP down",
    "fc2-bias": "MLP down, bias",
    "dpr2": "dropout after MLP",
    "ln1": "first layer norm",
    "qkv": "queries, keys, values",
    "fusedla": "fused attention",
    "logits": "attention scores",
    "dpr_at": "attention dropout",
    "attend": "attention over values",
    "vproj": "attention output",
    "vproj-bias": "attention output, bias",
    "dpr_v": "dropout after attention",
    "ln2": "second layer norm",
}


def layer_rows(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return the operations of one layer and one microbatch."""
    reports = layer_reports(inputs, recipe)
    columns = {
        name: Column(
            np.stack(np.broadcast_arrays(*(getattr(r, name) for r in reports.values())), axis=-1),
            ("operation",),
        )
        for name in units(LayerReport)
    }
    about = {"long_name": "Operation of a layer", "words": json.dumps(WORDS)}
    columns["operation"] = Column(list(reports), ("operation",), about, label=True)
    return Rows(columns)


# ---- What each operation adds to a step ---------------------------------------------------------

FORWARD, BACKWARD = "forward", "backward"
GATHER, SCATTER, SENDS, BUBBLE = "weight gather", "gradient scatter", "stage sends", "bubble"


def contributions(inputs: Inputs, recipe: Recipe) -> OrderedDict[str, Number]:
    """Return the seconds that every operation adds to the step, for the plan of the inputs.

    t = sum of (t_f + t_b) M K over operations + t_gather + t_scatter + sends + bubble

    Each direction of an operation has its own entry. It includes its collectives (for panels,
    only their exposed time) and recomputation in the backward pass. The data-parallel gather and
    scatter count with their exposed time.

    Assumes: as the training step. More work hides more of a gather, so a partly exposed gather
    has a negative share in the limits of the layer that hides the rest.
    The limits of an operation are the derivatives of its time with respect to the machine's rates
    and latencies; by Euler's theorem, they sum to the seconds.
    """
    inputs = with_named_absences(inputs)
    parts = estimator.evaluate_parts(inputs, recipe)
    whole = step(inputs, recipe, **parts)
    counts = parts["schedule_counts"]
    found: OrderedDict[str, Number] = OrderedDict()  # jit returns a plain dict sorted
    for name, operation in layer_reports(inputs, recipe).items():
        found[f"{name} {FORWARD}"] = operation.time_forward * counts.runs
        found[f"{name} {BACKWARD}"] = operation.time_backward * counts.runs
    found[GATHER], found[SCATTER] = exposed_sync_times(parts["block"], parts["sync"], counts.layers)
    found[SENDS], found[BUBBLE] = whole.time_pipeline, whole.time_bubble
    return found


# ---- A step under schedules ----------------------------------------------------------------------


class LayerCosts(NamedTuple):
    """The costs of one layer and of a send between two stages, for one plan."""

    block: LayerTimes
    weight_gradient: Number  # part of the block's backward [s]
    near: Number  # a send inside a fast domain [s]
    far: Number  # a send between fast domains [s]
    sync: SyncTimes


class Extra(NamedTuple):
    """Extra work of the first and the last stage, in units of one layer."""

    first: Number = 0.0
    last: Number = 0.0


NOTHING = Extra()


def costs_under(inputs: Inputs, recipe: Recipe, routes: float, sends: Sends) -> LayerCosts:
    """Return the costs that all stages share, for the plan of the inputs and a number of routes.

    Assumes: copies of the weights on other routes are further replicas, each in its own domain.
    """
    plan = inputs.plan
    assert plan is not None
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))

    def part(of: Callable[..., Any], **other: Number) -> Any:
        fields = {name: getattr(plan, name) for name in reads(of)}
        return of(bare, recipe, **{**fields, **other})

    block, free = part(layer_times), 0.0 if sends is Sends.FREE else 1.0
    return LayerCosts(
        block=block,
        weight_gradient=weight_gradient(layer_of_plan(inputs, recipe), inputs.system),
        near=free * part(send_time),
        far=free * part(send_time, fast_pipeline=1.0),
        sync=part(sync_times, data=plan.data * routes),
    )


@record
class ScheduledStep(ScheduledTimes):
    """One optimizer step under a schedule; values that differ by device are arrays over devices.

    On each device, busy, bubble and data-parallel time sum to the step time. Weights, gradients,
    optimizer state and activations sum to the memory.
    """

    memory: Number = quantity("B", "Memory that the device needs at most.")
    memory_weights: Number = quantity("B", "Memory of weights, all copies of them.")
    memory_gradients: Number = quantity("B", "Memory of weight gradients, all copies of them.")
    memory_optimizer: Number = quantity("B", "Memory of optimizer state.")
    memory_activations: Number = quantity("B", "Most memory of activations kept for backward.")


def step_of(
    inputs: Inputs,
    recipe: Recipe,
    costs: LayerCosts,
    pipeline: table.Schedule,
    blocking: bool,
    extra: Extra,
) -> tuple[ScheduledStep, Visits]:
    """Return a step under a schedule, and its visits.

    A stage has L r / n layers (n stages on r routes). The first stage of a route has the time and
    weights of more layers, and so has the last one (an embedding, a head and its loss).

    Assumes: this extra work saves no activations; those of a stage are saved at its forward and
    freed at its backward, or at its weight gradient where that is a separate visit; Q23, gradients
    are not sharded; optimizer state is sharded over all ranks with the same weights, including the
    copies on other routes; a send between fast domains takes a slow link (Q2: nothing).
    """
    plan, precision, layer, layout = inputs.plan, inputs.precision, costs.block, layout_of(pipeline)
    assert plan is not None
    each = inputs.model.layers * (pipeline.routes / pipeline.stages)
    layers = each + extra.first * layout.first + extra.last * layout.last
    domain, other = (floor(at / plan.fast_pipeline) for at in (layout.device, layout.taker))
    between = where(domain == other, costs.near, costs.far)
    seconds = StageSeconds(
        forward=layer.forward * layers,
        backward=layer.backward * layers,
        input_gradient=(layer.backward - costs.weight_gradient) * layers,
        weight_gradient=costs.weight_gradient * layers,
        send=where(layout.device == layout.taker, 0.0, between),
    )
    visits = stage_visits(pipeline, seconds, blocking)
    times = visits.times
    held = put(np.zeros(pipeline.devices), pipeline.device, layers, add=True)
    shown = exposed_sync_times(layer, costs.sync, held)  # Q16
    data = shown.gather + shown.scatter
    step_time = largest(times.clock + data)
    idle = step_time - times.busy - data

    kept = layer.kept * each * np.ones(pipeline.stages)
    nothing = 0.0 * kept
    going = (nothing, -kept) if pipeline.split else (-kept, nothing)
    rise, net = (stack([kept, *moves]) for moves in ((nothing, nothing), going))
    classes = (clock.by_class(pipeline, moves) for moves in (rise, net))
    activations = clock.peaks(table.work(pipeline), *classes)
    parameters = layer.parameters * held
    replicas = pipeline.routes * REPLICAS[recipe.split](plan.data, plan.context)
    weights, gradients = parameters * precision.weight, parameters * precision.gradient
    optimizer = parameters * precision.optimizer / replicas
    report = ScheduledStep(
        step_time=step_time,
        throughput=inputs.global_batch / step_time,
        busy_time=times.busy,
        bubble_time=idle,
        bubble=idle / step_time,
        data_time=data,
        memory=weights + gradients + optimizer + activations,
        memory_weights=weights,
        memory_gradients=gradients,
        memory_optimizer=optimizer,
        memory_activations=activations,
    )
    return report, visits


def scheduled_step(
    inputs: Inputs,
    recipe: Recipe,
    pipeline: table.Schedule,
    sends: Sends = Sends.OVERLAPPED,
    extra: Extra = NOTHING,
) -> tuple[ScheduledStep, Visits]:
    """Return a step under a schedule for the plan of the inputs, and its visits.

    t = max over devices of (clock + t_data)

    Assumes: the plan's stages and microbatches are those of the schedule; messages between stages
    never wait for each other. The times of visits are counted from the end of the gathers.
    """
    costs = costs_under(inputs, recipe, pipeline.routes, sends)
    return step_of(inputs, recipe, costs, pipeline, sends is Sends.BLOCKING, extra)


def closed_form(inputs: Inputs, recipe: Recipe, sends: Sends = Sends.OVERLAPPED) -> Number:
    """Return the step time of the training estimator, without sends where those are free.

    Assumes: as the training step: 1F1B, equal stages, blocking sends of which Q2 drops some.
    """
    asked = with_named_absences(inputs)
    parts = published.evaluate_parts(asked, recipe)
    if sends is Sends.FREE:
        parts["send_time"] = 0.0 * parts["send_time"]
    found: Number = step(asked, recipe, **parts).step_time
    return found


def check_plan(inputs: Inputs, recipe: Recipe) -> None:
    """Check that there is a legal plan with a pipeline.

    Raises: InputError for the rule that it breaks.
    """
    plan = inputs.plan
    if plan is None:
        raise refusal("plan", "not given; expected how the step is split, plan.pipeline and more")
    for rule in RULES[recipe.split]:
        fields = {f: value_or(getattr(plan, f), 1.0) for f in reads(rule.holds)}
        if rule.name != UNPLACED and not bool(rule.holds(inputs, **fields)):
            said = ", ".join(f"{name}={int(value)}" for name, value in fields.items())
            raise refusal("plan", f"{said} is one of the {rule.words}")
    check_pipeline(inputs)


def layer_equivalents(where: str, value: float | str) -> float:
    """Return the extra cost of a stage, in units of one layer.

    Raises: InputError if it is not a number of at least 0.
    """
    found = parse(value, "1", where)
    if found < 0:
        what = "expected layers' worth of at least 0, such as 0.8"
        raise refusal(where, f"{what}, given {shown(value)}")
    return found


def schedule_rows(
    inputs: Inputs,
    recipe: Recipe,
    *,
    schedules: Sequence[str] | str = SCHEDULES,
    chunks: int = 2,
    first: float = 0.0,
    last: float = 0.0,
    sends: Sends | str = Sends.OVERLAPPED,
) -> Rows:
    """Return time and memory under each of several schedules, of every device."""
    run, extra, way = _run(inputs, recipe, chunks, first, last, sends)
    limit = float(memory_limit(with_named_absences(inputs)))
    other = float(closed_form(inputs, recipe, way))
    ends = {"first": float(extra.first), "last": float(extra.last)}
    attrs = {"chunks": chunks, "sends": way.value, **ends, "picture": "schedules"}
    return Rows(side_by_side(check_schedules(schedules), run, inputs, limit, other), attrs)


def event_list(
    inputs: Inputs,
    recipe: Recipe,
    *,
    schedule: str = "1f1b",
    chunks: int = 2,
    first: float = 0.0,
    last: float = 0.0,
    sends: Sends | str = Sends.OVERLAPPED,
) -> Rows:
    """Return every visit of every stage under a schedule."""
    (name,) = check_schedules(schedule, "schedule")
    return visits(inputs, name, _run(inputs, recipe, chunks, first, last, sends)[0])


def _run(
    inputs: Inputs, recipe: Recipe, chunks: int, first: float, last: float, sends: Sends | str
) -> tuple[Run, Extra, Sends]:
    """Return what runs a schedule, with the extra of its ends and its kind of sends."""
    check_chunks(chunks)
    ends = (layer_equivalents("first", first), layer_equivalents("last", last))
    extra, way = Extra(*map(np.float64, ends)), check_sends(sends)
    assert inputs.plan is not None
    layers, devices = int(inputs.model.layers), int(inputs.plan.pipeline)

    def run(name: str) -> Ran:
        several = int(chunks) if name in pipelines.CHUNKED else 1
        if layers % (devices * several):
            text = f"{devices} x {several} stages do not divide the {layers} layers"
            raise refusal(name, f"{text}; expected chunks that divide {layers // devices}")
        table = pipelines.build(name, devices, microbatches_of(inputs), several)
        report, (costs, times) = scheduled_step(inputs, recipe, table, way, extra)
        held = int(layers * table.routes) // table.stages
        leave = np.asarray(costs.leave)[work(table), np.arange(devices)]
        return Ran(table, results(report), held, times, leave, report.data_time)

    return run, extra, way


DETAILS = {
    "layers": Detail(layer_rows, (LayerReport,)),
    "schedule": Detail(schedule_rows, (ScheduledStep,), check_plan, one_by_one=True),
    "events": Detail(event_list, (), check_plan, one_by_one=True),
}
