"""Pipeline schedules side by side: time and memory of a training step under each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof import schedules as pipelines
from jaxroof.analyses.evaluate import settled
from jaxroof.analyses.schedule_results import (
    SCHEDULES,
    Question,
    arrays,
    check_chunks,
    check_pipeline,
    check_schedules,
    check_sends,
    counts,
    every_schedule,
    labelled,
    microbatches_of,
)
from jaxroof.engine.grid.dataset import field_metadata, provenance
from jaxroof.engine.grid.placement import place_best
from jaxroof.errors import refusal, shown
from jaxroof.estimator import reads
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.scheduled_step import (
    Extra,
    ScheduledStep,
    closed_form,
    scheduled_step,
)
from jaxroof.estimators.published.step import memory_limit, published
from jaxroof.missing import naming_all
from jaxroof.records import leaves, value_or, with_named_absences
from jaxroof.schedules.clock import Sends
from jaxroof.schedules.table import Schedule
from jaxroof.units import parse

UNPLACED = "placement_fills_domain"  # a rule that a plan may break and still run


class ScheduleProblem(NamedTuple):
    """The checked problem that every schedule is evaluated on."""

    inputs: Inputs
    recipe: Recipe
    chunks: int
    sends: Sends
    extra: Extra

    @property
    def devices(self) -> int:
        """Return the number of devices of the pipeline."""
        assert self.inputs.plan is not None
        return int(self.inputs.plan.pipeline)

    @property
    def microbatches(self) -> int:
        """Return the number of microbatches of a step on one data-parallel rank."""
        return microbatches_of(self.inputs)


def schedule(
    inputs: Inputs | Mapping[str, Any],
    recipe: Recipe | None = None,
    *,
    schedules: Sequence[str] | str = SCHEDULES,
    chunks: int = 2,
    first: float = 0.0,
    last: float = 0.0,
    sends: Sends | str = Sends.OVERLAPPED,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the time and memory of a training step under each of several pipeline schedules.

    Arguments: ``inputs`` with a plan, or settings by dotted path (``{"model": "gpt3-1t",
    "plan.tensor": 4, ...}``); ``chunks`` stages per device in schedules with several; ``first``
    and ``last`` are the extra time and weights of the first and the last stage, in units of one
    layer (0.1 for an embedding, 0.8 for a head); ``sends`` between stages are ``"overlapped"``
    with work, ``"blocking"`` or ``"free"``; ``settings`` and ``more`` are fields of the inputs or
    the recipe.
    Returns: a Dataset over ``schedule`` and ``device``. A schedule that does not allow the plan
    keeps its row: its numbers are missing and ``reason`` says why. DualPipe stores every weight
    twice.
    Raises: InputError for settings that are unknown or out of range, for an illegal plan, and if no
    schedule allows the plan.
    """
    chosen = {**(settings or {}), **more}
    asked = schedule_problem(inputs, recipe, chosen, chunks, first, last, sends)
    names = check_schedules(schedules)

    def row(name: str) -> Mapping[str, Any]:
        pipeline = built(asked, name)
        with naming_all(published, *asked[:2]):
            report, _ = scheduled_step(*asked[:2], pipeline, asked.sends, asked.extra)
        layers = int(asked.inputs.model.layers * pipeline.routes) // pipeline.stages
        return {**arrays(report), **counts(pipeline, layers)}

    return labelled(every_schedule(names, row), _question(asked))


# ---- The problem --------------------------------------------------------------------------------


def schedule_problem(
    inputs: Inputs | Mapping[str, Any],
    recipe: Recipe | None,
    settings: Mapping[str, Any],
    chunks: int,
    first: float,
    last: float,
    sends: Sends | str,
) -> ScheduleProblem:
    """Return the checked problem.

    Raises: InputError that names the wrong setting and the allowed values.
    """
    begun, choices = _settled(inputs, recipe, settings)
    _check_plan(begun, choices)
    begun = place_best(published, begun, choices)
    chunks = check_chunks(chunks)
    extra = Extra(
        np.float64(layer_equivalents("first", first)), np.float64(layer_equivalents("last", last))
    )
    return ScheduleProblem(begun, choices, chunks, check_sends(sends), extra)


def layer_equivalents(where: str, value: float | str) -> float:
    """Return the extra cost of a stage, in units of one layer.

    Raises: InputError if it is not a number of at least 0.
    """
    found = parse(value, "1", where)
    if found < 0:
        what = "expected layers' worth of at least 0, such as 0.8"
        raise refusal(where, f"{what}, given {shown(value)}")
    return found


def _settled(
    inputs: Inputs | Mapping[str, Any], recipe: Recipe | None, settings: Mapping[str, Any]
) -> tuple[Inputs, Recipe]:
    """Return inputs and recipe with the settings applied, every number scalar and in its range."""
    begun, choices = settled(published, inputs, recipe, settings)
    for path, _, value in leaves(begun):
        if np.ndim(value):
            raise refusal(path, f"expected one number, given {np.size(value)} of them")
    return begun, choices


def _check_plan(inputs: Inputs, recipe: Recipe) -> None:
    """Check that there is a legal plan with a pipeline."""
    plan = inputs.plan
    if plan is None:
        raise refusal("plan", "not given; expected how the step is split, plan.pipeline and more")
    for rule in RULES[recipe.split]:
        fields = {f: value_or(getattr(plan, f), 1.0) for f in reads(rule.holds)}
        if rule.name != UNPLACED and not bool(rule.holds(inputs, **fields)):
            said = ", ".join(f"{name}={int(value)}" for name, value in fields.items())
            raise refusal("plan", f"{said} is one of the {rule.words}")
    check_pipeline(float(plan.pipeline))


def built(asked: ScheduleProblem, name: str) -> Schedule:
    """Return a schedule built for the plan of the problem.

    Raises: InputError if the schedule does not allow the plan.
    """
    chunks = asked.chunks if name in pipelines.CHUNKED else 1
    layers, stages = int(asked.inputs.model.layers), asked.devices * chunks
    if layers % stages:
        text = f"{asked.devices} x {chunks} stages do not divide the {layers} layers"
        raise refusal(name, f"{text}; expected chunks that divide {layers // asked.devices}")
    return pipelines.build(name, asked.devices, asked.microbatches, chunks)


# ---- The results --------------------------------------------------------------------------------


def _question(asked: ScheduleProblem) -> Question:
    """Return what all schedules share."""
    return Question(
        devices=asked.devices,
        microbatches=asked.microbatches,
        limit=float(memory_limit(with_named_absences(asked.inputs))),
        closed_form=float(closed_form(asked.inputs, asked.recipe, asked.sends)),
        inputs=asked.inputs,
        attrs=provenance(
            published,
            asked.inputs,
            asked.recipe,
            chunks=asked.chunks,
            sends=asked.sends.value,
            first=float(asked.extra.first),
            last=float(asked.extra.last),
            picture="schedules",
        ),
        meanings=field_metadata(ScheduledStep),
    )
