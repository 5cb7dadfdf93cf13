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
from jaxroof.formulas import memory_megatron_2021 as formulas
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


def saved_2021(stage: Stage2021, engine: Engine) -> Number:
    """Return the bytes of saved inputs that a stage holds at most."""
    deepspeed = engine not in (Engine.MEGATRON, Engine.MEGATRON_FIRST_STEP)
    if deepspeed:
        return _saved(stage)
    each = formulas.layer_inputs(stage.layers + 1.0, stage.state, stage.scores)
    return smaller(stage.microbatches, stage.in_flight) * each


def _megatron(stage: Stage2021) -> Number:
    return formulas.megatron_peak(
        stage.parameters,
        formulas.layer_inputs(stage.layers + 1.0, stage.state, stage.scores),
        stage.momentary,
        stage.in_flight,
        stage.microbatches,
    )


def _first_step(stage: Stage2021) -> Number:
    return formulas.megatron_first_peak(
        stage.parameters,
        stage.state,
        formulas.layer_inputs(stage.layers + 1.0, stage.state, stage.scores),
        stage.momentary,
        stage.in_flight,
        stage.microbatches,
    )


def _saved(stage: Stage2021) -> Number:
    each = formulas.layer_inputs(stage.layers, stage.state, 4.0 * stage.scores)
    return smaller(stage.microbatches, stage.in_flight) * each


def _deepspeed(stage: Stage2021) -> Number:
    return formulas.deepspeed_peak(stage.parameters, _saved(stage), stage.momentary)


def _sharded(width: float) -> Callable[[Stage2021], Number]:
    def peak(stage: Stage2021) -> Number:
        return formulas.deepspeed_sharded_peak(
            stage.parameters, _saved(stage), stage.momentary, stage.data, width
        )

    return peak


PEAKS: dict[Engine, Callable[[Stage2021], Number]] = {
    Engine.MEGATRON: _megatron,
    Engine.MEGATRON_FIRST_STEP: _first_step,
    Engine.DEEPSPEED: _deepspeed,
    Engine.DEEPSPEED_FP16_ZERO_1: _sharded(4.0),
    Engine.DEEPSPEED_BF16_ZERO_1: _sharded(6.0),
}
