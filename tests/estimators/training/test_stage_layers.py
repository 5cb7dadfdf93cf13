"""Layers of a stage and microbatches in flight: the closed form over chunks, chunk by chunk."""

import dataclasses
import types

import numpy as np
import pytest

from jaxroof.estimators.training.legality import layers_divisible_but_ends
from jaxroof.estimators.training.memory_inputs import MemoryPlan
from jaxroof.estimators.training.memory_recipe import LayerDivision, MemoryRecipe, Schedule
from jaxroof.estimators.training.stage_layers import chunk_split, stage_layers
from jaxroof.estimators.training.stage_time import stage_layers as layers_of_time

EVEN, UNEVEN = LayerDivision.EVEN, LayerDivision.UNEVEN
SHAPES = [  # layers, leading dense layers, experts, pipeline, interleave, how layers are divided
    (126, 0, 0, 16, 1, EVEN),
    (126, 0, 0, 4, 7, EVEN),
    (61, 3, 256, 16, 1, EVEN),
    (61, 3, 256, 5, 3, EVEN),
    (61, 20, 256, 4, 4, EVEN),
    (12, 5, 8, 4, 3, EVEN),
    (7, 1, 8, 1, 1, EVEN),
    (9, 9, 8, 2, 4, EVEN),
    (126, 0, 0, 16, 1, UNEVEN),
    (126, 0, 0, 16, 8, UNEVEN),
    (61, 3, 256, 16, 1, UNEVEN),
    (61, 3, 256, 16, 2, UNEVEN),
    (61, 20, 256, 4, 4, UNEVEN),
    (61, 61, 256, 8, 1, UNEVEN),
    (80, 1, 8, 12, 1, UNEVEN),
    (7, 1, 8, 1, 1, UNEVEN),
]


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize("prediction", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_sum_over_chunks_is_the_chunks_of_the_same_split(
    shape: tuple[int, int, int, int, int, LayerDivision], prediction: int, schedule: Schedule
) -> None:
    layers, leading, experts, pipeline, interleave, division = shape
    model = types.SimpleNamespace(
        layers=float(layers),
        first_dense_layers=float(leading),
        experts=float(experts),
        mtp_layers=float(prediction),
    )
    plan = MemoryPlan(
        pipeline=float(pipeline), interleave=float(interleave), microbatches=float(2 * pipeline)
    )
    recipe = MemoryRecipe(schedule=schedule, layer_division=division)
    split = dataclasses.replace(recipe, layer_split=chunk_split(model, plan, recipe))
    assert sum(split.layer_split) == layers
    stage = np.arange(float(pipeline))
    found, expected = (stage_layers(model, plan, one, stage) for one in (recipe, split))
    for name, values in found._asdict().items():
        np.testing.assert_array_equal(
            np.broadcast_arrays(stage, *np.atleast_1d(values))[1:],
            np.broadcast_arrays(stage, *np.atleast_1d(getattr(expected, name)))[1:],
            err_msg=name,
        )
    copies = 2.0 if schedule is Schedule.DUALPIPE else 1.0
    dense = leading if experts else layers
    assert np.sum(found.layers.dense * np.ones(pipeline)) == copies * dense
    assert np.sum(found.layers.routing * np.ones(pipeline)) == copies * (layers - dense)


@pytest.mark.parametrize("prediction", [0, 1])
@pytest.mark.parametrize("interleave", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("pipeline", [2, 3, 4, 5, 6, 8, 12, 16, 32, 64])
def test_memory_and_time_divide_layers_alike(
    pipeline: int, interleave: int, prediction: int
) -> None:
    """For every legal pipeline of any model: the prediction module is a layer of the last stage."""
    layers, stage = np.arange(1.0, 131.0)[:, None], np.arange(float(pipeline))
    model = types.SimpleNamespace(
        layers=layers, mtp_layers=float(prediction), experts=0.0, first_dense_layers=0.0
    )
    plan = MemoryPlan(
        pipeline=float(pipeline), interleave=float(interleave), microbatches=2.0 * pipeline
    )
    asked = types.SimpleNamespace(model=model)
    legal = layers_divisible_but_ends(
        asked, pipeline=plan.pipeline, interleave=plan.interleave
    ).ravel()
    assert np.any(legal) or pipeline * interleave > 130
    held = stage_layers(model, plan, MemoryRecipe(layer_division=UNEVEN), stage).layers
    each = (held.dense + held.routing + prediction * (stage == pipeline - 1.0))[legal]
    every, middle, ends = (np.ravel(n)[legal] for n in layers_of_time(model, plan))
    np.testing.assert_array_equal(each.sum(axis=1), every)
    np.testing.assert_array_equal(each[:, 0] + each[:, -1], 2.0 * ends)
    np.testing.assert_array_equal(each[:, 1:-1], np.tile(middle[:, None], pipeline - 2))
