"""What a plan costs beside its arithmetic: counts by hand, and laws over the catalogue."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from architectures import architecture

import jaxroof as jr
from jaxroof import catalog
from jaxroof.analyses.fit_question import Question, asked_question
from jaxroof.estimators.training.layer_products import products
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Module, Recompute
from jaxroof.estimators.training.plan_cost import PlanCost, plan_cost

LANGUAGE = [name for name in catalog.names("architectures") if not name.startswith("vit")]


def asked(**changed: Any) -> Question:
    """Return a question about Llama 3 8B."""
    plan = {"dp": 2, "tp": 2, "pp": 2} | changed.pop("plan", {})
    about = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 32, **changed}
    return asked_question(plan=plan, **about)


def cost(**changed: Any) -> PlanCost:
    """Return what a plan of Llama 3 8B costs."""
    found = asked(**changed)
    return plan_cost(found.inputs, found.system, found.recipe, found.model_recipe)


@pytest.mark.parametrize("name", LANGUAGE)
def test_products_are_those_of_the_flop_convention_exact(name: str) -> None:
    model, recipe = architecture(name)
    found = products(model, recipe, MemoryRecipe(), model.sequence)
    exact = jr.evaluate("model_flops", model=name, tokens=1).flops_exact
    assert 6.0 * float(found.whole) == pytest.approx(float(exact), rel=1e-12)
    assert float(found.again) == 0.0


@pytest.mark.parametrize("name", LANGUAGE)
def test_full_recomputation_repeats_all_but_the_head(name: str) -> None:
    model, recipe = architecture(name)
    found = products(model, recipe, MemoryRecipe(recompute=Recompute.FULL), model.sequence)
    assert float(found.again) == pytest.approx(float(found.whole - found.head), rel=1e-12)


def test_each_module_repeats_less_than_all_of_them() -> None:
    model, recipe = architecture("deepseek-v3")
    one_by_one = [
        products(model, recipe, _selective(module), 4096.0).again
        for module in Module
        if module is not Module.SHARED_EXPERTS  # of the experts
    ]
    whole = products(model, recipe, _selective(*Module), 4096.0).again
    assert sum(one_by_one) == pytest.approx(whole, rel=1e-12)
    full = products(model, recipe, MemoryRecipe(recompute=Recompute.FULL), 4096.0).again
    assert whole < full


def _selective(*modules: Module) -> MemoryRecipe:
    return MemoryRecipe(recompute=Recompute.SELECTIVE, modules=frozenset(modules))


def test_bytes_of_a_plan_by_hand() -> None:
    """Two of each degree on 8 ranks, all in one fast domain, 16 microbatches."""
    found = cost()
    state = 2.0 * 8192 * 4096
    tensor = 16 * 16 * 10 * state / 2  # 16 layers a stage
    boundary = 2 * 16 * state / 2
    inputs = asked().inputs
    layers = 16 * (inputs.counts.dense_sharded / 2 + inputs.counts.dense_replicated)
    ends = 128256 * 4096 / 2  # of two ends over two stages, on two tensor ranks
    gradients = (layers + ends) / 2 * (4 + 2)
    assert float(found.fast_bytes) == pytest.approx(tensor + boundary + gradients, rel=1e-12)
    assert float(found.slow_bytes) == float(found.host_bytes) == 0.0
    apart = cost(settings={"system.fast_domain": 2})
    assert float(apart.fast_bytes) == pytest.approx(tensor, rel=1e-12)
    assert float(apart.slow_bytes) == pytest.approx(boundary + gradients, rel=1e-12)


WORSE: list[tuple[dict[str, Any], str]] = [  # what makes a part of the cost larger
    ({"recompute": "full"}, "recomputed"),
    ({"modules": "mlp"}, "recomputed"),
    ({"offload_optimizer": 1}, "host_bytes"),
    ({"offload_activations": 0.5}, "host_bytes"),
    ({"plan": {"zero": 3}}, "fast_bytes"),
    ({"plan": {"microbatch": 2}}, "idle"),
    ({"layer_split": "20,12"}, "idle"),
]


@pytest.mark.parametrize(("changed", "part"), WORSE)
def test_what_saves_memory_costs_time(changed: dict[str, Any], part: str) -> None:
    before, after = cost(), cost(**changed)
    assert float(getattr(after, part)) > float(getattr(before, part))
    assert float(after.time) > float(before.time)


def test_interleaving_shortens_the_bubble() -> None:
    assert float(cost(plan={"interleave": 4}).idle) < float(cost().idle)


def test_plans_are_evaluated_many_at_once() -> None:
    some = [asked(plan={"zero": stage}) for stage in (0, 1, 2, 3)]
    alone = [plan_cost(q.inputs, q.system, q.recipe, q.model_recipe) for q in some]
    first = some[0]
    states = dataclasses.replace(first.inputs.states, zero_stage=np.arange(4.0))
    inputs = dataclasses.replace(first.inputs, states=states)
    found = plan_cost(inputs, first.system, first.recipe, first.model_recipe)
    np.testing.assert_allclose(found.time, [float(one.time) for one in alone], rtol=1e-12)


def test_a_system_of_memory_alone_is_ranked_all_the_same() -> None:
    """A torus has no fast domain; its links stand for one."""
    assert float(cost(system="tpu-v5p-sheet").slow_bytes) > 0.0
