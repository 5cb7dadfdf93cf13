"""The estimators ``training`` and ``stage_memory``: time, memory and verdicts of a step."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from daily import daily

import jaxroof as jr
from jaxroof.analyses.result_metadata import resources
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.question import resolve
from jaxroof.engine.search.all_plans import survey
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.sensitivity.elasticities import default_parameters
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import StageInputs, TrainingPlan, planned
from jaxroof.estimators.training.interval import REGIMES
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import fullest_stage, memory_by_stage
from jaxroof.estimators.training.step import memory_limit, stage_memory, training
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.records import checked, get_at, replace_at
from jaxroof.structure import results

EXAMPLE = checked(training.example())
MODELS = ("llama3-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-120b", "nemotron-h-8b")
MODELS += ("qwen3-next-80b-a3b", "deepseek-v3.2", "kimi-linear-48b-a3b", "llama-4-scout-text")
DRAWN = 200  # plans of each model, drawn from all legal ones


def question(model: str, gpus: int = 16, batch: int = 64, system: str = "gb200-nvl72") -> Any:
    """Return inputs of a model without a plan, and its recipe."""
    asked = {"model": model, "system": system, "gpus": gpus, "global_batch": batch}
    inputs, recipe = resolve(training, EXAMPLE, None, asked)[:2]
    return checked(dataclasses.replace(inputs, plan=None)), recipe


def drawn(model: str, **asked: Any) -> tuple[Any, Any]:
    """Return inputs with columns of legal plans, and the recipe."""
    inputs, recipe = question(model, **asked)
    assert training.candidates is not None
    listed = training.candidates(inputs, recipe).plans
    some = np.random.default_rng(0).permutation(len(listed["data"]))[:DRAWN]
    return with_plans(
        training, inputs, {name: column[some] for name, column in listed.items()}
    ), recipe


@pytest.mark.parametrize("model", MODELS)
def test_parts_sum_to_time_and_to_memory(model: str) -> None:
    inputs, recipe = drawn(model)
    report = training.evaluate(inputs, recipe)
    for whole in ("step_time", "memory"):
        parts = [f.name for f in dataclasses.fields(type(report)) if f.metadata["part_of"] == whole]
        total = sum(getattr(report, name) for name in parts)
        np.testing.assert_allclose(total, getattr(report, whole), rtol=1e-12)
    parts = ["compute", "memory", "recompute", "tensor", "bubble", "pipeline", "data", "update"]
    for name in (f"time_{part}" for part in parts):
        assert np.all(getattr(report, name) >= 0.0), name
    assert np.all(report.time_imbalance >= -1e-9 * report.step_time)


@pytest.mark.parametrize("model", MODELS)
def test_memory_and_legality_are_those_of_the_fullest_stage(model: str) -> None:
    inputs, recipe = drawn(model)
    report, memory = training.evaluate(inputs, recipe), stage_memory.evaluate(inputs, recipe)
    np.testing.assert_array_equal(report.memory, memory.device)
    np.testing.assert_array_equal(report.memory_fits, memory.device_fits)
    assert np.all(np.broadcast_to(report.batch_divisible, DRAWN))
    assert training.limit is not None
    assert stage_memory.limit is not None
    assert float(training.limit(inputs)) == float(stage_memory.limit(inputs))


@pytest.mark.parametrize("model", MODELS)
def test_one_result_alone_is_that_of_the_report(model: str) -> None:
    inputs, recipe = drawn(model)
    report = results(training.evaluate(inputs, recipe))
    for name in training.alone:
        found = evaluate_points(training, recipe, inputs, name)[name]
        np.testing.assert_allclose(found, np.broadcast_to(report[name], DRAWN), rtol=1e-14)


def test_a_search_finds_the_fastest_that_fits() -> None:
    inputs, recipe = question("llama3-8b", 8, 16, "h100-nvs8")
    axes = {"system.hbm_capacity": [40e9, 80e9], "system.slow_bandwidth": [25e9, 50e9]}
    found = jr.search(training, inputs, recipe, axes=axes)
    for capacity in axes["system.hbm_capacity"]:
        asked = replace_at(inputs, "system.hbm_capacity", np.float64(capacity))
        every = jr.survey(training, asked, recipe)
        fits = every.memory.values <= capacity
        assert 0 < fits.sum() < len(fits)
        least = every.step_time.values[fits].min()
        here = found.step_time.sel(hbm_capacity=capacity, slow_bandwidth=50e9)
        assert float(here) == pytest.approx(least, rel=1e-12)


def test_the_interval_is_that_of_the_regime() -> None:
    inputs, recipe = drawn("llama3-8b")
    report = training.evaluate(inputs, recipe)
    unmeasured = (inputs.plan.offload_optimizer > 0.0) | (inputs.plan.tensor > 8.0)
    np.testing.assert_array_equal(report.regime, np.where(unmeasured, 3.0, 0.0))
    half = np.array([REGIMES[int(place)].half_widths[1] for place in report.regime])
    np.testing.assert_allclose(np.log(report.step_time_high / report.step_time), half, rtol=1e-12)
    np.testing.assert_allclose(np.log(report.step_time / report.step_time_low), half, rtol=1e-12)
    own = replace_at(inputs, "system.chip.own_dense_16_bit", np.float64(0.085))
    narrow = training.evaluate(own, recipe)
    measured = ~unmeasured
    assert np.all(narrow.step_time_high[measured] < report.step_time_high[measured])


def test_offload_takes_what_the_link_and_the_host_take() -> None:
    inputs, recipe = drawn("llama3-8b")
    plan = inputs.plan
    here = dataclasses.replace(inputs, plan=dataclasses.replace(plan, offload_optimizer=0.0))
    there = dataclasses.replace(inputs, plan=dataclasses.replace(plan, offload_optimizer=1.0))
    kept, moved = (np.asarray(training.evaluate(i, recipe).step_time) for i in (here, there))
    np.testing.assert_allclose(kept, plan_time(here, recipe).step_time, rtol=1e-13)
    layers, table = 6.98e9, 128256 * 4096.0  # parameters
    parameters = (layers / plan.pipeline + table) / plan.tensor
    shared = np.where(plan.zero_stage > 0.0, plan.data * plan.context, 1.0)
    rough = parameters / shared * (6.0 / 64e9 + 42.0 / 50e9)
    np.testing.assert_allclose(moved - kept, rough, rtol=5e-3)


def test_a_system_without_a_chip_has_no_step_time() -> None:
    inputs = dataclasses.replace(EXAMPLE, system=jr.system("h100-nvs8"))
    with pytest.raises(InputError, match=r"^system.chip: not given, so that there is no step time"):
        training.evaluate(inputs)
    with pytest.raises(InputError, match=r"^tpu-v5p: a torus of TPUs"):
        jr.training_system("tpu-v5p")


@pytest.mark.parametrize("model", daily(MODELS, 0, 2, 4, 8))
def test_a_step_goes_one_way_along_every_parameter(model: str) -> None:
    """What `explain` passes over plans by: between two values no step is below both their ends."""
    inputs, recipe = drawn(model)
    known = resources(roles(training, inputs, recipe)["resources"])
    paths = [path for path in default_parameters(training, inputs) if path in known.of]
    assert {"system.matrix_flops", "system.slow_bandwidth"} <= {*paths}
    plans = {name: np.broadcast_to(column, DRAWN) for name, column in vars(inputs.plan).items()}
    columns = {name: np.tile(column, 13) for name, column in plans.items()}
    every = with_plans(training, inputs, columns)
    for path in paths:
        values = get_at(inputs, path) * np.geomspace(1 / 8, 8, 13)
        moved = replace_at(every, path, np.repeat(values, DRAWN))
        times = evaluate_points(training, recipe, moved, "step_time")["step_time"]
        times = times.reshape(len(values), DRAWN)
        steps, slack = np.diff(times, axis=0), 1e-12 * times[1:]
        one_way = np.all(steps <= slack, axis=0) | np.all(steps >= -slack, axis=0)
        assert np.all(one_way), path


# ---- The fullest stage ---------------------------------------------------------------------------

TERMS = [field.name for field in dataclasses.fields(StageMemory)]
FULLEST = checked(stage_memory.example())


def asked(model: str, gpus: float, batch: float, **plan: float) -> StageInputs:
    """Return a question on one plan."""
    found, _ = stage_memory.names["model"](model)
    return checked(
        dataclasses.replace(
            FULLEST, model=found, gpus=gpus, global_batch=batch, plan=TrainingPlan(**plan)
        )
    )


QUESTIONS = [
    ("llama3.1-405b", 4096, 2048, {"data": 32, "tensor": 8, "pipeline": 16}),
    ("llama3.1-405b", 128, 64, {"data": 4, "tensor": 8, "pipeline": 4, "interleave": 8}),
    ("mixtral-8x7b", 64, 256, {"data": 8, "tensor": 2, "pipeline": 4, "expert": 8}),
    ("deepseek-v3", 2048, 4096, {"data": 128, "pipeline": 16, "expert": 64, "recompute": 2}),
    ("gpt-oss-120b", 64, 64, {"data": 16, "pipeline": 4, "expert": 16}),
    ("nemotron-3-super-120b-a12b", 64, 64, {"data": 16, "pipeline": 4, "expert": 16}),
    ("qwen3-next-80b-a3b", 64, 64, {"data": 16, "pipeline": 4, "expert": 16, "recompute": 1}),
    ("deepseek-v3.2", 128, 64, {"data": 16, "pipeline": 8, "expert": 16}),
    ("kimi-linear-48b-a3b", 64, 64, {"data": 16, "pipeline": 4, "expert": 16, "recompute": 2}),
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
    model = dataclasses.replace(FULLEST.model, sequence=None)
    with pytest.raises(InputError, match=r"^model.sequence: not given; expected a value: Tokens"):
        jr.search(stage_memory, dataclasses.replace(FULLEST, model=model, plan=None))


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
