"""A step under MaxText: messages beside the work of a layer, and its memory on a device.

Source: docs/models/networks.md, sections 9 and 10; letters as there.
"""

from typing import NamedTuple

from jaxroof.estimators.tpu_training.inputs import (
    POLICIES,
    REMAT,
    Policy,
    TpuInputs,
    TpuPlan,
    chip_of,
    chips_of,
)
from jaxroof.estimators.tpu_training.layer import Shape, Work, shape_of, weights
from jaxroof.estimators.tpu_training.slices import Ways, chosen
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import log, sqrt, where
from jaxroof.formulas.smooth import smooth_larger, smooth_power
from jaxroof.records import Number


class LayerTime(NamedTuple):
    """Seconds of one layer and microbatch, forward and backward."""

    matmul: Number
    attention: Number
    elementwise: Number
    cast: Number
    experts: Number
    recompute: Number
    tensor_comm: Number
    context_comm: Number
    gather: Number
    fsdp_exposed: Number
    forward: Number
    backward: Number


class StepTime(NamedTuple):
    """Seconds of a step."""

    layer: LayerTime
    head: Number
    embedding: Number
    steady: Number
    growth: Number
    optimizer: Number
    data_comm: Number
    dcn_comm: Number
    step_time: Number


class Memory(NamedTuple):
    """Bytes on a device; a run takes between ``low`` and ``high``."""

    state: Number
    gradients: Number
    kept: Number
    working: Number
    logits: Number
    low: Number
    high: Number


class Links(NamedTuple):
    """Rates of a device's links in use [B/s], and latencies [s]."""

    ici: Number
    dcn: Number
    base: Number
    hop: Number


def links(inputs: TpuInputs) -> Links:
    """Return the links of a device: those of a chip over its devices, at the rate in use."""
    system, chip = inputs.system, chip_of(inputs)
    ici = system.link_bandwidth / chip.devices * chip.ici
    dcn = system.slow_bandwidth / chip.devices * chip.dcn
    return Links(ici, dcn, chip.base, chip.hop)


def kept(inputs: TpuInputs, plan: TpuPlan) -> Policy:
    """Return the shares that the plan's remat policy keeps."""
    software, custom = inputs.software, plan.remat == len(POLICIES)
    assert REMAT[len(POLICIES)] == "custom"

    def share(name: str) -> Number:
        named = chosen([getattr(one, name) for one in POLICIES.values()], plan.remat)
        return where(custom, getattr(software, f"keep_{name}"), named)

    return Policy(*map(share, Policy._fields))  # type: ignore[arg-type]


def layer_time(inputs: TpuInputs, model: Shape, plan: TpuPlan, work: Work, ways: Ways) -> LayerTime:
    """Return the seconds of one layer and microbatch.

    forward = smax(C_f + T_f + X_f, gather); backward = smax(C_b + T_b + X_b + recompute, 2 gather)
    """
    link, keep, chip = links(inputs), kept(inputs, plan), inputs.software
    t, c, size = plan.tensor, plan.context, model.head_size
    forward, backward = (sum(part[way] for part in work[:8]) for way in (0, 1))
    again = (
        (1.0 - keep.qkv) * work.qkv.forward
        + (1.0 - keep.context) * work.attention.forward
        + (1.0 - keep.out) * work.out.forward
        + (1.0 - keep.up) * (work.up.forward + work.experts.forward)
        + (work.elementwise.forward + work.cast.forward) / 2.0
    )
    message = 2.0 * work.tokens * model.hidden * (1.0 - 1.0 / t) / (link.ici * ways.tensor)
    message = where(t > 1.0, link.base + link.hop * t / 2.0 + message, 0.0) * chip.tensor_visible
    tensor_f, tensor_b = 4.0 * message, (6.0 + 3.0 * (1.0 - keep.up)) * message
    ring = 4.0 * work.tokens * c * model.kv_heads * size / t * (1.0 - 1.0 / c)
    ring = link.base + link.hop * c / 2.0 + ring / (link.ici * ways.context)

    def exposed(one: Number, moved: Number) -> Number:
        return where(c > 1.0, smooth_larger(one, moved) - one, 0.0)

    context_f = exposed(work.attention.forward, ring)
    context_b = exposed(work.attention.backward, 2.0 * ring)
    gather = _gather(inputs, model, plan, ways, link)
    busy_f, busy_b = forward + tensor_f + context_f, backward + tensor_b + context_b + again
    sharp = chip.sharpness
    in_all = smooth_power(busy_f, gather, sharp), smooth_power(busy_b, 2.0 * gather, sharp)
    matrices = (work.qkv, work.out, work.up, work.down)
    return LayerTime(
        sum(sum(one) for one in matrices),
        sum(work.attention),
        sum(work.elementwise),
        sum(work.cast),
        sum(work.experts),
        again,
        tensor_f + tensor_b,
        context_f + context_b,
        gather,
        in_all[0] - busy_f + in_all[1] - busy_b,
        *in_all,
    )


def _gather(inputs: TpuInputs, model: Shape, plan: TpuPlan, ways: Ways, link: Links) -> Number:
    """Return the seconds in which a layer's weights are gathered, over slices too where asked."""
    fsdp, slices = plan.fsdp, plan.slices
    size = 2.0 * sum(weights(model, plan.expert)) / plan.tensor
    inside = size * (1.0 - 1.0 / fsdp) / (link.ici * ways.fsdp)
    inside = where(fsdp > 1.0, link.base + link.hop * sqrt(fsdp) / 2.0 + inside, 0.0)
    return inside + plan.dcn_fsdp * (slices - 1.0) / slices * size / fsdp / link.dcn


def step_time(inputs: TpuInputs, recipe: Recipe, plan: TpuPlan, work: Work, ways: Ways) -> StepTime:
    """Return the seconds of a step.

    t = M (L (forward + backward) + head + embedding) (1 + slice_growth log2 S)
    + optimizer + data_comm + dcn_comm
    """
    model, link, chip = shape_of(inputs.model, recipe), links(inputs), chip_of(inputs)
    t, fsdp, slices, data = plan.tensor, plan.fsdp, plan.slices, plan.data
    layer = layer_time(inputs, model, plan, work, ways)
    vocabulary = 6.0 * model.of.vocabulary * model.hidden / t
    head = smooth_larger(work.head, vocabulary * (1.0 - 1.0 / fsdp) / (link.ici * ways.fsdp))
    passes = model.of.layers * (layer.forward + layer.backward) + head + work.embedding
    steady = plan.microbatches * passes
    growth = steady * inputs.software.slice_growth * log(slices) / LOG2
    shard = parameters(model, plan)
    optimizer = 36.0 * shard / (inputs.system.hbm_bandwidth / chip.devices * chip.hbm)
    replicas = 4.0 * shard * (1.0 - 1.0 / data) / (link.ici * ways.data)
    across = (1.0 - plan.dcn_fsdp) * 4.0 * (slices - 1.0) / slices * shard / link.dcn
    total = steady + growth + optimizer + replicas + across
    return StepTime(layer, head, work.embedding, steady, growth, optimizer, replicas, across, total)


LOG2 = 0.6931471805599453


def parameters(model: Shape, plan: TpuPlan) -> Number:
    """Return the parameters of a device, as if slices had a copy each."""
    layers = model.of.layers * sum(weights(model, plan.expert))
    return (layers + 2.0 * model.of.vocabulary * model.hidden) / (plan.tensor * plan.fsdp)


def memory(inputs: TpuInputs, recipe: Recipe, plan: TpuPlan) -> Memory:
    """Return the bytes of a device, part by part.

    low = state + kept; high = low + gradients + working + logits

    Assumes: XLA reuses the space of gradients and temporaries, so a run lies between the two.
    """
    model, software, chip = shape_of(inputs.model, recipe), inputs.software, chip_of(inputs)
    t, keep = plan.tensor, kept(inputs, plan)
    devices = chips_of(inputs) * chip.devices
    own = inputs.global_batch * model.of.sequence / (devices * plan.microbatches)
    tokens = own * t
    shard = parameters(model, plan) / where(plan.dcn_fsdp > 0.5, plan.slices, 1.0)
    state = shard * (software.weight_bytes + software.moment_bytes)
    gradients = 4.0 * shard
    heads = (model.heads + 2.0 * model.kv_heads) * model.head_size
    wide, mlp = model.heads * model.head_size, model.mlp
    on_device = 1.0 - software.on_host
    saved = keep.qkv * heads + keep.context * wide + keep.out * model.hidden
    saved = saved + keep.up * (1.0 + model.gated) * mlp
    layer = 2.0 * tokens * (model.hidden / t + on_device * saved / t)
    working = 4.0 * sum(weights(model, plan.expert)) / t + 12.0 * own * model.hidden
    working = working + 2.0 * tokens * (heads + (2.0 + model.gated) * mlp) / t
    logits = 6.0 * tokens * model.of.vocabulary / t / software.vocabulary_tiling
    low = state + model.of.layers * layer
    high = low + gradients + working + logits
    return Memory(state, gradients, model.of.layers * layer, working, logits, low, high)
