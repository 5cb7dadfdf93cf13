"""What a plan costs a step beside its arithmetic: work done twice, bytes sent, time idle.

An estimate that ranks changes of a plan: nothing overlaps, and every message takes its bytes over
the peak bandwidth times its efficiency.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.catalog.system import System
from jaxroof.estimators.training.layer_activations import Sizes, every_term, saved_terms, sizes
from jaxroof.estimators.training.layer_products import Products, products
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import (
    ContextExchange,
    MemoryRecipe,
    Module,
    Recompute,
    Schedule,
)
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.estimators.training.stage_layers import over, stage_layers
from jaxroof.estimators.training.stage_states import layer_parameters
from jaxroof.formulas import memory_states as states
from jaxroof.formulas import step_traffic as traffic
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.model_flops import token_flops
from jaxroof.formulas.parameters import routing_layers
from jaxroof.records import Number, quantity, record, value_or
from jaxroof.structure import map_numbers

HOST_BANDWIDTH = 64e9  # [B/s] of a PCIe 5 x16 link, one direction, where a system has no other
FAST_BANDWIDTH, SLOW_BANDWIDTH = 450e9, 50e9  # [B/s] those of an H100, where a system has no other
BUBBLE = {  # of (p - 1) / (M r), with a backward pass twice as long as a forward pass
    Schedule.ONE_F_ONE_B: 1.0,
    Schedule.GPIPE: 1.0,
    Schedule.ZB_H1: 1.0 / 3.0,  # F + B - 2 W of F + B
    Schedule.DUALPIPE: 1.0 / 3.0,  # (p / 2 - 1) (F&B + B - 3 W), as (p - 1) / 3 at most
}


@record
class PlanCost:
    """What one rank does in a step beside the arithmetic of the model."""

    recomputed: Number = quantity("1", "Arithmetic done again over that of the model.")
    fast_bytes: Number = quantity("B", "Bytes that a rank sends inside its fast domain in a step.")
    slow_bytes: Number = quantity("B", "Bytes that a rank sends over the network in a step.")
    host_bytes: Number = quantity("B", "Bytes over the link to the host in a step.")
    idle: Number = quantity("1", "Idle time over the time of arithmetic.")
    time: Number = quantity("s", "Estimate of a step, without overlap.")


def plan_cost(
    inputs: MemoryInputs, system: System, recipe: MemoryRecipe, model_recipe: Recipe
) -> PlanCost:
    """Return what plans cost; the plan's fields may be arrays of as many plans.

    T = F / (e P) (1 + again) (1 + idle) + fast / B_f + slow / B_s + host / B_h

    Assumes: tensor ranks are placed innermost, then context, experts and data, the pipeline
    outermost; a group that reaches beyond the fast domain sends all over the network.
    """
    plan, size = inputs.plan, sizes(inputs)
    batch: Any = inputs.global_batch
    gpus: Any = inputs.gpus
    work = products(inputs.model, model_recipe, recipe, inputs.sequence)
    by_reach = _traffic(inputs, recipe, size)
    fast_domain = value_or(system.fast_domain, 1.0)
    fast = sum(where(reach <= fast_domain, sent, 0.0) for reach, sent in by_reach)
    slow = sum(where(reach <= fast_domain, 0.0, sent) for reach, sent in by_reach)
    host = _host(inputs, recipe, size)
    again = work.again / (3.0 * work.whole)
    idle = traffic.idle_share(
        plan.pipeline,
        plan.microbatches,
        plan.interleave,
        _slowest(inputs, recipe, work),
        BUBBLE[recipe.schedule],
    )
    tokens = batch * inputs.sequence / gpus
    rate: Any = system.matrix_flops * system.matrix_efficiency
    inside = value_or(system.fast_bandwidth, value_or(system.link_bandwidth, FAST_BANDWIDTH))
    outside = value_or(system.slow_bandwidth, SLOW_BANDWIDTH) * system.nics
    seconds = fast / (inside * system.fast_efficiency) + slow / (outside * system.slow_efficiency)
    seconds = seconds + host / value_or(system.pcie_bandwidth, HOST_BANDWIDTH)
    compute = token_flops(work.whole) * tokens / rate
    return PlanCost(
        recomputed=again,
        fast_bytes=fast,
        slow_bytes=slow,
        host_bytes=host,
        idle=idle,
        time=compute * (1.0 + again) * (1.0 + idle) + seconds,
    )


def _traffic(inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes) -> list[tuple[Any, Any]]:
    """Return the bytes that a rank sends in a step, each with how many ranks its group reaches."""
    model, plan = inputs.model, inputs.plan
    routing = routing_layers(model.layers, model.experts, model.first_dense_layers)
    full = recipe.recompute is Recompute.FULL
    visits = plan.microbatches / plan.pipeline  # of a layer, a rank
    tensor = traffic.tensor_traffic(size.state, plan.tensor, plan.sequence_parallel)
    forward = where(plan.sequence_parallel > 0.0, 0.4, 0.5)  # of its passes
    tensor = tensor * (1.0 + forward * full)
    context = CONTEXT[recipe.context_exchange](inputs, size) * (1.5 if full else 1.0)
    width = inputs.activations.activation_bytes * model.hidden
    routed = traffic.expert_traffic(size.routed, width, plan.expert, plan.expert_tensor)
    routed = routed * (1.5 if full or recipe.recomputes(Module.EXPERTS) else 1.0)
    blocks = 1.0 - 0.5 * routing / model.layers  # of a layer's two, those that tensor ranks share
    own = plan.tensor * plan.context
    return [
        (plan.tensor, visits * model.layers * blocks * tensor),
        (own, visits * model.layers * context),
        (plan.expert * plan.expert_tensor, visits * routing * routed),
        (own * plan.data, _gradients(inputs)),
        (
            own * plan.data * plan.pipeline,
            traffic.boundary_traffic(
                size.state, size.shards, plan.pipeline, plan.microbatches, plan.interleave
            ),
        ),
    ]


def _keys(inputs: MemoryInputs, size: Sizes) -> tuple[Any, Any]:
    """Return the bytes of the queries, and of keys and values, of a microbatch on a rank."""
    model, width = inputs.model, inputs.activations.activation_bytes
    latent = model.latent > 0.0
    query = where(latent, model.nope_size + model.rope_size, model.head_size)
    each = size.tokens * width / inputs.plan.tensor
    keys = where(latent, model.heads * (query + model.value_size), 2.0 * model.kv_heads * query)
    return each * model.heads * query, each * keys


def _all_to_all(inputs: MemoryInputs, size: Sizes) -> Number:
    return traffic.all_to_all_traffic(*_keys(inputs, size), inputs.plan.context)


def _ring(inputs: MemoryInputs, size: Sizes) -> Number:
    return traffic.ring_traffic(_keys(inputs, size)[1], inputs.plan.context)


CONTEXT: dict[ContextExchange, Callable[[MemoryInputs, Sizes], Number]] = {
    ContextExchange.ALL_TO_ALL: _all_to_all,
    ContextExchange.RING: _ring,
}


def _shares(inputs: MemoryInputs) -> list[tuple[Any, Any]]:
    """Return the parameters of the mean stage of a rank, each kind with its replicas."""
    model, plan = inputs.model, inputs.plan
    layer = layer_parameters(inputs)
    routing = routing_layers(model.layers, model.experts, model.first_dense_layers)
    ends = (2.0 - model.tied) * layer.vocabulary
    dense = (model.layers - routing) * layer.dense + routing * layer.routing + ends
    experts = routing * layer.routed
    return [
        (dense / plan.pipeline, states.replicas(plan.data, plan.context)),
        (
            experts / plan.pipeline,
            states.expert_replicas(
                plan.data, plan.tensor, plan.context, plan.expert, plan.expert_tensor
            ),
        ),
    ]


def _gradients(inputs: MemoryInputs) -> Number:
    plan, width = inputs.plan, inputs.states
    found: Number = 0.0
    for parameters, replicas in _shares(inputs):
        found = found + traffic.gradient_traffic(
            parameters,
            replicas,
            plan.microbatches,
            width.zero_stage,
            width.weight_bytes,
            width.gradient_bytes,
        )
    return found


def _host(inputs: MemoryInputs, recipe: MemoryRecipe, size: Sizes) -> Number:
    """Return the bytes over the link to the host."""
    model, plan, width = inputs.model, inputs.plan, inputs.states
    sharded = width.zero_stage >= 1.0
    shard = sum(n / where(sharded, replicas, 1.0) for n, replicas in _shares(inputs))
    saved = saved_terms(inputs, recipe, size, every_term(inputs, recipe, size)).total
    routing = routing_layers(model.layers, model.experts, model.first_dense_layers)
    each = (model.layers - routing) * saved.dense + routing * saved.routing
    return traffic.host_traffic(
        shard * (width.weight_bytes + width.gradient_bytes),
        each * plan.microbatches / plan.pipeline,
        width.offload_optimizer,
        inputs.activations.offload_activations,
    )


def _slowest(inputs: MemoryInputs, recipe: MemoryRecipe, work: Products) -> Number:
    """Return the work of the slowest stage over the mean, the head's included."""
    stage: Any = np.arange(float(np.max(inputs.plan.pipeline)))  # the last dimension
    wide, each = (
        map_numbers(lambda value: np.asarray(value)[..., None], of) for of in (inputs, work)
    )
    plan, there = wide.plan, stage < wide.plan.pipeline
    found = where(stage == plan.pipeline - 1.0, each.head, 0.0)
    alone = dataclasses.replace(recipe, schedule=Schedule.ONE_F_ONE_B)  # one stage a rank
    found = found + over(stage_layers(wide.model, plan, alone, stage).layers, each.layer)
    slowest = np.max(where(there, found, 0.0), axis=-1)
    return slowest * inputs.plan.pipeline / work.whole
