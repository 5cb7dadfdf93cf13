"""Layers of stages, microbatches in flight, and the few stages of which one is the fullest."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
import training_memory as golden

from jaxroof.estimators.training import stages
from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.legality import layers_divisible_but_ends
from jaxroof.estimators.training.recipe import LayerDivision, Schedule
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.estimators.training.stage_memory import stages as stages_of
from jaxroof.estimators.training.stages import chunk_split, deciding_stages, stage_layers
from jaxroof.estimators.training.step_time import stage_layers as layers_of_time
from jaxroof.records import replace_at

CASES = {row["case"]: row for row in golden.rows("memory_cases")}
BASE, RECIPE = golden.case(CASES["base"])
DRAWS = 400
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


def on(model: dict[str, Any], plan: dict[str, Any]) -> PlannedStep:
    """Return the base case with other sizes of the model and the plan."""
    return dataclasses.replace(
        BASE,
        model=dataclasses.replace(BASE.model, **model),
        plan=dataclasses.replace(BASE.plan, **plan),
    )


# ---- Layers -------------------------------------------------------------------------------------


def test_a_sum_over_chunks_is_the_chunks_of_the_same_split() -> None:
    for shape, prediction, schedule in itertools.product(SHAPES, (0.0, 1.0), Schedule):
        layers, leading, experts, pipeline, interleave, division = shape
        model = {"layers": layers, "first_dense_layers": leading, "experts": experts}
        plan = {"pipeline": pipeline, "interleave": interleave, "microbatches": 2 * pipeline}
        model, plan = ({name: float(v) for name, v in some.items()} for some in (model, plan))
        asked = on({**model, "mtp_layers": prediction}, plan)
        recipe = dataclasses.replace(RECIPE, schedule=schedule, layer_division=division)
        split = chunk_split(asked, recipe)
        assert sum(split) == layers
        stage = np.arange(float(pipeline))
        given = dataclasses.replace(recipe, layer_division=split)
        found, expected = (stage_layers(asked, one, stage) for one in (recipe, given))
        for name, values in found._asdict().items():
            np.testing.assert_array_equal(
                np.broadcast_arrays(stage, *np.atleast_1d(values))[1:],
                np.broadcast_arrays(stage, *np.atleast_1d(getattr(expected, name)))[1:],
                err_msg=f"{name} {shape}",
            )
        copies = 2.0 if schedule is Schedule.DUALPIPE else 1.0
        dense = leading if experts else layers
        assert np.sum(found.layers.dense * np.ones(pipeline)) == copies * dense
        assert np.sum(found.layers.routing * np.ones(pipeline)) == copies * (layers - dense)


def test_memory_and_time_divide_layers_alike() -> None:
    """For every legal pipeline of any model: the prediction module is a layer of the last stage."""
    pipelines, interleaves = (2, 3, 4, 5, 6, 8, 12, 16, 32, 64), (1, 2, 3, 4, 8)
    for pipeline, interleave, prediction in itertools.product(pipelines, interleaves, (0.0, 1.0)):
        layers, stage = np.arange(1.0, 131.0)[:, None], np.arange(float(pipeline))
        degrees = {"pipeline": float(pipeline), "interleave": float(interleave)}
        asked = on(
            {"layers": layers, "mtp_layers": prediction},
            {**degrees, "microbatches": 2.0 * pipeline},
        )
        legal = layers_divisible_but_ends(asked, **degrees).ravel()
        assert np.any(legal) or pipeline * interleave > 130
        uneven = dataclasses.replace(RECIPE, layer_division=UNEVEN)
        held = stage_layers(asked, uneven, stage).layers
        each = (held.dense + held.routing + prediction * (stage == pipeline - 1.0))[legal]
        every, middle, ends = (np.ravel(n)[legal] for n in layers_of_time(asked.model, asked.plan))
        np.testing.assert_array_equal(each.sum(axis=1), every)
        np.testing.assert_array_equal(each[:, 0] + each[:, -1], 2.0 * ends)
        np.testing.assert_array_equal(each[:, 1:-1], np.tile(middle[:, None], pipeline - 2))


# ---- Chunks, and microbatches in flight ---------------------------------------------------------


def test_chunks_are_alike_but_for_the_ends() -> None:
    every = itertools.product((1, 4, 61, 80, 94, 126), (0, 1), (1, 2, 3, 4, 7, 12, 16, 64))
    for layers, prediction, chunks in every:
        found = stages.alike_chunks(float(layers), float(prediction), float(chunks))
        assert chunks * found.each - found.first_lacks - found.last_lacks == layers
        assert found.each == int(found.each)
        assert 0 <= found.first_lacks <= found.last_lacks
        if layers % chunks == 0:
            assert found == (layers / chunks, 0.0, 0.0)
        elif (layers + 2) % chunks == 0:  # embedding and head take the place of a layer each
            assert found == ((layers + 2) / chunks, 1.0, 1.0)


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


def test_even_chunks_have_one_more_from_the_last_but_one_back() -> None:
    recipe = dataclasses.replace(RECIPE, layer_division=EVEN)
    for chunks, layers in itertools.product(range(1, 9), range(1, 20)):
        order = [*range(chunks - 2, 0, -1), chunks - 1, 0][-chunks:]
        more = order[: layers % chunks]
        asked = on({"layers": float(layers)}, {"pipeline": float(chunks), "interleave": 1.0})
        each = tuple(layers // chunks + (chunk in more) for chunk in range(chunks))
        assert chunk_split(asked, recipe) == each


IN_FLIGHT = {  # of 3 microbatches, on 4 stages of 20 layers
    Schedule.ONE_F_ONE_B: [3, 3, 2, 1],
    Schedule.GPIPE: [3, 3, 3, 3],
    Schedule.ZB_H1: [3, 3, 2, 1],
    Schedule.DUALPIPE: [5, 5, 5, 5],  # of both stages of a rank
}


def test_in_flight_by_schedule() -> None:
    asked, stage = on({}, {"pipeline": 4.0, "microbatches": 3.0}), np.arange(4.0)
    for schedule, expected in IN_FLIGHT.items():
        found = stage_layers(asked, dataclasses.replace(RECIPE, schedule=schedule), stage)
        np.testing.assert_array_equal(found.resident.dense / 20.0 * np.ones(4), expected)
        waiting = [0, 1, 2, 3] if schedule is Schedule.ZB_H1 else [0] * 4
        np.testing.assert_array_equal(found.pending.dense / 20.0 * np.ones(4), waiting)


def test_jax_and_numpy_agree() -> None:
    asked = on({"layers": 61.0}, {"pipeline": 5.0, "interleave": 3.0, "microbatches": 17.0})
    at = np.arange(5.0)
    for division in (EVEN, UNEVEN):
        recipe = dataclasses.replace(RECIPE, layer_division=division)
        traced = jax.jit(stage_layers, static_argnums=1)(asked, recipe, at)
        for one, other in zip(
            jax.tree.leaves(traced),
            jax.tree.leaves(stage_layers(asked, recipe, at)),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


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


@pytest.mark.parametrize("name", ["base", "gpt3_dropout", "mixtral_ep8", "deepseek_v3_1f1b"])
def test_one_of_them_is_the_fullest(name: str) -> None:
    _, own = golden.case(CASES[name])
    for level, schedule, division in itertools.product((0.0, 2.0), Schedule, (UNEVEN, EVEN)):
        recipe = dataclasses.replace(own, schedule=schedule, layer_division=division)
        inputs = replace_at(drawn(name, seed=7), "plan.recompute", np.float64(level))
        every = np.broadcast_to(memory_by_stage(inputs, recipe).device, (DRAWS, 16)).max(axis=-1)
        few = deciding_stages(inputs, recipe)
        found = [stages_of(inputs, recipe).memory(stage).device for stage in few]
        np.testing.assert_allclose(np.max(found, axis=0), every, rtol=1e-12)


def test_they_are_stages_of_the_pipeline() -> None:
    inputs = drawn("deepseek_v3_1f1b", seed=3)
    for schedule in Schedule:
        for stage in deciding_stages(inputs, dataclasses.replace(RECIPE, schedule=schedule)):
            assert np.all((np.asarray(stage) >= 0.0) & (stage < inputs.plan.pipeline))


def test_a_split_of_layers_is_tried_stage_by_stage() -> None:
    split = dataclasses.replace(RECIPE, layer_division=(10, 30, 25, 15))
    few = deciding_stages(BASE, split)
    found = [float(stages_of(BASE, split).memory(stage).device) for stage in few]
    assert max(found) == np.max(memory_by_stage(BASE, split).device)
    assert found.index(max(found)) == 1
