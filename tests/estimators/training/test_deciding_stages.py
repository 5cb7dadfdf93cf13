"""The few stages that decide which is the fullest, against all stages of many pipelines."""

import dataclasses

import numpy as np
import pytest
import training_memory as golden

from jaxroof.estimators.training.deciding_stages import deciding_stages
from jaxroof.estimators.training.memory_inputs import MemoryInputs
from jaxroof.estimators.training.memory_recipe import (
    LayerDivision,
    MemoryRecipe,
    Recompute,
    Schedule,
)
from jaxroof.estimators.training.stage_memory import memory_by_stage, stage_memory

CASES = {row["case"]: row for row in golden.rows("memory_cases")}
DRAWS = 400


def drawn(name: str, seed: int) -> MemoryInputs:
    """Return a case with many plans and depths, legal or not, as columns."""
    draw = np.random.default_rng(seed)
    inputs, _ = golden.case(CASES[name])

    def one_of(*values: float) -> np.ndarray:
        return draw.choice(np.array(values), DRAWS)

    plan = dataclasses.replace(
        inputs.plan,
        pipeline=draw.integers(1, 17, DRAWS).astype(float),
        interleave=draw.integers(1, 5, DRAWS).astype(float),
        microbatches=draw.integers(1, 40, DRAWS).astype(float),
        microbatch=one_of(1.0, 2.0, 4.0),
        tensor=one_of(1.0, 2.0, 8.0),
        data=one_of(1.0, 4.0, 64.0),
        early_forward=one_of(0.0, 1.0),
    )
    layers = draw.integers(64, 100, DRAWS).astype(float)
    leading = draw.integers(0, 12, DRAWS).astype(float)
    model = inputs.model._replace(layers=layers, first_dense_layers=leading)
    return dataclasses.replace(inputs, model=model, plan=plan)


@pytest.mark.parametrize("division", [LayerDivision.UNEVEN, LayerDivision.EVEN])
@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize("recompute", [Recompute.NONE, Recompute.FULL])
@pytest.mark.parametrize("name", ["base", "gpt3_dropout", "mixtral_ep8", "deepseek_v3_1f1b"])
def test_one_of_them_is_the_fullest(
    name: str, recompute: Recompute, schedule: Schedule, division: LayerDivision
) -> None:
    recipe = MemoryRecipe(schedule=schedule, recompute=recompute, layer_division=division)
    inputs = drawn(name, seed=7)
    every = np.broadcast_to(memory_by_stage(inputs, recipe).device, (DRAWS, 16)).max(axis=-1)
    few = deciding_stages(inputs.model, inputs.plan, recipe)
    found = [stage_memory(inputs, recipe, stage).device for stage in few]
    np.testing.assert_allclose(np.max(found, axis=0), every, rtol=1e-12)


def test_they_are_stages_of_the_pipeline() -> None:
    inputs = drawn("deepseek_v3_1f1b", seed=3)
    for schedule in Schedule:
        recipe = MemoryRecipe(schedule=schedule)
        for stage in deciding_stages(inputs.model, inputs.plan, recipe):
            assert np.all((np.asarray(stage) >= 0.0) & (stage < inputs.plan.pipeline))


def test_a_split_of_layers_is_tried_stage_by_stage() -> None:
    inputs, recipe = golden.case(CASES["base"])
    split = dataclasses.replace(recipe, layer_split=(10, 30, 25, 15))
    few = deciding_stages(inputs.model, inputs.plan, split)
    found = [float(stage_memory(inputs, split, stage).device) for stage in few]
    assert max(found) == np.max(memory_by_stage(inputs, split).device)
    assert found.index(max(found)) == 1
