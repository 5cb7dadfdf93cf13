"""The estimator ``stage_memory``: the fullest stage of a step, its groups, and its verdicts."""

import dataclasses
import itertools

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.engine.grid.question import resolve
from jaxroof.engine.search.all_plans import survey
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import StageInputs, TrainingPlan, planned
from jaxroof.estimators.training.recipe import MODULES, Selective
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import fullest_stage, memory_by_stage
from jaxroof.estimators.training.step import memory_limit, stage_memory
from jaxroof.records import checked

TERMS = [field.name for field in dataclasses.fields(StageMemory)]
EXAMPLE = checked(stage_memory.example())


def asked(model: str, gpus: float, batch: float, **plan: float) -> StageInputs:
    """Return a question on one plan."""
    found, _ = stage_memory.names["model"](model)
    return checked(
        dataclasses.replace(
            EXAMPLE, model=found, gpus=gpus, global_batch=batch, plan=TrainingPlan(**plan)
        )
    )


QUESTIONS = [
    ("llama3.1-405b", 4096, 2048, {"data": 32, "tensor": 8, "pipeline": 16}),
    ("llama3.1-405b", 128, 64, {"data": 4, "tensor": 8, "pipeline": 4, "interleave": 8}),
    ("mixtral-8x7b", 64, 256, {"data": 8, "tensor": 2, "pipeline": 4, "expert": 8}),
    ("deepseek-v3", 2048, 4096, {"data": 128, "pipeline": 16, "expert": 64, "recompute": 2}),
    ("llama3-8b", 8, 8, {"data": 8, "zero_stage": 3, "offload_optimizer": 1}),
]


@pytest.mark.parametrize(("model", "gpus", "batch", "plan"), QUESTIONS)
def test_a_report_is_the_fullest_of_all_stages(
    model: str, gpus: float, batch: float, plan: dict[str, float]
) -> None:
    inputs = asked(model, gpus, batch, **plan)
    _, choices = stage_memory.names["model"](model)
    inputs, recipe = resolve(stage_memory, inputs, None, {"model": model})[:2]
    assert recipe.mlp.value == choices["mlp"]
    report = stage_memory.evaluate(inputs, recipe)
    memory = memory_by_stage(planned(inputs, recipe), recipe)
    full = fullest_stage(memory, memory_limit(inputs))
    assert float(report.device) == pytest.approx(float(full.device), rel=1e-12)
    for term in TERMS:
        values = np.broadcast_to(getattr(memory, term), memory.device.shape)
        expected = float(values[int(report.stage)])
        assert float(getattr(report, term)) == pytest.approx(expected, rel=1e-12), term
    assert bool(report.device_fits) == bool(full.fits)


def test_what_a_search_may_choose_never_needs_more() -> None:
    """Sharding, computing again and offloading: more of it, in any legal plan, takes less."""
    inputs = dataclasses.replace(asked("mixtral-8x7b", 8.0, 16.0), plan=None)
    data = survey(stage_memory, inputs)
    fields = [str(n) for n in data.data_vars if n in TrainingPlan.__dataclass_fields__]
    shape = (-1, 4, 3, 2)  # plans are sorted, and these fields are the last
    assert fields[-3:] == ["zero_stage", "recompute", "offload_optimizer"]
    peak = data.peak_allocated.values.reshape(shape)
    assert np.all(np.diff(peak[:, :3], axis=1) <= 0.0), "ZeRO 3 gathers into buffers"
    assert np.all(np.diff(data.activations.values.reshape(shape), axis=2) <= 0.0)
    assert np.all(np.diff(peak, axis=3) <= 0.0)


def test_selections_drop_ever_more() -> None:
    inputs = asked("deepseek-v3", 2048, 4096, data=128, pipeline=16, expert=64, recompute=1)
    order = (Selective.LIGHT, Selective.MLP, Selective.EXPERTS)
    kept = [
        float(
            stage_memory.evaluate(
                inputs, dataclasses.replace(stage_memory.recipe, selective=some)
            ).activations
        )
        for some in order
    ]
    assert all(after < before for before, after in itertools.pairwise(kept))
    assert set(MODULES) == set(Selective)


def test_degrees_that_contradict_the_cluster_are_refused() -> None:
    with pytest.raises(InputError, match=r"^gpus: not the product of the plan's degrees"):
        stage_memory.evaluate(asked("llama3-8b", 16.0, 16.0, data=8.0))


def test_a_plan_without_a_cluster_uses_its_degrees() -> None:
    inputs = dataclasses.replace(asked("llama3-8b", 8.0, 16.0, data=8.0), gpus=None)
    assert bool(stage_memory.evaluate(inputs).gpus_used)


def test_missing_numbers_are_named() -> None:
    asking = {"model": "llama3-8b", "system": "h100-nvs8", "plan.data": 8}
    with pytest.raises(InputError, match=r"^global_batch: missing; expected a value: Sequences of"):
        jr.evaluate("training", asking)
    model = dataclasses.replace(EXAMPLE.model, sequence=None)
    with pytest.raises(InputError, match=r"^model.sequence: not given; expected a value: Tokens"):
        jr.search(stage_memory, dataclasses.replace(EXAMPLE, model=model, plan=None))


def test_a_search_finds_the_leanest_and_keeps_fields_that_are_0() -> None:
    """A plan field may be 0: a winner is the plan that was found, not the next one above."""
    inputs = dataclasses.replace(asked("llama3-8b", 8.0, 16.0), plan=None)
    axes = {"system.hbm_capacity": [1e9, 80e9]}
    found = jr.search(stage_memory, inputs, axes=axes, where="rc=0,zero=0,off=0", top=2)
    assert found.feasible.values.tolist() == [[False, False], [True, True]]
    assert found.zero_stage.values.tolist() == [[-1, -1], [0, 0]]
    every = survey(stage_memory, inputs, where="rc=0,zero=0,off=0")
    least = np.sort(every.device.values)[:2]
    np.testing.assert_allclose(found.device.values[1], least, rtol=1e-12)
    np.testing.assert_allclose(found.device_least, least[0], rtol=1e-12)
