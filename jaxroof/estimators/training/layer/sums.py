"""The layers of a model as kinds of layer, and sums over the operations of each.

A model's layers are groups of operations, each with the number of layers that have it: attention
or a recurrence, an MLP or experts, and norms and residuals about each of these.
Source: docs/models/parameters_flops_memory.md, sections 1 to 3, 4.5 and 4.6.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import (
    PlannedStep,
    StageInputs,
    TrainingModel,
    TrainingPlan,
    planned,
)
from jaxroof.estimators.training.layer.adapters import adapted, trained
from jaxroof.estimators.training.layer.attention import attention, rotation
from jaxroof.estimators.training.layer.mlp import activation, dense_mlp, routed_mlp
from jaxroof.estimators.training.layer.operation import (
    ADAPTERS,
    Kept,
    Operation,
    Operations,
    Passes,
    Saved,
    Sizes,
    Weights,
    Work,
    known,
    on_rank,
    plus,
    products,
    times,
    total,
    weights,
)
from jaxroof.estimators.training.layer.recurrent import recurrence
from jaxroof.estimators.training.rates import stream
from jaxroof.estimators.training.recipe import Module, TrainingRecipe, modules_of
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where
from jaxroof.records import Number


class Kind(enum.Enum):
    """What the operations of a group are to a layer."""

    EVERY = "every"  # every layer has them
    BLOCKS = "blocks"  # a mixer or an MLP has half of them
    MIXER = "mixer"
    DENSE = "dense"  # an MLP that does not route
    ROUTED = "routed"


class Kinds(NamedTuple):
    """A number for layers that lead without routing, and one for those that follow."""

    leading: Number
    following: Number

    def times(self, factor: Number) -> "Kinds":
        """Return both numbers, each times a factor."""
        return Kinds(*(one * factor for one in self))

    def plus(self, other: "Kinds") -> "Kinds":
        """Return the sums with other numbers, kind by kind."""
        return Kinds(*(one + more for one, more in zip(self, other, strict=True)))

    def over(self, layers: "Kinds") -> Number:
        """Return the sum over layers of what one of each kind has."""
        return plus(times(layers.leading, self.leading), times(layers.following, self.following))

    def largest(self, layers: "Kinds") -> Number:
        """Return the larger of what the kinds of layer that there are take."""
        return larger(*(where(n > 0.0, one, 0.0) for n, one in zip(layers, self, strict=True)))


class Group(NamedTuple):
    """Operations that the same layers have, and how many layers those are.

    Layers that lead a model without routing are told from those that follow; a layer of either is
    the mean of such layers.
    """

    kind: Kind
    layers: Number  # of the model
    share: Number  # of the model's layers
    leading: Number  # of a layer that leads, how much it has of the group
    following: Number  # of a layer that follows
    operations: Operations


Groups = list[Group]


def groups(model: TrainingModel) -> Groups:
    """Return the operations of a model's layers: of all, about blocks, of mixers, and of MLPs.

    A block is a mixer or an MLP with its norm and residual: beta = (mixers + MLPs) / 2 L is 1 for
    layers of both, 1/2 for a block a layer.

    Assumes: mixers, and MLPs and experts behind the leading layers, are spread evenly.
    Source: docs/models/layers_2026.md, section 1.
    """
    layers, leading = model.layers, leading_layers(model)
    ahead, behind = larger(leading, 1.0), larger(layers - leading, 1.0)
    led = smaller(model.dense_layers, leading)
    mixers = [
        Group(Kind.MIXER, number, number / layers, number / layers, number / layers, operations)
        for _, number, every in (*attention(model), *recurrence(model))
        for operations in [adapted(every, model)]
    ]
    dense, routed = model.dense_layers, model.routed_layers
    plain, experts = (
        adapted(one(model), model, model.adapted_outputs) for one in (dense_mlp, routed_mlp)
    )
    mlps = [
        Group(Kind.DENSE, dense, dense / layers, led / ahead, (dense - led) / behind, plain),
        Group(Kind.ROUTED, routed, routed / layers, 0.0, routed / behind, experts),
    ]
    parts = [*mixers, *mlps]
    blocks = Group(
        Kind.BLOCKS,
        total(g.layers for g in parts) / 2.0,
        total(g.share for g in parts) / 2.0,
        total(g.leading for g in parts) / 2.0,
        total(g.following for g in parts) / 2.0,
        norms(model) | residuals(model),
    )
    every = rotation(model) | activation(model)
    return [Group(Kind.EVERY, layers, 1.0, 1.0, 1.0, every), blocks, *parts]


def leading_layers(model: Architecture) -> Number:
    """Return how many layers lead the model that do not route."""
    return where(model.experts > 0.0, model.first_dense_layers, model.layers)


def of_largest_layer(of: Groups, amounts: Sequence[Number]) -> Kinds:
    """Return what the largest layer has that leads and that follows, of amounts a group."""
    return Kinds(*(_largest(of, amounts, mix) for mix in ("leading", "following")))


def _largest(of: Groups, amounts: Sequence[Number], mix: str) -> Number:
    mixer: Number = 0.0
    mlp: Number = 0.0
    found: Number = 0.0
    for group, amount in zip(of, amounts, strict=True):
        share = getattr(group, mix)
        if group.kind in (Kind.EVERY, Kind.BLOCKS):
            found = plus(found, times(share, amount))
            continue
        there = where(share > 0.0, amount, 0.0)
        if group.kind is Kind.MIXER:
            mixer = larger(mixer, there)
        else:
            mlp = larger(mlp, there)
    blocks = next(group.share for group in of if group.kind is Kind.BLOCKS)
    single = blocks < 0.75  # a layer is one block, a mixer or an MLP
    return found + where(single, larger(mixer, mlp), mixer + mlp)


# ---- Norms and residuals of two blocks ----------------------------------------------------------


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
    for _, layers, *_, operations in of:
        for one in (one for one in operations.values() if one.part):
            held, met = found.get(one.part, (0.0, 0.0))
            found[one.part] = (held + layers * weights(one).all, met + layers * products(one))
    return found


def layer_weights(of: Groups) -> tuple[Weights, Weights]:
    """Return the trained parameters of a layer that leads, and of one that follows."""
    held = [total_weights(one for one in g.operations.values() if one.trained) for g in of]

    def mixed(shares: list[Number]) -> Weights:
        each = [[times(n, one) for one in amounts] for n, amounts in zip(shares, held, strict=True)]
        return Weights(*map(total, zip(*each, strict=True)))

    return mixed([group.leading for group in of]), mixed([group.following for group in of])


def last_layer(model: TrainingModel, of: Groups, amount: Callable[[Operation], Number]) -> Number:
    """Return an amount of a module's layer: full attention without sinks, experts if there are any.

    Its indexer is its own.
    """
    routes = model.experts > 0.0
    found: Number = 0.0
    mixers = 0
    for group in of:
        every = [_of_module(name, one) for name, one in group.operations.items()]
        here = total(amount(one) for one in every)
        if group.kind is Kind.DENSE:
            here = where(routes, 0.0, here)
        if group.kind is Kind.ROUTED:
            here = where(routes, here, 0.0)
        if group.kind is Kind.MIXER:
            mixers += 1
        if mixers < 2 or group.kind is not Kind.MIXER:  # the first mixers are the full layers
            found = plus(found, here)
    return found


def _of_module(name: str, one: Operation) -> Operation:
    if name == "sinks":
        return Operation()
    if name.startswith("indexer"):
        return one._replace(share=where(one.share > 0.0, 1.0, 0.0))
    return one


def norm_weights(model: TrainingModel) -> Number:
    """Return the parameters of one norm of the hidden width."""
    return model.hidden * model.norm_vectors


MeanWeights = tuple[Number, Number]  # parameters without and of experts


def mean_weights(model: TrainingModel, plan: TrainingPlan) -> MeanWeights:
    """Return the parameters of an average layer that its time reads: without and of experts.

    The matrices of all tensor ranks and 2 h of the norms of two blocks; those of the routed experts
    of one rank.

    Source: docs/models/layers_2026.md, section 4.
    """
    return _mean_weights(groups(model), 2.0 * model.hidden, plan)


def trained_weights(model: TrainingModel, plan: TrainingPlan, every: MeanWeights) -> MeanWeights:
    """Return those of the parameters of an average layer that are trained."""
    if known(model.trained, 1.0):
        return every
    of = trained_groups(groups(model), model)
    return _mean_weights(of, 2.0 * model.hidden * model.trained, plan)


def trained_groups(of: Groups, model: TrainingModel) -> Groups:
    """Return groups whose parameters are those that have gradients and optimizer states."""
    return [one._replace(operations=trained(one.operations, model)) for one in of]


def _mean_weights(of: Groups, gains: Number, plan: TrainingPlan) -> MeanWeights:
    dense: Number = 0.0
    routed: Number = 0.0
    for kind, _, share, *_, operations in of:
        matrices = total_weights(o._replace(vectors=Weights()) for o in operations.values())
        norms = gains if kind is Kind.BLOCKS else 0.0
        held = plus(plus(matrices.sharded, matrices.replicated), norms)
        dense, routed = plus(dense, times(share, held)), plus(routed, times(share, matrices.routed))
    return dense, routed / (plan.expert * plan.expert_tensor)


Shape = tuple[Number, Number, Number]  # rows, columns, whether the layer has it (1 or 0)


class LayerShapes(NamedTuple):
    """The shapes of a layer's matrices on a rank; one stands for all experts.

    A router, whose gradient is summed apart, has no placeholder.
    """

    mixers: list[Shape]
    leading: list[Shape]  # of an MLP
    following: list[Shape]  # of an expert and of the shared ones, and of an MLP among them


def layer_shapes(of: Groups, plan: TrainingPlan) -> LayerShapes:
    """Return the shapes of a layer's matrices on a rank."""
    found = LayerShapes([], [], [])
    for group in of:
        if group.kind is Kind.MIXER:
            found.mixers.extend(_shapes(group.operations, plan, group.share))
        elif group.kind is Kind.DENSE:
            found.leading.extend(_shapes(group.operations, plan, group.leading))
        if group.kind in (Kind.DENSE, Kind.ROUTED):
            found.following.extend(_shapes(group.operations, plan, group.following))
    return found


def _shapes(operations: Operations, plan: TrainingPlan, share: Number) -> list[Shape]:
    apart = ("router", ADAPTERS)
    found = [(o.matrix, times(share, o.share)) for o in operations.values() if o.part not in apart]
    return [(*on_rank(matrix, plan), there) for matrix, there in found if matrix is not None]


# ---- Saved bytes --------------------------------------------------------------------------------

Terms = dict[str, Number]  # bytes of each term


class LayerBytes(NamedTuple):
    """Bytes of the activations of one layer and microbatch."""

    saved: Terms  # for the backward pass
    waiting: Number  # kept until weight gradients are made
    again: Number  # computed again by the backward pass, of the largest such layer


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
    """Return the activations of a layer that leads, and of one that follows.

    Until weight gradients are made, a layer keeps what its matrices read, and output gradients as
    large as two hidden states.
    """
    kept, modules = Kept(inputs, recipe, size), modules_of(recipe)
    each = [[*_saved(group.operations, _inputs_kept(group.kind, kept))] for group in of]
    whole = [_terms(saved) for saved in each]
    some = [_terms(saved, modules) for saved in each]
    read = [_terms(one for one in saved if one[0].read) for saved in each]
    state, level = size.state / size.shards, inputs.plan.recompute
    sums = [total(terms.values()) for terms in whole]
    freed = [all_ - total(terms.values()) for all_, terms in zip(sums, some, strict=True)]
    every, parts = (of_largest_layer(of, amounts) for amounts in (sums, freed))

    def of_layer(mix: str) -> LayerBytes:
        shares = [getattr(group, mix) for group in of]
        terms, kept_terms = _mixed(shares, whole), _mixed(shares, some)
        full = {**dict.fromkeys(terms, 0.0), "norm_inputs": state}
        saved = {
            name: where(level >= 2.0, full[name], where(level >= 1.0, kept_terms[name], value))
            for name, value in terms.items()
        }
        more = where(level >= 1.0, getattr(parts, mix), 0.0)
        again = where(level >= 2.0, getattr(every, mix) - state, more)
        return LayerBytes(saved, total(_mixed(shares, read).values()) + 2.0 * state, again)

    return of_layer("leading"), of_layer("following")


def _inputs_kept(kind: Kind, kept: Kept) -> Kept:
    """Return what saved bytes follow from: inputs of frozen MLPs without adapters are not kept."""
    model, share = kept.inputs.model, NOT_KEPT.get(kind, 0.0)
    if known(model.trained, 1.0) or share == 0.0:
        return kept
    left = 1.0 - share * (1.0 - model.trained) * (1.0 - model.adapted_outputs)
    acts = kept.inputs.activations
    acts = dataclasses.replace(acts, linear_input_bytes=left * acts.linear_input_bytes)
    return kept._replace(inputs=dataclasses.replace(kept.inputs, activations=acts))


NOT_KEPT = {Kind.BLOCKS: 0.5, Kind.DENSE: 1.0, Kind.ROUTED: 1.0}  # share, of inputs of matrices


def momentary(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes, of: Groups) -> Number:
    """Return the largest bytes of an operation while it runs, beside what it saves."""
    kept = Kept(inputs, recipe, size)
    most: Number = 0.0
    for group in of:
        for one in group.operations.values():
            there = times(group.share, one.share)
            if one.momentary is not None and not known(there, 0.0):
                most = larger(most, where(there > 0.0, one.momentary(kept), 0.0))
    return most


def _mixed(shares: list[Number], terms: list[Terms]) -> Terms:
    found: Terms = {}
    for share, some in zip(shares, terms, strict=True):
        for name, value in some.items():
            found[name] = plus(found.get(name, 0.0), times(share, value))
    return found


def _saved(operations: Operations, kept: Kept) -> Iterable[tuple[Saved, Number]]:
    for operation in operations.values():
        if not known(operation.share, 0.0):
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
