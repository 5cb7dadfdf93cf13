"""Attention with a softmax: in all of a sequence, in windows or chunks, among keys of an indexer.

Heads are projected one by one, or expanded from latents of low rank. A model's layers that see the
whole sequence and those with a window are one group where their heads are the same.
Source: docs/models/layers_2026.md, sections 2 to 4 and 10;
docs/models/parameters_flops_memory.md, sections 2.1, 3 and 4.5.
"""

from collections.abc import Callable
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
    times,
)
from jaxroof.estimators.training.layer.scores import (
    Core,
    Shape,
    all_keys,
    core_flops,
    core_seconds,
    full_shape,
    index_flops,
    index_seconds,
    mean_width,
    own_windows,
    selected_keys,
    selecting,
    share_of,
    window_keys,
    window_shape,
)
from jaxroof.estimators.training.rates import stream
from jaxroof.estimators.training.recipe import AttentionKernel, Module
from jaxroof.formulas.arithmetic import smaller, where
from jaxroof.formulas.network import all_to_all, beside, gather, placed
from jaxroof.records import Number


def attention(model: TrainingModel) -> list[tuple[str, Number, Operations]]:
    """Return the layers with attention: their name, number and operations."""
    full, local = model.full_layers, model.windowed_layers
    every, shape = full + local, full_shape(model)
    if own_windows(model):
        windows = window_shape(model)
        sunk = smaller(model.sink_layers, local)  # windows have the sinks first
        near = {"attention": _in_windows(windows), **_sinks(windows, share_of(sunk, local))}
        near = _heads(model, windows, 0.0) | near | _around(model, windows)
        far = _over_all(model, shape, 1.0, full)
        far |= _sinks(shape, share_of(model.sink_layers - sunk, full))
        return [
            ("full attention", full, _projections(model, shape, 1.0) | far | _around(model, shape)),
            ("windowed attention", local, {f"windowed {n}": one for n, one in near.items()}),
        ]
    share = share_of(local, every)
    core = _over_all(model, shape, 1.0 - share, every)
    core |= having(share, {"windowed attention": _in_windows(shape)})
    core |= _sinks(shape, share_of(model.sink_layers, every))
    projected = _projections(model, shape, 1.0 - share)
    return [("attention", every, projected | core | _around(model, shape))]


def _over_all(model: TrainingModel, shape: Shape, full: Number, layers: Number) -> Operations:
    """Return the cores of layers without a window, a share of some, and their indexers."""
    core = Core(shape, shape.kv_heads, shape.query + shape.value, all_keys)
    share = 1.0 - times(model.sparse, selecting(model))
    latents = 2.0 * model.kv_rank + model.rope_size  # keys and values are read as latents
    selected = Core(shape, 1.0, latents, selected_keys)
    sparse = {"attention to selected keys": _core(selected)._replace(share=1.0 - share)}
    return {
        **having(full * share, {"attention": _core(core)}),
        **having(model.sparse, having(full, sparse)),
        **having(model.sparse, having(share_of(model.index_layers, layers), _indexer(model))),
    }


def _in_windows(shape: Shape) -> Operation:
    return _core(Core(shape, shape.kv_heads, shape.query + shape.value, window_keys))


def _core(core: Core) -> Operation:
    return Operation(
        time="attention",
        kernel=lambda work: core_seconds(work, core),
        flops=lambda work: core_flops(work, core),
        again=(Module.CORE_ATTENTION,),
    )


def _sinks(shape: Shape, share: Number) -> Operations:
    """Return a sink a head: a score that takes weight from all keys; it costs no time."""
    return having(share, {"sinks": Operation("biases", vectors=Weights(sharded=shape.heads))})


def _around(model: TrainingModel, shape: Shape) -> Operations:
    """Return the product of the output, what is kept for it, and norms of heads.

    One norm for all heads at once is (a + kappa) d, divided by tensor ranks.
    """
    wide = model.qk_norm * model.wide_head_norms
    gains = Weights(
        sharded=wide * (shape.heads + shape.kv_heads) * shape.size,
        replicated=(1.0 - model.wide_head_norms) * model.head_norms * shape.size,
    )

    def kept(amount: Callable[[Kept, Shape], Number]) -> Callable[[Kept], Number]:
        return lambda kept: amount(kept, shape)

    return {
        "attention output": Operation(
            "attention",
            Matrix(shape.heads * shape.value, model.hidden, Cut.ROWS),
            time="matmul",
            saved=(
                Saved("attention_output", kept(_output), read=True),
                Saved("attention_output", kept(_gated)),
                Saved("attention_scores", kept(_statistics)),
                Saved("attention_scores", kept(_scores), dropped=(Module.CORE_ATTENTION,)),
            ),
        ),
        "norms of heads": Operation("norms", vectors=gains),
    }


# ---- Projections --------------------------------------------------------------------------------


def _projections(model: TrainingModel, shape: Shape, full: Number) -> Operations:
    """Return the projections of a layer; a share of such layers has no window."""
    heads = _heads(model, shape, model.shared_kv * full)
    return having(model.latent, _latents(model)) | having(1.0 - model.latent, heads)


def _heads(model: TrainingModel, shape: Shape, shared: Number) -> Operations:
    """Return projections whose queries, keys and values are made head by head.

    (1 + gate) a d + kappa (d + d_v); a share of the layers uses its keys as values
    """
    keys = shape.kv_heads * (shape.query + (1.0 - shared) * shape.value)
    queries = shape.heads * shape.query
    width = (1.0 + model.attention_gate) * queries + keys
    biases = Weights(model.projection_bias * (queries + keys), model.output_bias * model.hidden)
    return {
        "qkv": Operation(
            "attention",
            Matrix(model.hidden, width, Cut.COLUMNS),
            time="matmul",
            saved=(Saved("qkv", lambda kept: _queries(kept, shape), read=True),),
        ),
        "biases of attention": Operation("biases", vectors=biases),
    }


def _latents(model: TrainingModel) -> Operations:
    """Return projections to latents of low rank and from them; queries may have none (q = 0)."""
    queries = model.heads * (model.nope_size + model.rope_size)
    keys = model.heads * (model.nope_size + model.value_size)
    ranked = where(model.q_rank > 0.0, 1.0, 0.0)
    up: Any = {"again": (Module.LATENT_PROJECTION,), "cast_again": True}

    def matrix(inputs: Number, outputs: Number, cut: Cut, share: Number, **more: Any) -> Operation:
        return Operation(
            "attention", Matrix(inputs, outputs, cut), share=share, time="matmul", **more
        )

    return {
        "latent of queries": matrix(model.hidden, model.q_rank, Cut.WHOLE, ranked),
        "queries of their latent": matrix(model.q_rank, queries, Cut.COLUMNS, ranked, **up),
        "queries": matrix(model.hidden, queries, Cut.COLUMNS, 1.0 - ranked, **up),
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
            saved=(Saved("qkv", _expanded, dropped=up["again"], read=True),),
            **up,
        ),
        "norms of latents": Operation("norms", vectors=Weights(replicated=latent_norms(model))),
    }


def latent_norms(model: TrainingModel) -> Number:
    """Return the gains of the norms of both latents in a layer."""
    return model.latent * (model.q_rank + model.kv_rank)


def _indexer(model: TrainingModel) -> Operations:
    """Return an indexer: its products, the norm of its key, and the scores that choose keys."""
    read = where(model.q_rank > 0.0, model.q_rank, model.hidden)
    heads, size = model.index_heads, model.index_size
    return {
        "indexer queries": Operation(
            "indexer", Matrix(read, heads * size, Cut.COPIED_COLUMNS), time="matmul"
        ),
        "indexer keys": Operation(
            "indexer",
            Matrix(model.hidden, size + heads, Cut.WHOLE),
            vectors=Weights(replicated=2.0 * size),
            time="matmul",
        ),
        "indexer": Operation(
            time="attention",
            kernel=index_seconds,
            flops=index_flops,
            again=(Module.CORE_ATTENTION,),
            saved=(Saved("indexer", _indexed, dropped=(Module.CORE_ATTENTION,)),),
            momentary=lambda kept: 4.0 * kept.size.tokens * kept.inputs.model.sequence,
        ),
    }


# ---- Copies about it ----------------------------------------------------------------------------


def rotation(model: TrainingModel) -> Operations:
    """Return the copies of heads about the core, rotated in a model without learned positions."""
    return {"rotation": Operation(time="elementwise", kernel=_rotation)}


def _rotation(work: Work) -> Passes:
    """Return the seconds of these copies in the average layer, and of gates.

    4 N / t (a + r (a + kappa) + gate a) d bytes forward, r = [rotary]; 2 kappa + gate a more
    backward; none where no layer has attention
    """
    model, unit = work.model, work.rates.plain
    rotary = where(model.positions > 0.0, 0.0, model.rotary)
    queries = mean_width(model, lambda shape: shape.heads * shape.size)
    keys = mean_width(model, lambda shape: shape.kv_heads * shape.size)
    each, gate = 4.0 * work.tokens.group / work.plan.tensor, model.attention_gate * queries
    forward = queries + rotary * (queries + keys) + gate
    attends = where(model.full_layers + model.windowed_layers > 0.0, 1.0, 0.0)
    return Passes(
        attends * stream(each * forward, 1.0 + rotary, unit),
        attends * stream(each * (forward + 2.0 * keys + gate), 1.0 + rotary, unit),
    )


# ---- Messages and saved bytes -------------------------------------------------------------------


def exchange(work: Work, core: Passes) -> Passes:
    """Return what the exchange among context ranks adds to the attention of the average layer.

    A ring passes keys and values round beside the attention, 4 N c kappa d / t bytes; all-to-all
    exchanges the tokens of queries, keys and values for heads before it, and those of its output
    back, which nothing hides. Windows do not shrink either.
    """
    model, plan, network = work.model, work.plan, work.rates.network
    constants, ranks, tokens = work.rates.constants, plan.context, work.tokens.group
    group = placed(network, ranks, plan.tensor)
    keys = mean_width(model, lambda shape: shape.kv_heads * shape.size)
    time = gather(4.0 * tokens * ranks * keys / plan.tensor, group, network)

    def seen(seconds: Number, message: Number) -> Number:
        added = beside(seconds, message, message, constants.overlap_slowdown) - seconds
        return where(ranks > 1.0, added, 0.0)

    def exchanged(width: Number) -> Number:
        sizes = (2.0 * tokens * width / plan.tensor,) * len(network.tiers)
        return all_to_all(sizes, group, network, constants.all_to_all)

    output = mean_width(model, lambda shape: shape.heads * shape.value)
    queries = mean_width(model, lambda shape: shape.heads * shape.query)
    both = mean_width(model, lambda shape: shape.kv_heads * (shape.query + shape.value))
    scattered = exchanged(queries + both) + exchanged(output)
    ring = plan.exchange > 0.0
    return Passes(
        where(ring, seen(core.forward, time), scattered),
        where(ring, seen(core.backward, 2.0 * time), scattered),
    )


def _queries(kept: Kept, shape: Shape) -> Number:
    """Return beta T ((1 + gate) a d + kappa (d + d_v) + [norms of heads] (a + kappa) d) / t.

    Norms of heads keep their input too.
    """
    model, beta = kept.inputs.model, kept.inputs.activations.activation_bytes
    queries, keys = shape.heads * shape.query, shape.kv_heads * shape.query
    width = (1.0 + model.attention_gate) * queries + keys + shape.kv_heads * shape.value
    width = width + model.qk_norm * (queries + keys)
    return beta * kept.size.tokens * width / kept.inputs.plan.tensor


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


def _output(kept: Kept, shape: Shape) -> Number:
    """Return w T a v / t, w = lambda, and beta more where a second copy is kept.

    An all-to-all exchange of the context, or a batch-first kernel, keeps the second copy.
    """
    inputs, recipe = kept.inputs, kept.recipe
    plan, acts = inputs.plan, inputs.activations
    exchanged = (plan.context > 1.0) & (plan.exchange == 0.0)
    batch_first = (plan.context == 1.0) & (recipe.attention_kernel is AttentionKernel.FLASH)
    second = where(exchanged | batch_first, acts.activation_bytes, 0.0)
    rows = shape.heads * shape.value
    return (acts.linear_input_bytes + second) * kept.size.tokens * rows / plan.tensor


def _gated(kept: Kept, shape: Shape) -> Number:
    """Return gate beta T a v / t: the output before its gate, and with latents the gate."""
    model, beta = kept.inputs.model, kept.inputs.activations.activation_bytes
    copies = model.attention_gate * (1.0 + model.latent)
    return copies * beta * kept.size.tokens * shape.heads * shape.value / kept.inputs.plan.tensor


def _statistics(kept: Kept, shape: Shape) -> Number:
    """Return 4 T a / t: what a fused kernel keeps instead of its scores, in fp32."""
    if kept.recipe.attention_kernel is AttentionKernel.UNFUSED:
        return 0.0
    return 4.0 * kept.size.tokens * shape.heads / kept.inputs.plan.tensor


def _scores(kept: Kept, shape: Shape) -> Number:
    """Return (beta + [dropout] (1 + beta)) b a s^2 / (t C): scores, a mask and dropout's output."""
    if kept.recipe.attention_kernel is not AttentionKernel.UNFUSED:
        return 0.0
    inputs, acts = kept.inputs, kept.inputs.activations
    plan, beta, sequence = inputs.plan, acts.activation_bytes, inputs.model.sequence
    width = beta + acts.attention_dropout * (1.0 + beta)
    rows = width * plan.microbatch * shape.heads * sequence
    return rows * sequence / (plan.tensor * plan.context)


def _indexed(kept: Kept) -> Number:
    """Return T (beta (a_i + 1) d_i + 4 a_i + 4 k): queries, key, weights of heads and choices."""
    model, beta = kept.inputs.model, kept.inputs.activations.activation_bytes
    heads, chosen = model.index_heads, smaller(model.index_topk, model.sequence)
    width = beta * (heads + 1.0) * model.index_size + 4.0 * heads + 4.0 * chosen
    return kept.size.tokens * width
