"""Recurrent layers: Mamba-2, gated DeltaNet and Kimi Delta Attention (KDA).

Each has projections into its heads, a short convolution, a scan over chunks of the sequence that
carries a state, a gated norm, and a projection back. A model has at most one of the three.
Source: docs/models/layers_2026.md, sections 2, 4 and 10.
"""

from collections.abc import Callable
from typing import NamedTuple

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
    known,
    times,
    total,
)
from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number

MAMBA_CHUNK = 128.0  # tokens that a scan multiplies at once, before the state moves on
DELTA_CHUNK = 64.0
BACKWARD_FLOPS = 3.0  # times those of the forward pass: two gradients, and the states again
BACKWARD_BYTES = 2.5


class Scan(NamedTuple):
    """What the scan of a recurrent layer takes for one token, over all heads."""

    flops: Number  # of the forward pass
    read: Number  # bytes of inputs, convolution and gate
    state: Number  # bytes of states between chunks
    kernels: float


def recurrence(model: TrainingModel) -> list[tuple[str, Number, Operations]]:
    """Return the recurrent layers of a model: their name, number and operations; [] if none."""
    kinds = (
        ("Mamba-2", model.mamba, model.mamba_layers, mamba),
        ("gated DeltaNet", model.delta, model.delta_layers, delta_net),
        ("KDA", model.kda, model.kda_layers, kda),
    )
    return [
        (name, times(there, layers), operations(model))
        for name, there, layers, operations in kinds
        if not known(there, 0.0)
    ]


def token_flops(model: TrainingModel) -> Number:
    """Return the FLOP of the scan of one recurrent layer for one token, forward."""
    return total(
        times(there, scan(model).flops)
        for there, scan in (
            (model.mamba, mamba_scan),
            (model.delta, delta_scan),
            (model.kda, kda_scan),
        )
        if not known(there, 0.0)
    )


# ---- Mamba-2 ------------------------------------------------------------------------------------


def mamba_widths(model: TrainingModel) -> tuple[Number, Number]:
    """Return the width of all heads, I, and that of the state's inputs and outputs, 2 g n."""
    inner = model.mamba_heads * model.mamba_head_size
    return inner, 2.0 * model.mamba_groups * model.mamba_state


def mamba(model: TrainingModel) -> Operations:
    """Return a Mamba-2 layer; its convolution has a bias.

    vectors: (I + 2 g n) (conv + 1), A, D and a time step a head, I gains of the gated norm
    """
    (inner, shared), heads = mamba_widths(model), model.mamba_heads
    vectors = (inner + shared) * (model.convolution + 1.0) + 3.0 * heads + inner
    return {
        "Mamba-2 input": _matrix(model.hidden, 2.0 * inner + shared + heads, Cut.COLUMNS),
        "Mamba-2 scan": _scan(mamba_scan, _mamba_saved, _mamba_output, _mamba_momentary),
        "Mamba-2 output": _matrix(inner, model.hidden, Cut.ROWS),
        "Mamba-2 vectors": Operation("recurrent", vectors=Weights(vectors)),
    }


def mamba_scan(model: TrainingModel) -> Scan:
    """Return what a token takes in chunks of Q = 128.

    FLOP 2 (g Q n + I (Q + 2 n)), bytes 6 (I + 2 g n) + 8 I and 12 I n / Q
    """
    (inner, shared), state = mamba_widths(model), model.mamba_state
    scores = model.mamba_groups * MAMBA_CHUNK * state
    return Scan(
        flops=2.0 * (scores + inner * (MAMBA_CHUNK + 2.0 * state)),
        read=6.0 * (inner + shared) + 8.0 * inner,
        state=12.0 * inner * state / MAMBA_CHUNK,
        kernels=8.0,
    )


def _mamba_saved(kept: Kept) -> Number:
    """Return T / t (beta (2 I + 2 g n + heads) + beta I + 4 g): input and output of the kernel.

    Convolution and states are made again; 4 g are the scales of the gated norm.
    """
    (model, beta), (inner, shared) = _sizes(kept), mamba_widths(kept.inputs.model)
    width = beta * (3.0 * inner + shared + model.mamba_heads)
    return _divided(kept) * (width + 4.0 * model.mamba_groups)


def _mamba_output(kept: Kept) -> Number:
    """Return the width of the input of the output projection, I."""
    return mamba_widths(kept.inputs.model)[0]


def _mamba_momentary(kept: Kept) -> Number:
    """Return 8 T / Q I n / t + beta T (I + 2 g n) / t: states of all chunks, and the convolution's.

    Assumes: one layer at a time.
    """
    (model, beta), (inner, shared) = _sizes(kept), mamba_widths(kept.inputs.model)
    states = 8.0 * inner * model.mamba_state / MAMBA_CHUNK
    return _divided(kept) * (states + beta * (inner + shared))


# ---- Gated DeltaNet -----------------------------------------------------------------------------


def delta_widths(model: TrainingModel) -> tuple[Number, Number]:
    """Return the width of the keys of all heads, K, and that of their values, V."""
    return (
        model.delta_key_heads * model.delta_key_size,
        model.delta_value_heads * model.delta_value_size,
    )


def delta_net(model: TrainingModel) -> Operations:
    """Return a gated DeltaNet layer: queries, keys, values, gate, and decay and strength a head.

    vectors: (2 K + V) conv, a decay and a time step a head; replicated: gains of a value head
    """
    (keys, values), heads = delta_widths(model), model.delta_value_heads
    vectors = (2.0 * keys + values) * model.convolution + 2.0 * heads
    width = 2.0 * keys + 2.0 * values + 2.0 * heads
    return {
        "DeltaNet input": _matrix(model.hidden, width, Cut.COLUMNS),
        "DeltaNet scan": _scan(delta_scan, _delta_saved, _delta_output, _delta_momentary),
        "DeltaNet output": _matrix(values, model.hidden, Cut.ROWS),
        "DeltaNet vectors": Operation(
            "recurrent", vectors=Weights(vectors, model.delta_value_size)
        ),
    }


def delta_scan(model: TrainingModel) -> Scan:
    """Return what a token takes in chunks of Q = 64, a value heads of keys d and values u.

    FLOP 2 a (Q (3 d + 2 u) + Q^2 + 3 d u), bytes 6 (2 K + V) + 4 a (d + 2 u) + 8 V and 6 a d u / Q
    """
    keys, values = delta_widths(model)
    heads, chunk = model.delta_value_heads, DELTA_CHUNK
    key, value = model.delta_key_size, model.delta_value_size
    head = chunk * (3.0 * key + 2.0 * value) + chunk**2 + 3.0 * key * value
    return Scan(
        flops=2.0 * heads * head,
        read=6.0 * (2.0 * keys + values) + 4.0 * heads * (key + 2.0 * value) + 8.0 * values,
        state=6.0 * heads * key * value / chunk,
        kernels=12.0,
    )


def _delta_saved(kept: Kept) -> Number:
    """Return T / t times what a token keeps: both sides of the convolution, heads, decays, output.

    beta (2 K + 2 V + 2 a) + beta (2 K + V) + beta (2 a d + V) + 8 a + Q beta a + beta V
    """
    (model, beta), (keys, values) = _sizes(kept), delta_widths(kept.inputs.model)
    heads = model.delta_value_heads
    repeated = 2.0 * heads * model.delta_key_size + values  # keys of every value head
    width = (2.0 * keys + 2.0 * values + 2.0 * heads) + (2.0 * keys + values) + repeated
    return _divided(kept) * (beta * (width + DELTA_CHUNK * heads + values) + 8.0 * heads)


def _delta_output(kept: Kept) -> Number:
    """Return the width of the input of the output projection, V."""
    return delta_widths(kept.inputs.model)[1]


def _delta_momentary(kept: Kept) -> Number:
    """Return 4 T / Q a d u / t + 2 beta T (K + V) / t: states of all chunks, and heads.

    Assumes: one layer at a time.
    """
    (model, beta), (keys, values) = _sizes(kept), delta_widths(kept.inputs.model)
    state = model.delta_value_heads * model.delta_key_size * model.delta_value_size
    return _divided(kept) * (4.0 * state / DELTA_CHUNK + 2.0 * beta * (keys + values))


# ---- Kimi Delta Attention -----------------------------------------------------------------------


def kda_width(model: TrainingModel) -> Number:
    """Return the width of all heads, W = a d."""
    return model.kda_heads * model.kda_head_size


def kda(model: TrainingModel) -> Operations:
    """Return a KDA layer: decay of every channel and gate come from latents of one head's width.

    vectors: 3 W conv, W biases of decays, a decay a head; replicated: gains of a head
    """
    width, heads, size = kda_width(model), model.kda_heads, model.kda_head_size
    vectors = 3.0 * width * model.convolution + width + heads
    return {
        "KDA input": _matrix(model.hidden, 3.0 * width + heads, Cut.COLUMNS),
        "KDA latents": _matrix(model.hidden, 2.0 * size, Cut.WHOLE)._replace(
            saved=(Saved("recurrent", _kda_latents, read=True),)
        ),
        "KDA decay": _matrix(size, width, Cut.COLUMNS),
        "KDA gate": _matrix(size, width, Cut.COLUMNS),
        "KDA scan": _scan(kda_scan, _kda_saved, _kda_output, _kda_momentary),
        "KDA output": _matrix(width, model.hidden, Cut.ROWS),
        "KDA vectors": Operation("recurrent", vectors=Weights(vectors, size)),
    }


def kda_scan(model: TrainingModel) -> Scan:
    """Return what a token takes in chunks of Q = 64, heads a of width d.

    FLOP 2 a (5 Q d + Q^2 + 3 d^2), bytes 18 W + 24 W and 6 a d^2 / Q
    """
    width, heads, size = kda_width(model), model.kda_heads, model.kda_head_size
    head = 5.0 * DELTA_CHUNK * size + DELTA_CHUNK**2 + 3.0 * size**2
    return Scan(
        flops=2.0 * heads * head,
        read=42.0 * width,
        state=6.0 * heads * size**2 / DELTA_CHUNK,
        kernels=14.0,
    )


def _kda_saved(kept: Kept) -> Number:
    """Return T / t (8 beta W + 4 W + 2 Q beta a + 4 a + beta W): heads, decays, chunks, output."""
    (model, beta), width = _sizes(kept), kda_width(kept.inputs.model)
    heads = model.kda_heads
    chunks = 2.0 * DELTA_CHUNK * heads
    return _divided(kept) * (beta * (9.0 * width + chunks) + 4.0 * (width + heads))


def _kda_latents(kept: Kept) -> Number:
    """Return 2 beta T d: both latents, on every tensor rank."""
    model, beta = _sizes(kept)
    return 2.0 * beta * kept.size.tokens * model.kda_head_size


def _kda_output(kept: Kept) -> Number:
    """Return the width of the input of the output projection, W."""
    return kda_width(kept.inputs.model)


def _kda_momentary(kept: Kept) -> Number:
    """Return 4 T / Q a d^2 / t + 4 beta T W / t: states of all chunks, and heads.

    Assumes: one layer at a time.
    """
    (model, beta), width = _sizes(kept), kda_width(kept.inputs.model)
    states = 4.0 * width * model.kda_head_size / DELTA_CHUNK
    return _divided(kept) * (states + 4.0 * beta * width)


# ---- What the three share -----------------------------------------------------------------------


def _matrix(inputs: Number, outputs: Number, cut: Cut) -> Operation:
    return Operation("recurrent", Matrix(inputs, outputs, cut), time="matmul")


def _scan(
    scan: Callable[[TrainingModel], Scan],
    saved: Callable[[Kept], Number],
    output: Callable[[Kept], Number],
    momentary: Callable[[Kept], Number],
) -> Operation:
    """Return the scan of a layer, with the input that it leaves to the output projection."""

    def read(kept: Kept) -> Number:
        """Return lambda T / t times the width of the output."""
        return kept.inputs.activations.linear_input_bytes * _divided(kept) * output(kept)

    return Operation(
        time="recurrent",
        kernel=lambda work: _seconds(scan(work.model), work),
        flops=lambda work: _flops(scan(work.model), work),
        saved=(Saved("recurrent", saved), Saved("recurrent", read, read=True)),
        momentary=momentary,
    )


def _flops(scan: Scan, work: Work) -> Passes:
    """Return F N / t forward, and 3 F N / t backward, which makes the states again."""
    forward = scan.flops * work.tokens.group / work.plan.tensor
    return Passes(forward, BACKWARD_FLOPS * forward)


def _seconds(scan: Scan, work: Work) -> Passes:
    """Return the seconds of a scan, whose heads tensor ranks divide.

    forward smax(F N / t / (n_sm scan), (read + state) N / t / H) + j launch; backward 3 F, 2.5
    times the bytes and 2 j launch

    Assumes: the rate is that of a multiprocessor, whatever the chip's peak: the kernels do not gain
    from newer matrix units. Context ranks exchange nothing.
    """
    rates = work.rates
    flops = _flops(scan, work)
    moved = (scan.read + scan.state) * work.tokens.group / work.plan.tensor
    rate, unit = rates.multiprocessors * rates.constants.scan, rates.plain
    launched = scan.kernels * unit.launch
    return Passes(
        smooth_larger(flops.forward / rate, moved / unit.memory) + launched,
        smooth_larger(flops.inputs / rate, BACKWARD_BYTES * moved / unit.memory) + 2.0 * launched,
    )


def _sizes(kept: Kept) -> tuple[TrainingModel, Number]:
    """Return the model, and the bytes of an activation."""
    return kept.inputs.model, kept.inputs.activations.activation_bytes


def _divided(kept: Kept) -> Number:
    """Return the tokens of a microbatch whose heads a tensor rank has, T / t."""
    return kept.size.tokens / kept.inputs.plan.tensor
