"""Scores of attention with a softmax: its heads, the keys that a query meets, and its kernels.

Source: docs/models/layers_2026.md, sections 3 and 4;
docs/models/training_step_today.md, section 4.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxroof.estimators.training.inputs import TrainingModel
from jaxroof.estimators.training.layer.operation import Passes, Work
from jaxroof.estimators.training.rates import batched_product, stream
from jaxroof.formulas.arithmetic import floor, smaller, where
from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number, value_or

BACKWARD = 2.5  # times the work of its forward pass that a causal kernel does, scores again


class Shape(NamedTuple):
    """The heads of a layer."""

    heads: Number
    kv_heads: Number
    size: Number  # width of one, as it is rotated and as context ranks exchange it
    query: Number  # width of its queries and keys
    value: Number  # width of its values


def full_shape(model: TrainingModel) -> Shape:
    """Return the heads of layers that see the whole sequence.

    (d_q, d_v) = (d, d), or (d, value) with values of another width, or (nope + rope, value) with
    latents
    """
    size = model.head_size
    query = where(model.latent > 0.0, model.nope_size + model.rope_size, size)
    value = where(model.value_size > 0.0, model.value_size, size)
    return Shape(model.heads, model.kv_heads, size, query, value)


def window_shape(model: TrainingModel) -> Shape:
    """Return the heads of layers with a window: those of the others, unless given."""
    if not own_windows(model):
        return full_shape(model)
    size = value_or(model.window_head_size, model.head_size)
    other = (model.value_size > 0.0) & (model.latent == 0.0)
    return Shape(
        value_or(model.window_heads, model.heads),
        value_or(model.window_kv_heads, model.kv_heads),
        size,
        size,
        where(other, model.value_size, size),
    )


def own_windows(model: TrainingModel) -> bool:
    """Return whether layers with a window have heads of their own."""
    given = (model.window_heads, model.window_kv_heads, model.window_head_size)
    return any(value_or(one, None) is not None for one in given)


def share_of(some: Number, layers: Number) -> Number:
    """Return the share of some layers, 0 of none."""
    return where(layers > 0.0, some / where(layers > 0.0, layers, 1.0), 0.0)


def selecting(model: TrainingModel) -> Number:
    """Return the share of the full layers that attend to selected keys: psi = min(i / l_f, 1)."""
    return smaller(share_of(model.index_layers, model.full_layers), 1.0)


# ---- The keys that a query meets -----------------------------------------------------------------


def score_width(shape: Shape) -> Number:
    """Return the multiply-adds of scores and values for a query and a key: a (d_q + d_v)."""
    return shape.heads * (shape.query + shape.value)


def context(sequence: Number, window: Number, more: Number) -> Number:
    """Return the keys that a causal query meets on average, of the last w (all if w = 0).

    k = u (1 - u / 2 s) + more u / 2 s, u = min(w, s): a half of a square, with more = 1 exact, the
    query's own key included
    """
    width = _width(sequence, window)
    return width * (1.0 - width / (2.0 * sequence)) + more * width / (2.0 * sequence)


def chunk_context(sequence: Number, chunk: Number, more: Number) -> Number:
    """Return the keys that a causal query meets on average in its chunk of a sequence.

    k = (q c (c + more) + z (z + more)) / 2 s, q = floor(s / c), z = s - q c
    """
    width = _width(sequence, chunk)
    chunks = floor(sequence / width)
    rest = sequence - chunks * width
    return (chunks * width * (width + more) + rest * (rest + more)) / (2.0 * sequence)


def window_context(model: TrainingModel, more: Number) -> Number:
    """Return the keys that a query meets on average in layers with a window or chunks."""
    sliding, chunks = (
        context_of(model.sequence, model.window, more) for context_of in (context, chunk_context)
    )
    return where(model.chunked > 0.0, chunks, sliding)


def _width(sequence: Number, window: Number) -> Number:
    return where(window > 0.0, smaller(window, sequence), sequence)


def all_keys(model: TrainingModel, tile: Number) -> Number:
    """Return (s + tile) / 2, half a tile of the diagonal computed in vain."""
    return (model.sequence + tile) / 2.0


def window_keys(model: TrainingModel, tile: Number) -> Number:
    """Return (u + tile) (1 - u / 2 s) of a sliding window, whole tiles of chunks.

    Assumes: a window never meets more than no window, which it would by the first formula where it
    is less than a tile shorter than the sequence.
    """
    sequence, width = model.sequence, _width(model.sequence, model.window)
    sliding = (width + tile) * (1.0 - width / (2.0 * sequence))
    chunks = chunk_context(sequence, model.window, tile)
    return where(model.chunked > 0.0, chunks, smaller(sliding, all_keys(model, tile)))


def selected_keys(model: TrainingModel, tile: Number) -> Number:
    """Return those of an indexer's choice: its number, and tiles of what comes before."""
    return context(model.sequence, model.index_topk, tile)


def token_scores(model: TrainingModel, more: Number) -> Number:
    """Return the multiply-adds of scores and values of one token in all layers.

    Keys are those of ``context``: halved with more = 0, exact with 1.
    """
    full = model.full_layers
    selected = model.sparse * selecting(model) * full
    whole_sequence = (full - selected) * (model.sequence + more) / 2.0
    some = selected * context(model.sequence, model.index_topk, more)
    windows = model.windowed_layers * window_context(model, more)
    far, near = score_width(full_shape(model)), score_width(window_shape(model))
    return far * (whole_sequence + some) + near * windows


def index_scores(model: TrainingModel) -> Number:
    """Return the multiply-adds of one token with the keys of all indexers."""
    each = model.index_heads * model.index_size * (model.sequence + 1.0) / 2.0
    return model.sparse * model.index_layers * each


# ---- Its core -----------------------------------------------------------------------------------


class Core(NamedTuple):
    """What the core of attention computes in a layer."""

    shape: Shape
    kv_heads: Number  # as the kernel reads them
    widths: Number  # multiply-adds of a query head and a key
    keys: Callable[[TrainingModel, Number], Number]  # that a query meets, in tiles


def core_seconds(work: Work, core: Core) -> Passes:
    """Return the seconds of the attention core: one kernel, or two products and a softmax."""
    return _flash(work, core) if work.rates.flash else _unfused(work, core.shape)


def core_flops(work: Work, core: Core) -> Passes:
    """Return the FLOP of the attention core: of the keys met in one kernel, else of all.

    F = 2 N k a (d_q + d_v) / t
    """
    model, plan, shape = work.model, work.plan, core.shape
    if not work.rates.flash:
        batch = plan.microbatch * shape.heads / plan.tensor
        plain = 2.0 * batch * model.sequence * model.sequence * (shape.query + shape.value)
        return Passes(plain, 2.0 * plain)
    keys = core.keys(model, work.rates.constants.tile)
    flash = 2.0 * work.tokens.group * keys * shape.heads * core.widths / plan.tensor
    return Passes(flash, BACKWARD * flash)


def _flash(work: Work, core: Core) -> Passes:
    """Return the seconds of a causal kernel, at the rate of its values' width."""
    shape, rates = core.shape, work.rates
    flops = core_flops(work, core)
    rate = rates.attention * shape.value / (shape.value + 16.0)
    rows = (shape.heads + core.kv_heads) * shape.value / work.plan.tensor
    moved = 4.0 * work.tokens.group * rows
    memory, launch = rates.plain.memory, rates.plain.launch
    slower = flops.inputs / (rate * rates.constants.backward_attention)
    return Passes(
        smooth_larger(flops.forward / rate, moved / memory) + launch,
        smooth_larger(slower, 2.0 * moved / memory) + 3.0 * launch,
    )


def _unfused(work: Work, shape: Shape) -> Passes:
    """Return the seconds of products over the full square, softmax and dropout; none is skipped."""
    plan, sequence, unit = work.plan, work.model.sequence, work.rates.plain
    batch, drop = plan.microbatch * shape.heads / plan.tensor, work.software.dropout
    elements = batch * sequence**2 / plan.context
    both = batched_product(batch, sequence, sequence, shape.query, unit)
    both = both + batched_product(batch, sequence, shape.value, sequence, unit)
    return Passes(
        both + stream(elements * (4.0 + 5.0 * drop), 1.0 + drop, unit),
        2.0 * both + stream(elements * (6.0 + 5.0 * drop), 1.0 + drop, unit),
    )


def index_flops(work: Work) -> Passes:
    """Return the FLOP of an indexer's scores: 2 N (s + tile) / 2 a_i d_i / t."""
    model, keys = work.model, all_keys(work.model, work.rates.constants.tile)
    flops = 2.0 * work.tokens.group * keys * model.index_heads * model.index_size / work.plan.tensor
    return Passes(flops, 2.0 * flops)


def index_seconds(work: Work) -> Passes:
    """Return the seconds of an indexer: its scores, written and searched in 8 bytes each."""
    scores = 8.0 * work.tokens.group * (work.model.sequence + 1.0) / 2.0
    time = index_flops(work).forward / work.rates.attention
    time = time + stream(scores, 2.0, work.rates.plain)
    return Passes(time, 2.0 * time)


def mean_width(model: TrainingModel, width: Callable[[Shape], Number]) -> Number:
    """Return a width of the average layer: alpha_f of full ones, alpha_w of those with a window."""
    far, near = model.full_layers / model.layers, model.windowed_layers / model.layers
    if not own_windows(model):
        return (far + near) * width(full_shape(model))
    return far * width(full_shape(model)) + near * width(window_shape(model))
