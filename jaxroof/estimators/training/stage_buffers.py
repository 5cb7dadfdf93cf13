"""Buffers that a stage has beside its states.

Source: docs/models/parameters_flops_memory.md, section 4.8.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxroof.estimators.training.layer_activations import Sizes
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.stage_layers import Kinds
from jaxroof.estimators.training.stage_states import (
    LayerParameters,
    largest_layer,
    padded_vocabulary,
)
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number

Matrix = tuple[Number, Number, Number]  # rows, columns, whether the stage has it (1 or 0)


def distinct_matrices(matrices: Sequence[Matrix], others: Sequence[Matrix] = ()) -> Number:
    """Return the elements of some matrices, each shape counted once, and none that others have.

    N = sum over the distinct pairs (m, n) of m n, where (m, n) is not (n, m)

    >>> float(distinct_matrices([(2.0, 3.0, 1.0), (2.0, 3.0, 1.0), (3.0, 2.0, 1.0)]))
    12.0
    >>> float(distinct_matrices([(2.0, 3.0, 1.0), (3.0, 2.0, 1.0)], [(3.0, 2.0, 1.0)]))
    6.0
    """
    total: Number = 0.0
    for place, (rows, columns, present) in enumerate(matrices):
        new = present > 0.0
        for other, across, there in (*others, *matrices[:place]):
            new = new & ((rows != other) | (columns != across) | (there <= 0.0))
        total = total + where(new, rows * columns, 0.0)
    return total


def attention_matrices(inputs: MemoryInputs) -> list[Matrix]:
    """Return the matrices of an attention on a rank: rows, columns, whether the model has them."""
    model, tensor = inputs.model, inputs.plan.tensor
    hidden, heads, latent = model.hidden, model.heads, where(model.latent > 0.0, 1.0, 0.0)
    queries = where(model.q_rank > 0.0, latent, 0.0)
    rotated = model.nope_size + model.rope_size
    projected = (heads + 2.0 * model.kv_heads) * model.head_size
    return [
        (projected / tensor, hidden, 1.0 - latent),
        (hidden, heads * model.head_size / tensor, 1.0 - latent),
        (model.q_rank, hidden, queries),
        (heads * rotated / tensor, model.q_rank, queries),
        (heads * rotated / tensor, hidden, latent - queries),
        (model.kv_rank + model.rope_size, hidden, latent),
        (heads * (model.nope_size + model.value_size) / tensor, model.kv_rank, latent),
        (hidden, heads * model.value_size / tensor, latent),
    ]


def dense_matrices(inputs: MemoryInputs, present: Number = 1.0) -> list[Matrix]:
    """Return the matrices of an MLP."""
    model, width = inputs.model, inputs.model.feedforward / inputs.plan.tensor
    gates = 1.0 + model.gated
    return [(gates * width, model.hidden, present), (model.hidden, width, present)]


def routing_matrices(inputs: MemoryInputs, present: Number = 1.0) -> list[Matrix]:
    """Return the matrices of one expert, whatever their number, and of the shared ones."""
    model, plan = inputs.model, inputs.plan
    gates, hidden = 1.0 + model.gated, model.hidden
    routed = model.expert_feedforward / plan.expert_tensor
    shared = model.shared_feedforward / plan.tensor
    return [
        (gates * routed, hidden, present),
        (hidden, routed, present),
        (gates * shared, hidden, present),
        (hidden, shared, present),
    ]


class Placeholders(NamedTuple):
    """Elements of the different shapes of a stage's matrices, by what the stage has."""

    attention: Number
    dense: Number  # more, with dense layers
    routing: Number  # more, with routing layers alone
    routing_beside: Number  # more, with routing layers beside dense ones
    head: Number  # more, with the head
    head_is_dense: Any  # whether the head has the shape of a matrix of dense layers
    head_is_routing: Any


def placeholders(inputs: MemoryInputs) -> Placeholders:
    """Return the elements that a stage's gradient placeholders have, by what the stage has."""
    attention = attention_matrices(inputs)
    dense, routing = dense_matrices(inputs), routing_matrices(inputs)
    head = [(padded_vocabulary(inputs) / inputs.plan.tensor, inputs.model.hidden, 1.0)]
    distinct = distinct_matrices
    return Placeholders(
        attention=distinct(attention),
        dense=distinct(dense, attention),
        routing=distinct(routing, attention),
        routing_beside=distinct(routing, [*attention, *dense]),
        head=distinct(head, attention),
        head_is_dense=distinct(head, dense) == 0.0,
        head_is_routing=distinct(head, routing) == 0.0,
    )


def of_stage(matrices: Placeholders, kinds: Kinds, last: Number) -> Number:
    """Return the elements of the different shapes of a stage's matrices."""
    dense, routing = kinds.dense > 0.0, kinds.routing > 0.0
    more = where(dense, matrices.routing_beside, matrices.routing)
    counted = (dense & matrices.head_is_dense) | (routing & matrices.head_is_routing)
    head = where((last > 0.0) & ~counted, matrices.head, 0.0)
    found = matrices.attention + where(dense, matrices.dense, 0.0)
    return found + where(routing, more, 0.0) + head


def largest_matrix(matrices: list[Matrix]) -> Number:
    """Return the elements of the largest matrix of a list that a stage has."""
    largest: Number = 0.0
    for rows, columns, present in matrices:
        largest = larger(largest, where(present > 0.0, rows * columns, 0.0))
    return largest


class Buffered(NamedTuple):
    """Bytes of the buffers that every stage has, and of those that some have."""

    every: dict[str, Number]
    matrices: Placeholders
    gather: Number  # with the head


def buffers(inputs: MemoryInputs, size: Sizes, layer: LayerParameters) -> Buffered:
    """Return the bytes of buffers, before it is known which stage has them.

    ZeRO 3 has gathered the weights of the largest unit and of those ahead, beta (max(unit, end) +
    prefetch unit), and not yet scattered the gradient of one layer and its copy in the format of
    the reduction, (beta + reduce) unit; a table of rotations is 4 (s / C) w bytes, w the head size
    or the rotated width of latent attention
    """
    model, plan, states = inputs.model, inputs.plan, inputs.states
    beta = inputs.activations.activation_bytes
    unit, sharded = largest_layer(inputs, layer), states.zero_stage >= 3.0
    weights = beta * (larger(unit, layer.vocabulary) + states.prefetch * unit)
    width = where(model.latent > 0.0, model.rope_size, model.head_size)
    table = 4.0 * inputs.sequence / plan.context * width
    every = {
        "fsdp_gathered_weights": where(sharded, weights, 0.0),
        "fsdp_gathered_gradients": where(sharded, (beta + states.reduce_bytes) * unit, 0.0),
        "rope_table": where(model.positions > 0.0, 0.0, table),
    }
    gather = where(size.shards > 1.0, size.state, 0.0)
    return Buffered(every, placeholders(inputs), gather)


def buffer_terms(
    inputs: MemoryInputs, buffered: Buffered, kinds: Kinds, last: Number
) -> dict[str, Number]:
    """Return the bytes of a stage's buffers; ``kinds`` are its layers, prediction included."""
    kept, beta = inputs.buffers, inputs.activations.activation_bytes
    grouped = where(kinds.routing > 0.0, kept.grouped_workspace, 0.0)
    elements = of_stage(buffered.matrices, kinds, last)
    return {
        **buffered.every,
        "gradient_placeholders": kept.gradient_placeholders * beta * elements,
        "gather_buffer": buffered.gather * last,
        "workspace": kept.workspace + grouped,
    }
