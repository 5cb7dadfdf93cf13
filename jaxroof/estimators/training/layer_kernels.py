"""Seconds of attention and of element-wise kernels of one layer on one tensor rank.

Source: docs/models/training_step_today.md, section 4.
"""

from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.product_times import Both, dense_share, head_widths
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.software import Software
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.kernel_times import batched_product, stream
from jaxroof.formulas.model_flops import exact_context
from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number


def attention(
    model: MemoryModel,
    sequence: Number,
    microbatch: Number,
    tensor: Number,
    context: Number,
    rates: Rates,
    software: Software,
) -> Both:
    """Return the seconds of the attention core: one kernel, or two products and a softmax.

    Assumes: the mean over layers with a window and without; products and softmax skip nothing.
    """
    tokens, local = microbatch * sequence / context, windowed_share(model)
    whole, near = (
        _flash(model, sequence, window, tokens, tensor, rates) for window in (0.0, model.window)
    )
    flash = ((1.0 - local) * a + local * b for a, b in zip(whole, near, strict=True))
    plain = _unfused(model, sequence, microbatch, tensor, context, rates, software)
    one = software.flash > 0.0
    return Both(*(where(one, a, b) for a, b in zip(flash, plain, strict=True)))


def attention_flops(
    model: MemoryModel,
    sequence: Number,
    microbatch: Number,
    tensor: Number,
    context: Number,
    rates: Rates,
    software: Software,
) -> Both:
    """Return the FLOP of the attention core: below the diagonal in one kernel, else all."""
    tokens, local = microbatch * sequence / context, windowed_share(model)
    whole, near = (
        _causal_flops(model, sequence, window, tokens, tensor, rates)
        for window in (0.0, model.window)
    )
    flash = (1.0 - local) * whole + local * near
    batch = microbatch * model.heads / tensor
    plain = 2.0 * batch * sequence * sequence * sum(head_widths(model))
    one = software.flash > 0.0
    return Both(where(one, flash, plain), where(one, BACKWARD * flash, 2.0 * plain))


BACKWARD = 2.5  # times the work of its forward pass that a causal kernel does, scores again


def windowed_share(model: MemoryModel) -> Number:
    """Return the share of the layers whose attention has a window."""
    return model.windowed_layers / model.layers


def _causal_flops(
    model: MemoryModel,
    sequence: Number,
    window: Number,
    tokens: Number,
    tensor: Number,
    rates: Rates,
) -> Number:
    """Return the FLOP of a causal kernel, half a tile of the diagonal computed in vain.

    F = N (2 c - 1 + tile) a (d_q + d_v) / t, with the keys c that a query meets on average, its own
    included; without a window 2 c - 1 = s
    """
    widths = model.heads * sum(head_widths(model)) / tensor
    met = 2.0 * exact_context(sequence, window) - 1.0
    return tokens * (met + rates.constants.tile) * widths


def _flash(
    model: MemoryModel,
    sequence: Number,
    window: Number,
    tokens: Number,
    tensor: Number,
    rates: Rates,
) -> Both:
    """Return the seconds of a causal kernel, at the rate of its values' width."""
    (_, size), share = head_widths(model), 1.0 / tensor
    work = _causal_flops(model, sequence, window, tokens, tensor, rates)
    rate = rates.attention * size / (size + 16.0)
    moved = 4.0 * tokens * (model.heads + model.kv_heads) * size * share
    memory, launch = rates.plain.memory, rates.plain.launch
    slower = BACKWARD * work / (rate * rates.constants.backward_attention)
    return Both(
        smooth_larger(work / rate, moved / memory) + launch,
        smooth_larger(slower, 2.0 * moved / memory) + 3.0 * launch,
    )


def _unfused(
    model: MemoryModel,
    sequence: Number,
    microbatch: Number,
    tensor: Number,
    context: Number,
    rates: Rates,
    software: Software,
) -> Both:
    """Return the seconds of products over the full square, softmax and dropout."""
    batch, unit = microbatch * model.heads / tensor, rates.plain
    query, value = head_widths(model)
    elements, drop = batch * sequence**2 / context, software.dropout
    scores = batched_product(batch, sequence, sequence, query, unit)
    values = batched_product(batch, sequence, value, sequence, unit)
    return Both(
        scores + values + stream(elements * (4.0 + 5.0 * drop), 1.0 + drop, unit),
        2.0 * (scores + values) + stream(elements * (6.0 + 5.0 * drop), 1.0 + drop, unit),
    )


def norms(tokens: Number, model: MemoryModel, rates: Rates) -> Number:
    """Return the seconds forward of the norms of a layer, of the tokens of a rank."""
    return stream(8.0 * tokens * model.hidden, 2.0, rates.plain)


def activation(
    tokens: Number, width: Number, share: Number, model: MemoryModel, rates: Rates
) -> Number:
    """Return the seconds forward of the activation of MLPs that a share of the layers has."""
    return stream(share * tokens * width * (4.0 + 2.0 * model.gated), share, rates.plain)


def elementwise(
    model: MemoryModel,
    tokens: Number,
    norm_tokens: Number,
    tensor: Number,
    rates: Rates,
    software: Software,
) -> Both:
    """Return the seconds of norms, residuals, activations, rotations and bias gradients.

    Assumes: queries and keys of a model without learned positions are rotated.
    Arguments: ``norm_tokens`` are those of a rank in norms and residuals.
    """
    unit, gated = rates.plain, model.gated
    eager, drop = 1.0 - software.fused, software.dropout
    dense = dense_share(model)
    width = (dense * model.feedforward + (1.0 - dense) * model.shared_feedforward) / tensor
    hidden = norm_tokens * model.hidden
    rotary = where(model.positions > 0.0, 0.0, 1.0)
    rotated = rotary * (model.heads + model.kv_heads)
    _, size = head_widths(model)
    heads = 4.0 * tokens * size / tensor
    more, kernels = eager * rates.constants.eager, 6.0 * eager
    forward = (
        norms(norm_tokens, model, rates)
        + stream(hidden * (2.0 * (6.0 + drop) + more), 2.0 + kernels, unit)
        + activation(tokens, width, 1.0, model, rates)
        + stream(heads * (model.heads + rotated), 1.0 + rotary, unit)
    )
    biased = 2.0 * tokens * (width + 3.0 * model.hidden / tensor)
    backward = (
        stream(hidden * (20.0 + 2.0 * (6.0 + 5.0 * drop) + more), 6.0 + kernels, unit)
        + stream(tokens * width * (6.0 + 4.0 * gated), 1.0, unit)
        + stream(heads * (model.heads + 2.0 * model.kv_heads + rotated), 1.0 + rotary, unit)
        + software.bias * stream(biased, 4.0, unit)
    )
    return Both(forward, backward)
