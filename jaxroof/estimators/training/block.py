"""One transformer layer: its operations in order, what each costs and how long each takes.

Source: fact sheet transformer_model, sections 5 and 6.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.estimators.training.inputs import Inputs, Model, Precision
from jaxroof.estimators.training.recipe import Attention, Recipe, Split
from jaxroof.formulas import attention, collectives, elementwise, linear, normalisation, roofline
from jaxroof.formulas.arithmetic import whole
from jaxroof.formulas.work import Operation, Work
from jaxroof.hardware import System
from jaxroof.records import Number


class Message(NamedTuple):
    """One collective of an operation."""

    collective: collectives.Collective
    volume: Number  # full buffer [B]
    group: Number
    fast: Number


class LayerOperation(NamedTuple):
    """One named operation of a layer."""

    work: Operation
    matrix: bool  # runs at the matrix rate, else at the vector rate
    forward: Message | None = None
    backward: Message | None = None
    recomputed: bool = False  # its forward runs once more on the way back


class Timing(NamedTuple):
    """Seconds of one operation in one direction; the exposed parts add up to its time."""

    compute: Number
    memory: Number
    communication: Number


Operations = dict[str, LayerOperation]


def layer_1d(
    model: Model,
    precision: Precision,
    vector_cost: Number,
    attention_core: Attention,
    *,
    tensor: Number,
    microbatch: Number,
    fast_tensor: Number,
) -> Operations:
    """Return the operations of one layer whose matrices are split over one tensor group."""
    hidden = model.hidden
    tokens = microbatch * model.sequence
    rows = microbatch * whole(model.sequence, tensor)  # Q6: what does not divide is dropped
    hidden_shard = whole(hidden, tensor)
    feedforward_shard = whole(model.feedforward, tensor)
    widths = (precision.weight, precision.activation, precision.gradient)

    volume = jnp.where(tensor > 1.0, tokens * hidden * precision.activation, 0.0)
    gather = Message(collectives.all_gather, volume, tensor, fast_tensor)
    scatter = Message(collectives.reduce_scatter, volume, tensor, fast_tensor)

    def columns(outputs: Number) -> LayerOperation:
        return LayerOperation(linear.linear(tokens, hidden, outputs, *widths), True, None, scatter)

    def across_rows(inputs: Number) -> LayerOperation:
        return LayerOperation(linear.linear(tokens, inputs, hidden, *widths), True, scatter, None)

    def bias(width: Number) -> LayerOperation:
        return LayerOperation(elementwise.bias(tokens, width, *widths), False)

    def dropout(elements: Number) -> LayerOperation:
        work = elementwise.dropout(elements, precision.activation, precision.mask)
        return LayerOperation(work, False)

    # Q18: both ways are counted, the way back as one more reduce-scatter
    norm = LayerOperation(normalisation.layer_norm(rows, hidden, *widths), False, gather, scatter)
    inner = tokens * feedforward_shard
    return {
        "fc1": columns(feedforward_shard),  # Q17: its whole input is kept on every rank
        "fc1-bias": bias(feedforward_shard),
        "act1": LayerOperation(elementwise.gelu(inner, precision.activation), False),
        "dpr1": dropout(inner),
        "fc2": across_rows(feedforward_shard),
        "fc2-bias": bias(hidden),  # Q10: on every token, though the sum is scattered
        "dpr2": dropout(rows * hidden),
        "ln1": norm,
        "qkv": columns(whole(3.0 * hidden, tensor)),
        **ATTENTION[attention_core](model, precision, vector_cost, tensor, microbatch),
        "vproj": across_rows(hidden_shard),
        "vproj-bias": bias(hidden),
        "dpr_v": dropout(rows * hidden),
        "ln2": norm,
    }


def _fused(
    model: Model, precision: Precision, vector_cost: Number, tensor: Number, microbatch: Number
) -> Operations:
    sequences = microbatch * whole(model.heads, tensor)
    head_size = whole(model.hidden, model.heads)
    shape = (sequences, model.sequence, model.sequence, head_size)
    work = attention.fused(*shape, vector_cost, precision.activation)
    return {"fusedla": LayerOperation(work, True)}


def _unfused(
    model: Model, precision: Precision, vector_cost: Number, tensor: Number, microbatch: Number
) -> Operations:
    sequences = microbatch * whole(model.heads, tensor)
    head_size = whole(model.hidden, model.heads)
    scores = (sequences, model.sequence, model.sequence)
    width = precision.activation
    dropout = elementwise.dropout(
        sequences * model.sequence * model.sequence, width, precision.mask
    )
    return {
        "logits": LayerOperation(attention.logits(*scores, head_size, width), True),
        "softmax": LayerOperation(attention.softmax(*scores, width), False),
        "dpr_at": LayerOperation(dropout, False),
        "attend": LayerOperation(attention.attend(*scores, head_size, width), True),
    }


def _recompute(
    model: Model, precision: Precision, vector_cost: Number, tensor: Number, microbatch: Number
) -> Operations:
    core = _unfused(model, precision, vector_cost, tensor, microbatch)
    kept = {
        "logits": core["logits"].work.kept,
        "softmax": 0.0 * core["softmax"].work.kept,
        "dpr_at": 0.0 * core["dpr_at"].work.kept,
        "attend": core["attend"].work.kept - core["softmax"].work.kept,  # the values' part alone
    }
    return {
        name: operation._replace(
            work=operation.work._replace(kept=kept[name]), recomputed=name != "attend"
        )
        for name, operation in core.items()
    }


def operations(
    inputs: Inputs, recipe: Recipe, *, tensor: Number, microbatch: Number, fast_tensor: Number
) -> Operations:
    """Return the operations of one layer under the recipe's split, in order."""
    system = inputs.system
    return LAYER[recipe.split](
        inputs.model,
        inputs.precision,
        system.matrix_flops / system.vector_flops,
        recipe.attention,
        tensor=tensor,
        microbatch=microbatch,
        fast_tensor=fast_tensor,
    )


def links(system: System) -> tuple[Number, ...]:
    """Return what a collective reads of the machine, in the order that it takes it."""
    return (
        system.fast_bandwidth * system.fast_efficiency,
        system.fast_latency,
        system.slow_bandwidth * system.slow_efficiency,
        system.slow_latency,
        system.nics,
    )


def message_time(message: Message | None, system: System) -> Number:
    """Return the seconds of a collective, 0 for none."""
    if message is None:
        return 0.0
    return message.collective(message.volume, message.group, message.fast, *links(system))


def timing(work: Work, message: Message | None, matrix: bool, system: System) -> Timing:
    """Return the exposed seconds of one operation in one direction; nothing overlaps (M7)."""
    rate = system.matrix_flops if matrix else system.vector_flops
    compute = roofline.compute_time(
        work.flops, rate, system.matrix_efficiency, system.launch_latency
    )
    memory = roofline.exposed_memory_time(work.traffic, compute, system.hbm_bandwidth)
    return Timing(compute, memory, message_time(message, system))


def timings(operation: LayerOperation, system: System) -> tuple[Timing, Timing]:
    """Return an operation's seconds forward and backward, without what is computed again."""
    forward = timing(operation.work.forward, operation.forward, operation.matrix, system)
    backward = timing(operation.work.backward, operation.backward, operation.matrix, system)
    return forward, backward


class Block(NamedTuple):
    """One layer and one microbatch on one accelerator."""

    forward: Number  # [s], communication included
    backward: Number
    compute: Number  # [s], both directions
    memory: Number
    communication: Number
    flops: Number  # [FLOP], both directions
    parameters: Number  # [1]
    kept: Number  # [B]


def block(
    inputs: Inputs, recipe: Recipe, *, tensor: Number, microbatch: Number, fast_tensor: Number
) -> Block:
    """Return the sums over one layer's operations.

    Units: tensor, fast_tensor [1], microbatch [sequence] -> Block.
    Source: fact sheet transformer_model, section 6.
    """
    layer = operations(
        inputs, recipe, tensor=tensor, microbatch=microbatch, fast_tensor=fast_tensor
    )
    passes: list[tuple[Timing, ...]] = []
    flops: list[Number] = []
    for operation in layer.values():
        forward, backward = timings(operation, inputs.system)
        again = (forward,) if operation.recomputed else ()
        passes.append((forward, backward, *again))
        runs = 2.0 if operation.recomputed else 1.0
        flops.append(runs * operation.work.forward.flops + operation.work.backward.flops)

    def total(field: str, direction: slice) -> Any:
        return sum(getattr(t, field) for times in passes for t in times[direction])

    ways = (slice(0, 1), slice(1, None))
    parts = {f: tuple(total(f, way) for way in ways) for f in Timing._fields}
    compute, memory, communication = (parts[f] for f in Timing._fields)
    return Block(
        forward=compute[0] + memory[0] + communication[0],
        backward=compute[1] + memory[1] + communication[1],
        compute=compute[0] + compute[1],
        memory=memory[0] + memory[1],
        communication=communication[0] + communication[1],
        flops=sum(flops),
        parameters=sum(operation.work.parameters for operation in layer.values()),
        kept=sum(operation.work.kept for operation in layer.values()),
    )


ATTENTION: dict[Attention, Callable[..., Operations]] = {
    Attention.FUSED: _fused,
    Attention.UNFUSED: _unfused,
    Attention.RECOMPUTE: _recompute,
}

LAYER: dict[Split, Callable[..., Operations]] = {Split.ONE_D: layer_1d}
