"""Seconds of one layer and one microbatch: its work, the host's limit, FSDP.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.training.layer_work import LayerWork, layer_work
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.product_times import Both, dense_share, layer_products
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.recipe import Module
from jaxroof.estimators.training.software import Software
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.ring_times import at_full_rate, beside, gather
from jaxroof.formulas.smooth import SHARPER, smooth_larger
from jaxroof.records import Number


class LayerTime(NamedTuple):
    """Seconds of one layer and one microbatch, and their parts before the host's limit."""

    forward: Number
    backward: Number
    matmul: Number
    attention: Number
    elementwise: Number
    cast: Number
    recompute: Number
    tensor: Number
    context: Number
    experts: Number
    exchange: Number
    weights: Number  # of backward: products that weight gradients alone need


def layer_time(
    model: MemoryModel,
    sequence: Number,
    plan: Any,
    rates: Rates,
    software: Software,
    modules: frozenset[Module],
) -> LayerTime:
    """Return the seconds of an average layer, one microbatch, without FSDP.

    forward = smax(C_f + T_f + X_f, host), backward likewise with what is computed again

    Assumes: a layer is the mean of dense and routing ones; causal work is even over context ranks.
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    return limited(layer_work(model, sequence, plan, rates, software, modules))


def limited(work: LayerWork) -> LayerTime:
    """Return the seconds of a layer as they are once the host launches its kernels."""
    busy = without_host(work)
    return LayerTime(
        forward=smooth_larger(busy.forward, work.host.forward, SHARPER),
        backward=smooth_larger(busy.backward, work.host.backward, SHARPER),
        matmul=_both(work.matmul),
        attention=_both(work.attention),
        elementwise=_both(work.elementwise),
        cast=_both(work.cast),
        recompute=work.again,
        tensor=_both(work.tensor),
        context=_both(work.context),
        experts=_both(work.experts),
        exchange=2.0 * work.exchange,
        weights=work.weights,
    )


def without_host(work: LayerWork) -> Both:
    """Return the seconds of a layer if the host launched kernels in no time."""
    kernels = (work.matmul, work.cast, work.attention, work.elementwise, work.experts)
    plain = Both(*(sum(all_of) for all_of in zip(*kernels, strict=True)))
    return Both(
        plain.forward + work.tensor.forward + work.context.forward + work.exchange,
        plain.backward + work.tensor.backward + work.context.backward + work.again + work.exchange,
    )


def _both(time: Both) -> Number:
    return time.forward + time.backward


class Sharded(NamedTuple):
    """Seconds of a layer under FSDP, and of the unit that holds embedding and head."""

    forward: Number
    backward: Number
    weights: Number  # of backward: products that weight gradients alone need
    edge: Number


def with_fsdp(
    model: MemoryModel,
    plan: Any,
    rates: Rates,
    software: Software,
    time: LayerTime,
) -> Sharded:
    """Return a layer's seconds with its weights gathered and its gradients scattered beside it.

    Assumes: groups span data and context ranks; one layer is gathered ahead; ZeRO 2 keeps the
    gathered weights for the backward pass.
    Source: docs/models/training_step_today.md, section 4.
    """
    group, inside = data_group(plan, rates)
    dense, routed = layer_weights(model), expert_weights(model, plan)
    weights = dense / plan.tensor + routed
    links, slowdown = rates.links, rates.constants.overlap_slowdown
    short = where(software.fused > 0.0, where(rates.low > 0.0, 1.0, 2.0), 2.0)
    parameters, gradients = weights * short, weights * software.gradient_bytes
    collected = gather(parameters, group, inside, links)
    scattered = gather(gradients, group, inside, links)
    again = where(software.zero_stage > 2.5, 1.0, 0.0)
    busy = at_full_rate(parameters, group, links)
    forward = beside(time.forward, collected, busy, slowdown)
    busy = at_full_rate(again * parameters + gradients, group, links)
    backward = beside(time.backward, again * collected + scattered, busy, slowdown)
    table = model.vocabulary * model.hidden / plan.tensor
    edge = gather(2.0 * table, group, inside, links)
    edge = edge + gather(software.gradient_bytes * table, group, inside, links)
    sharded = software.zero_stage > 1.5
    return Sharded(
        where(sharded, forward, time.forward),
        where(sharded, backward, time.backward),
        time.weights,
        where(sharded, edge, 0.0),
    )


def data_group(plan: Any, rates: Rates) -> tuple[Number, Number]:
    """Return the ranks that share weights, and how many of them share a fast domain."""
    group = plan.data * plan.context
    return group, smaller(larger(rates.fast_domain / plan.tensor, 1.0), group)


def layer_weights(model: MemoryModel) -> Number:
    """Return the parameters of an average layer without its routed experts, of all tensor ranks.

    The matrices of its products, the router and 2 h of norms.

    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    every = layer_products(model, 1.0, 1.0)
    matrices = (*every.by_columns.values(), *every.by_rows.values())
    held = sum(one.share * one.columns * one.inner for one in matrices)
    router = (1.0 - dense_share(model)) * model.hidden * model.experts
    return held + router + 2.0 * model.hidden


def expert_weights(model: MemoryModel, plan: Any) -> Number:
    """Return the parameters of a layer's routed experts on one rank."""
    each = (2.0 + model.gated) * model.hidden * model.expert_feedforward
    return (1.0 - dense_share(model)) * model.experts / expert_ranks(plan) * each


def expert_ranks(plan: Any) -> Number:
    """Return the ranks over which the routed experts of a layer are split."""
    return plan.expert * plan.expert_tensor
