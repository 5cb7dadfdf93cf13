"""Layers of stages, microbatches in flight, and the few stages of which one is the fullest."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import training_memory as golden
from daily import daily

from jaxroof.estimators.training import stages
from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.legality import layers_divisible_but_ends
from jaxroof.estimators.training.recipe import LayerDivision, Schedule
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.estimators.training.stage_memory import stages as stages_of
from jaxroof.estimators.training.stages import deciding_stages, stage_layers
from jaxroof.estimators.training.step_time import stage_layers as layers_of_time
from jaxroof.records import replace_at

CASES = {row["case"]: row for row in golden.rows("memory_cases")}
BASE, RECIPE = golden.case(CASES["base"])
DRAWS = 400
EVEN, UNEVEN = LayerDivision.EVEN, LayerDivision.UNEVEN


def on(model: dict[str, Any], plan: dict[str, Any]) -> PlannedStep:
    """Return the base case with other sizes of the model and the plan."""
    return dataclasses.replace(
        BASE,
        model=dataclasses.replace(BASE.model, **model),
        plan=dataclasses.replace(BASE.plan, **plan),
    )


# ---- Layers -------------------------------------------------------------------------------------


def test_memory_and_time_divide_layers_alike() -> None:
    """For every legal pipeline of any model: the prediction module is a layer of the last stage.

    Where chunks are equal without it, memory has it on top, and time divides it among the others;
    time spreads layers evenly, too, where both ends have none.
    """
    pipelines, interleaves = (2, 3, 4, 5, 6, 8, 12, 16, 32, 64), (1, 2, 3, 4, 8)
    for pipeline, interleave, prediction in itertools.product(pipelines, interleaves, (0.0, 1.0)):
        layers, stage = np.arange(1.0, 131.0)[:, None], np.arange(float(pipeline))
        degrees = {"pipeline": float(pipeline), "interleave": float(interleave)}
        asked = on(
            {"layers": layers, "mtp_layers": prediction, "mtp_blocks": prediction},
            {**degrees, "microbatches": 2.0 * pipeline},
        )
        legal = layers_divisible_but_ends(asked, **degrees).ravel()
        assert np.any(legal) or pipeline * interleave > 130
        chunks = pipeline * interleave
        on_top = (layers.ravel() % chunks == 0.0) | ((layers.ravel() + 2.0) % chunks == 0.0)
        uneven = dataclasses.replace(RECIPE, layer_division=UNEVEN)
        held = sum(stage_layers(asked, uneven, stage).layers)
        each = held + prediction * (stage == pipeline - 1.0)
        empty = each[:, 0] + each[:, -1] == 0.0
        legal = legal & ~(on_top & (prediction > 0.0)) & ~empty
        each = each[legal]
        every, middle, ends = (np.ravel(n)[legal] for n in layers_of_time(asked.model, asked.plan))
        np.testing.assert_array_equal(each.sum(axis=1), every)
        np.testing.assert_array_equal(each[:, 0] + each[:, -1], 2.0 * ends)
        np.testing.assert_array_equal(each[:, 1:-1], np.tile(middle[:, None], pipeline - 2))


# ---- Chunks, and microbatches in flight ---------------------------------------------------------


def passes(microbatches: int, chunks: int, group: int) -> Iterator[int]:
    """Yield the chunk of every forward pass of a stage, in order."""
    for start in range(0, microbatches, group):
        for chunk in range(chunks):
            for _ in range(start, min(start + group, microbatches)):
                yield chunk


def test_chunks_in_flight_are_counted_one_by_one() -> None:
    for given in itertools.product((4, 7, 8, 16), (2, 3), (4, 5), (0, 1), range(4)):
        microbatches, chunks, group, early, stage = given
        order = list(passes(microbatches, chunks, group))
        warm = min(len(order), 2 * (4 - stage - 1) + (chunks - 1) * group + 1 + early)
        plan = {"pipeline": 4.0, "interleave": float(chunks), "microbatches": float(microbatches)}
        own: dict[str, Any] = {"microbatch_group": float(group), "early_forward": float(early)}
        asked = dataclasses.replace(on({}, plan), **own)
        from_chunk = stages.IN_FLIGHT[Schedule.ONE_F_ONE_B](asked, float(stage))
        for chunk in range(chunks + 1):
            expected = sum(passing >= chunk for passing in order[:warm])
            assert from_chunk(float(chunk)) == expected, given


IN_FLIGHT = {  # of 3 microbatches, on 4 stages of 20 layers
    Schedule.ONE_F_ONE_B: [3, 3, 2, 1],
    Schedule.GPIPE: [3, 3, 3, 3],
    Schedule.ZB_H1: [3, 3, 2, 1],
    Schedule.DUALPIPE: [5, 5, 5, 5],  # of both stages of a rank
}


# ---- The few stages that decide which is the fullest --------------------------------------------


def drawn(name: str, seed: int) -> PlannedStep:
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
    )
    early: Any = one_of(0.0, 1.0)
    layers = draw.integers(64, 100, DRAWS).astype(float)
    leading = draw.integers(0, 12, DRAWS).astype(float)
    model = dataclasses.replace(inputs.model, layers=layers, first_dense_layers=leading)
    return dataclasses.replace(inputs, model=model, plan=plan, early_forward=early)


@pytest.mark.parametrize(
    "name", daily(["base", "gpt3_dropout", "mixtral_ep8", "deepseek_v3_1f1b"], 0, 3)
)
def test_one_of_them_is_the_fullest(name: str) -> None:
    _, own = golden.case(CASES[name])
    for level, schedule, division in itertools.product((0.0, 2.0), Schedule, (UNEVEN, EVEN)):
        recipe = dataclasses.replace(own, schedule=schedule, layer_division=division)
        inputs = replace_at(drawn(name, seed=7), "plan.recompute", np.float64(level))
        every = np.broadcast_to(memory_by_stage(inputs, recipe).device, (DRAWS, 16)).max(axis=-1)
        few = deciding_stages(inputs, recipe)
        found = [stages_of(inputs, recipe).memory(stage).device for stage in few]
        np.testing.assert_allclose(np.max(found, axis=0), every, rtol=1e-12)


def test_a_split_of_layers_is_tried_stage_by_stage() -> None:
    split = dataclasses.replace(RECIPE, layer_division=(10, 30, 25, 15))
    few = deciding_stages(BASE, split)
    found = [float(stages_of(BASE, split).memory(stage).device) for stage in few]
    assert max(found) == np.max(memory_by_stage(BASE, split).device)
    assert found.index(max(found)) == 1
