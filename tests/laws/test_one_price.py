"""One plan, one price: what `fit` says of a change is what `training` says of both plans."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from architectures import language_models
from daily import daily

import jaxroof as jr
from jaxroof.analyses.fit_changes import PATHS, at_once, legal, step_times, with_points
from jaxroof.analyses.fit_question import asked_question
from jaxroof.engine.grid.question import resolve
from jaxroof.engine.search.problem import constraints_of
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.recipe import (
    AttentionKernel,
    Selective,
    TrainingRecipe,
    modules_of,
)
from jaxroof.estimators.training.step import training

LANGUAGE = language_models()
RECOMPUTED = [(0, "light"), (1, "light"), (1, "core_attn"), (1, "mlp"), (1, "moe"), (2, "light")]
# one of each kind: dense, latent attention with experts, experts, an old one, windows, hybrids
FEW = ("llama3-8b", "deepseek-v3.2", "mixtral-8x7b", "gpt2-1.5b", "gpt-oss-120b")
FEW += ("nemotron-3-super-120b-a12b", "qwen3-next-80b-a3b", "kimi-linear-48b-a3b")
PLANNED = ("dp", "tp", "cp", "cx", "pp", "mb", "vp", "ep", "etp", "sp", "zero", "off")


def about(model: str) -> dict[str, Any]:
    """Return a question about a model, as every road takes it."""
    return {"model": model, "system": "h100-nvs8", "global_batch": 64}


@pytest.mark.parametrize("model", daily(LANGUAGE, *map(LANGUAGE.index, FEW)))
def test_changes_take_the_step_time_of_training(model: str) -> None:
    """Every legal single change of a plan, under every recomputation that a search can name."""
    for level, selective in RECOMPUTED:
        modules = {"modules": names_of(selective)} if level == 1 else {}
        plan = {"dp": 4, "pp": 2, "zero": 0} | ({} if level == 1 else {"rc": level})
        asked = asked_question(plan=plan, **about(model), **modules)
        points = at_once(asked.inputs)
        points = points[legal(with_points(asked.inputs, points), asked.recipe)]
        points[:, PATHS.index("activations.offload_activations")] = 0.0
        found = step_times(with_points(asked.inputs, points), asked.recipe)
        inputs, recipe = resolve(training, {**about(model), "selective": selective})[:2]
        columns: dict[str, Any] = {
            path.rpartition(".")[2]: points[:, place] for place, path in enumerate(PATHS)
        }
        columns.pop("offload_activations")
        every = TrainingPlan(**columns, recompute=float(level))
        report = training.evaluate(dataclasses.replace(inputs, plan=every), recipe)
        assert len(found) > 8
        np.testing.assert_allclose(found, report.step_time, rtol=1e-12)


def names_of(selective: str) -> str:
    """Return the modules that a choice of a search computes again, as `fit` takes them."""
    recipe = TrainingRecipe(selective=Selective(selective))
    return ",".join(module.value for module in modules_of(recipe))


@pytest.mark.parametrize("kernel", daily(AttentionKernel, 0, 2))
@pytest.mark.parametrize("model", daily(LANGUAGE, *map(LANGUAGE.index, FEW)))
def test_what_is_computed_again_frees_bytes(model: str, kernel: AttentionKernel) -> None:
    """A part of the layers that frees no byte takes no time, whatever else is computed again.

    But for the launch of an activation that no layer has, as the sheet of layers of 2026 counts it.
    """
    inputs, choices = resolve(training, {**about(model), "plan.recompute": 1.0})[:2]
    for selective in Selective:
        recipe = dataclasses.replace(choices, selective=selective, attention_kernel=kernel)
        if selective is Selective.CORE_ATTENTION and kernel is not AttentionKernel.UNFUSED:
            continue  # a user who names one part gets it
        modules = modules_of(recipe)
        every, *fewer = (
            _time_and_activations(inputs, dataclasses.replace(recipe, selective=some))
            for some in (modules, *(modules - {one} for one in modules))
        )
        assert all(time < every[0] for time, held in fewer if held > every[1])
        same = [time for time, held in fewer if held == every[1]]
        assert same == pytest.approx([every[0]] * len(same), rel=2e-3)


def _time_and_activations(inputs: Any, recipe: TrainingRecipe) -> tuple[float, float]:
    report = training.evaluate(inputs, recipe)
    return float(report.step_time), float(report.memory_activations)


PLANS: dict[str, dict[str, int]] = {
    "llama3-70b": {"dp": 2, "tp": 4, "pp": 4, "zero": 0},
    "deepseek-v3": {"dp": 32, "ep": 32, "zero": 3},
    "mixtral-8x7b": {"dp": 8, "ep": 8, "zero": 3},
}


@pytest.mark.parametrize("model", daily(PLANS, 1, 2))
def test_a_printed_price_is_the_ratio_of_two_evaluations(model: str) -> None:
    plan = PLANS[model]
    before = jr.fit(plan=plan, **about(model))
    now = _step_time(model, plan)
    assert float(before.step_time) == pytest.approx(now, rel=1e-12)
    less = {"system.hbm_capacity": 0.9 * float(before.device.max())}
    changes = json.loads(jr.fit(plan=plan, **about(model), **less, changes=4).changes)
    compared = [one for one in changes if {*one["set"]} <= {*PLANNED, "recompute"}]
    assert len(compared) > 1
    for one in compared:
        change = dict(one["set"])
        level = {"rc": 2} if change.pop("recompute", "") == "full" else {}
        share = change.pop("off", 0.0)
        none, every = (_step_time(model, plan | change | level | {"off": n}) for n in (0, 1))
        then = none + share * (every - none)  # a share of the states lies between none and all
        assert one["step_time"] == pytest.approx(then, rel=1e-12)
        assert one["cost"] == pytest.approx(then / now - 1.0, rel=1e-9, abs=1e-12)


def _step_time(model: str, plan: dict[str, Any]) -> float:
    return float(jr.evaluate("training", {**about(model), **plan}).step_time)


@pytest.mark.parametrize("where", ["tensor<=8,rc!=1,off=0", "tensor<=4,rc=0,off=0,zero=1"])
def test_what_a_search_calls_best_has_no_faster_change(where: str) -> None:
    """Of changes that the search weighs: degrees, microbatch, interleaving, ZeRO, recomputation."""
    asked = about("llama3-70b")
    best = jr.search("training", **asked, gpus=64, where=where)
    plan = {name: int(best[field]) for name, field in training.short_names.items()}
    found = jr.fit(plan=plan, **asked, changes=8)
    assert bool(found.fits)
    assert float(found.step_time) == pytest.approx(float(best.step_time), rel=1e-12)
    for one in json.loads(found.changes):
        unlike = {*one["set"]} - {*PLANNED, "recompute"}
        after = plan | {name: int(n) for name, n in one["set"].items() if name in PLANNED}
        allowed = all(
            rule.holds({training.short_names[k]: v for k, v in after.items()})
            for rule in constraints_of(training, where)
        )
        assert unlike or not allowed, one
