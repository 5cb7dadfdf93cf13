"""The layers of a model as kinds of layer, and sums over the operations of each.

A model's layers are groups of operations, each with the number of layers that have it: attention in
all of them, an MLP in those that do not route, experts in those that do.
Source: docs/models/parameters_flops_memory.md, sections 2, 3, 4.5 and 4.6.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.layer.attention import attention, rotation
from jaxroof.estimators.training.layer.experts import routed_mlp
from jaxroof.estimators.training.layer.mlp import dense_mlp
from jaxroof.estimators.training.layer.norms import norms, residuals
from jaxroof.estimators.training.layer.operation import (
    Operation,
    Operations,
    Weights,
    on_rank,
    plus,
    products,
    times,
    total,
    weights,
)
from jaxroof.estimators.training.planned import TrainingModel
from jaxroof.formulas.arithmetic import where
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
