"""The memory of a rank under FSDP2, as torchtitan runs it: no pipeline, fp32 shards, bf16 work.

Source: docs/models/parameters_flops_memory.md, section 10.4.
"""

import dataclasses
import enum
from collections.abc import Callable

from jaxroof.estimators.training.activations import Terms, activations, sizes
from jaxroof.estimators.training.layer.operation import Sizes
from jaxroof.estimators.training.layer.sums import groups, layer_weights
from jaxroof.estimators.training.planned import PlannedStep
from jaxroof.estimators.training.recipe import AttentionKernel, TrainingRecipe
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import alone
from jaxroof.formulas.arithmetic import where
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


def fsdp2_memory(inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe) -> Fsdp2Memory:
    """Return the memory of a rank; replicas of the shards (HSDP) are the optimizer instances.

    N = L n + 2 o + h, o = V h, n a layer; weights 4 N / (G t) bytes, moments twice that, a pool of
    gradients as large; gathered 2 (ends + n) / t, 2 n in the pool; logits Lambda T V / t

    Assumes: an untied head; the vocabulary is not padded; one final norm without a bias.
    """
    model, plan, size = inputs.model, inputs.plan, sizes(inputs)
    block = layer_weights(groups(model))[0].all
    tensor, end = plan.tensor, model.vocabulary * model.hidden
    ends = ENDS[choices.ends] * end
    sharded = 4.0 * _parameters(inputs, block) / (_shards(inputs) * tensor)
    columns = size.tokens * model.vocabulary / tensor
    layer = sum(LAYER[choices.recompute](inputs, recipe, choices, size).values())
    whole, parted, hole = LOGIT_BYTES[choices.loss]
    active = {
        "weights": sharded,
        "optimizer": 2.0 * sharded,
        "activations": model.layers * layer,
        "logits": where(tensor > 1.0, parted, whole) * columns,
        "gathered": 2.0 * (ends + block) / tensor,
        "boundary": size.state,
    }
    pools = {
        "gradient_pool": sharded,
        "gather_pool": 2.0 * (ends + 2.0 * block) / tensor,
        "holes": hole * columns,
    }
    peak = sum(active.values())
    return Fsdp2Memory(**active, **pools, active=peak, reserved=peak + sum(pools.values()))


def _parameters(inputs: PlannedStep, block: Number) -> Number:
    model = inputs.model
    return model.layers * block + 2.0 * (model.vocabulary * model.hidden) + model.hidden


def _shards(inputs: PlannedStep) -> Number:
    """Return the ranks over which the parameters of a tensor rank are sharded."""
    return inputs.plan.data / inputs.states.optimizer_instances * inputs.plan.context


def fsdp2_stage(
    inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe
) -> tuple[StageMemory, Fsdp2Memory]:
    """Return FSDP2's memory of the one stage there is, and by its own terms.

    The logits are the momentary term; the pools of the allocator's streams are reserved, not
    allocated.
    """
    model, buffers = inputs.model, inputs.buffers
    found = fsdp2_memory(inputs, recipe, choices)
    parts = LAYER[choices.recompute](inputs, recipe, choices, sizes(inputs))
    kept = {f"activations_{name}": model.layers * value for name, value in parts.items()}
    kept["activations_norm_inputs"] = kept["activations_norm_inputs"] + found.boundary
    return alone(
        layers=model.layers,
        parameters_dense=found.weights * _shards(inputs) / 4.0,
        weights_dense=found.weights,
        optimizer_dense=found.optimizer,
        **kept,
        fsdp_gathered_weights=found.gathered,
        transient_head=found.logits,
        transient=found.logits,
        static=found.weights + found.optimizer + found.gathered,
        activations=found.activations + found.boundary,
        peak_allocated=found.active,
        reserved=found.reserved,
        device=found.reserved + buffers.cuda_context + buffers.communicator,
    ), found


def _full(inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe, size: Sizes) -> Terms:
    return {"norm_inputs": size.state / inputs.plan.tensor}


def _operators(
    inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe, size: Sizes
) -> Terms:
    """Return the terms of "selective op"; what reduce-scatters keep stands with the MLP.

    M = x / t + 2 T (a d + kappa d + f) / t + [not compiled] x + 2 T a d / t + 4 T a / t
    + [t > 1] 2 x / t

    Assumes: query, value and two products of the MLP are kept, and the attention's output;
    compiled blocks drop the output of the last product, which backward never reads.
    """
    model, tokens, state, tensor = inputs.model, size.tokens, size.state, inputs.plan.tensor
    heads, width = model.heads, model.head_size
    products = 2.0 * tokens * ((heads + model.kv_heads) * width + model.feedforward) / tensor
    attention = (2.0 * width + 4.0) * tokens * heads / tensor
    scattered = where(tensor > 1.0, 2.0 * state / tensor, 0.0)
    output = (1.0 - float(choices.compiled)) * state
    whole = state / tensor + products + output + attention + scattered
    parts = {
        "norm_inputs": state / tensor,
        "qkv": 2.0 * tokens * (heads + model.kv_heads) * width / tensor,  # keys are made again
        "attention_output": 2.0 * tokens * heads * width / tensor,
        "attention_scores": 4.0 * tokens * heads / tensor,
    }
    return {**parts, "mlp": whole - sum(parts.values())}


def _everything(
    inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe, size: Sizes
) -> Terms:
    """Return every term of section 4.5, with the attention's output kept once."""
    fused = dataclasses.replace(recipe, attention_kernel=AttentionKernel.CUDNN)
    return activations(inputs, fused, size, groups(inputs.model)).every.dense


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
