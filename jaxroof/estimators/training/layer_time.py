"""Seconds of one layer and one microbatch: work, messages beside it, FSDP, the host's limit.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.training.expert_time import expert_exchange, routed_experts
from jaxroof.estimators.training.layer_kernels import Both, attention, elementwise
from jaxroof.estimators.training.product_times import (
    Directions,
    casts,
    dense_share,
    layer_products,
    seconds,
    summed,
)
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.software import Software
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.ring_times import all_reduce, at_full_rate, beside, gather
from jaxroof.formulas.smooth import SHARPER, smooth_larger
from jaxroof.records import Number


class Tokens(NamedTuple):
    """Tokens of one microbatch, and the messages of a tensor group that carry them."""

    group: Number  # of one tensor group
    norm: Number  # of one rank, in norms and residuals
    rank: Number  # of one rank, all ranks sharing
    gathered: Number  # all-gather or reduce-scatter of the hidden states [s]
    reduced: Number  # all-reduce of the hidden states [s]
    message: Number  # bytes of the hidden states of a tensor group


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


def tokens_of(
    model: Any,
    sequence: Number,
    plan: Any,
    rates: Rates,
    software: Software,
) -> Tokens:
    """Return the tokens of a microbatch and what moving their hidden states takes."""
    tensor = plan.tensor
    group = plan.microbatch * sequence / plan.context
    shared = where(software.sequence_parallel > 0.0, tensor, 1.0)
    message = 2.0 * group * model.hidden
    inside = smaller(tensor, rates.fast_domain)
    return Tokens(
        group=group,
        norm=group / shared,
        rank=group / tensor,
        gathered=gather(message, tensor, inside, rates.links),
        reduced=all_reduce(message, tensor, inside, rates.links),
        message=message,
    )


def layer_time(
    model: Any,
    sequence: Number,
    plan: Any,
    rates: Rates,
    software: Software,
) -> LayerTime:
    """Return the seconds of an average layer, one microbatch, without FSDP.

    forward = smax(C_f + T_f + X_f, host), backward likewise with what is computed again

    Assumes: a layer is the mean of dense and routing ones; causal work is even over context ranks.
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    tensor, tokens = plan.tensor, tokens_of(model, sequence, plan, rates, software)
    products = layer_products(model, tensor, tokens.group)
    columns, rows = (summed(some, rates) for some in (products.by_columns, products.by_rows))
    core = attention(model, sequence, plan.microbatch, tensor, plan.context, rates, software)
    plain = elementwise(model, tokens.group, tokens.norm, tensor, rates, software)
    cast = Both(*casts(products, rates))
    routing = 1.0 - dense_share(model)
    experts = Both(
        *(routing * time for time in routed_experts(model, tokens.rank, plan.expert, rates))
    )
    exchange = routing * expert_exchange(model, tokens.rank, plan.expert, rates, software)
    matmul = Both(
        columns.forward + rows.forward,
        columns.inputs + rows.inputs + columns.weights + rows.weights,
    )
    work = Both(*(sum(all_of) for all_of in zip(matmul, cast, core, plain, experts, strict=True)))
    messages = tensor_messages(matmul, columns, tensor, tokens, rates, software)
    ring = context_messages(model, plan, rates, core, tokens)
    down = seconds(products.down, rates).forward
    full = software.recompute_full
    again = full * (work.forward - software.early_stop * down)
    again = again + software.recompute_selective * core.forward
    again = again + full * (messages.forward + ring.forward)
    host = rates.host + routing * rates.host_experts
    return LayerTime(
        forward=smooth_larger(
            work.forward + messages.forward + ring.forward + exchange, host, SHARPER
        ),
        backward=smooth_larger(
            work.backward + messages.backward + ring.backward + again + exchange,
            host * (1.0 + full),
            SHARPER,
        ),
        matmul=matmul.forward + matmul.backward,
        attention=core.forward + core.backward,
        elementwise=plain.forward + plain.backward,
        cast=cast.forward + cast.backward,
        recompute=again,
        tensor=messages.forward + messages.backward,
        context=ring.forward + ring.backward,
        experts=experts.forward + experts.backward,
        exchange=2.0 * exchange,
    )


def tensor_messages(
    matmul: Both,
    columns: Directions,
    tensor: Number,
    tokens: Tokens,
    rates: Rates,
    software: Software,
) -> Both:
    """Return what messages of the tensor group add to a layer's work.

    Assumes: pipelined messages are moved by copy engines, so that they do not slow the work.
    Source: docs/models/training_step_today.md, section 4, the table of tensor messages.
    """
    w, r, slowdown = tokens.gathered, tokens.reduced, rates.constants.overlap_slowdown
    edge = rates.constants.tensor_edge
    hidden = 1.0 - edge / (larger(tensor, 2.0) - 1.0 + edge)
    narrow = where(rates.low > 0.0, 0.75 * w, w)
    seen = 4.0 * (1.0 - hidden) * narrow

    def pipelined(work: Number, share: Number) -> Number:
        return beside(work, share * narrow, 0.0, slowdown) - work + seen

    def started(work: Number, message: Number) -> Number:
        return beside(work, message, message, slowdown) - work

    parallel = software.sequence_parallel > 0.0
    overlapped, early = software.tensor_overlap > 0.0, software.tensor_async > 0.0
    scattered = 2.0 * w + started(columns.inputs, 2.0 * w) + started(columns.weights, 2.0 * w)
    forward = where(
        parallel,
        where(overlapped, pipelined(matmul.forward, 4.0 * hidden), 4.0 * w),
        2.0 * r,
    )
    backward = where(
        parallel,
        where(overlapped, pipelined(matmul.backward, 4.0 * hidden + 2.0), scattered),
        where(early, started(columns.weights, 2.0 * r), 2.0 * r),
    )
    many = tensor > 1.0
    return Both(where(many, forward, 0.0), where(many, backward, 0.0))


def context_messages(
    model: Any,
    plan: Any,
    rates: Rates,
    core: Both,
    tokens: Tokens,
) -> Both:
    """Return what the exchange of keys and values among context ranks adds to attention."""
    context = plan.context
    inside = smaller(larger(rates.fast_domain / plan.tensor, 1.0), context)
    size = 4.0 * tokens.group * context * model.kv_heads * model.head_size / plan.tensor
    time = gather(size, context, inside, rates.links)

    def seen(work: Number, message: Number) -> Number:
        added = beside(work, message, message, rates.constants.overlap_slowdown) - work
        return where(context > 1.0, added, 0.0)

    return Both(seen(core.forward, time), seen(core.backward, 2.0 * time))


class Sharded(NamedTuple):
    """Seconds of a layer under FSDP, and of the unit that holds embedding and head."""

    forward: Number
    backward: Number
    edge: Number


def with_fsdp(
    model: Any,
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
    dense, routed = layer_weights(model), expert_weights(model, plan.expert)
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
        where(sharded, edge, 0.0),
    )


def data_group(plan: Any, rates: Rates) -> tuple[Number, Number]:
    """Return the ranks that share weights, and how many of them share a fast domain."""
    group = plan.data * plan.context
    return group, smaller(larger(rates.fast_domain / plan.tensor, 1.0), group)


def layer_weights(model: Any) -> Number:
    """Return the parameters of an average layer without its routed experts, of all tensor ranks.

    w = h (a + 2 k) d + a d h + (1 + g) h f + f h + 2 h

    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    hidden, size = model.hidden, model.head_size
    width, dense = model.heads * size, dense_share(model)
    plain = hidden * (model.heads + 2.0 * model.kv_heads) * size
    queries = where(
        model.q_rank > 0.0,
        hidden * model.q_rank + 1.5 * model.q_rank * width,
        1.5 * hidden * width,
    )
    latent = queries + hidden * (model.kv_rank + size / 2.0) + 2.0 * model.kv_rank * width
    mlp = (2.0 + model.gated) * hidden * model.feedforward
    routing = 3.0 * hidden * model.shared_feedforward + hidden * model.experts
    return (
        where(model.kv_rank > 0.0, latent, plain)
        + width * hidden
        + dense * mlp
        + (1.0 - dense) * routing
        + 2.0 * hidden
    )


def expert_weights(model: Any, expert: Number) -> Number:
    """Return the parameters of a layer's routed experts on one rank."""
    each = 3.0 * model.hidden * model.expert_feedforward
    return (1.0 - dense_share(model)) * model.experts / expert * each
