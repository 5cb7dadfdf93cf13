"""Seconds of every kernel of one layer and one microbatch, and of the messages beside them.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.training.expert_time import (
    ExpertTime,
    expert_exchange,
    routed_experts,
    whole_experts,
)
from jaxroof.estimators.training.layer_kernels import activation, attention, elementwise, norms
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.product_times import (
    Both,
    Directions,
    Layer,
    cast,
    casts,
    dense_share,
    head_widths,
    layer_products,
    seconds,
    summed,
)
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.recipe import Module, repeats
from jaxroof.estimators.training.software import Software
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.ring_times import all_reduce, all_to_all, beside, gather
from jaxroof.records import Number


class Tokens(NamedTuple):
    """Tokens of one microbatch, and the messages of a tensor group that carry them."""

    group: Number  # of one tensor group
    norm: Number  # of one rank, in norms and residuals
    rank: Number  # of one rank, all ranks sharing
    gathered: Number  # all-gather or reduce-scatter of the hidden states [s]
    reduced: Number  # all-reduce of the hidden states [s]
    message: Number  # bytes of the hidden states of a tensor group


class LayerWork(NamedTuple):
    """Seconds of an average layer and one microbatch, before the host's limit."""

    tokens: Tokens
    products: Layer
    routing: Number  # share of the layers that route
    routed: ExpertTime  # of a layer that routes
    matmul: Both
    cast: Both
    attention: Both
    elementwise: Both
    experts: Both
    tensor: Both  # messages that nothing hides
    context: Both
    exchange: Number  # in either direction
    again: Number  # what the backward pass computes and sends again
    weights: Number  # of the backward pass: products that weight gradients alone need
    host: Both  # least time


def tokens_of(
    model: MemoryModel,
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


def layer_work(
    model: MemoryModel,
    sequence: Number,
    plan: Any,
    rates: Rates,
    software: Software,
    modules: frozenset[Module],
) -> LayerWork:
    """Return the seconds of the kernels and messages of an average layer, one microbatch.

    Arguments: ``modules`` are those that selective recomputation computes again.
    Assumes: a layer is the mean of dense and routing ones; causal work is even over context ranks.
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    tensor, tokens = plan.tensor, tokens_of(model, sequence, plan, rates, software)
    products = layer_products(model, tensor, tokens.group)
    columns, rows = ({name: seconds(one, rates) for name, one in some.items()} for some in products)
    forward, inputs, weights = summed((columns | rows).values())
    matmul = Both(forward, inputs + weights)
    core = attention(model, sequence, plan.microbatch, tensor, plan.context, rates, software)
    plain = elementwise(model, tokens.group, tokens.norm, tensor, rates, software)
    cast, routing = casts(products, rates), 1.0 - dense_share(model)
    routed = routed_experts(model, tokens.rank, plan, rates)
    experts = Both(*(routing * time for time in whole_experts(routed)))
    exchange = routing * expert_exchange(model, tokens.rank, plan, rates, software)
    messages = tensor_messages(matmul, summed(columns.values()), tensor, tokens, rates, software)
    ring = context_messages(model, plan, rates, core, tokens)
    forward = sum((matmul.forward, cast.forward, core.forward, plain.forward, experts.forward))
    parts = {
        "attention": Part(core.forward, 1.0),
        "context": Part(ring.forward),
        "exchange": Part(exchange),
        **_products(products, columns | rows, rates),
        **_experts(routed, routing),
        **_second_half(model, tokens, messages.forward, plan, rates),
    }
    full, some = software.recompute_full, software.recompute_selective
    repeated = [parts[name] for name in repeats(modules)]
    again = forward + messages.forward + ring.forward + exchange
    again = full * (again - software.early_stop * rows["down"].forward)
    again = again + some * sum(part.time for part in repeated)
    launched = sum(part.share for part in repeated) / sum(part.share for part in parts.values())
    host = rates.host + routing * rates.host_experts
    return LayerWork(
        tokens=tokens,
        products=products,
        routing=routing,
        routed=routed,
        matmul=matmul,
        cast=cast,
        attention=core,
        elementwise=plain,
        experts=experts,
        tensor=messages,
        context=ring,
        exchange=exchange,
        again=again,
        weights=weights + routing * (routed.up.weights + routed.down.weights),
        host=Both(host, host * (1.0 + full + some * launched)),
    )


class Part(NamedTuple):
    """What may be computed or sent again: its seconds forward, of the average layer."""

    time: Number
    share: Number = 0.0  # of the layers that launch it as a kernel


def _products(products: Layer, times: dict[str, Directions], rates: Rates) -> dict[str, Part]:
    """Return the products, each with the cast of its inputs."""
    every = products.by_columns | products.by_rows
    return {
        name: Part(times[name].forward + cast(one, rates).forward, one.share)
        for name, one in every.items()
    }


def _experts(time: ExpertTime, routing: Number) -> dict[str, Part]:
    """Return the kernels of the routed experts."""
    each = {
        "router": time.router.forward,
        "router_scores": time.scores,
        "permutation": time.permutation,
        "routed_up": time.up.forward,
        "routed_activation": time.activation.forward,
        "routed_down": time.down.forward,
        "routed_cast": time.cast.forward,
    }
    return {name: Part(routing * seconds, routing) for name, seconds in each.items()}


def _second_half(
    model: MemoryModel, tokens: Tokens, messages: Number, plan: Any, rates: Rates
) -> dict[str, Part]:
    """Return both norms, and activations and tensor messages of the half beside attention.

    Assumes: half of the tensor messages are attention's.
    """
    dense, half = dense_share(model), messages / 2.0
    with_shared = where(model.shared_feedforward > 0.0, 1.0, 0.0)
    shared, alone = (1.0 - dense) * with_shared, (1.0 - dense) * (1.0 - with_shared)

    def active(width: Number, share: Number) -> Part:
        return Part(activation(tokens.group, width / plan.tensor, share, model, rates), share)

    return {
        "norms": Part(norms(tokens.norm, model, rates), 1.0),
        "activation": active(model.feedforward, dense),
        "shared_activation": active(model.shared_feedforward, shared),
        "mlp_messages": Part(dense * half),
        "shared_messages": Part(shared * half),
        "expert_messages": Part(alone * half),
    }


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
    model: MemoryModel,
    plan: Any,
    rates: Rates,
    core: Both,
    tokens: Tokens,
) -> Both:
    """Return what the exchange among context ranks adds to attention.

    A ring passes keys and values round beside the attention; all-to-all exchanges the tokens of
    queries, keys and values for heads before it, and those of its output back, which nothing hides.

    Source: docs/models/training_step_today.md, section 4.
    """
    context, links = plan.context, rates.links
    inside = smaller(larger(rates.fast_domain / plan.tensor, 1.0), context)
    queries, values = head_widths(model)
    widths = model.kv_heads * (queries + values) / plan.tensor
    time = gather(2.0 * tokens.group * context * widths, context, inside, links)

    def seen(work: Number, message: Number) -> Number:
        added = beside(work, message, message, rates.constants.overlap_slowdown) - work
        return where(context > 1.0, added, 0.0)

    def exchanged(width: Number) -> Number:
        size = 2.0 * tokens.group * width
        return all_to_all(size, size, context, inside, links, rates.constants.scatter_rate)

    output = model.heads * values / plan.tensor
    both = exchanged(model.heads * queries / plan.tensor + widths) + exchanged(output)
    ring = plan.exchange > 0.0
    return Both(
        where(ring, seen(core.forward, time), both),
        where(ring, seen(core.backward, 2.0 * time), both),
    )
