"""Step time of plans of a model of today, with the software that goes with each plan.

Source: docs/models/training_step_today.md, sections 1 and 9.
"""

import dataclasses
from types import SimpleNamespace
from typing import Any

from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.memory_model import memory_model
from jaxroof.estimators.training.memory_recipe import AttentionKernel, CrossEntropy, Module
from jaxroof.estimators.training.software import CAPTURED, DEDUPLICATED, Software
from jaxroof.estimators.training.step_time import StepTime, step_time
from jaxroof.estimators.training.training_recipe import TrainingRecipe, memory_recipe
from jaxroof.formulas import schedule
from jaxroof.formulas.arithmetic import where
from jaxroof.records import units

LOSS_BYTES = {  # moved for a logit, forward and backward
    CrossEntropy.FUSED: 12.0,
    CrossEntropy.NATIVE: 32.0,
    CrossEntropy.EAGER: 32.0,
    CrossEntropy.VOCABULARY_PARALLEL: 52.0,
}
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
    model, plan = memory_model(inputs.model, recipe), timed_plan(inputs)
    return step_time(model, inputs.model.sequence, plan, inputs.system, chip, constants, asked)


def timed_plan(inputs: TrainingInputs) -> Any:
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
