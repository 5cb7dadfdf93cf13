"""Layers of a stage and microbatches in flight: the closed form over chunks, chunk by chunk."""

import dataclasses
import types

import numpy as np
import pytest

from jaxroof.estimators.training.memory_inputs import MemoryPlan
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Schedule
from jaxroof.estimators.training.stage_layers import stage_layers
from jaxroof.formulas.memory_layout import chunk_layers

SHAPES = [  # layers, leading dense layers, experts, pipeline, interleave
    (126, 0, 0, 16, 1),
    (126, 0, 0, 4, 7),
    (61, 3, 256, 16, 1),
    (61, 3, 256, 5, 3),
    (61, 20, 256, 4, 4),
    (12, 5, 8, 4, 3),
    (7, 1, 8, 1, 1),
    (9, 9, 8, 2, 4),
]


def even_split(layers: int, chunks: int) -> tuple[int, ...]:
    """Return the layers of every virtual stage, as even as can be."""
    each = (chunk_layers(float(v), float(layers), float(chunks)) for v in range(chunks))
    return tuple(int(count) for count in each)


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize(("layers", "leading", "experts", "pipeline", "interleave"), SHAPES)
def test_a_sum_over_chunks_is_the_chunks_of_the_same_split(
    layers: int, leading: int, experts: int, pipeline: int, interleave: int, schedule: Schedule
) -> None:
    model = types.SimpleNamespace(
        layers=float(layers), first_dense_layers=float(leading), experts=float(experts)
    )
    plan = MemoryPlan(
        pipeline=float(pipeline), interleave=float(interleave), microbatches=float(2 * pipeline)
    )
    recipe = MemoryRecipe(schedule=schedule)
    split = dataclasses.replace(recipe, layer_split=even_split(layers, pipeline * interleave))
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
