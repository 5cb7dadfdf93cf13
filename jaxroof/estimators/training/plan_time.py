"""Step time of plans of a model of today, with the software that goes with each plan.

Source: docs/models/training_step_today.md, sections 1 and 9.
"""

from typing import NamedTuple

from jaxroof.catalog.chip import Chip
from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.memory_model import MemoryModel, memory_model
from jaxroof.estimators.training.planned import BatchPlan, batch_plan
from jaxroof.estimators.training.rates import Rates, rates
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of, modules_of
from jaxroof.estimators.training.software import Software, software_of_plan
from jaxroof.estimators.training.step_time import LayerParts, StepTime, layer_parts, whole_step
from jaxroof.records import Number, with_named_absences


def plan_time(inputs: TrainingInputs, recipe: TrainingRecipe) -> StepTime:
    """Return the step time of every plan of the inputs, and its parts.

    Assumes: the time of offload is not in it.
    Source: docs/models/training_step_today.md.
    """
    fields = {name: getattr(inputs.plan, name) for name in LAYER}
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
    plan = TrainingPlan(  # which no time of a layer depends on in its other fields
        tensor=tensor,
        context=context,
        exchange=exchange_of(recipe, exchange),
        expert=expert,
        expert_tensor=expert_tensor,
        microbatch=microbatch,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    software = software_of_plan(inputs, plan, recipe)
    model = memory_model(inputs.model, recipe)
    speed = rates_of(inputs, software)
    modules = modules_of(recipe)
    return layer_parts(model, inputs.model.sequence, plan, speed, software, modules)


LAYER = (
    *("tensor", "context", "exchange", "expert", "expert_tensor"),
    *("microbatch", "sequence_parallel", "recompute"),
)


class Timed(NamedTuple):
    """What the times of plans follow from: numbers, and the choices of the recipe."""

    model: MemoryModel
    plan: BatchPlan
    speed: Rates
    software: Software
    choices: TrainingRecipe


def timed(inputs: TrainingInputs, recipe: TrainingRecipe) -> Timed:
    """Return what the times of the plans of the inputs follow from."""
    plan = batch_plan(inputs, recipe)
    software = software_of_plan(inputs, plan, recipe)
    model, speed = memory_model(inputs.model, recipe), rates_of(inputs, software)
    return Timed(model, plan, speed, software, recipe)


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
