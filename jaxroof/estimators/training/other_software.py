"""The memory of a step under other software: FSDP2 of torchtitan; Megatron-LM, DeepSpeed of 2021.

FSDP2 has no pipeline, fp32 shards and bf16 work. In 2021-22 dropouts are on, sequence parallelism
is off, all layers are computed again.
Source: docs/models/parameters_flops_memory.md, sections 10.4 and 10.5.
"""

import dataclasses
import enum
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.layer.operation import Sizes
from jaxroof.estimators.training.layer.sums import (
    Terms,
    activations,
    groups,
    layer_shapes,
    layer_weights,
    sizes,
)
from jaxroof.estimators.training.recipe import AttentionKernel, CrossEntropy, TrainingRecipe
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import (
    alone,
    backward,
    head,
    layer_parameters,
    matrix_gradients,
    stage_parameters,
)
from jaxroof.estimators.training.stages import stage_layers
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number, quantity, record

# ---- FSDP2 --------------------------------------------------------------------------------------


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


LOGIT_BYTES = {  # bytes of a logit: whole, sharded over tensor ranks, and the hole that it leaves
    Fsdp2Loss.EAGER: (12.0, 16.0, 2.0),
    Fsdp2Loss.COMPILED: (8.0, 8.0, 0.0),
    Fsdp2Loss.CHUNKED: (5.0, 5.0, 0.0),
}


def fsdp2_memory(inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe) -> Fsdp2Memory:
    """Return the memory of a rank; replicas of the shards (HSDP) are the optimizer instances.

    N = L n + 2 o + h, o = V h, n a layer; weights 4 N / (G t) bytes, moments twice that, a pool of
    gradients as large; gathered 2 (ends + n) / t, 2 n in the pool; logits Lambda T V / t

    Assumes: an untied head; the vocabulary is not padded; one final norm without a bias.
    """
    model, plan, size = inputs.model, inputs.plan, sizes(inputs)
    block = layer_weights(groups(model))[0].all
    tensor, end = plan.tensor, model.vocabulary * model.hidden
    ends = (2.0 if choices.ends is Ends.ROOT else 1.0) * end
    parameters = model.layers * block + 2.0 * end + model.hidden
    sharded = 4.0 * parameters / (_shards(inputs) * tensor)
    columns = size.tokens * model.vocabulary / tensor
    whole, parted, hole = LOGIT_BYTES[choices.loss]
    active = {
        "weights": sharded,
        "optimizer": 2.0 * sharded,
        "activations": model.layers * sum(_layer_terms(inputs, recipe, choices, size).values()),
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
    model, found = inputs.model, fsdp2_memory(inputs, recipe, choices)
    parts = _layer_terms(inputs, recipe, choices, sizes(inputs))
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
        device=found.reserved + inputs.buffers.cuda_context + inputs.buffers.communicator,
    ), found


def _layer_terms(
    inputs: PlannedStep, recipe: TrainingRecipe, choices: Fsdp2Recipe, size: Sizes
) -> Terms:
    """Return what a layer keeps; under "selective op" what reduce-scatters keep is with the MLP.

    M = x / t + 2 T (a d + kappa d + f) / t + [not compiled] x + 2 T a d / t + 4 T a / t
    + [t > 1] 2 x / t

    Assumes: query, value and two products of the MLP are kept, and the attention's output, once;
    compiled blocks drop the output of the last product, which backward never reads.
    """
    if choices.recompute is Fsdp2Recompute.NONE:
        fused = dataclasses.replace(recipe, attention_kernel=AttentionKernel.CUDNN)
        plan = dataclasses.replace(inputs.plan, recompute=0.0)
        plain = dataclasses.replace(inputs, plan=plan)
        return activations(plain, fused, size, groups(inputs.model))[0].saved
    model, tokens, state, tensor = inputs.model, size.tokens, size.state, inputs.plan.tensor
    if choices.recompute is Fsdp2Recompute.FULL:
        return {"norm_inputs": state / tensor}
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


# ---- Megatron-LM and DeepSpeed of 2021-22 -------------------------------------------------------


class Engine(enum.Enum):
    """The code that ran, and how far."""

    MEGATRON = "megatron"
    MEGATRON_FIRST_STEP = "megatron, before the first step"
    DEEPSPEED = "deepspeed"
    DEEPSPEED_FP16_ZERO_1 = "deepspeed, ZeRO 1, FP16"
    DEEPSPEED_BF16_ZERO_1 = "deepspeed, ZeRO 1, BF16 optimizer"


class Widths(NamedTuple):
    """Bytes of a parameter in every kind of state, and whether data ranks share the optimizer's."""

    weights: float
    gradients: float
    optimizer: float
    shared: bool = False


BUCKET = 1e9  # [B] of a gather of ZeRO 1
WIDTHS = {  # fp16 and fp32 gradients, an fp32 master and moments, none before the first step
    Engine.MEGATRON: Widths(2.0, 6.0, 12.0),
    Engine.MEGATRON_FIRST_STEP: Widths(2.0, 4.0, 4.0),
    Engine.DEEPSPEED: Widths(2.0, 2.0, 12.0),
    Engine.DEEPSPEED_FP16_ZERO_1: Widths(2.0, 2.0, 12.0, shared=True),
    Engine.DEEPSPEED_BF16_ZERO_1: Widths(2.0, 4.0, 12.0, shared=True),
}


class Stage2021(NamedTuple):
    """What the peak of a stage is made of."""

    engine: Engine
    parameters: Number
    layers: Number
    state: Number  # bytes of a hidden state
    scores: Number  # b s^2
    momentary: Number  # [B]
    in_flight: Number  # p - i
    microbatches: Number
    data: Number

    @property
    def states(self) -> Number:
        """Return the bytes of weights, gradients and optimizer states."""
        width = WIDTHS[self.engine]
        plain = width.weights + width.gradients
        if width.shared:
            return plain * self.parameters + width.optimizer * self.parameters / self.data
        return (plain + width.optimizer) * self.parameters

    @property
    def inputs(self) -> Number:
        """Return the saved inputs of one microbatch, (l + 1) x + b s^2, or l x + 4 b s^2."""
        if self.engine in (Engine.MEGATRON, Engine.MEGATRON_FIRST_STEP):
            return (self.layers + 1.0) * self.state + self.scores
        return self.layers * self.state + 4.0 * self.scores

    @property
    def saved(self) -> Number:
        """Return the bytes of saved inputs that a stage holds at most."""
        return smaller(self.microbatches, self.in_flight) * self.inputs

    @property
    def between_steps(self) -> Number:
        """Return the bytes between steps: an attribute keeps the last fp16 gradient."""
        return 20.0 * self.parameters + 2.0 * self.state

    @property
    def peak(self) -> Number:
        """Return the allocated peak.

        Megatron    max(22 N + max(min(M - 1, p - i), 1) each, 20 N + saved) + momentary
        before its first step, 10 N and no moments: max(20 N + 2 x, live)
        DeepSpeed   max(20 N, 16 N + saved + momentary), the optimizer's step needs 20 N
        with ZeRO 1 w N + 12 N / D + max(saved + momentary, 4 N / D + bucket)

        Assumes: local data parallelism without contiguous buffers; new fp16 gradients exist from
        the second backward pass on; moments are made at the end of the first step, when no
        activation lives.
        """
        own, saved, momentary = self.states, self.saved, self.momentary
        second = larger(smaller(self.microbatches - 1.0, self.in_flight), 1.0) * self.inputs
        if self.engine is Engine.MEGATRON:
            return larger(own + 2.0 * self.parameters + second, own + saved) + momentary
        if self.engine is Engine.MEGATRON_FIRST_STEP:
            return larger(self.between_steps, own + second + momentary)
        if self.engine is Engine.DEEPSPEED:
            return larger(20.0 * self.parameters, own + saved + momentary)
        return own + larger(saved + momentary, 4.0 * (self.parameters / self.data) + BUCKET)


def stage_2021(
    inputs: PlannedStep, recipe: TrainingRecipe, engine: Engine, stage: Number
) -> Stage2021:
    """Return the parameters, layers and momentary bytes of a stage.

    momentary = max(head, layer_backward) + gradient of the largest matrix of a layer + [p > 1] 2 x
    """
    plan = dataclasses.replace(inputs.plan, recompute=2.0)
    inputs = dataclasses.replace(inputs, plan=plan)
    recipe = dataclasses.replace(
        recipe,
        attention_kernel=AttentionKernel.UNFUSED,
        cross_entropy=CrossEntropy.VOCABULARY_PARALLEL,
    )
    size, counted, of = sizes(inputs), stage_layers(inputs, recipe, stage), groups(inputs.model)
    parameters, _ = stage_parameters(counted, layer_parameters(inputs, recipe, of))
    kinds = activations(inputs, recipe, size, of)
    of_layer = backward(inputs, size, kinds).largest(counted.layers)
    matrix = matrix_gradients(inputs, layer_shapes(of, plan)).largest(counted.layers)
    sent = where(plan.pipeline > 1.0, 2.0 * size.state, 0.0)
    momentary = larger(head(inputs, recipe, size) * counted.last, of_layer)
    sequence = inputs.model.sequence
    return Stage2021(
        engine=engine,
        parameters=parameters,
        layers=counted.layers.leading,
        state=size.state,
        scores=plan.microbatch * sequence * sequence,
        momentary=momentary + matrix + sent,
        in_flight=plan.pipeline - stage,
        microbatches=plan.microbatches,
        data=plan.data,
    )


def stages_2021(inputs: PlannedStep, recipe: TrainingRecipe, engine: Engine) -> StageMemory:
    """Return the memory of every stage.

    What the optimizer's step needs beyond the states, where that is the peak, is momentary.
    """
    plan, buffers, width = inputs.plan, inputs.buffers, WIDTHS[engine]
    stage: Any = np.arange(float(plan.pipeline))
    one = stage_2021(inputs, recipe, engine, stage)
    most: Any = one.peak
    parts = {
        "weights_dense": width.weights * one.parameters,
        "gradients_dense": width.gradients * one.parameters,
        "optimizer_dense": width.optimizer * one.parameters / (plan.data if width.shared else 1.0),
    }
    static: Any = sum(parts.values())
    kept: Any = np.minimum(one.saved, most - static)
    reserved = most * (1.0 + buffers.fragmentation)
    return alone(
        layers=one.layers,
        parameters_dense=one.parameters,
        **parts,
        activations_norm_inputs=kept,
        transient_layer_backward=most - static - kept,
        transient=most - static - kept,
        static=static,
        activations=kept,
        peak_allocated=most,
        reserved=reserved,
        device=reserved + buffers.cuda_context + buffers.communicator,
    )
