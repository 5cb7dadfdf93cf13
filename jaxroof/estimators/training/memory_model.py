"""A model as time and memory read it: its architecture, and its choices as numbers.

Source: docs/models/parameters_flops_memory.md, sections 1 and 2.
"""

from typing import Any

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.recipe import Attention, Biases, Embeddings, Mlp, Norm, Recipe
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record, units


def _flag(doc: str) -> Number:
    return quantity("1", doc, whole=True, zero=True, most=1.0, default=0.0)


@record
class MemoryModel(Architecture):
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


def memory_model(model: Architecture, recipe: Recipe) -> MemoryModel:
    """Return an architecture with its choices as numbers."""
    projections, output, mlp, experts = BIASES[recipe.biases]
    fields: dict[str, Any] = {name: getattr(model, name) for name in units(Architecture)}
    return MemoryModel(
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
