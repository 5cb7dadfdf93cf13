"""The work of one layer under MaxText, and of embedding and head: seconds of one microbatch.

Source: docs/models/networks.md, section 9; letters as there.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.tpu_training.inputs import TpuInputs, chip_of, chips_of
from jaxroof.estimators.training.inputs import layers_by_part
from jaxroof.estimators.training.recipe import Mlp, Recipe
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.smooth import smooth_larger
from jaxroof.records import Number


class Rates(NamedTuple):
    """Rates of one device in use, and bytes of an input of a layer's products."""

    plain: Number  # [FLOP/s] of products in bf16
    layer: Number  # [FLOP/s] of products of layers
    attention: Number  # [FLOP/s]
    hbm: Number  # [B/s]
    width: Number  # [B]


class Shape(NamedTuple):
    """A model as the formulas read it."""

    hidden: Number
    heads: Number
    kv_heads: Number
    head_size: Number
    gated: float
    dense: Number  # share of layers with a dense MLP
    q_rank: Number
    latent: Number  # 1 where keys and values have latents
    kv_rank: Number
    mlp: Number  # width of dense and shared MLPs, the mean layer
    of: Architecture


class Matmul(NamedTuple):
    """Seconds of products in both directions."""

    forward: Number
    backward: Number

    def __add__(self, other: Any) -> "Matmul":
        return Matmul(self.forward + other.forward, self.backward + other.backward)

    def times(self, factor: Number) -> "Matmul":
        """Return a number of them."""
        return Matmul(factor * self.forward, factor * self.backward)


class Work(NamedTuple):
    """Seconds of a layer by kind, forward and backward, and of what is outside of layers."""

    qkv: Matmul
    out: Matmul
    up: Matmul
    down: Matmul
    cast: Matmul
    attention: Matmul
    elementwise: Matmul
    experts: Matmul
    head: Number
    embedding: Number
    tokens: Number  # N of a tensor group


def rates(inputs: TpuInputs) -> Rates:
    """Return the rates of a device: those of a chip over its devices, times what work gets."""
    system, software = inputs.system, inputs.software
    chip = chip_of(inputs)
    each = 1.0 / chip.devices
    plain = system.matrix_flops * each * chip.matmul
    int8 = chip.int8_flops * each * chip.matmul_int8
    fp8 = chip.fp8_flops * each * chip.matmul_fp8
    low = where(software.fp8 > 0.5, fp8, where(software.int8 > 0.5, int8, plain))
    return Rates(
        plain,
        low,
        system.matrix_flops * each * chip.attention,
        system.hbm_bandwidth * each * chip.hbm,
        where(software.fp8 + software.int8 > 0.5, 1.0, 2.0),
    )


def shape_of(model: Architecture, recipe: Recipe) -> Shape:
    """Return a model as the formulas read it."""
    layers = layers_by_part(model)
    routes, latent = model.experts > 0.0, model.kv_rank > 0.0
    dense = where(routes, layers["dense_layers"] / model.layers, 1.0)
    shared = model.shared_feedforward
    return Shape(
        model.hidden,
        model.heads,
        model.kv_heads,
        where(latent, larger(model.nope_size, model.value_size), model.head_size),
        float(recipe.mlp is Mlp.GATED),
        dense,
        model.q_rank,
        where(latent, 1.0, 0.0),
        model.kv_rank,
        dense * model.feedforward + (1.0 - dense) * shared,
        model,
    )


# ---- Kernels ------------------------------------------------------------------------------------


class Device(NamedTuple):
    """What a kernel reads of a device."""

    hbm: Number
    depth: Number
    launch: Number

    def stream(self, moved: Number, kernels: float = 1.0) -> Number:
        """Return the seconds of element-wise kernels: y/H + j launch."""
        return moved / self.hbm + kernels * self.launch

    def product(
        self, m: Number, n: Number, k: Number, rate: Number, taken: Number, made: float
    ) -> Number:
        """Return the seconds of a product of m x k and k x n numbers.

        smax_4(2 m n (k + depth)/rate, (u_in (m k + k n) + u_out m n)/H) + launch
        """
        moved = taken * (m * k + k * n) + made * m * n
        work = 2.0 * m * n * (k + self.depth) / rate
        return smooth_larger(work, moved / self.hbm) + self.launch

    def both(self, m: Number, n: Number, k: Number, rate: Number, width: Number) -> Matmul:
        """Return the seconds of a product forward, and of both products of its backward pass."""
        back = self.product(m, k, n, rate, width, 2.0) + self.product(k, n, m, rate, width, 4.0)
        return Matmul(self.product(m, n, k, rate, width, 2.0), back)


def work(inputs: TpuInputs, recipe: Recipe, *, tensor: Any, expert: Any, microbatches: Any) -> Work:
    """Return the seconds of a layer's kernels, and of embedding and head."""
    model, software, chip = shape_of(inputs.model, recipe), inputs.software, chip_of(inputs)
    rate = rates(inputs)
    device = Device(rate.hbm, chip.depth, chip.launch)
    own = inputs.global_batch * model.of.sequence / (chips_of(inputs) * chip.devices * microbatches)
    tokens = own * tensor
    matrices = _matrices(model, device, rate, tokens, tensor)
    head = model.of.vocabulary / tensor
    plain = (device, rate.plain, 2.0)
    ends = sum(_product(tokens, head, model.hidden, *plain)) + device.stream(
        software.loss_bytes * tokens * head, 3.0
    )
    return Work(
        *matrices,
        _casts(model, device, software, tokens, tensor, rate.width),
        _attention(inputs, model, device, rate, tokens, tensor),
        _elementwise(model, device, tokens, tensor),
        _experts(inputs, model, device, rate, own, expert),
        ends,
        device.stream(12.0 * tokens * model.hidden / tensor, 4.0),
        tokens,
    )


def _product(
    m: Number, n: Number, k: Number, device: Device, rate: Number, width: Number
) -> Matmul:
    return device.both(m, n, k, rate, width)


def _matrices(
    model: Shape, device: Device, rate: Rates, tokens: Number, tensor: Any
) -> tuple[Matmul, Matmul, Matmul, Matmul]:
    """Return the products about attention and of MLPs: qkv, out, up and down."""
    hidden, wide = model.hidden, model.heads * model.head_size / tensor
    in_use = (device, rate.layer, rate.width)

    def of(n: Number, k: Number) -> Matmul:
        return _product(tokens, n, k, *in_use)

    heads = of((model.heads + 2.0 * model.kv_heads) * model.head_size / tensor, hidden)
    low = of(model.q_rank, hidden) + of(1.5 * wide, model.q_rank)
    low += of(model.kv_rank + model.head_size / 2.0, hidden) + of(2.0 * wide, model.kv_rank)
    qkv = low.times(model.latent) + heads.times(1.0 - model.latent)
    full, shared = model.of.feedforward, model.of.shared_feedforward
    dense, beside = model.dense, where(shared > 0.0, 1.0 - model.dense, 0.0)
    many = (1.0 + model.gated) / tensor
    up = of(many * full, hidden).times(dense) + of(2.0 * shared / tensor, hidden).times(beside)
    down = of(hidden, full / tensor).times(dense) + of(hidden, shared / tensor).times(beside)
    return qkv, of(hidden, wide), up, down


def _casts(
    model: Shape, device: Device, software: Any, tokens: Number, tensor: Any, width: Number
) -> Matmul:
    """Return the seconds of casts to 8 bits."""
    wide = model.heads * model.head_size + model.dense * model.of.feedforward
    forward = device.stream(software.cast * tokens * (2.0 * model.hidden + wide / tensor), 4.0)
    forward = where(width < 1.5, forward, 0.0)
    return Matmul(forward, 2.0 * forward)


def _attention(
    inputs: TpuInputs, model: Shape, device: Device, rate: Rates, tokens: Number, tensor: Any
) -> Matmul:
    """Return the seconds of the attention kernel: causal, in windows where the model has them."""
    chip, block = chip_of(inputs), smaller(inputs.software.attention_block, model.of.sequence)
    whole = (model.of.sequence + block) / 2.0
    local = model.of.windowed_layers / model.of.layers
    pairs = local * smaller(whole, model.of.window + block) + (1.0 - local) * whole
    wide = model.head_size / tensor
    flops = 4.0 * tokens * pairs * model.heads * wide * where(model.latent > 0.5, 1.25, 1.0)
    moved = 2.0 * tokens * (2.0 * model.heads + 2.0 * model.kv_heads) * wide
    forward = smooth_larger(flops / rate.attention, moved / device.hbm)
    backward = smooth_larger(
        chip.backward_factor * flops / rate.attention, 2.0 * moved / device.hbm
    )
    return Matmul(forward + device.launch, backward + 2.0 * device.launch)


def _elementwise(model: Shape, device: Device, tokens: Number, tensor: Any) -> Matmul:
    """Return the seconds of norms, activations, rotations and residuals."""
    gated, heads, kv_heads = model.gated, model.heads, model.kv_heads
    own, mlp, wide = tokens / tensor, tokens * model.mlp / tensor, model.head_size / tensor
    turned = gated * (heads + kv_heads)
    forward = device.stream(20.0 * own * model.hidden, 4.0)
    forward += device.stream(mlp * (4.0 + 2.0 * gated))
    forward += device.stream(4.0 * tokens * (heads + turned) * wide, 1.0 + gated)
    backward = device.stream(32.0 * own * model.hidden, 6.0)
    backward += device.stream(mlp * (6.0 + 4.0 * gated))
    backward += device.stream(4.0 * tokens * (heads + 2.0 * kv_heads + turned) * wide, 1.0 + gated)
    return Matmul(forward, backward)


def _experts(
    inputs: TpuInputs, model: Shape, device: Device, rate: Rates, own: Number, expert: Any
) -> Matmul:
    """Return the seconds of routed experts, 0 without them; ``own`` tokens of a device route."""
    of, software, hidden = model.of, inputs.software, model.hidden
    drops, wide = software.dropping, of.expert_feedforward
    rows = own * of.active_experts * software.capacity
    local = larger(of.experts / expert, 1.0)
    speed = rate.layer * where(drops > 0.5, 1.0, software.grouped)
    pad = where(drops > 0.5, 0.0, software.expert_rows) * local * expert
    width = rate.width

    def group(n: Number, k: Number) -> Number:
        moved = width * (rows * k + local * k * n) + 2.0 * rows * n
        done = 2.0 * (rows * n + pad * n) * (k + device.depth) / speed
        return smooth_larger(done, moved / device.hbm)

    def gradient(n: Number, k: Number) -> Number:
        moved = width * rows * (n + k) + 4.0 * n * k * local
        done = 2.0 * n * k * local * (rows / local + device.depth) / speed
        return smooth_larger(done, moved / device.hbm)

    router = device.product(own, of.experts, hidden, rate.plain, 2.0, 4.0)
    plain = 2.0 * device.product(rows, hidden, of.sequence, rate.plain, 2.0, 2.0)
    move = where(drops > 0.5, plain, device.stream(software.permute * rows * hidden, 4.0))
    forward = group(2.0 * wide, hidden) + group(hidden, wide) + router + move
    forward += device.stream(6.0 * rows * wide)
    backward = group(hidden, 2.0 * wide) + group(wide, hidden)
    backward += gradient(2.0 * wide, hidden) + gradient(hidden, wide)
    backward += 2.0 * router + 2.0 * move + device.stream(10.0 * rows * wide)
    routed = where(of.experts > 0.0, 1.0 - model.dense, 0.0)
    return Matmul(routed * forward, routed * backward)


# ---- Parameters ---------------------------------------------------------------------------------


def weights(model: Shape, expert: Any) -> tuple[Number, Number]:
    """Return the parameters of the mean layer: all but routed experts, and those of a device."""
    of, hidden, dense = model.of, model.hidden, model.dense
    wide = model.heads * model.head_size
    heads = hidden * (model.heads + 2.0 * model.kv_heads) * model.head_size
    low = hidden * model.q_rank + 1.5 * model.q_rank * wide
    low += hidden * (model.kv_rank + model.head_size / 2.0) + 2.0 * model.kv_rank * wide
    attention = where(model.latent > 0.5, low, heads) + wide * hidden
    mlp = dense * (2.0 + model.gated) * hidden * of.feedforward
    beside = (1.0 - dense) * (3.0 * hidden * of.shared_feedforward + hidden * of.experts)
    routed = (1.0 - dense) * 3.0 * hidden * of.expert_feedforward * of.experts / expert
    return attention + mlp + beside + 2.0 * hidden, routed
