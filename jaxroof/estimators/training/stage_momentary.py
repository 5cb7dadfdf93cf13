"""Momentary memory of a stage: the largest of these terms counts.

Source: docs/models/parameters_flops_memory.md, section 4.7.
"""

from typing import NamedTuple

from jaxroof.estimators.training.layer_activations import Sizes, Terms
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import LOGIT_BYTES, MemoryRecipe, Module
from jaxroof.estimators.training.stage_buffers import (
    attention_matrices,
    dense_matrices,
    largest_matrix,
    routing_matrices,
)
from jaxroof.estimators.training.stage_layers import Kinds, StageLayers, over
from jaxroof.estimators.training.stage_states import padded_vocabulary
from jaxroof.formulas import memory_experts as experts
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number


class Momentary(NamedTuple):
    """Bytes of momentary terms, before it is known which stage has them."""

    head: Number  # with the head
    backward: Kinds  # of one layer of a kind
    matrix: Kinds  # of the largest matrix of a layer of a kind, if it has a gradient of its own
    experts: Number  # with routing layers
    vocabulary: Number  # after padding


def momentary(
    inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes, again: Kinds, level: Number
) -> Momentary:
    """Return the bytes of momentary terms.

    ``again`` are the bytes that one layer of each kind computes again, under recomputation of a
    level (see ``saved_terms``).
    """
    return Momentary(
        head=head(inputs, recipe, size),
        backward=backward(inputs, size, again),
        matrix=matrix_gradients(inputs),
        experts=_exchange(inputs, recipe, size, again.routing, level),
        vocabulary=padded_vocabulary(inputs),
    )


def momentary_terms(
    inputs: MemoryInputs, found: Momentary, stage: StageLayers, kinds: Kinds, saved: Kinds
) -> Terms:
    """Return the momentary terms of a stage.

    ``kinds`` are its layers, prediction included; ``saved`` are the bytes that one layer of each
    kind saves.
    """
    # it comes after the backward pass of the first chunk's layers, whose activations are gone
    entries = inputs.activations.activation_bytes * found.vocabulary
    gradient = entries * inputs.model.hidden / inputs.plan.tensor
    embedding = larger(gradient - over(stage.opening, saved), 0.0)
    return {
        "head": found.head * stage.last,
        "layer_backward": layer_backward(inputs, found.backward, found.matrix, kinds),
        "moe": where(kinds.routing > 0.0, found.experts, 0.0),
        "embedding": embedding * stage.first,
    }


def head(inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes) -> Number:
    """Return the bytes of the logits and hidden states at the start of the backward pass.

    M = (1 + K) Lambda T V_p / t + x + [sigma > 1] x / sigma + 2 x / sigma

    Assumes: the final norm's input and output belong here.
    """
    columns = padded_vocabulary(inputs) / inputs.plan.tensor
    logits = (1.0 + inputs.model.mtp_layers) * LOGIT_BYTES[recipe.cross_entropy]
    scattered = where(size.shards > 1.0, size.state / size.shards, 0.0)
    ends = size.state + scattered + 2.0 * size.state / size.shards
    return logits * size.tokens * columns + ends


def backward(inputs: MemoryInputs, size: Sizes, again: Kinds) -> Kinds:
    """Return the bytes of the backward pass of one layer of each kind.

    dense   M = x / sigma + max((1 + g) F, x' + F, x' + x - F), F = beta T f / t, x' = x if sigma >
    1, else 0; routing M = x / sigma + 2 beta R h; what is computed again comes on top
    """
    model, beta = inputs.model, inputs.activations.activation_bytes
    inner = beta * size.tokens * model.feedforward / inputs.plan.tensor
    gathered = where(size.shards > 1.0, size.state, 0.0)
    ends = larger(gathered + inner, gathered + size.state - inner)
    dense = size.state / size.shards + larger((1.0 + model.gated) * inner, ends)
    routing = size.state / size.shards + 2.0 * beta * size.routed * model.hidden
    return Kinds(dense + again.dense, routing + again.routing)


def layer_backward(inputs: MemoryInputs, each: Kinds, matrix: Kinds, kinds: Kinds) -> Number:
    """Return the bytes of one layer's backward pass, the larger of the kinds that a stage has."""
    temporary = inputs.buffers.gradient_temporary * larger_of(matrix, kinds)
    return larger_of(each, kinds) + temporary


def larger_of(each: Kinds, kinds: Kinds) -> Number:
    """Return the larger of what the kinds of layer that a stage has take."""
    dense = where(kinds.dense > 0.0, each.dense, 0.0)
    return larger(dense, where(kinds.routing > 0.0, each.routing, 0.0))


def matrix_gradients(inputs: MemoryInputs) -> Kinds:
    """Return the bytes of the gradient of the largest matrix of a layer of each kind on a rank."""
    beta, attention = inputs.activations.activation_bytes, attention_matrices(inputs)
    dense, routing = (
        beta * largest_matrix([*attention, *others])
        for others in (dense_matrices(inputs), routing_matrices(inputs))
    )
    return Kinds(dense, routing)


def _exchange(
    inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes, again: Number, level: Number
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
    repeated = level >= (1.0 if Module.EXPERTS in recipe.modules else 2.0)
    return forward + where(repeated, again, 0.0)
