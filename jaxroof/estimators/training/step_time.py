"""Seconds of one optimizer step of today's training, and their parts.

Source: docs/models/training_step_today.md.
"""

from typing import NamedTuple

from jaxroof.estimators.training.layer.operation import Tokens, Work
from jaxroof.estimators.training.layer.sums import LayerWeights, mean_weights
from jaxroof.estimators.training.layer_time import (
    LayerTime,
    Sharded,
    layer_time,
    layer_work,
    with_fsdp,
)
from jaxroof.estimators.training.recipe import Module, Schedule
from jaxroof.estimators.training.stage_time import (
    ROUTES,
    Ends,
    StageTime,
    ends,
    neighbours,
    stage_layers,
    stage_time,
)
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.network import all_reduce, at_full_rate, beside, gather, placed
from jaxroof.records import Number

UPDATE_BYTES = 42.0  # that the update of a parameter moves


class LayerParts(NamedTuple):
    """What does not change with data, pipeline and interleave degrees, nor with ZeRO stages.

    Thousands of plans share a few rows of it, one a (tensor, context, expert, microbatch, what is
    computed again).
    """

    tokens: Tokens
    layer: LayerTime
    edges: Ends


class StepTime(NamedTuple):
    """Seconds of a step and of its parts; those of a layer and of ends are of one microbatch."""

    layer: LayerTime
    edges: Ends
    sharded: Sharded
    stages: StageTime
    data_comm: Number
    optimizer: Number
    step_time: Number

    @property
    def update(self) -> Number:
        """Return what comes once a step beside stages and messages."""
        stages = self.stages
        return self.step_time - (stages.steady + stages.bubble + stages.sends + self.data_comm)


def layer_parts(work: Work, modules: frozenset[Module]) -> LayerParts:
    """Return the times of one layer, of embedding and of head, one microbatch."""
    return LayerParts(work.tokens, layer_time(layer_work(work, modules)), ends(work))


def whole_step(work: Work, parts: LayerParts, schedule: Schedule) -> StepTime:
    """Return the seconds of one optimizer step from those of its parts.

    t = steady + bubble + pipeline sends + data-parallel messages + optimizer + step

    Assumes: copies of the weights that several routes through the layers have are replicas.
    Source: docs/models/training_step_today.md, section 7.
    """
    _, time, edges = parts
    weights = mean_weights(work.model, work.plan)
    sharded = with_fsdp(work, time, weights)
    stages = stage_time(work, sharded, edges, schedule)
    replicas = work.plan.data * work.plan.context * ROUTES.get(schedule, 1.0)
    messages = data_messages(work, sharded, weights, stages.end_layers, replicas)
    update = optimizer(work, weights, stages.end_layers, replicas)
    total = stages.steady + stages.bubble + stages.sends + messages + update
    step = total + work.rates.step
    return StepTime(time, edges, sharded, stages, messages, update, step)


def data_messages(
    work: Work, layer: Sharded, weights: LayerWeights, layers: Number, replicas: Number
) -> Number:
    """Return the seconds of gradients and parameters between replicas that no work hides.

    Arguments: ``layers`` of a stage at an end.
    Assumes: with several chunks, all but the last microbatches' chunks hide messages too; a tied
    embedding is summed over the first and the last stage.
    Source: docs/models/training_step_today.md, section 7.
    """
    model, plan, software, network = work.model, work.plan, work.software, work.rates.network
    group = placed(network, replicas, plan.tensor)
    sharing = plan.expert * plan.expert_tensor
    of_experts = placed(network, expert_replicas(work, replicas), sharing)
    dense, experts = weights
    table = model.vocabulary * model.hidden / plan.tensor
    shared, routed = layers * dense / plan.tensor + table, layers * experts
    short = where(work.rates.low > 0.0, 1.0, 2.0)
    gradients, parameters = shared * software.reduce_bytes, shared * short

    def both(bytes_each: Number) -> Number:
        of_routed = gather(routed * bytes_each, of_experts, network)
        of_routed = where(model.experts > 0.0, of_routed, 0.0)
        return gather(shared * bytes_each, group, network) + of_routed

    def more(seconds: Number, message: Number, size: Number) -> Number:
        busy = at_full_rate(size, group.members, network)
        return beside(seconds, message, busy, work.rates.constants.overlap_slowdown) - seconds

    scattered, collected = both(software.reduce_bytes), both(short)
    stay = larger(smaller(plan.pipeline, plan.microbatches), 1.0) - 1.0
    stay = 1.0 + where(plan.interleave > 1.0, stay, 0.0)
    beside_work = (
        more(stay * layers * layer.backward, scattered, gradients)
        + more(stay * layers * layer.forward, collected, parameters)
        + (scattered + collected) / larger(layers, 1.0)
    )
    whole_sum = all_reduce(gradients, group, network)
    plain = where(plan.zero_stage > 0.5, scattered + collected, whole_sum)
    seen = where(software.data_overlap > 0.0, beside_work, plain)
    tied = all_reduce(table * software.reduce_bytes, neighbours(work), network)
    tied = where((plan.pipeline > 1.0) & (model.tied > 0.5), tied, 0.0)
    return where(plan.zero_stage > 1.5, 0.0, seen + tied)


def expert_replicas(work: Work, replicas: Number) -> Number:
    """Return how many ranks have the same experts."""
    plan = work.plan
    return larger(replicas * plan.tensor / (plan.expert * plan.expert_tensor), 1.0)


def optimizer(work: Work, weights: LayerWeights, layers: Number, replicas: Number) -> Number:
    """Return the seconds of the update: 42 bytes a parameter that a rank updates, 8 a copy.

    Source: docs/models/training_step_today.md, sections 7 and 11.
    """
    model, plan, zero = work.model, work.plan, work.plan.zero_stage
    every, _, _ = stage_layers(model, plan)
    dense, experts = weights
    table = model.vocabulary * model.hidden
    stage, whole = ((some * dense + table) / plan.tensor for some in (layers, every))
    owned = where((zero > 0.5) & (zero < 1.5), replicas, 1.0)
    plain = stage * (UPDATE_BYTES / owned + 8.0)
    owned = where(zero > 0.5, expert_replicas(work, replicas), 1.0)
    moved = where(zero > 1.5, whole * (UPDATE_BYTES + 8.0) / replicas, plain)
    moved = moved + layers * experts * (UPDATE_BYTES / owned + 8.0)
    return moved / work.rates.plain.memory
