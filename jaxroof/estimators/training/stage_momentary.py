"""Momentary memory of a stage: the largest of these terms counts.

Source: docs/models/parameters_flops_memory.md, section 4.7.
"""

from jaxroof.estimators.training.layer_activations import Sizes, Terms
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import LOGIT_BYTES, MemoryRecipe, Module, Recompute
from jaxroof.estimators.training.stage_buffers import (
    attention_matrices,
    feedforward_matrices,
    largest_matrix,
)
from jaxroof.estimators.training.stage_layers import Kinds, StageLayers, over, with_prediction
from jaxroof.estimators.training.stage_states import padded_vocabulary
from jaxroof.formulas import memory_experts as experts
from jaxroof.formulas import memory_momentary as formulas
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number


def momentary_terms(
    inputs: MemoryInputs,
    recipe: MemoryRecipe,
    size: Sizes,
    stage: StageLayers,
    saved: Kinds,
    again: Kinds,
) -> Terms:
    """Return the momentary terms of a stage.

    ``saved`` and ``again`` are the bytes that one layer of each kind saves and computes again.
    """
    kinds = with_prediction(inputs.model, stage)
    embedding = formulas.embedding_gradient(
        inputs.model.hidden,
        padded_vocabulary(inputs),
        inputs.plan.tensor,
        inputs.activations.activation_bytes,
        over(stage.opening, saved),
    )
    return {
        "head": head(inputs, recipe, size) * stage.last,
        "layer_backward": layer_backward(inputs, size, kinds, again),
        "moe": _exchange(inputs, recipe, size, again.routing, kinds),
        "embedding": embedding * stage.first,
    }


def head(inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes) -> Number:
    """Return the bytes of the logits and their gradient on the last stage."""
    return formulas.head_backward(
        size.tokens,
        size.state,
        padded_vocabulary(inputs),
        inputs.plan.tensor,
        size.shards,
        inputs.model.mtp_layers,
        LOGIT_BYTES[recipe.cross_entropy],
    )


def layer_backward(inputs: MemoryInputs, size: Sizes, kinds: Kinds, again: Kinds) -> Number:
    """Return the bytes of one layer's backward pass, the larger of the kinds that a stage has."""
    model, plan, beta = inputs.model, inputs.plan, inputs.activations.activation_bytes
    dense = formulas.dense_backward(
        size.tokens,
        size.state,
        model.feedforward,
        model.gated,
        plan.tensor,
        size.shards,
        beta,
    )
    routing = formulas.routing_backward(size.routed, model.hidden, size.state, size.shards, beta)
    of_dense = where(kinds.dense > 0.0, dense + again.dense, 0.0)
    of_routing = where(kinds.routing > 0.0, routing + again.routing, 0.0)
    temporary = inputs.buffers.gradient_temporary * matrix_gradient(inputs, kinds)
    return larger(of_dense, of_routing) + temporary


def matrix_gradient(inputs: MemoryInputs, kinds: Kinds) -> Number:
    """Return the bytes of the gradient of a layer's largest matrix on a rank."""
    matrices = [*attention_matrices(inputs), *feedforward_matrices(inputs, kinds)]
    return inputs.activations.activation_bytes * largest_matrix(matrices)


def _exchange(
    inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes, again: Number, kinds: Kinds
) -> Number:
    """Return the end of the experts' forward pass; it runs again where experts are recomputed."""
    forward = experts.expert_exchange(
        size.routed,
        inputs.model.hidden,
        size.state,
        size.shards,
        inputs.activations.routed_copies,
        inputs.activations.activation_bytes,
    )
    repeated = recipe.recompute is Recompute.FULL or recipe.recomputes(Module.EXPERTS)
    return where(kinds.routing > 0.0, forward + (again if repeated else 0.0), 0.0)
