"""Attention of a layer, with heads projected one by one or expanded from latents.

Source: docs/models/parameters_flops_memory.md, sections 2.1, 3 and 4.5;
docs/models/training_step_today.md, section 4.
"""

from typing import Any

from jaxroof.estimators.training.inputs import TrainingModel
from jaxroof.estimators.training.layer.operation import (
    Cut,
    Kept,
    Matrix,
    Operation,
    Operations,
    Passes,
    Saved,
    Weights,
    Work,
    having,
)
from jaxroof.estimators.training.rates import batched_product, stream
from jaxroof.estimators.training.recipe import AttentionKernel, Module
from jaxroof.formulas.arithmetic import smaller, where
from jaxroof.formulas.network import all_to_all, beside, gather, placed
from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number

BACKWARD = 2.5  # times the work of its forward pass that a causal kernel does, scores again


def attention(model: TrainingModel) -> Operations:
    """Return attention: projections, its core, and norms of heads."""
    _, value = head_widths(model)
    return {
        **having(model.latent, _latents(model)),
        **having(1.0 - model.latent, _heads(model)),
        "attention": Operation(
            time="attention",
            kernel=core,
            flops=core_flops,
            message=exchange,
            sent="context_comm",
            again=(Module.CORE_ATTENTION,),
            saved=(
                Saved("attention_output", _output, read=True),
                Saved("attention_scores", _statistics),
                Saved("attention_scores", _scores, dropped=(Module.CORE_ATTENTION,)),
            ),
        ),
        "attention output": Operation(
            "attention", Matrix(model.heads * value, model.hidden, Cut.ROWS), time="matmul"
        ),
        "norms of heads": Operation(
            "norms", vectors=Weights(replicated=model.head_norms * model.head_size)
        ),
    }


def _heads(model: TrainingModel) -> Operations:
    """Return projections whose queries, keys and values are made head by head."""
    width = (model.heads + 2.0 * model.kv_heads) * model.head_size
    biases = Weights(model.projection_bias * width, model.output_bias * model.hidden)
    return {
        "qkv": Operation(
            "attention",
            Matrix(model.hidden, width, Cut.COLUMNS),
            time="matmul",
            saved=(Saved("qkv", _queries, read=True),),
        ),
        "biases of attention": Operation("biases", vectors=biases),
    }


def _latents(model: TrainingModel) -> Operations:
    """Return projections to latents of low rank and from them; queries may have none (q = 0)."""
    queries = model.heads * (model.nope_size + model.rope_size)
    keys = model.heads * (model.nope_size + model.value_size)
    ranked = where(model.q_rank > 0.0, 1.0, 0.0)
    again = (Module.LATENT_PROJECTION,)

    def matrix(inputs: Number, outputs: Number, cut: Cut, share: Number, **more: Any) -> Operation:
        return Operation(
            "attention", Matrix(inputs, outputs, cut), share=share, time="matmul", **more
        )

    return {
        "latent of queries": matrix(model.hidden, model.q_rank, Cut.WHOLE, ranked),
        "queries of their latent": matrix(model.q_rank, queries, Cut.COLUMNS, ranked, again=again),
        "queries": matrix(model.hidden, queries, Cut.COLUMNS, 1.0 - ranked),
        "latent of keys and values": matrix(
            model.hidden,
            model.kv_rank + model.rope_size,
            Cut.WHOLE,
            1.0,
            saved=(Saved("latents", _both_latents, read=True),),
        ),
        "keys and values of it": matrix(
            model.kv_rank,
            keys,
            Cut.COLUMNS,
            1.0,
            again=again,
            saved=(Saved("qkv", _expanded, dropped=again, read=True),),
        ),
        "norms of latents": Operation(
            "norms", vectors=Weights(replicated=model.q_rank + model.kv_rank)
        ),
    }


def head_widths(model: TrainingModel) -> tuple[Number, Number]:
    """Return the width of a head's queries and keys, and that of its values.

    (d, d), or with latents (nope + rope, value)
    """
    latent = model.latent > 0.0
    return (
        where(latent, model.nope_size + model.rope_size, model.head_size),
        where(latent, model.value_size, model.head_size),
    )


# ---- Its core -----------------------------------------------------------------------------------


def score_width(model: TrainingModel) -> Number:
    """Return the multiply-adds of scores and values for a query and a key: a (d_q + d_v)."""
    return model.heads * sum(head_widths(model))


def halved_context(sequence: Number, window: Number) -> Number:
    """Return the keys that a causal query meets on average, by the half of a square.

    c = w (1 - w / 2 s), which is s / 2 without a window (w = 0)

    """
    width = _width(sequence, window)
    return width * (1.0 - width / (2.0 * sequence))


def exact_context(sequence: Number, window: Number) -> Number:
    """Return the keys that a causal query meets on average, its own included.

    c = (w s - w (w - 1) / 2) / s, which is (s + 1) / 2 without a window (w = 0)

    """
    width = _width(sequence, window)
    return (width * sequence - width * (width - 1.0) / 2.0) / sequence


def _width(sequence: Number, window: Number) -> Number:
    return where(window > 0.0, smaller(window, sequence), sequence)


def core(work: Work) -> Passes:
    """Return the seconds of the attention core: one kernel, or two products and a softmax.

    Assumes: the mean over layers with a window and without; products and softmax skip nothing.
    """
    local = work.model.windowed_layers / work.model.layers
    if not work.rates.flash:
        return _unfused(work)
    whole, near = (_flash(work, window) for window in (0.0, work.model.window))
    flash = ((1.0 - local) * a + local * b for a, b in zip(whole[:2], near[:2], strict=True))
    return Passes(*flash)


def core_flops(work: Work) -> Passes:
    """Return the FLOP of the attention core: below the diagonal in one kernel, else all."""
    model, sequence = work.model, work.model.sequence
    local = model.windowed_layers / model.layers
    if not work.rates.flash:
        batch = work.plan.microbatch * model.heads / work.plan.tensor
        plain = 2.0 * batch * sequence * sequence * sum(head_widths(model))
        return Passes(plain, 2.0 * plain)
    whole, near = (_causal_flops(work, window) for window in (0.0, model.window))
    flash = (1.0 - local) * whole + local * near
    return Passes(flash, BACKWARD * flash)


def _causal_flops(work: Work, window: Number) -> Number:
    """Return the FLOP of a causal kernel, half a tile of the diagonal computed in vain.

    F = N (2 c - 1 + tile) a (d_q + d_v) / t, with the keys c that a query meets on average, its own
    included; without a window 2 c - 1 = s
    """
    met = 2.0 * exact_context(work.model.sequence, window) - 1.0
    widths = score_width(work.model) / work.plan.tensor
    return work.tokens.group * (met + work.rates.constants.tile) * widths


def _flash(work: Work, window: Number) -> Passes:
    """Return the seconds of a causal kernel, at the rate of its values' width."""
    model, rates = work.model, work.rates
    (_, size), flops = head_widths(model), _causal_flops(work, window)
    rate = rates.attention * size / (size + 16.0)
    rows = (model.heads + model.kv_heads) * size / work.plan.tensor
    moved = 4.0 * work.tokens.group * rows
    memory, launch = rates.plain.memory, rates.plain.launch
    slower = BACKWARD * flops / (rate * rates.constants.backward_attention)
    return Passes(
        smooth_larger(flops / rate, moved / memory) + launch,
        smooth_larger(slower, 2.0 * moved / memory) + 3.0 * launch,
    )


def _unfused(work: Work) -> Passes:
    """Return the seconds of products over the full square, softmax and dropout."""
    model, plan, sequence, unit = work.model, work.plan, work.model.sequence, work.rates.plain
    batch, drop = plan.microbatch * model.heads / plan.tensor, work.software.dropout
    query, value = head_widths(model)
    elements = batch * sequence**2 / plan.context
    both = batched_product(batch, sequence, sequence, query, unit)
    both = both + batched_product(batch, sequence, value, sequence, unit)
    return Passes(
        both + stream(elements * (4.0 + 5.0 * drop), 1.0 + drop, unit),
        2.0 * both + stream(elements * (6.0 + 5.0 * drop), 1.0 + drop, unit),
    )


def rotation(model: TrainingModel) -> Operations:
    """Return the copies of heads about the core, rotated in a model without learned positions."""
    return {"rotation": Operation(time="elementwise", kernel=_rotation, launched=0.0)}


def _rotation(work: Work) -> Passes:
    """Return 4 N (a + [rotary] (a + kappa)) d / t bytes forward, and 2 kappa more backward."""
    model, unit = work.model, work.rates.plain
    rotary = where(model.positions > 0.0, 0.0, 1.0)
    forward = model.heads + rotary * (model.heads + model.kv_heads)
    each = 4.0 * work.tokens.group * head_widths(model)[1] / work.plan.tensor
    return Passes(
        stream(each * forward, 1.0 + rotary, unit),
        stream(each * (forward + 2.0 * model.kv_heads), 1.0 + rotary, unit),
    )


# ---- Messages and saved bytes -------------------------------------------------------------------


def exchange(work: Work, core: Passes) -> Passes:
    """Return what the exchange among context ranks adds to attention.

    A ring passes keys and values round beside the attention; all-to-all exchanges the tokens of
    queries, keys and values for heads before it, and those of its output back, which nothing hides.
    """
    model, plan, network = work.model, work.plan, work.rates.network
    constants, context, tokens = work.rates.constants, plan.context, work.tokens.group
    group = placed(network, context, plan.tensor)
    queries, values = head_widths(model)
    widths = model.kv_heads * (queries + values) / plan.tensor
    time = gather(2.0 * tokens * context * widths, group, network)

    def seen(seconds: Number, message: Number) -> Number:
        added = beside(seconds, message, message, constants.overlap_slowdown) - seconds
        return where(context > 1.0, added, 0.0)

    def exchanged(width: Number) -> Number:
        sizes = (2.0 * tokens * width,) * len(network.tiers)
        return all_to_all(sizes, group, network, constants.scatter_rate)

    output = model.heads * values / plan.tensor
    both = exchanged(model.heads * queries / plan.tensor + widths) + exchanged(output)
    ring = plan.exchange > 0.0
    return Passes(
        where(ring, seen(core.forward, time), both),
        where(ring, seen(core.backward, 2.0 * time), both),
    )


def _queries(kept: Kept) -> Number:
    """Return beta T (a + 2 kappa + [query/key norms] (a + kappa)) d / t, norms with their input."""
    model, beta = kept.inputs.model, kept.inputs.activations.activation_bytes
    heads = model.heads + 2.0 * model.kv_heads + model.qk_norm * (model.heads + model.kv_heads)
    return beta * kept.size.tokens * heads * model.head_size / kept.inputs.plan.tensor


def _both_latents(kept: Kept) -> Number:
    """Return (beta + lambda) T (q + c) / sigma + beta T e: before and after norms, rotated key."""
    model, acts, size = kept.inputs.model, kept.inputs.activations, kept.size
    width = acts.activation_bytes + acts.linear_input_bytes
    latents = width * size.tokens * (model.q_rank + model.kv_rank) / size.shards
    return latents + acts.activation_bytes * size.tokens * model.rope_size


def _expanded(kept: Kept) -> Number:
    """Return beta T a (2 (n + e) + v) / t: keys and values expanded for every head."""
    model, beta = kept.inputs.model, kept.inputs.activations.activation_bytes
    width = 2.0 * (model.nope_size + model.rope_size) + model.value_size
    return beta * kept.size.tokens * model.heads * width / kept.inputs.plan.tensor


def _output(kept: Kept) -> Number:
    """Return w T a v / t, w = lambda, and beta more where a second copy is kept.

    An all-to-all exchange of the context, or a batch-first kernel, keeps the second copy.
    """
    inputs, recipe = kept.inputs, kept.recipe
    model, plan, acts = inputs.model, inputs.plan, inputs.activations
    exchanged = (plan.context > 1.0) & (plan.exchange == 0.0)
    batch_first = (plan.context == 1.0) & (recipe.attention_kernel is AttentionKernel.FLASH)
    second = where(exchanged | batch_first, acts.activation_bytes, 0.0)
    rows = model.heads * head_widths(model)[1]
    return (acts.linear_input_bytes + second) * kept.size.tokens * rows / plan.tensor


def _statistics(kept: Kept) -> Number:
    """Return 4 T a / t: what a fused kernel keeps instead of its scores, in fp32."""
    if kept.recipe.attention_kernel is AttentionKernel.UNFUSED:
        return 0.0
    return 4.0 * kept.size.tokens * kept.inputs.model.heads / kept.inputs.plan.tensor


def _scores(kept: Kept) -> Number:
    """Return (beta + [dropout] (1 + beta)) b a s^2 / (t C): scores, a mask and dropout's output."""
    if kept.recipe.attention_kernel is not AttentionKernel.UNFUSED:
        return 0.0
    inputs, acts = kept.inputs, kept.inputs.activations
    plan, beta = inputs.plan, acts.activation_bytes
    width = beta + acts.attention_dropout * (1.0 + beta)
    sequence = inputs.model.sequence
    rows = width * plan.microbatch * inputs.model.heads * sequence
    return rows * sequence / (plan.tensor * plan.context)
