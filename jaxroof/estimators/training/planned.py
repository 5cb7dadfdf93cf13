"""A training step in the one form that memory, time and legality read: its plan and its model.

Source: docs/models/parameters_flops_memory.md, sections 1 and 2.
"""

from typing import Any

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import StageInputs, TrainingPlan
from jaxroof.estimators.training.recipe import (
    Attention,
    Biases,
    Embeddings,
    Mlp,
    Norm,
    Recipe,
    TrainingRecipe,
    exchange_of,
)
from jaxroof.formulas import schedule
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record, units


def _flag(doc: str) -> Number:
    return quantity("1", doc, whole=True, zero=True, most=1.0, default=0.0)


@record
class TrainingModel(Architecture):
    """An architecture with its choices as numbers."""

    gated: Number = _flag("Whether MLPs and experts have a gate (1 or 0).")
    tied: Number = _flag("Whether the head uses the embedding (1 or 0).")
    latent: Number = _flag("Whether attention has latents (1 or 0).")
    qk_norm: Number = _flag("Whether queries and keys are normalised (1 or 0).")
    norm_vectors: Number = quantity("1", "Vectors that a norm learns.", default=1.0)
    projection_bias: Number = _flag("Whether query, key and value have biases (1 or 0).")
    output_bias: Number = _flag("Whether the output of attention has (1 or 0).")
    mlp_bias: Number = _flag("Whether dense MLPs have (1 or 0).")
    expert_bias: Number = _flag("Whether experts and the router have (1 or 0).")


def training_model(model: Architecture, recipe: Recipe) -> TrainingModel:
    """Return an architecture with its choices as numbers."""
    projections, output, mlp, experts = BIASES[recipe.biases]
    fields: dict[str, Any] = {name: getattr(model, name) for name in units(Architecture)}
    return TrainingModel(
        **fields,
        gated=float(recipe.mlp is Mlp.GATED),
        tied=float(recipe.embeddings is Embeddings.TIED),
        latent=float(recipe.attention is Attention.LATENT),
        qk_norm=where(model.head_norms > 0.0, 1.0, 0.0),
        norm_vectors=1.0 + float(recipe.norm is Norm.LAYERNORM),
        projection_bias=projections,
        output_bias=output,
        mlp_bias=mlp,
        expert_bias=experts,
    )


BIASES = {  # which of projections, attention's output, dense MLPs and experts have biases
    Biases.NONE: (0.0, 0.0, 0.0, 0.0),
    Biases.QUERY_KEY_VALUE: (1.0, 0.0, 0.0, 0.0),
    Biases.ATTENTION: (1.0, 1.0, 0.0, 0.0),
    Biases.MLP: (0.0, 0.0, 1.0, 0.0),
    Biases.ALL: (1.0, 1.0, 1.0, 0.0),
    Biases.EXPERTS: (1.0, 1.0, 1.0, 1.0),
}


@record
class BatchPlan(TrainingPlan):
    """A plan whose batch is known, and whose exchange is that of the recipe."""

    microbatches: Number = quantity("1", "Microbatches of a step.", whole=True, default=1.0)


@record
class PlannedStep(StageInputs):
    """A training step with its plan, and with a model whose choices are numbers."""

    model: TrainingModel
    plan: BatchPlan


def planned(inputs: StageInputs, recipe: TrainingRecipe) -> PlannedStep:
    """Return a step with its plan and its model as they are read."""
    fields = {name: getattr(inputs, name) for name in PlannedStep.__dataclass_fields__}
    fields["model"] = training_model(inputs.model, recipe)
    return PlannedStep(**{**fields, "plan": batch_plan(inputs, recipe)})


def batch_plan(inputs: StageInputs, recipe: TrainingRecipe) -> BatchPlan:
    """Return the plan of a step; batch, data degree and microbatch make the microbatches."""
    plan = inputs.plan
    assert plan is not None
    fields = {name: getattr(plan, name) for name in units(TrainingPlan)}
    fields["exchange"] = exchange_of(recipe, plan.exchange)
    batches = schedule.microbatches(inputs.global_batch, plan.data, plan.microbatch)
    return BatchPlan(**fields, microbatches=batches)
