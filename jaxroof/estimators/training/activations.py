"""Activations of one layer, one microbatch and one rank: all of them, and those that are saved.

Source: docs/models/parameters_flops_memory.md, sections 4.5 and 4.6.
"""

from collections.abc import Iterable
from typing import NamedTuple

from jaxroof.estimators.training.inputs import StageInputs
from jaxroof.estimators.training.layer.operation import Kept, Operation, Saved, Sizes, plus, times
from jaxroof.estimators.training.layer.operation import total as sum_of
from jaxroof.estimators.training.layer.sums import Groups, groups
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.recipe import Module, TrainingRecipe, modules_of
from jaxroof.estimators.training.stages import Kinds
from jaxroof.formulas.arithmetic import ceiling, larger, where
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


class LayerActivations(NamedTuple):
    """The activations of one layer of each kind."""

    every: LayerTerms  # without recomputation
    saved: LayerTerms  # for the backward pass
    waiting: Kinds  # bytes that are kept until weight gradients are made

    @property
    def again(self) -> Kinds:
        """Return the bytes that the backward pass computes again."""
        every, saved = self.every.total, self.saved.total
        return Kinds(every.dense - saved.dense, every.routing - saved.routing)


def sizes(inputs: PlannedStep) -> Sizes:
    """Return the amounts of one microbatch on one rank: T = b s / C, x = 2 T h, sigma, R.

    Source: docs/models/parameters_flops_memory.md, section 1.
    """
    plan = inputs.plan
    tokens = plan.microbatch * inputs.model.sequence / plan.context
    return Sizes(
        tokens=tokens,
        state=2.0 * tokens * inputs.model.hidden,
        shards=where(plan.sequence_parallel > 0.0, plan.tensor, 1.0),
        routed=routed_tokens(inputs),
    )


def routed_tokens(inputs: PlannedStep) -> Number:
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


def total(terms: Terms) -> Number:
    """Return the sum of terms."""
    return sum_of(terms.values())


def activations(
    inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes, of: Groups
) -> LayerActivations:
    """Return the activations of one layer of each kind: sums over its operations.

    Until weight gradients are made, a layer keeps what its matrices read, and output gradients as
    large as two hidden states.
    """
    kept = Kept(inputs, recipe, size)
    every, dense, routing = (
        [one for operation in group.operations.values() for one in _saved(operation, kept)]
        for group in of
    )
    layers = ([*every, *dense], [*every, *routing])
    whole = [_terms(layer) for layer in layers]
    some = [_terms(layer, modules_of(recipe)) for layer in layers]
    state = size.state / size.shards
    saved = (
        _of_level(inputs.plan.recompute, *both, state) for both in zip(whole, some, strict=True)
    )
    read = (
        total(_terms(one for one in layer if one[0].read)) + 2.0 * size.state / size.shards
        for layer in layers
    )
    return LayerActivations(LayerTerms(*whole), LayerTerms(*saved), Kinds(*read))


Bytes = tuple[Saved, Number]


def _saved(operation: Operation, kept: Kept) -> list[Bytes]:
    return [(one, times(operation.share, one.bytes(kept))) for one in operation.saved]


def _terms(layer: Iterable[Bytes], modules: frozenset[Module] = frozenset()) -> Terms:
    """Return the terms of a layer, 0 where recomputation of a module drops all of one."""
    terms: Terms = {}
    for one, value in layer:
        left = 0.0 if modules.intersection(one.dropped) else value
        terms[one.term] = plus(terms.get(one.term, 0.0), left)
    return terms


def _of_level(level: Number, every: Terms, some: Terms, state: Number) -> Terms:
    """Return the terms that recomputation of a level leaves."""
    full = {**dict.fromkeys(every, 0.0), "norm_inputs": state}
    return {
        name: where(level >= 2.0, full[name], where(level >= 1.0, some[name], value))
        for name, value in every.items()
    }


def freeing(inputs: StageInputs, recipe: TrainingRecipe) -> frozenset[Module]:
    """Return the modules whose recomputation frees bytes of some layer of a model."""
    step = planned(inputs, recipe)
    kept = Kept(step, recipe, sizes(step))
    found = [
        one
        for layers, _, operations in groups(step.model)
        if layers > 0.0
        for operation in operations.values()
        for one, value in _saved(operation, kept)
        if value > 0.0
    ]
    return frozenset(module for one in found for module in one.dropped)
