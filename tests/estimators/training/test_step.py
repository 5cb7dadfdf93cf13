"""The estimator ``training``: time, interval and memory of a step, and the laws of its time."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.analyses.result_metadata import resources
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.question import resolve
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.sensitivity.elasticities import default_parameters
from jaxroof.errors import InputError
from jaxroof.estimators.training.interval import REGIMES
from jaxroof.estimators.training.step import stage_memory, training
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.records import checked, get_at, replace_at
from jaxroof.structure import results

EXAMPLE = checked(training.example())
MODELS = ("llama3-8b", "mixtral-8x7b", "deepseek-v3")
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
    with pytest.raises(InputError, match=r"^mi300x: no measured run of its chip"):
        jr.evaluate("training", model="llama3-8b", system="mi300x", gpus=8, global_batch=8)


@pytest.mark.parametrize("model", MODELS)
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
