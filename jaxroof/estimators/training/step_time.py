"""Seconds of one optimizer step of today's training, and their parts.

Source: docs/models/training_step_today.md.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

from jaxroof.estimators.training.layer_time import (
    LayerTime,
    Sharded,
    data_group,
    expert_ranks,
    expert_weights,
    layer_time,
    layer_weights,
    with_fsdp,
)
from jaxroof.estimators.training.layer_work import Tokens, tokens_of
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.recipe import Module, Schedule
from jaxroof.estimators.training.software import Software
from jaxroof.estimators.training.stage_time import (
    ROUTES,
    Ends,
    StageTime,
    ends,
    stage_layers,
    stage_time,
)
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.ring_times import all_reduce, at_full_rate, beside, gather
from jaxroof.records import Number

UPDATE_BYTES = 42.0  # that the update of a parameter moves


class StepTime(NamedTuple):
    """Seconds of a step and of its parts; those of a layer are of one microbatch."""

    matmul: Number
    attention: Number
    elementwise: Number
    cast: Number
    recompute: Number
    tensor_comm: Number
    context_comm: Number
    experts: Number
    expert_comm: Number
    forward: Number
    backward: Number
    head: Number
    embedding: Number
    fsdp_edge: Number
    slow_stage: Number
    steady: Number
    bubble: Number
    pipeline_comm: Number
    data_comm: Number
    optimizer: Number
    step_time: Number


class LayerParts(NamedTuple):
    """What does not change with data, pipeline and interleave degrees, nor with ZeRO stages.

    Thousands of plans share a few rows of it, one a (tensor, context, expert, microbatch, what is
    computed again).
    """

    tokens: Tokens
    layer: LayerTime
    edges: Ends


def layer_parts(
    model: MemoryModel,
    sequence: Number,
    plan: Any,
    speed: Rates,
    software: Software,
    modules: frozenset[Module],
) -> LayerParts:
    """Return the times of one layer, of embedding and of head, one microbatch."""
    tokens = tokens_of(model, sequence, plan, speed, software)
    return LayerParts(
        tokens,
        layer_time(model, sequence, plan, speed, software, modules),
        ends(model, plan, speed, software, tokens),
    )


def whole_step(
    model: MemoryModel,
    plan: Any,
    speed: Rates,
    software: Software,
    parts: LayerParts,
    schedule: Schedule,
) -> StepTime:
    """Return the seconds of one optimizer step from those of its parts.

    t = steady + bubble + pipeline sends + data-parallel messages + optimizer + step

    Assumes: copies of the weights that several routes through the layers have are replicas.
    Source: docs/models/training_step_today.md, section 7.
    """
    tokens, time, edges = parts
    sharded = with_fsdp(model, plan, speed, software, time)
    stages = stage_time(model, plan, speed, software, tokens, sharded, edges, schedule)
    copies = SimpleNamespace(**{**vars(plan), "data": plan.data * ROUTES.get(schedule, 1.0)})
    messages = data_messages(model, copies, speed, software, sharded, stages)
    update = optimizer(model, copies, speed, software, stages.end_layers)
    total = stages.steady + stages.bubble + stages.sends + messages + update
    return StepTime(
        matmul=time.matmul,
        attention=time.attention,
        elementwise=time.elementwise,
        cast=time.cast,
        recompute=time.recompute,
        tensor_comm=time.tensor,
        context_comm=time.context,
        experts=time.experts,
        expert_comm=time.exchange,
        forward=sharded.forward,
        backward=sharded.backward,
        head=edges.head,
        embedding=edges.embedding,
        fsdp_edge=sharded.edge,
        slow_stage=stages.slow,
        steady=stages.steady,
        bubble=stages.bubble,
        pipeline_comm=stages.sends,
        data_comm=messages,
        optimizer=update,
        step_time=total + speed.step,
    )


def data_messages(
    model: MemoryModel,
    plan: Any,
    speed: Rates,
    software: Software,
    layer: Sharded,
    stages: StageTime,
) -> Number:
    """Return the seconds of gradients and parameters between replicas that no work hides.

    Assumes: with several chunks, all but the last microbatches' chunks hide messages too; a tied
    embedding is summed over the first and the last stage.
    Source: docs/models/training_step_today.md, section 7.
    """
    links, layers = speed.links, stages.end_layers
    group, inside = data_group(plan, speed)
    replicas, near = expert_group(plan, speed)
    table = model.vocabulary * model.hidden / plan.tensor
    shared = layers * layer_weights(model) / plan.tensor + table
    routed = layers * expert_weights(model, plan)
    short = where(speed.low > 0.0, 1.0, 2.0)
    gradients, parameters = shared * software.gradient_bytes, shared * short

    def both(bytes_each: Number) -> Number:
        dense = gather(shared * bytes_each, group, inside, links)
        experts = gather(routed * bytes_each, replicas, near, links)
        return dense + where(model.experts > 0.0, experts, 0.0)

    scattered, collected = both(software.gradient_bytes), both(short)
    whole_sum = all_reduce(gradients, group, inside, links)
    stay = larger(smaller(plan.pipeline, plan.microbatches), 1.0) - 1.0
    stay = 1.0 + where(plan.interleave > 1.0, stay, 0.0)
    back, ahead = stay * layers * layer.backward, stay * layers * layer.forward
    slowdown = speed.constants.overlap_slowdown
    busy = (at_full_rate(size, group, links) for size in (gradients, parameters))
    beside_work = (
        beside(back, scattered, next(busy), slowdown)
        - back
        + beside(ahead, collected, next(busy), slowdown)
        - ahead
        + (scattered + collected) / larger(layers, 1.0)
    )
    plain = where(software.zero_stage > 0.5, scattered + collected, whole_sum)
    seen = where(software.data_overlap > 0.0, beside_work, plain)
    tied = all_reduce(
        table * software.gradient_bytes, 2.0, where(stages.across > 0.0, 1.0, 2.0), links
    )
    tied = where((plan.pipeline > 1.0) & (model.tied > 0.5), tied, 0.0)
    return where(software.zero_stage > 1.5, 0.0, seen + tied)


def expert_group(plan: Any, rates: Rates) -> tuple[Number, Number]:
    """Return the replicas of an expert, and how many of them share a fast domain."""
    group = larger(plan.data * plan.context * plan.tensor / expert_ranks(plan), 1.0)
    return group, smaller(larger(rates.fast_domain / expert_ranks(plan), 1.0), group)


def optimizer(
    model: MemoryModel, plan: Any, speed: Rates, software: Software, end_layers: Number
) -> Number:
    """Return the seconds of the update: 42 bytes a parameter that a rank updates, 8 a copy.

    Source: docs/models/training_step_today.md, sections 7 and 11.
    """
    group = plan.data * plan.context
    experts = larger(group * plan.tensor / expert_ranks(plan), 1.0)
    layers, _, _ = stage_layers(model, plan)
    weights, table = layer_weights(model), model.vocabulary * model.hidden
    stage = (end_layers * weights + table) / plan.tensor
    stage_one = (software.zero_stage > 0.5) & (software.zero_stage < 1.5)
    owned = where(stage_one, group, 1.0)
    plain = stage * (UPDATE_BYTES / owned + 8.0)
    sharded = (layers * weights + table) / plan.tensor * 50.0 / group
    routed = end_layers * expert_weights(model, plan)
    owned = where(software.zero_stage > 0.5, experts, 1.0)
    moved = where(software.zero_stage > 1.5, sharded, plain) + routed * (UPDATE_BYTES / owned + 8.0)
    return moved / speed.plain.memory
