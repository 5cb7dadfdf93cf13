"""Activations of one layer, one microbatch and one rank: all of them, and those that are saved.

Source: docs/models/parameters_flops_memory.md, sections 4.5 and 4.6.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.training import activations as formulas
from jaxroof.estimators.training.planned import PlannedStep
from jaxroof.estimators.training.recipe import (
    REPEATED,
    AttentionKernel,
    ExpertWeighting,
    Module,
    TrainingRecipe,
    modules_of,
)
from jaxroof.estimators.training.stages import Kinds
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number

Terms = dict[str, Number]  # bytes of each term


class LayerTerms(NamedTuple):
    """The terms of one layer of each kind."""

    dense: Terms
    routing: Terms

    @property
    def total(self) -> Kinds:
        """Return the bytes of one layer of each kind."""
        return Kinds(total(self.dense), total(self.routing))


class Sizes(NamedTuple):
    """Amounts of one microbatch on one rank."""

    tokens: Number  # T
    state: Number  # x, bytes of a hidden state
    shards: Number  # sigma
    routed: Number  # R


def sizes(inputs: PlannedStep) -> Sizes:
    """Return the amounts of one microbatch on one rank."""
    model, plan, acts = inputs.model, inputs.plan, inputs.activations
    tokens = formulas.microbatch_tokens(inputs.model.sequence, plan.context, plan.microbatch)
    return Sizes(
        tokens=tokens,
        state=formulas.hidden_state(tokens, model.hidden),
        shards=where(plan.sequence_parallel > 0.0, plan.tensor, 1.0),
        routed=formulas.routed_tokens(
            inputs.model.sequence,
            plan.tensor,
            plan.context,
            plan.microbatch,
            model.experts,
            model.active_experts,
            plan.expert_tensor,
            acts.routing_imbalance,
            acts.capacity_factor,
        ),
    )


def total(terms: Terms) -> Number:
    """Return the sum of terms."""
    found: Number = 0.0
    for value in terms.values():
        found = found + value
    return found


def every_term(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes) -> LayerTerms:
    """Return the terms of one layer of each kind without recomputation."""
    return LayerTerms(dense_terms(inputs, recipe, size), routing_terms(inputs, recipe, size))


def saved_terms(
    inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes, every: LayerTerms
) -> LayerTerms:
    """Return the terms that are saved for the backward pass."""
    return LayerTerms(*(saved_of_kind(inputs, recipe, size, terms) for terms in every))


def recomputed(every: LayerTerms, saved: LayerTerms) -> Kinds:
    """Return the bytes of one layer of each kind that the backward pass computes again."""
    all_of, some = every.total, saved.total
    return Kinds(all_of.dense - some.dense, all_of.routing - some.routing)


def attention_terms(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes) -> Terms:
    """Return the terms that every layer has, without recomputation."""
    model, plan, acts = inputs.model, inputs.plan, inputs.activations
    tokens, tensor, beta = size.tokens, plan.tensor, acts.activation_bytes
    latent = model.latent > 0.0
    width = where(latent, model.value_size, model.head_size)
    norms = (tokens, model.hidden, size.shards)
    latents = formulas.latent_activations(
        tokens,
        model.q_rank,
        model.kv_rank,
        model.rope_size,
        size.shards,
        beta,
        acts.linear_input_bytes,
    )
    queries = formulas.qkv_activations(
        tokens, model.heads, model.kv_heads, model.head_size, model.qk_norm, tensor, beta
    )
    expanded = formulas.latent_qkv_activations(
        tokens, model.heads, model.nope_size, model.rope_size, model.value_size, tensor, beta
    )
    copies = acts.linear_input_bytes + where(_second_output(inputs, recipe), beta, 0.0)
    return {
        "norm_inputs": formulas.norm_activations(*norms, beta),
        "norm_outputs": formulas.norm_activations(*norms, acts.linear_input_bytes),
        "latents": where(latent, latents, 0.0),
        "qkv": where(latent, expanded, queries),
        "attention_output": formulas.attention_output(tokens, model.heads, width, tensor, copies),
        "attention_scores": _scores(inputs, recipe, tokens),
        "dropout_masks": formulas.dropout_masks(*norms, acts.hidden_dropout),
    }


def _second_output(inputs: PlannedStep, recipe: TrainingRecipe) -> Any:
    """Return whether a second copy of the attention's output is kept."""
    exchanged = inputs.plan.exchange == 0.0
    batch_first = recipe.attention_kernel is AttentionKernel.FLASH
    split = inputs.plan.context > 1.0
    return (split & exchanged) | ((inputs.plan.context == 1.0) & batch_first)


def _scores(inputs: PlannedStep, recipe: TrainingRecipe, tokens: Number) -> Number:
    model, plan, acts = inputs.model, inputs.plan, inputs.activations
    if recipe.attention_kernel is not AttentionKernel.UNFUSED:
        return formulas.flash_statistics(tokens, model.heads, plan.tensor)
    return formulas.score_activations(
        model.heads,
        inputs.model.sequence,
        plan.tensor,
        plan.context,
        plan.microbatch,
        acts.attention_dropout,
        acts.activation_bytes,
    )


def dense_terms(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes) -> Terms:
    """Return the terms of a layer that does not route, without recomputation."""
    common = attention_terms(inputs, recipe, size)
    return {**common, "mlp": _mlp(inputs, size, inputs.model.feedforward)}


def _mlp(inputs: PlannedStep, size: Sizes, feedforward: Number) -> Number:
    acts = inputs.activations
    return formulas.mlp_activations(
        size.tokens,
        feedforward,
        1.0 + inputs.model.gated,
        inputs.plan.tensor,
        acts.nonlinearity_bytes,
        acts.linear_input_bytes,
    )


def routing_terms(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes) -> Terms:
    """Return the terms of a layer of experts, without recomputation."""
    model, acts, inner = inputs.model, inputs.activations, inputs.plan.expert_tensor
    apart = recipe.expert_weighting is ExpertWeighting.SEPARATE
    width = acts.linear_input_bytes + (acts.activation_bytes if apart else 0.0)
    return {
        **attention_terms(inputs, recipe, size),
        "shared_expert": _mlp(inputs, size, model.shared_feedforward),
        "routed": formulas.routed_inputs(
            size.routed,
            model.hidden,
            model.expert_feedforward,
            1.0 + model.gated,
            inner,
            acts.nonlinearity_bytes,
            acts.linear_input_bytes,
        ),
        "routed_outputs": formulas.routed_outputs(
            size.routed, model.expert_feedforward, inner, width
        ),
        "router": formulas.router_activations(size.tokens, size.routed, model.experts, size.shards),
    }


def saved_of_kind(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes, terms: Terms) -> Terms:
    """Return the terms of one kind of layer that are saved for the backward pass."""
    full = {**dict.fromkeys(terms, 0.0), "norm_inputs": size.state / size.shards}
    some, level = selective_terms(inputs, recipe, terms), inputs.plan.recompute
    return {
        name: where(level >= 2.0, full[name], where(level >= 1.0, some[name], value))
        for name, value in terms.items()
    }


def selective_terms(inputs: PlannedStep, recipe: TrainingRecipe, terms: Terms) -> Terms:
    """Return the terms of one kind of layer without those that the recipe's modules drop."""
    saved, modules = dict(terms), modules_of(recipe)
    for module in modules:
        saved |= dict.fromkeys(set(REPEATED[module].drops) & set(terms), 0.0)
    if Module.LATENT_PROJECTION in modules:
        saved["qkv"] = where(inputs.model.latent > 0.0, 0.0, terms["qkv"])
    if recipe.attention_kernel is not AttentionKernel.UNFUSED:
        saved["attention_scores"] = terms["attention_scores"]
    return saved


def weight_gradient_terms(size: Sizes, every: LayerTerms) -> Kinds:
    """Return the bytes that a layer of each kind keeps until its weight gradients are made.

    M_W = what its matrices read, and 2 x / sigma

    Assumes: without recomputation, output gradients being as large as the outputs that they need.
    Source: docs/models/parameters_flops_memory.md, section 4.6.
    """
    dense, routing = (
        sum(value for name, value in terms.items() if name in MATRIX_TERMS) for terms in every
    )
    ends = 2.0 * size.state / size.shards
    return Kinds(dense + ends, routing + ends)


MATRIX_TERMS = (
    "norm_outputs",
    "latents",
    "qkv",
    "attention_output",
    "mlp",
    "shared_expert",
    "routed",
    "routed_outputs",
)
