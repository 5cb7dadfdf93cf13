"""The study's training step in detail: a layer's operations, the stages under schedules."""

import json
from collections.abc import Sequence

import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.errors import refusal, shown
from jaxroof.estimator import Column, Detail, Rows, reads
from jaxroof.estimators.pipelines import (
    SCHEDULES,
    Ran,
    Run,
    check_chunks,
    check_pipeline,
    check_schedules,
    check_sends,
    microbatches_of,
    side_by_side,
    visits,
)
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer_report import LayerReport, layer_reports
from jaxroof.estimators.published.legality import RULES, UNPLACED
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.scheduled_step import (
    Extra,
    ScheduledStep,
    closed_form,
    scheduled_step,
)
from jaxroof.estimators.published.step import memory_limit
from jaxroof.records import units, value_or, with_named_absences
from jaxroof.schedules.clock import Sends
from jaxroof.schedules.table import work
from jaxroof.structure import results
from jaxroof.units import parse

# ---- The operations of a layer ------------------------------------------------------------------

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


# ---- A step under schedules ---------------------------------------------------------------------


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
