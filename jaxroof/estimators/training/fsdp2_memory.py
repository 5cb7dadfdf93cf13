"""The memory of a rank under FSDP2, as torchtitan runs it: no pipeline, fp32 shards, bf16 work.

Source: docs/models/parameters_flops_memory.md, section 10.4.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from jaxroof.estimators.training.layer_activations import Terms, dense_terms, sizes
from jaxroof.estimators.training.memory_inputs import MemoryInputs, MemoryPlan
from jaxroof.estimators.training.memory_recipe import MemoryRecipe
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.memory_activations import (
    attention_output,
    flash_statistics,
    hidden_state,
    microbatch_tokens,
    qkv_activations,
)
from jaxroof.records import Number, quantity, record


class Fsdp2Recompute(enum.Enum):
    """Which activations are computed again."""

    NONE = "none"
    OPERATORS = "op"  # every second matrix product, with all that lies between
    FULL = "full"


class Fsdp2Loss(enum.Enum):
    """How the loss is computed."""

    EAGER = "eager"
    COMPILED = "compiled"
    CHUNKED = "chunked"  # in 8 chunks


class Ends(enum.Enum):
    """Which group holds the embedding and the head."""

    ROOT = "root"  # one group for both
    HEAD = "head"  # the head is its own, the embedding is freed after use


@dataclasses.dataclass(frozen=True)
class Fsdp2Recipe:
    """The structural choices of a run under FSDP2."""

    recompute: Fsdp2Recompute = Fsdp2Recompute.FULL
    loss: Fsdp2Loss = Fsdp2Loss.EAGER
    ends: Ends = Ends.HEAD
    compiled: bool = False  # whether the blocks are


@record
class Fsdp2Plan:
    """How a run under FSDP2 is split."""

    data: Number = quantity("1", "Data-parallel degree.", whole=True)
    tensor: Number = quantity("1", "Tensor-parallel degree.", whole=True, default=1.0)
    context: Number = quantity("1", "Context-parallel degree.", whole=True, default=1.0)
    microbatch: Number = quantity("1", "Sequences of a rank.", whole=True, default=1.0)


@record
class Fsdp2Memory:
    """Bytes on one rank; the peak is at the loss, when no gradient exists."""

    weights: Number = quantity("B", "Shards of the weights.", part_of="active")
    optimizer: Number = quantity("B", "Shards of both moments.", part_of="active")
    activations: Number = quantity("B", "What all layers keep.", part_of="active")
    logits: Number = quantity("B", "Logits and what the loss makes of them.", part_of="active")
    gathered: Number = quantity("B", "Gathered weights of ends and last block.", part_of="active")
    boundary: Number = quantity("B", "Output of the last layer.", part_of="active")
    active: Number = quantity("B", "Active peak.", part_of="reserved")
    gradient_pool: Number = quantity("B", "Pool of the scattered gradients.", part_of="reserved")
    gather_pool: Number = quantity("B", "Pool of the gathered weights.", part_of="reserved")
    holes: Number = quantity("B", "Freed logits that nothing fits.", part_of="reserved")
    reserved: Number = quantity("B", "Peak that the allocator reserves.")


def fsdp2_memory(
    model: Any, plan: Fsdp2Plan, recipe: Fsdp2Recipe, sequence: Number, block: Number
) -> Fsdp2Memory:
    """Return the memory of a rank; ``block`` is the parameters n of one layer.

    N = L n + 2 o + h, o = V h; weights 4 N / (G t) bytes, moments twice that, a pool of gradients
    as large; gathered 2 (ends + n) / t, 2 n in the pool; logits Lambda T V / t

    Assumes: an untied head; the vocabulary is not padded; one final norm without a bias.
    """
    tokens, state = _tokens(plan, sequence), _state(model, plan, sequence)
    group, tensor = plan.data * plan.context, plan.tensor
    end = model.vocabulary * model.hidden
    ends = ENDS[recipe.ends] * end
    every = model.layers * block + 2.0 * end + model.hidden
    sharded = 4.0 * every / (group * tensor)
    columns = tokens * model.vocabulary / tensor
    layer = sum(layer_parts(model, plan, recipe, sequence).values())
    whole, parted, hole = LOGIT_BYTES[recipe.loss]
    active = {
        "weights": sharded,
        "optimizer": 2.0 * sharded,
        "activations": model.layers * layer,
        "logits": where(tensor > 1.0, parted, whole) * columns,
        "gathered": 2.0 * (ends + block) / tensor,
        "boundary": state,
    }
    pools = {
        "gradient_pool": sharded,
        "gather_pool": 2.0 * (ends + 2.0 * block) / tensor,
        "holes": hole * columns,
    }
    peak = sum(active.values())
    return Fsdp2Memory(**active, **pools, active=peak, reserved=peak + sum(pools.values()))


def layer_parts(model: Any, plan: Fsdp2Plan, recipe: Fsdp2Recipe, sequence: Number) -> Terms:
    """Return the bytes that one layer keeps, by the terms of a stage's memory."""
    return LAYER[recipe.recompute](model, plan, recipe, sequence)


def _full(model: Any, plan: Fsdp2Plan, recipe: Fsdp2Recipe, sequence: Number) -> Terms:
    return {"norm_inputs": _state(model, plan, sequence) / plan.tensor}


def _operators(model: Any, plan: Fsdp2Plan, recipe: Fsdp2Recipe, sequence: Number) -> Terms:
    """Return the terms of "selective op"; what reduce-scatters keep stands with the MLP.

    M = x / t + 2 T (a d + kappa d + f) / t + [not compiled] x + 2 T a d / t + 4 T a / t
    + [t > 1] 2 x / t

    Assumes: query, value and two products of the MLP are kept, and the attention's output;
    compiled blocks drop the output of the last product, which backward never reads.
    """
    tokens, state = _tokens(plan, sequence), _state(model, plan, sequence)
    heads, size, tensor = model.heads, model.head_size, plan.tensor
    products = 2.0 * tokens * ((heads + model.kv_heads) * size + model.feedforward) / tensor
    attention = (2.0 * size + 4.0) * tokens * heads / tensor
    scattered = where(tensor > 1.0, 2.0 * state / tensor, 0.0)
    output = (1.0 - float(recipe.compiled)) * state
    whole = state / tensor + products + output + attention + scattered
    parts = {
        "norm_inputs": state / tensor,
        # queries and values: keys are made again
        "qkv": qkv_activations(tokens, heads, 0.5 * model.kv_heads, size, 0.0, tensor, 2.0),
        "attention_output": attention_output(tokens, heads, size, tensor, 2.0),
        "attention_scores": flash_statistics(tokens, heads, tensor),
    }
    return {**parts, "mlp": whole - sum(parts.values())}


def _everything(model: Any, plan: Fsdp2Plan, recipe: Fsdp2Recipe, sequence: Number) -> Terms:
    """Return every term of section 4.5, with the attention's output kept once."""
    split = MemoryPlan(tensor=plan.tensor, context=plan.context, microbatch=plan.microbatch)
    counts: Any = None  # of parameters: no activation asks
    inputs = MemoryInputs(model=model, counts=counts, sequence=sequence, plan=split)
    return dense_terms(inputs, MemoryRecipe(), sizes(inputs))


def _tokens(plan: Fsdp2Plan, sequence: Number) -> Number:
    return microbatch_tokens(sequence, plan.context, plan.microbatch)


def _state(model: Any, plan: Fsdp2Plan, sequence: Number) -> Number:
    return hidden_state(_tokens(plan, sequence), model.hidden)


LAYER: dict[Fsdp2Recompute, Callable[..., Terms]] = {
    Fsdp2Recompute.NONE: _everything,
    Fsdp2Recompute.FULL: _full,
    Fsdp2Recompute.OPERATORS: _operators,
}
ENDS = {Ends.ROOT: 2.0, Ends.HEAD: 1.0}  # of embedding and head, in the root group
LOGIT_BYTES = {  # bytes of a logit: whole, sharded over tensor ranks, and the hole that it leaves
    Fsdp2Loss.EAGER: (12.0, 16.0, 2.0),
    Fsdp2Loss.COMPILED: (8.0, 8.0, 0.0),
    Fsdp2Loss.CHUNKED: (5.0, 5.0, 0.0),
}
