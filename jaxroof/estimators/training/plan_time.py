"""Step time of plans of a model of today, with the software that goes with each plan.

Source: docs/models/training_step_today.md, sections 1 and 9.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.memory_model import memory_model
from jaxroof.estimators.training.memory_recipe import AttentionKernel, CrossEntropy, Module
from jaxroof.estimators.training.rates import rates
from jaxroof.estimators.training.software import Software
from jaxroof.estimators.training.step_time import (
    StepTime,
    layer_parts,
    step_time,
    whole_step,
)
from jaxroof.estimators.training.training_recipe import TrainingRecipe, memory_recipe
from jaxroof.formulas import schedule
from jaxroof.formulas.arithmetic import where
from jaxroof.records import units
from jaxroof.structure import map_numbers

LOSS_BYTES = {  # moved for a logit, forward and backward
    CrossEntropy.FUSED: 12.0,
    CrossEntropy.NATIVE: 32.0,
    CrossEntropy.EAGER: 32.0,
    CrossEntropy.VOCABULARY_PARALLEL: 52.0,
}
DEDUPLICATED = 2025.6  # year from which dispatchers send a token once to a rank
CAPTURED = 2026.4  # year from which expert layers are captured in a graph


LAYER = (  # fields of a plan that the time of a layer depends on
    *("tensor", "context", "expert", "microbatch", "sequence_parallel", "recompute"),
)


def plan_time(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    chip: Chip,
    constants: SharedConstants,
    software: Software,
) -> StepTime:
    """Return the step time of every plan of the inputs, and its parts.

    Assumes: the optimizer states are on the accelerator (offload is not modelled); of selective
    recomputation, the core of attention alone takes time that counts.
    Source: docs/models/training_step_today.md.
    """
    asked = software_of_plan(inputs, recipe, software)
    model, plan = memory_model(inputs.model, recipe), _timed_plan(inputs)
    return step_time(model, inputs.model.sequence, plan, inputs.system, chip, constants, asked)


def plan_times(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    chip: Chip,
    constants: SharedConstants,
    software: Software,
    plans: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return the step time of columns of plans [s]; layers are timed once a distinct row.

    The result equals that of ``plan_time``.
    """
    columns = {name: np.asarray(column, np.float64) for name, column in plans.items()}
    first, number = _distinct([columns[name] for name in LAYER])
    few = {name: column[first] for name, column in columns.items()}
    model = memory_model(inputs.model, recipe)
    rare, common = (
        dataclasses.replace(inputs, plan=TrainingPlan(**some)) for some in (few, columns)
    )
    asked = software_of_plan(rare, recipe, software)
    speed = rates(inputs.system, chip, constants, asked)
    parts = layer_parts(model, inputs.model.sequence, _timed_plan(rare), speed, asked)
    spread = map_numbers(lambda value: _at(value, number), parts)
    every = software_of_plan(common, recipe, software)
    time = whole_step(model, _timed_plan(common), speed, every, spread).step_time
    return np.broadcast_to(np.asarray(time), number.shape)


def _distinct(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the first place of each distinct row of small whole numbers, and each row's number."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, place = np.unique(column, return_inverse=True)
        key = key * (int(place.max(initial=0)) + 1) + place
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return first, number.ravel()


def _at(value: Any, number: np.ndarray) -> Any:
    return np.asarray(value)[number] if np.ndim(value) else value


def _timed_plan(inputs: TrainingInputs) -> Any:
    """Return the plan with its number of microbatches."""
    plan = inputs.plan
    assert plan is not None
    assert inputs.global_batch is not None
    batches = schedule.microbatches(inputs.global_batch, plan.data, plan.microbatch)
    fields = {name: getattr(plan, name) for name in units(TrainingPlan)}
    return SimpleNamespace(**fields, microbatches=batches)


def software_of_plan(
    inputs: TrainingInputs, recipe: TrainingRecipe, software: Software
) -> Software:
    """Return a software as it runs plans: what they shard and recompute, kernels of the recipe."""
    plan = inputs.plan
    assert plan is not None
    core = Module.CORE_ATTENTION in memory_recipe(recipe).modules
    selective = where(plan.recompute == 1.0, float(core), 0.0)
    return dataclasses.replace(
        software,
        flash=float(recipe.attention_kernel is not AttentionKernel.UNFUSED),
        sequence_parallel=plan.sequence_parallel,
        zero_stage=plan.zero_stage,
        gradient_bytes=inputs.states.reduce_bytes,
        loss_bytes=LOSS_BYTES[recipe.cross_entropy],
        recompute_full=where(plan.recompute > 1.5, 1.0, 0.0),
        recompute_selective=selective,
        dedup=where(software.year > DEDUPLICATED, 1.0, 0.0),
        graph=where(software.year > CAPTURED, 1.0, 0.0),
    )
