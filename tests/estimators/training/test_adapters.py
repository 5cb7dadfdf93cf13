"""Adapters of low rank beside frozen weights (LoRA): laws of time, memory and FLOP."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxroof
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.errors import InputError
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan, step_model
from jaxroof.estimators.training.interval import REGIMES
from jaxroof.estimators.training.layer.operation import ADAPTERS, weights
from jaxroof.estimators.training.layer.sums import groups
from jaxroof.estimators.training.model_size import step_flops, token_flops
from jaxroof.estimators.training.recipe import Adapters, Schedule, TrainingRecipe
from jaxroof.estimators.training.step import fewest_state_bytes, training
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.settings import choose
from jaxroof.validation.steps import packaged_answers

MODELS = (
    "nemotron-3-nano-30b-a3b",
    "llama3-8b",
    "mixtral-8x7b",
    "deepseek-v3",
    "qwen3-next-80b-a3b",
)


def asked(
    name: str = "llama3-8b", rank: float | None = None, **plan: float
) -> tuple[TrainingInputs, TrainingRecipe]:
    """Return a step of a model, with adapters of a rank."""
    model, choices = architecture_with_choices(name)
    split = TrainingPlan(**{"data": 8.0, "zero_stage": 1.0, **plan})
    inputs = TrainingInputs(
        model=dataclasses.replace(model, sequence=4096.0),
        system=training_system("h100-nvs8"),
        global_batch=64.0,
        lora_rank=rank,
        plan=split,
    )
    return inputs, choose(training.recipe, choices)


def report(*given: Any, adapters: Adapters = Adapters.ALL, **plan: float) -> Any:
    """Return the report of a step."""
    inputs, recipe = asked(*given, **plan)
    return training.evaluate(inputs, dataclasses.replace(recipe, adapters=adapters))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("plan", [{}, {"zero_stage": 3.0}, {"tensor": 2.0, "pipeline": 2.0}])
def test_rank_0_is_a_step_without_adapters(name, plan):
    plain, none = report(name, None, **plan), report(name, 0.0, **plan)
    for field, value in vars(plain).items():
        np.testing.assert_array_equal(getattr(none, field), value, field)


@pytest.mark.parametrize("name", MODELS)
def test_time_and_memory_grow_with_the_rank_and_stay_below_those_of_all_weights(name):
    plain = report(name)
    some = [report(name, rank) for rank in (1.0, 8.0, 64.0, 256.0)]
    for field in ("step_time", "memory", "memory_optimizer"):
        values = [float(getattr(one, field)) for one in some]
        assert values == sorted(values)
        assert len({*values}) == len(values)
    assert all(one.memory < plain.memory for one in some)
    assert some[0].time_data + some[0].time_update < plain.time_data + plain.time_update
    fewer = report(name, 64.0, adapters=Adapters.QKV)
    assert fewer.step_time < some[2].step_time
    assert fewer.memory < some[2].memory


def adapter_parameters(name: str, rank: float, adapters: Adapters) -> float:
    """Return the parameters of all adapters of a model's layers."""
    inputs, recipe = asked(name, rank)
    model = step_model(inputs, dataclasses.replace(recipe, adapters=adapters))
    return sum(
        float(group.layers * weights(one).all)
        for group in groups(model)
        for one in group.operations.values()
        if one.part == ADAPTERS
    )


def test_adapters_of_llama_are_as_many_as_their_matrices_say():
    h, qkv, f, layers = 4096.0, 6144.0, 14336.0, 32.0
    beside_qkv, beside_proj = h + qkv, 2.0 * h
    beside_mlp = (h + 2.0 * f) + (f + h)
    every = 16.0 * layers * (beside_qkv + beside_proj + beside_mlp)
    assert adapter_parameters("llama3-8b", 16.0, Adapters.ALL) == every
    assert adapter_parameters("llama3-8b", 16.0, Adapters.QKV) == 16.0 * layers * beside_qkv


@pytest.mark.parametrize("adapters", Adapters)
@pytest.mark.parametrize("name", ["llama3-8b", "mixtral-8x7b"])
def test_states_are_those_of_adapters_and_weights_those_of_all(name, adapters):
    held = adapter_parameters(name, 16.0, adapters)
    base, found = report(name, None), report(name, 16.0, adapters=adapters)
    of_experts = held if name == "llama3-8b" else None  # replicas of experts are fewer
    assert float(found.memory_weights - base.memory_weights) == pytest.approx(2.0 * held)
    assert float(found.memory_gradients) == pytest.approx(4.0 * held)
    if of_experts is not None:
        assert float(found.memory_optimizer) == pytest.approx(12.0 * held / 8.0)


def test_frozen_matrices_have_no_weight_gradients():
    inputs, recipe = asked("llama3-8b", 1.0)
    plain, found = plan_time(dataclasses.replace(inputs, lora_rank=None), recipe), None
    found = plan_time(inputs, dataclasses.replace(recipe, adapters=Adapters.QKV))
    assert 0.0 < found.layer.weights < 0.05 * plain.layer.weights
    assert found.edges.head < plain.edges.head
    assert found.layer.attention == plain.layer.attention


def test_what_mfu_counts_has_4_a_frozen_parameter_and_6_of_adapters():
    inputs, recipe = asked("llama3-8b", 16.0)
    counted = token_flops(inputs.model, recipe)["flops_megatron_causal"]
    model = inputs.model
    matrices = 32.0 * (4096.0 * (6144.0 + 4096.0) + 3.0 * 4096.0 * 14336.0)
    frozen = matrices + model.vocabulary * model.hidden
    adapters = adapter_parameters("llama3-8b", 16.0, Adapters.ALL)
    expected = counted - 2.0 * frozen + 6.0 * adapters
    assert float(step_flops(inputs, recipe)) == pytest.approx(expected, rel=1e-12)
    whole = dataclasses.replace(inputs, lora_rank=None)
    assert step_flops(whole, recipe) == counted
    both = [float(fewest_state_bytes(one, recipe)) for one in (inputs, whole)]
    assert both[0] == pytest.approx(both[1] / 3.0)  # 2 bytes of 2 and 4


def test_memory_is_that_of_the_run_whose_log_its_source_prints():
    """NVIDIA/dgxc-benchmarking, ft_llama3/README_8b.md: peak 35.475 GB, 16.209 GB between steps."""
    found = jaxroof.fit(
        model="llama3-8b", system="h100-nvs8", plan={"data": 16}, global_batch=64, sequence=4096,
        settings={"lora_rank": 8, "adapters": "qkv", "cross_entropy": "native"},
    )  # fmt: skip
    assert float(found.allocated.max()) == pytest.approx(35.475e9, rel=0.03)
    held = adapter_parameters("llama3-8b", 8.0, Adapters.QKV)
    assert float(found.gradients_dense.max()) == pytest.approx(4.0 * held)


def test_adapters_go_with_every_schedule():
    inputs, recipe = asked("llama3-8b", 8.0, data=2.0, pipeline=4.0)
    for schedule in Schedule:
        chosen = dataclasses.replace(recipe, schedule=schedule)
        found = training.evaluate(inputs, chosen)
        whole = training.evaluate(dataclasses.replace(inputs, lora_rank=None), chosen)
        assert found.step_time < whole.step_time
        assert found.memory < whole.memory


def test_runs_with_adapters_are_a_regime_of_their_own():
    assert REGIMES[int(report("llama3-8b", 8.0).regime)].words == "LoRA, not calibrated"
    assert REGIMES[int(report("mixtral-8x7b", 8.0).regime)].words == "not dense, not calibrated"
    assert REGIMES[int(report("llama3-8b", 0.0).regime)].words == "dense, 16 bit"


def test_a_rank_as_wide_as_a_model_is_refused_in_one_line():
    question = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 32, "gpus": 8}
    said = r"^lora_rank: given 4096; expected one below 4,096, the narrowest width of the model$"
    with pytest.raises(InputError, match=said):
        jaxroof.search("training", **question, lora_rank=4096)
    assert not report("llama3-8b", 4096.0).adapters_narrow


@pytest.mark.parametrize("executor", ["numpy", pytest.param("jax", marks=pytest.mark.slow)])
def test_a_search_over_ranks_has_the_answer_of_each_alone(executor):
    question = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 32, "gpus": 8}
    question |= {"where": "tensor=1,pipeline=1,context=1"}
    every = jaxroof.search(
        "training", axes={"lora_rank": [0, 16, 64]}, executor=executor, **question
    )
    for place, rank in enumerate((None, 16, 64)):
        one = jaxroof.search("training", **question, **({"lora_rank": rank} if rank else {}))
        np.testing.assert_allclose(every.step_time.values[place], one.step_time, rtol=1e-12)


def test_packaged_runs_with_adapters_are_answered():
    found = {
        name: packaged_answers(name).query("regime == 'LoRA, not calibrated'")
        for name in ("dgxc_benchmarking", "megatron_bridge_dense")
    }
    assert [len(some) for some in found.values()] == [6, 4]
    assert found["megatron_bridge_dense"]["error"].abs().max() < 0.05
    assert found["dgxc_benchmarking"]["error"].between(0.2, 0.3).all()
    assert all(some["covered"].all() for some in found.values())
