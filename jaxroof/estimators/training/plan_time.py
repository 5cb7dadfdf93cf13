"""Step time of plans of a model of today, with the software that goes with each plan.

Source: docs/models/training_step_today.md, sections 1 and 9.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

from jaxroof.catalog.chip import Chip
from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.memory_model import MemoryModel, memory_model
from jaxroof.estimators.training.memory_recipe import (
    AttentionKernel,
    CrossEntropy,
    MemoryRecipe,
    exchange_of,
)
from jaxroof.estimators.training.rates import Rates, rates
from jaxroof.estimators.training.software import CAPTURED, DEDUPLICATED, Framework, Software
from jaxroof.estimators.training.step_time import LayerParts, StepTime, layer_parts, whole_step
from jaxroof.estimators.training.training_recipe import TrainingRecipe, memory_recipe
from jaxroof.formulas import schedule
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, units, with_named_absences

LOSS_BYTES = {  # moved for a logit, forward and backward
    CrossEntropy.FUSED: 12.0,
    CrossEntropy.NATIVE: 32.0,
    CrossEntropy.EAGER: 32.0,
    CrossEntropy.VOCABULARY_PARALLEL: 52.0,
}


def plan_time(inputs: TrainingInputs, recipe: TrainingRecipe) -> StepTime:
    """Return the step time of every plan of the inputs, and its parts.

    Assumes: the time of offload is not in it.
    Source: docs/models/training_step_today.md.
    """
    plan: Any = inputs.plan
    fields = {name: getattr(plan, name) for name in LAYER}
    return time_of_layers(inputs, recipe, layer(inputs, recipe, **fields))


def layer(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    *,
    tensor: Number,
    context: Number,
    exchange: Number,
    expert: Number,
    expert_tensor: Number,
    microbatch: Number,
    sequence_parallel: Number,
    recompute: Number,
) -> LayerParts:
    """Return the times of one layer, of embedding and of head, one microbatch.

    Thousands of plans share a few rows of it.
    Units: degrees [1], microbatch [sequence] -> LayerParts [s].
    Source: docs/models/training_step_today.md, sections 4, 5 and 11.
    """
    plan = SimpleNamespace(
        tensor=tensor,
        context=context,
        exchange=exchange_of(recipe, exchange),
        expert=expert,
        expert_tensor=expert_tensor,
        microbatch=microbatch,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
        zero_stage=1.0,  # which no time of a layer depends on
    )
    software = software_of_plan(inputs, plan, recipe)
    model = memory_model(inputs.model, recipe)
    speed = rates_of(inputs, software)
    modules = memory_recipe(recipe).modules
    return layer_parts(model, inputs.model.sequence, plan, speed, software, modules)


LAYER = (
    *("tensor", "context", "exchange", "expert", "expert_tensor"),
    *("microbatch", "sequence_parallel", "recompute"),
)


class Timed(NamedTuple):
    """What the times of plans follow from: numbers, and the choices of the recipe."""

    model: MemoryModel
    plan: Any
    speed: Rates
    software: Software
    choices: MemoryRecipe


def timed(inputs: TrainingInputs, recipe: TrainingRecipe) -> Timed:
    """Return what the times of the plans of the inputs follow from."""
    plan = timed_plan(inputs, recipe)
    software = software_of_plan(inputs, plan, recipe)
    model, speed = memory_model(inputs.model, recipe), rates_of(inputs, software)
    return Timed(model, plan, speed, software, memory_recipe(recipe))


def time_of_layers(inputs: TrainingInputs, recipe: TrainingRecipe, parts: LayerParts) -> StepTime:
    """Return the step time of plans whose layers are timed."""
    model, plan, speed, software, choices = timed(inputs, recipe)
    return whole_step(model, plan, speed, software, parts, choices.schedule)


def rates_of(inputs: TrainingInputs, software: Software) -> Rates:
    """Return what the chip of a system does under a software."""
    return rates(inputs.system, chip_of(inputs), inputs.shared, software)


def chip_of(inputs: TrainingInputs) -> Chip:
    """Return what training gets of the chip of a system.

    Raises: InputError for a system without a chip.
    """
    if inputs.system.chip is None:
        such = "a system by name, such as h100-nvs8, or jaxroof.training_system('h100-nvs8')"
        raise refusal("system.chip", f"not given, so that there is no step time; expected {such}")
    return with_named_absences(inputs.system.chip, "system.chip.")


def timed_plan(inputs: TrainingInputs, recipe: TrainingRecipe) -> Any:
    """Return the plan with its number of microbatches."""
    plan = inputs.plan
    assert plan is not None
    batches = schedule.microbatches(inputs.global_batch, plan.data, plan.microbatch)
    fields = {name: getattr(plan, name) for name in units(TrainingPlan)}
    fields["exchange"] = exchange_of(recipe, plan.exchange)
    return SimpleNamespace(**fields, microbatches=batches)


def software_of_plan(inputs: TrainingInputs, plan: Any, recipe: TrainingRecipe) -> Software:
    """Return a software as it runs plans: what they shard and recompute, kernels of the recipe."""
    framework = inputs.software
    own = {name: getattr(framework, name) for name in units(Framework)}
    return Software(
        **own,
        flash=float(recipe.attention_kernel is not AttentionKernel.UNFUSED),
        sequence_parallel=plan.sequence_parallel,
        zero_stage=plan.zero_stage,
        gradient_bytes=inputs.states.reduce_bytes,
        loss_bytes=LOSS_BYTES[recipe.cross_entropy],
        recompute_full=where(plan.recompute > 1.5, framework.repeated, 0.0),
        recompute_selective=where(plan.recompute == 1.0, 1.0, 0.0),
        dedup=where(framework.year > DEDUPLICATED, 1.0, 0.0),
        graph=where(framework.year > CAPTURED, 1.0, 0.0),
    )
