"""Multiply-adds of one token in a layer, and those that a recomputation repeats.

Source: docs/models/parameters_flops_memory.md, sections 3 and 4.5.
"""

from typing import NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.layer import (
    Operations,
    dense_layer,
    routing_layer,
    score_width,
)
from jaxroof.estimators.training.memory_recipe import (
    AttentionKernel,
    MemoryRecipe,
    Module,
    Recompute,
)
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.estimators.training.stage_layers import Kinds
from jaxroof.formulas.model_flops import exact_context
from jaxroof.formulas.parameters import matrix_parameters, routing_layers
from jaxroof.records import Number

OF_MODULE = {  # the operations that recomputing a module repeats, beside scores
    Module.LAYERNORM: (),
    Module.CORE_ATTENTION: (),
    Module.LATENT_PROJECTION: ("query_up", "key_value_up"),
    Module.MLP: ("up", "down"),
    Module.SHARED_EXPERTS: ("shared_up", "shared_down"),
    Module.EXPERTS: ("router", "experts", "shared_up", "shared_down"),
    Module.EXPERT_ACTIVATION: (),
}
LATENT = "query_down"  # an operation that latent attention alone has


class Products(NamedTuple):
    """Multiply-adds of one token, forward."""

    layer: Kinds
    head: Number
    whole: Number  # of the model
    again: Number  # of those, what the backward pass computes again


def products(
    model: Architecture, recipe: Recipe, memory_recipe: MemoryRecipe, sequence: Number
) -> Products:
    """Return the multiply-adds of a token, and those of them that are computed again.

    Assumes: scores behind a causal mask and, where a layer has one, a window; without modules of
    multi-token prediction.
    """
    scores = _scores(model, recipe, sequence)
    kinds = (dense_layer(model, recipe), routing_layer(model, recipe))
    layer = Kinds(*(_sum(kind) + scores for kind in kinds))
    repeated = Kinds(*(_again(kind, memory_recipe, scores) for kind in kinds))
    routing = routing_layers(model.layers, model.experts, model.first_dense_layers)
    layers = Kinds(model.layers - routing, routing)
    head = matrix_parameters(model.vocabulary, model.hidden)
    return Products(
        layer=layer,
        head=head,
        whole=head + _over(layers, layer),
        again=_over(layers, repeated),
    )


def _sum(operations: Operations) -> Number:
    return sum((operation.products for operation in operations.values()), start=0.0)


def _over(layers: Kinds, each: Kinds) -> Number:
    return layers.dense * each.dense + layers.routing * each.routing


def _scores(model: Architecture, recipe: Recipe, sequence: Number) -> Number:
    """Return the multiply-adds of scores and values in one layer, the mean over all layers."""
    local = model.windowed_layers
    seen = (model.layers - local) * exact_context(sequence, 0.0 * model.window)
    seen = seen + local * exact_context(sequence, model.window)
    return score_width(model, recipe) * seen / model.layers


def _again(operations: Operations, recipe: MemoryRecipe, scores: Number) -> Number:
    """Return the multiply-adds of a layer of one kind that its backward pass repeats."""
    if recipe.recompute is Recompute.FULL:
        return _sum(operations) + scores
    modules = [module for module in Module if recipe.recomputes(module)]
    if LATENT not in operations:
        modules = [module for module in modules if module is not Module.LATENT_PROJECTION]
    names = {name for module in modules for name in OF_MODULE[module]}
    unfused = recipe.attention_kernel is AttentionKernel.UNFUSED
    core = scores if unfused and Module.CORE_ATTENTION in modules else 0.0
    return core + _sum({name: op for name, op in operations.items() if name in names})
