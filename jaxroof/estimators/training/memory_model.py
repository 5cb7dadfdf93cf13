"""A model as its memory sees it: its architecture, its choices as numbers, its parameters by part.

Source: docs/models/parameters_flops_memory.md, sections 1 and 2.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.layer import VECTORS, dense_layer, routing_layer, summed
from jaxroof.estimators.training.recipe import Attention, Embeddings, Mlp, Recipe
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.parameters import norm_gains
from jaxroof.records import Number, quantity, record, units


def _flag(doc: str) -> Number:
    return quantity("1", doc, whole=True, zero=True, most=1.0, default=0.0)


@record
class MemoryModel(Architecture):
    """An architecture with those of its choices that memory reads as numbers."""

    gated: Number = _flag("Whether MLPs and experts have a gate (1 or 0).")
    tied: Number = _flag("Whether the head uses the embedding (1 or 0).")
    latent: Number = _flag("Whether attention has latents (1 or 0).")
    qk_norm: Number = _flag("Whether queries and keys are normalised (1 or 0).")


class Counts(NamedTuple):
    """Parameters of a layer by part, as section 2 counts them."""

    dense_sharded: Number  # of a dense layer, that tensor ranks share
    dense_replicated: Number  # on every tensor rank
    routing_sharded: Number  # of a routing layer, without routed experts
    routing_replicated: Number
    routed: Number  # of all routed experts of one layer
    norm: Number  # of one norm of the hidden width


def memory_model(model: Architecture, recipe: Recipe) -> MemoryModel:
    """Return an architecture with its choices as numbers."""
    fields: dict[str, Any] = {name: getattr(model, name) for name in units(Architecture)}
    return MemoryModel(
        **fields,
        gated=float(recipe.mlp is Mlp.GATED),
        tied=float(recipe.embeddings is Embeddings.TIED),
        latent=float(recipe.attention is Attention.LATENT),
        qk_norm=where(model.head_norms > 0.0, 1.0, 0.0),
    )


def counts(model: Architecture, recipe: Recipe) -> Counts:
    """Return the parameters of a model by part: sums over the operations of a layer."""
    dense, routing = (
        summed(layer(model, recipe).values()) for layer in (dense_layer, routing_layer)
    )
    return Counts(
        dense_sharded=dense.sharded,
        dense_replicated=dense.replicated,
        routing_sharded=routing.sharded,
        routing_replicated=routing.replicated,
        routed=routing.routed,
        norm=norm_gains(model.hidden, 1.0, VECTORS[recipe.norm]),
    )
