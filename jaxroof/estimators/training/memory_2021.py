"""The peak of a stage under Megatron-LM and DeepSpeed of 2021-22.

Source: docs/models/parameters_flops_memory.md, section 10.5.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import NamedTuple

from jaxroof.estimators.training.layer_activations import every_term, recomputed, saved_terms, sizes
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import (
    AttentionKernel,
    CrossEntropy,
    MemoryRecipe,
    Recompute,
)
from jaxroof.estimators.training.stage_layers import stage_layers
from jaxroof.estimators.training.stage_momentary import (
    backward,
    head,
    larger_of,
    matrix_gradients,
)
from jaxroof.estimators.training.stage_states import (
    head_parameters,
    layer_parameters,
    stage_parameters,
)
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number

RECIPE = MemoryRecipe(
    recompute=Recompute.FULL,
    attention_kernel=AttentionKernel.UNFUSED,
    cross_entropy=CrossEntropy.VOCABULARY_PARALLEL,
)


class Engine(enum.Enum):
    """The code that ran, and how far."""

    MEGATRON = "megatron"
    MEGATRON_FIRST_STEP = "megatron, before the first step"
    DEEPSPEED = "deepspeed"
    DEEPSPEED_FP16_ZERO_1 = "deepspeed, ZeRO 1, FP16"
    DEEPSPEED_BF16_ZERO_1 = "deepspeed, ZeRO 1, BF16 optimizer"


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


def peak_2021(
    inputs: MemoryInputs, engine: Engine, stage: Number, split: tuple[int, ...] = ()
) -> Number:
    """Return the allocated peak of a stage; dropouts are on, sequence parallelism is off.

    ``split`` has the layers of every stage, where they are not even.
    """
    return PEAKS[engine](stage_2021(inputs, stage, split))


def stage_2021(inputs: MemoryInputs, stage: Number, split: tuple[int, ...] = ()) -> Stage2021:
    """Return the parameters, layers and momentary bytes of a stage.

    momentary = max(head, layer_backward) + gradient of the largest matrix of a layer + [p > 1] 2 x
    """
    plan, size = inputs.plan, sizes(inputs)
    recipe = dataclasses.replace(RECIPE, layer_split=split)
    counted = stage_layers(inputs.model, plan, recipe, stage)
    layer = layer_parameters(inputs)
    ends = head_parameters(inputs, RECIPE, layer)
    parameters, _ = stage_parameters(inputs, counted, layer, ends)
    every = every_term(inputs, RECIPE, size)
    again = recomputed(every, saved_terms(inputs, RECIPE, size, every))
    of_layer = larger_of(backward(inputs, size, again), counted.layers)
    matrix = larger_of(matrix_gradients(inputs), counted.layers)
    sent = where(plan.pipeline > 1.0, 2.0 * size.state, 0.0)
    momentary = larger(head(inputs, RECIPE, size) * counted.last, of_layer)
    return Stage2021(
        parameters=parameters,
        layers=counted.layers.dense,
        state=size.state,
        scores=plan.microbatch * inputs.sequence * inputs.sequence,
        momentary=momentary + matrix + sent,
        in_flight=plan.pipeline - stage,
        microbatches=plan.microbatches,
        data=plan.data,
    )


def layer_inputs(stage: Stage2021, deepspeed: bool) -> Number:
    """Return the saved inputs of one microbatch: (l + 1) x + b s^2, of DeepSpeed l x + 4 b s^2."""
    if deepspeed:
        return stage.layers * stage.state + 4.0 * stage.scores
    return (stage.layers + 1.0) * stage.state + stage.scores


def saved_2021(stage: Stage2021, engine: Engine) -> Number:
    """Return the bytes of saved inputs that a stage holds at most."""
    return _saved(stage, engine not in (Engine.MEGATRON, Engine.MEGATRON_FIRST_STEP))


def _saved(stage: Stage2021, deepspeed: bool) -> Number:
    return smaller(stage.microbatches, stage.in_flight) * layer_inputs(stage, deepspeed)


def _second_backward(stage: Stage2021) -> Number:
    """Return the bytes in flight at the second backward pass, one microbatch fewer."""
    passes = larger(smaller(stage.microbatches - 1.0, stage.in_flight), 1.0)
    return passes * layer_inputs(stage, deepspeed=False)


def between_steps(parameters: Number, state: Number) -> Number:
    """Return the bytes of a stage of Megatron between steps, 20 N + 2 x.

    Assumes: weights 2, fp16 gradient 2, fp32 gradient 4, master 4 and moments 8 bytes; an attribute
    keeps the last fp16 gradient.
    """
    return 20.0 * parameters + 2.0 * state


def _megatron(stage: Stage2021) -> Number:
    """Return max(22 N + max(min(M - 1, p - i), 1) each, 20 N + min(M, p - i) each) + momentary.

    Assumes: local data parallelism without contiguous buffers; new fp16 gradients exist from the
    second backward pass on.
    """
    second = 22.0 * stage.parameters + _second_backward(stage)
    first = 20.0 * stage.parameters + _saved(stage, deepspeed=False)
    return larger(second, first) + stage.momentary


def _first_step(stage: Stage2021) -> Number:
    """Return max(20 N + 2 x, 10 N + max(min(M - 1, p - i), 1) each + momentary).

    Assumes: moments are made at the end of the first step, when no activation lives.
    """
    live = 10.0 * stage.parameters + _second_backward(stage) + stage.momentary
    return larger(between_steps(stage.parameters, stage.state), live)


def _deepspeed(stage: Stage2021) -> Number:
    """Return max(20 N, 16 N + saved + momentary), without ZeRO; the optimizer's step needs 20 N."""
    live = 16.0 * stage.parameters + _saved(stage, deepspeed=True) + stage.momentary
    return larger(20.0 * stage.parameters, live)


def _sharded(width: float) -> Callable[[Stage2021], Number]:
    """Return w N + 12 N / D + max(saved + momentary, 4 N / D + bucket), with ZeRO 1."""

    def peak(stage: Stage2021) -> Number:
        shard = stage.parameters / stage.data
        live = _saved(stage, deepspeed=True) + stage.momentary
        return width * stage.parameters + 12.0 * shard + larger(live, 4.0 * shard + BUCKET)

    return peak


BUCKET = 1e9  # [B] of a gather of ZeRO 1
PEAKS: dict[Engine, Callable[[Stage2021], Number]] = {
    Engine.MEGATRON: _megatron,
    Engine.MEGATRON_FIRST_STEP: _first_step,
    Engine.DEEPSPEED: _deepspeed,
    Engine.DEEPSPEED_FP16_ZERO_1: _sharded(4.0),
    Engine.DEEPSPEED_BF16_ZERO_1: _sharded(6.0),
}
