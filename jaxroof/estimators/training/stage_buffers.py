"""Buffers that a stage has beside its states.

Source: docs/models/parameters_flops_memory.md, section 4.8.
"""

from jaxroof.estimators.training.layer_activations import Sizes
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.stage_layers import Kinds
from jaxroof.estimators.training.stage_states import (
    LayerParameters,
    largest_layer,
    padded_vocabulary,
)
from jaxroof.formulas import memory_buffers as formulas
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.formulas.memory_buffers import Matrix
from jaxroof.records import Number


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


def feedforward_matrices(inputs: MemoryInputs, kinds: Kinds) -> list[Matrix]:
    """Return the matrices of MLPs and experts, by whether a stage has layers of each kind."""
    model, plan = inputs.model, inputs.plan
    gates, hidden = 1.0 + model.gated, model.hidden
    dense = model.feedforward / plan.tensor
    routed = model.expert_feedforward / plan.expert_tensor
    shared = model.shared_feedforward / plan.tensor
    return [
        (gates * dense, hidden, kinds.dense),
        (hidden, dense, kinds.dense),
        (gates * routed, hidden, kinds.routing),
        (hidden, routed, kinds.routing),
        (gates * shared, hidden, kinds.routing),
        (hidden, shared, kinds.routing),
    ]


def largest_matrix(matrices: list[Matrix]) -> Number:
    """Return the elements of the largest matrix of a list that a stage has."""
    largest: Number = 0.0
    for rows, columns, present in matrices:
        largest = larger(largest, where(present > 0.0, rows * columns, 0.0))
    return largest


def buffer_terms(
    inputs: MemoryInputs, size: Sizes, layer: LayerParameters, kinds: Kinds, last: Number
) -> dict[str, Number]:
    """Return the bytes of a stage's buffers; ``kinds`` are its layers, prediction included."""
    model, plan, states = inputs.model, inputs.plan, inputs.states
    beta, buffers = inputs.activations.activation_bytes, inputs.buffers
    head = (padded_vocabulary(inputs) / plan.tensor, model.hidden, last)
    matrices = [*attention_matrices(inputs), *feedforward_matrices(inputs, kinds), head]
    unit = largest_layer(inputs, layer)
    width = where(model.latent > 0.0, model.rope_size, model.head_size)
    grouped = where(kinds.routing > 0.0, buffers.grouped_workspace, 0.0)
    return {
        "gradient_placeholders": buffers.gradient_placeholders
        * beta
        * formulas.distinct_matrices(matrices),
        "gather_buffer": where(size.shards > 1.0, size.state, 0.0) * last,
        "fsdp_gathered_weights": formulas.gathered_weights(
            unit, layer.vocabulary, states.prefetch, states.zero_stage, beta
        ),
        "fsdp_gathered_gradients": formulas.gathered_gradients(
            unit, states.zero_stage, beta, states.reduce_bytes
        ),
        "workspace": buffers.workspace + grouped,
        "rope_table": formulas.rope_table(inputs.sequence, plan.context, width, model.positions),
    }
