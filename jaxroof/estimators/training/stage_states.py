"""Parameters of a stage, and their weights, gradients and optimizer states.

Source: docs/models/parameters_flops_memory.md, sections 4.1 to 4.4.
"""

from typing import NamedTuple

from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Schedule
from jaxroof.estimators.training.stage_layers import StageLayers
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where
from jaxroof.records import Number


class LayerParameters(NamedTuple):
    """Parameters of one layer of each kind and of the ends, on one rank before data sharding."""

    dense: Number
    routing: Number  # without routed experts
    routed: Number
    vocabulary: Number  # of the embedding, and of the head


def layer_parameters(inputs: MemoryInputs) -> LayerParameters:
    """Return the parameters of one layer of each kind, and of one end.

    N = sharded / t + replicated, of routed experts N_e = E (g + 1) h f_e / (epsilon tau)

    Assumes: norms, the router and the down-projections of latent attention are replicated; whole
    experts on a rank, each cut by columns over the expert-tensor group.
    """
    counts, plan = inputs.counts, inputs.plan
    return LayerParameters(
        dense=counts.dense_sharded / plan.tensor + counts.dense_replicated,
        routing=counts.routing_sharded / plan.tensor + counts.routing_replicated,
        routed=counts.routed / (plan.expert * plan.expert_tensor),
        vocabulary=padded_vocabulary(inputs) * inputs.model.hidden / plan.tensor,
    )


def padded_vocabulary(inputs: MemoryInputs) -> Number:
    """Return the entries of the vocabulary after padding, so that every shard is equal.

    V_p = ceil((V + extra) / (m t)) m t, m = 128 in Megatron, whose NullTokenizer adds one entry
    """
    states = inputs.states
    columns = states.vocabulary_multiple * inputs.plan.tensor
    return ceiling(inputs.model.vocabulary + states.extra_token, columns) * columns


def stage_parameters(
    inputs: MemoryInputs, stage: StageLayers, layer: LayerParameters, head: Number
) -> tuple[Number, Number]:
    """Return the parameters of a stage: dense ones and those of routed experts.

    ``head`` are the parameters after the last layer.
    """
    model = inputs.model
    routes = model.experts > 0.0
    predicted = model.mtp_layers * stage.last
    embedding = layer.vocabulary + model.positions * model.hidden
    layers = layer.dense * stage.layers.dense + layer.routing * stage.layers.routing
    dense = layers + embedding * stage.first + head * stage.last
    expert = layer.routed * (stage.layers.routing + where(routes, predicted, 0.0))
    return dense, expert


def head_parameters(inputs: MemoryInputs, recipe: MemoryRecipe, layer: LayerParameters) -> Number:
    """Return the parameters after the last layer: head, norm and multi-token prediction.

    A module of it is a layer of the last kind, three norms and a matrix 2 h^2 / t that joins two
    hidden states.

    Assumes: a tied head is a copy of the embedding unless one stage has both; modules of
    multi-token prediction share one copy of the embedding, unless the rank has it anyway.
    """
    model, plan, norm = inputs.model, inputs.plan, inputs.counts.norm
    alone = plan.pipeline == 1.0
    here = alone | (recipe.schedule is Schedule.DUALPIPE)
    last = where(model.experts > 0.0, layer.routing, layer.dense)
    joined = 2.0 * model.hidden * model.hidden / plan.tensor
    modules = model.mtp_layers * (last + joined + 3.0 * norm)
    copy = where(here, 0.0, smaller(model.mtp_layers, 1.0)) * layer.vocabulary
    shared = (model.tied > 0.0) & alone
    return where(shared, 0.0, layer.vocabulary) + norm + modules + copy


class State(NamedTuple):
    """One kind of state: which parameters have it, their bytes each, and who shares them."""

    expert: bool  # whether those of routed experts
    width: Number
    ranks: Number  # that shard it


def states_of(inputs: MemoryInputs) -> dict[str, State]:
    """Return how wide weights, gradients and optimizer states are, and who shares them.

    Replicas of dense parameters G = D C, of an expert G_e = D C t / (epsilon tau); a share phi of
    the optimizer's (master + moments) bytes lies in host memory

    Assumes: ZeRO 1 shards the optimizer, 2 also gradients, 3 also weights.
    """
    plan, states = inputs.plan, inputs.states
    replicas = plan.data * plan.context
    groups = {
        "dense": replicas,
        "expert": replicas * plan.tensor / (plan.expert * plan.expert_tensor),
    }
    on_device = 1.0 - states.offload_optimizer
    optimizer = (states.master_bytes + states.moment_bytes) * on_device
    kinds = {  # bytes, the ZeRO stage that shards them first, groups that each have all of them
        "weights": (states.weight_bytes, 3.0, 1.0),
        "gradients": (states.gradient_bytes, 2.0, 1.0),
        "optimizer": (optimizer, 1.0, states.optimizer_instances),
    }
    return {
        f"{kind}_{part}": State(
            part == "expert",
            width,
            where(states.zero_stage >= sharded_from, group / instances, 1.0),
        )
        for kind, (width, sharded_from, instances) in kinds.items()
        for part, group in groups.items()
    }


def state_terms(states: dict[str, State], dense: Number, expert: Number) -> dict[str, Number]:
    """Return the bytes of weights, gradients and optimizer states of a stage's parameters."""
    return {
        name: (expert if state.expert else dense) * state.width / state.ranks
        for name, state in states.items()
    }


def largest_layer(inputs: MemoryInputs, layer: LayerParameters) -> Number:
    """Return the parameters of the model's largest layer on a rank before data sharding."""
    routing = where(inputs.model.experts > 0.0, layer.routing + layer.routed, 0.0)
    leading = (inputs.model.experts == 0.0) | (inputs.model.first_dense_layers > 0.0)
    return larger(where(leading, layer.dense, 0.0), routing)
