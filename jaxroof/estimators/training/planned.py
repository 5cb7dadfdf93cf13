"""A training step that has a plan, in the one form that memory, time and legality read.

Source: docs/models/parameters_flops_memory.md, section 1.
"""

from jaxroof.estimators.training.inputs import StageInputs, TrainingPlan
from jaxroof.estimators.training.memory_model import MemoryModel, memory_model
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of
from jaxroof.formulas import schedule
from jaxroof.records import Number, quantity, record, units


@record
class BatchPlan(TrainingPlan):
    """A plan whose batch is known, and whose exchange is that of the recipe."""

    microbatches: Number = quantity("1", "Microbatches of a step.", whole=True, default=1.0)


@record
class PlannedStep(StageInputs):
    """A training step with its plan, and with a model whose choices are numbers."""

    model: MemoryModel
    plan: BatchPlan


def planned(inputs: StageInputs, recipe: TrainingRecipe) -> PlannedStep:
    """Return a step with its plan and its model as they are read."""
    fields = {name: getattr(inputs, name) for name in PlannedStep.__dataclass_fields__}
    fields["model"] = memory_model(inputs.model, recipe)
    return PlannedStep(**{**fields, "plan": batch_plan(inputs, recipe)})


def batch_plan(inputs: StageInputs, recipe: TrainingRecipe) -> BatchPlan:
    """Return the plan of a step; batch, data degree and microbatch make the microbatches."""
    plan = inputs.plan
    assert plan is not None
    fields = {name: getattr(plan, name) for name in units(TrainingPlan)}
    fields["exchange"] = exchange_of(recipe, plan.exchange)
    batches = schedule.microbatches(inputs.global_batch, plan.data, plan.microbatch)
    return BatchPlan(**fields, microbatches=batches)
