"""The memory of every stage under Megatron-LM and DeepSpeed of 2021-22.

Dropouts are on, sequence parallelism is off, all layers are computed again.
Source: docs/models/parameters_flops_memory.md, section 10.5.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.activations import activations, sizes
from jaxroof.estimators.training.layer.sums import groups, layer_shapes
from jaxroof.estimators.training.planned import PlannedStep
from jaxroof.estimators.training.recipe import AttentionKernel, CrossEntropy, TrainingRecipe
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import alone
from jaxroof.estimators.training.stage_terms import (
    backward,
    head,
    layer_parameters,
    matrix_gradients,
    stage_parameters,
)
from jaxroof.estimators.training.stages import stage_layers
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number


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


class Stage2021(NamedTuple):
    """What a peak is made of."""

    parameters: Number
    layers: Number
    state: Number  # bytes of a hidden state
    scores: Number  # b s^2
    momentary: Number  # [B]
    in_flight: Number  # p - i
    microbatches: Number
    data: Number


def peak_2021(inputs: PlannedStep, recipe: TrainingRecipe, engine: Engine, stage: Number) -> Number:
    """Return the allocated peak of a stage."""
    return peak(stage_2021(inputs, recipe, stage), engine)


def peak(stage: Stage2021, engine: Engine) -> Number:
    """Return the allocated peak of what it is made of."""
    return PEAKS[engine](stage, engine)


def stage_2021(inputs: PlannedStep, recipe: TrainingRecipe, stage: Number) -> Stage2021:
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
    parameters, _ = stage_parameters(inputs, counted, layer_parameters(inputs, recipe, of))
    again = activations(inputs, recipe, size, of).again
    of_layer = backward(inputs, size, again).largest(counted.layers)
    matrix = matrix_gradients(inputs, layer_shapes(of, plan)).largest(counted.layers)
    sent = where(plan.pipeline > 1.0, 2.0 * size.state, 0.0)
    momentary = larger(head(inputs, recipe, size) * counted.last, of_layer)
    sequence = inputs.model.sequence
    return Stage2021(
        parameters=parameters,
        layers=counted.layers.dense,
        state=size.state,
        scores=plan.microbatch * sequence * sequence,
        momentary=momentary + matrix + sent,
        in_flight=plan.pipeline - stage,
        microbatches=plan.microbatches,
        data=plan.data,
    )


def states(stage: Stage2021, engine: Engine) -> Number:
    """Return the bytes of a stage's weights, gradients and optimizer states."""
    width = WIDTHS[engine]
    plain, optimizer = width.weights + width.gradients, width.optimizer * stage.parameters
    if width.shared:
        return plain * stage.parameters + optimizer / stage.data
    return (plain + width.optimizer) * stage.parameters


def saved_2021(stage: Stage2021, engine: Engine) -> Number:
    """Return the bytes of saved inputs that a stage holds at most."""
    return smaller(stage.microbatches, stage.in_flight) * _layer_inputs(stage, engine)


def _layer_inputs(stage: Stage2021, engine: Engine) -> Number:
    """Return the saved inputs of one microbatch: (l + 1) x + b s^2, of DeepSpeed l x + 4 b s^2."""
    if engine in (Engine.MEGATRON, Engine.MEGATRON_FIRST_STEP):
        return (stage.layers + 1.0) * stage.state + stage.scores
    return stage.layers * stage.state + 4.0 * stage.scores


def _second_backward(stage: Stage2021, engine: Engine) -> Number:
    """Return the bytes in flight at the second backward pass, one microbatch fewer."""
    passes = larger(smaller(stage.microbatches - 1.0, stage.in_flight), 1.0)
    return passes * _layer_inputs(stage, engine)


def between_steps(parameters: Number, state: Number) -> Number:
    """Return the bytes of a stage of Megatron between steps, 20 N + 2 x.

    Assumes: an attribute keeps the last fp16 gradient.
    """
    return 20.0 * parameters + 2.0 * state


def _megatron(stage: Stage2021, engine: Engine) -> Number:
    """Return max(22 N + max(min(M - 1, p - i), 1) each, 20 N + min(M, p - i) each) + momentary.

    Assumes: local data parallelism without contiguous buffers; new fp16 gradients exist from the
    second backward pass on.
    """
    own = states(stage, engine)
    second = own + 2.0 * stage.parameters + _second_backward(stage, engine)
    return larger(second, own + saved_2021(stage, engine)) + stage.momentary


def _first_step(stage: Stage2021, engine: Engine) -> Number:
    """Return max(20 N + 2 x, 10 N + max(min(M - 1, p - i), 1) each + momentary).

    Assumes: moments are made at the end of the first step, when no activation lives.
    """
    live = states(stage, engine) + _second_backward(stage, engine) + stage.momentary
    return larger(between_steps(stage.parameters, stage.state), live)


def _deepspeed(stage: Stage2021, engine: Engine) -> Number:
    """Return max(20 N, 16 N + saved + momentary), without ZeRO; the optimizer's step needs 20 N."""
    live = states(stage, engine) + saved_2021(stage, engine) + stage.momentary
    return larger(20.0 * stage.parameters, live)


def _sharded(stage: Stage2021, engine: Engine) -> Number:
    """Return w N + 12 N / D + max(saved + momentary, 4 N / D + bucket), with ZeRO 1."""
    live = saved_2021(stage, engine) + stage.momentary
    gathered = 4.0 * (stage.parameters / stage.data) + BUCKET
    return states(stage, engine) + larger(live, gathered)


def stages_2021(inputs: PlannedStep, recipe: TrainingRecipe, engine: Engine) -> StageMemory:
    """Return the memory of every stage.

    What the optimizer's step needs beyond the states, where that is the peak, is momentary.
    """
    plan, buffers = inputs.plan, inputs.buffers
    stage: Any = np.arange(float(plan.pipeline))
    one = stage_2021(inputs, recipe, stage)
    most: Any = peak(one, engine)
    width = WIDTHS[engine]
    parts = {
        "weights_dense": width.weights * one.parameters,
        "gradients_dense": width.gradients * one.parameters,
        "optimizer_dense": width.optimizer * one.parameters / (plan.data if width.shared else 1.0),
    }
    static: Any = sum(parts.values())
    kept: Any = np.minimum(saved_2021(one, engine), most - static)
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


BUCKET = 1e9  # [B] of a gather of ZeRO 1
PEAKS: dict[Engine, Callable[[Stage2021, Engine], Number]] = {
    Engine.MEGATRON: _megatron,
    Engine.MEGATRON_FIRST_STEP: _first_step,
    Engine.DEEPSPEED: _deepspeed,
    Engine.DEEPSPEED_FP16_ZERO_1: _sharded,
    Engine.DEEPSPEED_BF16_ZERO_1: _sharded,
}
WIDTHS = {  # fp16 and fp32 gradients, an fp32 master and moments, none before the first step
    Engine.MEGATRON: Widths(2.0, 6.0, 12.0),
    Engine.MEGATRON_FIRST_STEP: Widths(2.0, 4.0, 4.0),
    Engine.DEEPSPEED: Widths(2.0, 2.0, 12.0),
    Engine.DEEPSPEED_FP16_ZERO_1: Widths(2.0, 2.0, 12.0, shared=True),
    Engine.DEEPSPEED_BF16_ZERO_1: Widths(2.0, 4.0, 12.0, shared=True),
}
