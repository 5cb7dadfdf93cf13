"""The memory of a rank under software that a general stage does not describe, by the same terms.

Source: docs/models/parameters_flops_memory.md, sections 10.4 and 10.5.
"""

from typing import Any

import numpy as np

from jaxroof.estimators.training.fsdp2_memory import (
    Fsdp2Memory,
    Fsdp2Plan,
    Fsdp2Recipe,
    fsdp2_memory,
    layer_parts,
)
from jaxroof.estimators.training.memory_2021 import Engine, peak_2021, saved_2021, stage_2021
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_report import StageMemory
from jaxroof.records import Number, units

WIDTHS_2021 = {  # bytes of a parameter: weights, gradients, optimizer states, these over ranks?
    Engine.MEGATRON: (2.0, 6.0, 12.0, False),
    Engine.MEGATRON_FIRST_STEP: (2.0, 4.0, 4.0, False),
    Engine.DEEPSPEED: (2.0, 2.0, 12.0, False),
    Engine.DEEPSPEED_FP16_ZERO_1: (2.0, 2.0, 12.0, True),
    Engine.DEEPSPEED_BF16_ZERO_1: (2.0, 4.0, 12.0, True),
}


def fsdp2_stage(inputs: MemoryInputs, recipe: Fsdp2Recipe) -> tuple[StageMemory, Fsdp2Memory]:
    """Return FSDP2's memory of the one stage there is, and by its own terms.

    Replicas of the sharding group (HSDP) are the optimizer instances of the inputs. The logits are
    the momentary term; the pools of the allocator's streams are reserved, not allocated.
    """
    plan, model, buffers = inputs.plan, inputs.model, inputs.buffers
    shards = Fsdp2Plan(
        data=plan.data / inputs.states.optimizer_instances,
        tensor=plan.tensor,
        context=plan.context,
        microbatch=plan.microbatch,
    )
    block = inputs.counts.dense_sharded + inputs.counts.dense_replicated
    found = fsdp2_memory(model, shards, recipe, inputs.sequence, block)
    parts = layer_parts(model, shards, recipe, inputs.sequence)
    kept = {f"activations_{name}": model.layers * value for name, value in parts.items()}
    kept["activations_norm_inputs"] = kept["activations_norm_inputs"] + found.boundary
    total = found.weights * plan.data / inputs.states.optimizer_instances * plan.context / 4.0
    return _stage(
        layers=model.layers,
        parameters_dense=total,
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


def stages_2021(inputs: MemoryInputs, engine: Engine) -> StageMemory:
    """Return the memory of every stage under Megatron-LM or DeepSpeed of 2021-22.

    What the optimizer's step needs beyond the states, where that is the peak, is momentary.
    """
    plan, buffers = inputs.plan, inputs.buffers
    stage: Any = np.arange(float(plan.pipeline))
    one = stage_2021(inputs, stage)
    peak: Any = peak_2021(inputs, engine, stage)
    weights, gradients, optimizer, sharded = WIDTHS_2021[engine]
    states = {
        "weights_dense": weights * one.parameters,
        "gradients_dense": gradients * one.parameters,
        "optimizer_dense": optimizer * one.parameters / (plan.data if sharded else 1.0),
    }
    static: Any = sum(states.values())
    kept: Any = np.minimum(saved_2021(one, engine), peak - static)
    reserved = peak * (1.0 + buffers.fragmentation)
    return _stage(
        layers=one.layers,
        parameters_dense=one.parameters,
        **states,
        activations_norm_inputs=kept,
        transient_layer_backward=peak - static - kept,
        transient=peak - static - kept,
        static=static,
        activations=kept,
        peak_allocated=peak,
        reserved=reserved,
        device=reserved + buffers.cuda_context + buffers.communicator,
    )


def _stage(**terms: Number) -> StageMemory:
    """Return a memory by stage whose other terms are 0."""
    wide = {name: np.atleast_1d(np.asarray(value, float)) for name, value in terms.items()}
    size = max(value.size for value in wide.values())
    every = {name: wide.get(name, np.zeros(1)) for name in units(StageMemory)}
    whole: dict[str, Any] = {name: np.broadcast_to(value, (size,)) for name, value in every.items()}
    return StageMemory(**whole)
