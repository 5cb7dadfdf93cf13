"""The layers of a model as kinds of layer, and sums over the operations of each.

A model's layers are groups of operations, each with the number of layers that have it: attention,
norms and residuals in all of them, an MLP in those that do not route, experts in those that do.
Source: docs/models/parameters_flops_memory.md, sections 1 to 3, 4.5 and 4.6.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxroof.estimators.training.inputs import (
    PlannedStep,
    StageInputs,
    TrainingModel,
    TrainingPlan,
    planned,
)
from jaxroof.estimators.training.layer.attention import attention, rotation
from jaxroof.estimators.training.layer.mlp import dense_mlp, routed_mlp
from jaxroof.estimators.training.layer.operation import (
    Kept,
    Operation,
    Operations,
    Passes,
    Saved,
    Sizes,
    Weights,
    Work,
    on_rank,
    plus,
    products,
    times,
    total,
    weights,
)
from jaxroof.estimators.training.rates import stream
from jaxroof.estimators.training.recipe import Module, TrainingRecipe, modules_of
from jaxroof.formulas.arithmetic import ceiling, larger, where
from jaxroof.records import Number


class Group(NamedTuple):
    """Operations that the same layers have, and how many of the model's layers those are."""

    layers: Number
    share: Number  # of the model's layers
    operations: Operations


Groups = tuple[Group, Group, Group]  # of every layer, those that do not route, those that do


def groups(model: TrainingModel) -> Groups:
    """Return the operations of every layer, of those that do not route, and of those that do."""
    dense = where(model.experts > 0.0, model.first_dense_layers, model.layers)
    every = norms(model) | attention(model) | rotation(model) | residuals(model)
    return (
        Group(model.layers, 1.0, every),
        Group(dense, dense / model.layers, dense_mlp(model)),
        Group(model.layers - dense, 1.0 - dense / model.layers, routed_mlp(model)),
    )


# ---- Norms and residuals, which every layer has -------------------------------------------------


def norms(model: TrainingModel) -> Operations:
    """Return the normalisations of the residual stream in a layer."""
    gains = model.norms_per_layer * model.hidden * model.norm_vectors
    return {
        "norms": Operation(
            "norms",
            vectors=Weights(replicated=gains),
            time="elementwise",
            kernel=_norms,
            again=(Module.LAYERNORM,),
            saved=(
                Saved(
                    "norm_inputs",
                    lambda kept: _both_norms(kept, kept.inputs.activations.activation_bytes),
                ),
                Saved(
                    "norm_outputs",
                    lambda kept: _both_norms(kept, kept.inputs.activations.linear_input_bytes),
                    dropped=(Module.LAYERNORM,),
                    read=True,
                ),
            ),
        ),
    }


def residuals(model: TrainingModel) -> Operations:
    """Return the sums of a layer with the residual stream, and dropout before them."""
    return {
        "residuals": Operation(
            time="elementwise",
            kernel=_residuals,
            launched=0.0,
            saved=(Saved("dropout_masks", _dropout_masks),),
        ),
    }


def _norms(work: Work) -> Passes:
    """Return the seconds of both norms: N' h (8 forward, 20 backward) bytes."""
    hidden, unit = work.tokens.norm * work.model.hidden, work.rates.plain
    return Passes(stream(8.0 * hidden, 2.0, unit), stream(20.0 * hidden, 4.0, unit))


def _residuals(work: Work) -> Passes:
    """Return the seconds of both sums, of eager kernels and of gradients of output biases.

    N' h (2 (6 + drop) + x eager) forward, 2 (6 + 5 drop) + x eager backward, bias 6 N h / t
    """
    tokens, software, unit = work.tokens, work.software, work.rates.plain
    hidden, eager = tokens.norm * work.model.hidden, 1.0 - software.fused
    more, kernels = eager * work.rates.constants.eager, 2.0 + 6.0 * eager
    biased = 6.0 * tokens.group * work.model.hidden / work.plan.tensor
    return Passes(
        stream(hidden * (2.0 * (6.0 + software.dropout) + more), kernels, unit),
        stream(hidden * (2.0 * (6.0 + 5.0 * software.dropout) + more), kernels, unit)
        + software.bias * stream(biased, 4.0, unit),
    )


def _both_norms(kept: Kept, width: Number) -> Number:
    """Return 2 w T h / sigma, outputs kept sharded and gathered again in the backward pass."""
    size = kept.size
    return 2.0 * width * size.tokens * kept.inputs.model.hidden / size.shards


def _dropout_masks(kept: Kept) -> Number:
    """Return 2 T h / sigma with dropout: masks of 1 byte."""
    size, inputs = kept.size, kept.inputs
    dropped = inputs.activations.hidden_dropout
    return dropped * 2.0 * size.tokens * inputs.model.hidden / size.shards


# ---- Parameters and multiply-adds ---------------------------------------------------------------


def total_weights(operations: Iterable[Operation]) -> Weights:
    """Return the parameters of some operations."""
    return Weights(*map(total, zip(*map(weights, operations), strict=True)))


def by_part(of: Groups) -> dict[str, tuple[Number, Number]]:
    """Return the parameters and the multiply-adds of a token in all layers, part by part."""
    found: dict[str, tuple[Number, Number]] = {}
    for layers, _, operations in of:
        for one in (one for one in operations.values() if one.part):
            held, met = found.get(one.part, (0.0, 0.0))
            found[one.part] = (held + layers * weights(one).all, met + layers * products(one))
    return found


def layer_weights(layers: Groups) -> tuple[Weights, Weights]:
    """Return the parameters of a layer that does not route, and of one that does."""
    every, dense, routing = (total_weights(group.operations.values()) for group in layers)
    return Weights(*map(plus, every, dense)), Weights(*map(plus, every, routing))


def last_layer(
    model: TrainingModel, layers: Groups, amount: Callable[[Operation], Number]
) -> Number:
    """Return an amount of a layer of the last kind, summed over operations: routing, if any."""
    every, dense, routing = (total(map(amount, group.operations.values())) for group in layers)
    return plus(every, where(model.experts > 0.0, routing, dense))


def norm_weights(model: TrainingModel) -> Number:
    """Return the parameters of one norm of the hidden width."""
    return model.hidden * model.norm_vectors


MeanWeights = tuple[Number, Number]  # parameters without and of experts


def mean_weights(model: TrainingModel, plan: TrainingPlan) -> MeanWeights:
    """Return the parameters of an average layer that its time reads: without and of experts.

    The matrices of all tensor ranks and 2 h of norms; those of the routed experts of one rank.

    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    dense: Number = 2.0 * model.hidden
    routed: Number = 0.0
    for _, share, operations in groups(model):
        matrices = total_weights(o._replace(vectors=Weights()) for o in operations.values())
        dense = plus(dense, times(share, plus(matrices.sharded, matrices.replicated)))
        routed = plus(routed, times(share, matrices.routed))
    return dense, routed / (plan.expert * plan.expert_tensor)


Shape = tuple[Number, Number, Number]  # rows, columns, whether the layer has it (1 or 0)


class LayerShapes(NamedTuple):
    """The shapes of a layer's matrices on a rank; one stands for all experts.

    The router is not among them: its gradient has no placeholder.
    """

    attention: list[Shape]
    dense: list[Shape]  # of an MLP
    routing: list[Shape]  # of an expert and of the shared ones


def layer_shapes(layers: Groups, plan: TrainingPlan) -> LayerShapes:
    """Return the shapes of a layer's matrices on a rank."""
    return LayerShapes(*(_shapes(group.operations, plan) for group in layers))


def _shapes(operations: Operations, plan: TrainingPlan) -> list[Shape]:
    found = [(o.matrix, o.share) for o in operations.values() if o.part != "router"]
    return [(*on_rank(matrix, plan), share) for matrix, share in found if matrix is not None]


# ---- Saved bytes --------------------------------------------------------------------------------

Terms = dict[str, Number]  # bytes of each term


class LayerBytes(NamedTuple):
    """Bytes of the activations of one layer and microbatch."""

    every: Terms  # without recomputation
    saved: Terms  # for the backward pass
    waiting: Number  # kept until weight gradients are made

    @property
    def again(self) -> Number:
        """Return the bytes that the backward pass computes again."""
        return total(self.every.values()) - total(self.saved.values())


def sizes(inputs: PlannedStep) -> Sizes:
    """Return the amounts of one microbatch on one rank: T = b s / C, x = 2 T h, sigma, R."""
    plan = inputs.plan
    tokens = plan.microbatch * inputs.model.sequence / plan.context
    return Sizes(
        tokens=tokens,
        state=2.0 * tokens * inputs.model.hidden,
        shards=where(plan.sequence_parallel > 0.0, plan.tensor, 1.0),
        routed=_routed_tokens(inputs),
    )


def _routed_tokens(inputs: PlannedStep) -> Number:
    """Return the copies of tokens that a rank's experts get in one layer.

    own = b s / (C t); dropless R = own k imbalance tau, with a capacity R = E ceil(own k capacity /
    E) tau

    Assumes: imbalance is that of the fullest rank; a capacity factor of 0 says dropless, else every
    expert is padded to its capacity. The expert degree plays no part: each of epsilon ranks sends
    k copies of its tokens and receives as many.
    """
    model, plan, acts = inputs.model, inputs.plan, inputs.activations
    own = plan.microbatch * model.sequence / (plan.context * plan.tensor)
    sent, some = own * model.active_experts, larger(model.experts, 1.0)  # finite without experts
    padded = model.experts * ceiling(sent * acts.capacity_factor, some) * plan.expert_tensor
    dropless = sent * acts.routing_imbalance * plan.expert_tensor
    return where(acts.capacity_factor > 0.0, padded, dropless)


def activations(
    inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes, of: Groups
) -> tuple[LayerBytes, LayerBytes]:
    """Return the activations of a layer that does not route, and of one that does.

    Until weight gradients are made, a layer keeps what its matrices read, and output gradients as
    large as two hidden states.
    """
    kept, modules = Kept(inputs, recipe, size), modules_of(recipe)
    every, dense, routing = ([*_saved(group.operations, kept)] for group in of)
    state, level = size.state / size.shards, inputs.plan.recompute

    def of_layer(layer: list[tuple[Saved, Number]]) -> LayerBytes:
        whole, some = _terms(layer), _terms(layer, modules)
        full = {**dict.fromkeys(whole, 0.0), "norm_inputs": state}
        saved = {
            name: where(level >= 2.0, full[name], where(level >= 1.0, some[name], value))
            for name, value in whole.items()
        }
        read = _terms(one for one in layer if one[0].read)
        return LayerBytes(whole, saved, total(read.values()) + 2.0 * state)

    return of_layer([*every, *dense]), of_layer([*every, *routing])


def _saved(operations: Operations, kept: Kept) -> Iterable[tuple[Saved, Number]]:
    for operation in operations.values():
        for one in operation.saved:
            yield one, times(operation.share, one.bytes(kept))


def _terms(
    layer: Iterable[tuple[Saved, Number]], modules: frozenset[Module] = frozenset()
) -> Terms:
    """Return the terms of a layer, 0 where recomputation of a module drops all of one."""
    terms: Terms = {}
    for one, value in layer:
        left = 0.0 if modules.intersection(one.dropped) else value
        terms[one.term] = plus(terms.get(one.term, 0.0), left)
    return terms


def freeing(inputs: StageInputs, recipe: TrainingRecipe) -> frozenset[Module]:
    """Return the modules whose recomputation frees bytes of some layer of a model."""
    step = planned(inputs, recipe)
    kept = Kept(step, recipe, sizes(step))
    there = (group.operations for group in groups(step.model) if group.layers > 0.0)
    some = (one for operations in there for one in _saved(operations, kept))
    return frozenset(module for one, value in some if value > 0.0 for module in one.dropped)
