"""Pipeline schedules of a training step of today, side by side: time and memory under each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof import schedules as pipelines
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
from jaxroof.analyses.training_question import training_step
from jaxroof.engine.grid.dataset import field_metadata, provenance
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.legality_words import refuse_illegal
from jaxroof.estimators.training.memory_model import memory_model
from jaxroof.estimators.training.memory_step import memory_inputs, memory_limit
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.estimators.training.scheduled_step import (
    MEMORY,
    ScheduledTraining,
    SimulatedStep,
    on_schedule,
    scheduled_step,
)
from jaxroof.estimators.training.stage_time import stage_layers
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.training_recipe import TrainingRecipe, memory_recipe
from jaxroof.missing import naming_all
from jaxroof.records import with_named_absences
from jaxroof.schedules.clock import Sends
from jaxroof.schedules.table import Schedule

CHUNKS = 2  # stages of a device when interleaved, unless plan or question says otherwise


class TrainingProblem(NamedTuple):
    """The checked problem that every schedule is evaluated on."""

    inputs: TrainingInputs
    recipe: TrainingRecipe
    chunks: int
    sends: Sends | None  # None: as the software sends


class Simulated(NamedTuple):
    """A schedule built for a plan, and the step under it."""

    pipeline: Schedule
    step: SimulatedStep
    stage_layers: int  # of the fullest stage


def training_schedule(
    inputs: TrainingInputs | Mapping[str, Any],
    recipe: TrainingRecipe | None = None,
    *,
    schedules: Sequence[str] | str = SCHEDULES,
    chunks: int | None = None,
    sends: Sends | str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the time and memory of a training step of today under several pipeline schedules.

    Arguments: ``inputs`` with a plan, or settings by dotted path (``{"model": "llama3-70b",
    "plan.pipeline": 4, ...}``); ``chunks`` stages per device in schedules with several, by default
    the plan's ``interleave``, or 2; ``sends`` between stages are ``"overlapped"`` with work,
    ``"blocking"`` or ``"free"``, by default as the software sends; ``settings`` and ``more`` are
    fields of the inputs or the recipe.
    Returns: a Dataset over ``schedule`` and ``device``, with the 80 % interval of each step time.
    The step times are those of ``evaluate``, but for ``sends`` that are given. A schedule that does
    not allow the plan keeps its row: its numbers are missing and ``reason`` says why.
    Raises: InputError for settings that are unknown or out of range, for an illegal plan, and if no
    schedule allows the plan.

    >>> plan = {"plan.tensor": 8, "plan.pipeline": 4, "global_batch": 32}
    >>> data = training_schedule({"model": "llama3-70b", "system": "h100-nvs8", **plan})
    >>> fastest = data.isel(schedule=int(data.step_time.values.argmin()))
    >>> str(fastest.schedule.values)
    'dualpipe'
    """
    asked = training_problem(inputs, recipe, {**(settings or {}), **more}, chunks, sends)
    names = check_schedules(schedules)

    def row(name: str) -> Mapping[str, Any]:
        pipeline, step, layers = simulated(asked, name)
        numbers = {k: np.asarray(v) for k, v in {**step.bounds, **step.memory}.items()}
        return {**arrays(step.report), **numbers, **counts(pipeline, layers)}

    return labelled(every_schedule(names, row), _question(asked))


def training_problem(
    inputs: TrainingInputs | Mapping[str, Any],
    recipe: TrainingRecipe | None,
    settings: Mapping[str, Any],
    chunks: int | None,
    sends: Sends | str | None,
) -> TrainingProblem:
    """Return the checked problem.

    Raises: InputError that names the wrong setting and the allowed values.
    """
    begun, choices = training_step(inputs, recipe, settings)
    assert begun.plan is not None
    check_pipeline(float(begun.plan.pipeline))
    own = int(begun.plan.interleave)
    if chunks is None:
        chunks = own if own > 1 else CHUNKS
    if own not in (1, check_chunks(chunks)):
        what = f"given {chunks} beside the plan's interleave={own}; expected one of them"
        raise refusal("chunks", what)
    return TrainingProblem(
        begun, choices, check_chunks(chunks), None if sends is None else check_sends(sends)
    )


def simulated(asked: TrainingProblem, name: str) -> Simulated:
    """Return the step of a problem under a schedule.

    Raises: InputError if the schedule does not allow the plan.
    """
    if name not in MEMORY:
        raise refusal(name, f"its memory is not modelled; expected {', '.join(MEMORY)}")
    chunks = asked.chunks if name in pipelines.CHUNKED else 1
    inputs, recipe = on_schedule(asked.inputs, asked.recipe, name, chunks)
    try:
        refuse_illegal(memory_inputs(inputs, recipe), memory_recipe(recipe))
    except InputError as error:
        raise refusal(name, str(error)) from None
    assert inputs.plan is not None
    pipeline = pipelines.build(name, int(inputs.plan.pipeline), microbatches_of(inputs), chunks)
    with naming_all(training, inputs, recipe):
        step = scheduled_step(with_named_absences(inputs), recipe, pipeline, asked.sends)
    _, inner, outer = stage_layers(memory_model(inputs.model, recipe), inputs.plan)
    return Simulated(pipeline, step, int(np.ceil(max(inner, outer) / chunks)))


def _question(asked: TrainingProblem) -> Question:
    """Return what all schedules share."""
    inputs, recipe, chunks, sends = asked
    assert inputs.plan is not None
    said = "as the software" if sends is None else sends.value
    return Question(
        devices=int(inputs.plan.pipeline),
        microbatches=microbatches_of(inputs),
        limit=float(memory_limit(with_named_absences(inputs))),
        closed_form=None,
        inputs=inputs,
        attrs=provenance(training, inputs, recipe, chunks=chunks, sends=said, picture="schedules"),
        meanings=field_metadata(TrainingReport, ScheduledTraining),
    )
