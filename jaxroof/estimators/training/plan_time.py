"""Step time of plans of a model of today, with the software that goes with each plan.

Source: docs/models/training_step_today.md, sections 1 and 9.
"""

from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer.operation import Tokens, Work
from jaxroof.estimators.training.layer_time import tokens_of
from jaxroof.estimators.training.memory_model import memory_model
from jaxroof.estimators.training.planned import BatchPlan, batch_plan
from jaxroof.estimators.training.rates import rates, software_of
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of, modules_of
from jaxroof.estimators.training.step_time import LayerParts, StepTime, layer_parts, whole_step
from jaxroof.records import Number


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
    plan = BatchPlan(  # which no time of a layer depends on in its other fields
        tensor=tensor,
        context=context,
        exchange=exchange_of(recipe, exchange),
        expert=expert,
        expert_tensor=expert_tensor,
        microbatch=microbatch,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    return layer_parts(_work(inputs, plan, recipe), modules_of(recipe))


LAYER = (
    *("tensor", "context", "exchange", "expert", "expert_tensor"),
    *("microbatch", "sequence_parallel", "recompute"),
)


def timed(inputs: TrainingInputs, recipe: TrainingRecipe, tokens: Tokens | None = None) -> Work:
    """Return what the times of the plans of the inputs follow from; ``tokens`` are theirs."""
    return _work(inputs, batch_plan(inputs, recipe), recipe, tokens)


def _work(
    inputs: TrainingInputs, plan: BatchPlan, recipe: TrainingRecipe, tokens: Tokens | None = None
) -> Work:
    software = software_of(inputs, recipe)
    model, speed = memory_model(inputs.model, recipe), rates(inputs, software)
    if tokens is None:
        tokens = tokens_of(model, plan, speed)
    return Work(model, plan, speed, software, tokens)


def time_of_layers(inputs: TrainingInputs, recipe: TrainingRecipe, parts: LayerParts) -> StepTime:
    """Return the step time of plans whose layers are timed."""
    return whole_step(timed(inputs, recipe, parts.tokens), parts, recipe.schedule)
