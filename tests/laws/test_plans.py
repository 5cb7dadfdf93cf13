"""Laws of the plans of today's training, over every model of language in the catalogue."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from architectures import language_models, one_of_each
from daily import daily

import jaxroof as jr
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.engine.grid.question import resolve
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan, planned
from jaxroof.estimators.training.legality import broken_rule
from jaxroof.estimators.training.plans import splits
from jaxroof.estimators.training.recipe import EXCHANGES, TrainingRecipe
from jaxroof.estimators.training.step import training
from jaxroof.settings import choose
from jaxroof.views.text.fit import title_of
from jaxroof.views.text.plan import filled_sentence, plan_sentence
from jaxroof.views.text.ranked import own_sentence

DRAWN = 40  # legal plans of each model that fit is asked about


def question(name: str, gpus: int, batch: int) -> tuple[TrainingInputs, TrainingRecipe]:
    """Return the inputs of a search, and its default recipe."""
    model, choices = architecture_with_choices(name)
    inputs = TrainingInputs(
        model=dataclasses.replace(model, sequence=8192.0),
        system=training_system("h100-nvs8"),
        gpus=float(gpus),
        global_batch=float(batch),
    )
    return inputs, choose(TrainingRecipe(), choices)


@pytest.mark.parametrize("gpus", daily([512, 768], 1))
@pytest.mark.parametrize("name", one_of_each(language_models()))
def test_pipelines_are_weighed_and_legal_in_fit_too(name: str, gpus: int) -> None:
    """Whether or not they divide the layers; what a search lists, ``fit --plan`` takes."""
    inputs, recipe = question(name, gpus, gpus)
    plans, _ = splits(inputs, recipe, gpus)
    assert np.unique(plans["pipeline"]).size > 1
    draw = np.random.default_rng(gpus)
    for row in draw.integers(len(plans["data"]), size=DRAWN):
        fields: Any = {field: float(column[row]) for field, column in plans.items()}
        one = dataclasses.replace(inputs, plan=TrainingPlan(**fields))
        assert broken_rule(planned(one, recipe), recipe) is None, fields


LONG = {"model": "llama3.1-405b", "system": "h100-nvs8", "model.sequence": 131072}
BOTH = {"plan.exchange": EXCHANGES}
META = "tp=8,cp=16,pp=16"  # the plan of its makers at that length


@pytest.mark.parametrize("executor", daily(["numpy", "jax"], 0))
def test_an_exchange_costs_the_same_by_number_and_by_name(executor: str) -> None:
    """In a grid, alone, and as a choice of the recipe; all-to-all keeps more and hides nothing."""
    asked = {**LONG, "global_batch": 64, "plan.tensor": 2, "plan.context": 4, "plan.data": 4}
    inputs, recipe = resolve(training, asked)[:2]
    grid = jr.tabulate(training, inputs, recipe, axes=BOTH, executor=executor)
    chosen = {"context_exchange": EXCHANGES}
    named = jr.tabulate(training, inputs, recipe, axes=chosen, executor=executor)
    assert grid.exchange.attrs["flag_meanings"] == "all-to-all ring"
    for place, word in enumerate(EXCHANGES):
        plan = dataclasses.replace(inputs.plan, exchange=float(place))
        one = training.evaluate(dataclasses.replace(inputs, plan=plan), recipe)
        for name in ("step_time", "memory", "context_heads"):
            here = float(grid[name].broadcast_like(grid.step_time)[place])
            assert here == pytest.approx(float(getattr(one, name)), rel=1e-12), (name, word)
            there = named[name].broadcast_like(named.step_time)
            assert here == pytest.approx(float(there.sel(context_exchange=word)), rel=1e-12)
    assert grid.step_time[0] > grid.step_time[1]
    assert grid.memory[0] > grid.memory[1]


def test_a_search_weighs_both_exchanges_and_names_the_one() -> None:
    """A setting fixes the exchange; the plan of the model's makers is legal and is ranked."""
    asked = {**LONG, "global_batch": 128, "gpus": 16384}
    best = jr.fastest_plans(**asked, own=META)
    by = {word: jr.fastest_plans(**asked, where=f"cx={word}").step_time[0] for word in EXCHANGES}
    assert float(best.step_time[0]) == float(min(by.values()))
    assert by["ring"] < by["all-to-all"]
    fixed = jr.fastest_plans(**asked, context_exchange="all-to-all", where="cp>1")
    assert float(fixed.step_time[0]) == float(by["all-to-all"])
    assert not fixed.exchange.any()
    assert json.loads(str(best.own_plan.values))["exchange"] == EXCHANGES.index("ring")
    assert "cp 16 cx ring" in plan_sentence(best.isel(plan=0))
    fit = jr.fit(**LONG, global_batch=128, gpus=16384, plan={"tp": 8, "cp": 16, "pp": 16})
    assert "cx ring" in title_of(fit)


@pytest.mark.parametrize(("own", "given"), [("tp=8,pp=2", 0), ("tp=8,pp=2,off=1", 1)])
def test_a_plan_of_ones_own_is_filled_in_with_the_fastest_and_says_so(own: str, given: int) -> None:
    """Optimizer states go to the host only where the plan says so, even if it fits there alone."""
    asked = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 128, "gpus": 16}
    data = jr.fastest_plans(**asked, own=own)
    plan = json.loads(str(data.own_plan.values))
    assert plan["offload_optimizer"] == given
    assert (float(data.own_device) <= float(data.capacity)) == bool(given)
    filled = json.loads(str(data.own_filled.values))
    assert filled == {name: plan[name] for name in filled}
    assert not {"tensor", "pipeline", "offload_optimizer"} & {*filled}
    assert {"microbatch", "interleave", "recompute"} <= {*filled}
    assert f"Filled in: vp {plan['interleave']} mb {plan['microbatch']}" in own_sentence(data)
    if given:
        rules = [f"{name}={value}" for name, value in plan.items() if name not in filled]
        fastest = jr.fastest_plans(**asked, where=",".join(rules))
        assert float(data.own) == float(fastest.step_time[0])


IN_PART = [  # model, system, accelerators, batch, fields of a plan, a setting
    ("llama3-70b", "h100-nvs8", 64, 128, "dp=2,tp=8,pp=4", ""),
    ("llama3-8b", "h100-nvs8", 8, 64, "dp=8,tp=1,pp=1", "precision=fp8"),
    ("llama3.1-405b", "gb200-nvl72", 1152, 1152, "dp=16,tp=8,pp=9,rc=0", ""),
    ("llama3-70b", "h100-nvs8", 64, 128, "tp=8,pp=4", ""),
    ("llama3-70b", "h100-nvs8", 64, 128, "dp=2,tp=8,pp=4,rc=1", "selective=mlp"),
    ("llama3-8b", "h100-nvs8", 1, 8, "dp=1", ""),  # none of these fits
    ("mixtral-8x7b", "h100-nvs8", 64, 256, "dp=16,tp=2,pp=2,ep=8", ""),
    ("deepseek-v3", "h800-nvs8", 256, 256, "dp=16,tp=1,pp=16,ep=16,mb=1", ""),
    ("llama3-70b", "h100-nvs8", 128, 128, "dp=2,tp=8,cp=2,pp=4,off=1", "schedule=zb_h1"),
]


@pytest.mark.parametrize(
    ("model", "system", "gpus", "batch", "own", "setting"), daily(IN_PART, 0, 1, 3)
)
def test_a_plan_in_part_is_filled_in_alike_by_every_command(
    model: str,
    system: str,
    gpus: int,
    batch: int,
    own: str,
    setting: str,
    jaxroof: Any,
    monkeypatch: Any,
) -> None:
    """``search --mine``, ``fit --plan`` and ``schedule --plan``: fields, seconds, bytes, words."""
    monkeypatch.setattr("jaxroof.analyses.fit_changes.MOST", 0)  # changes are another question
    asked: dict[str, Any] = {"model": model, "system": system, "global_batch": batch}
    asked["settings"] = dict([setting.split("=")]) if setting else {}
    search = jr.fastest_plans(**asked, gpus=gpus, own=own)
    plan = json.loads(str(search.own_plan.values))
    words = filled_sentence(search).strip()
    line = f"--model {model} --system {system} --batch {batch} --plan {own}"
    line += f" --set {setting}" if setting else ""
    number = "" if "dp=" in own else f" --gpus {gpus}"  # the degrees say it too
    assert f" {words} " in jaxroof(f"fit {line}{number} -o fit.nc").words
    fit = jr.read("fit.nc")
    inputs, recipe = json.loads(fit.attrs["inputs"]), json.loads(fit.attrs["recipe"])
    here = {name: inputs[f"plan.{name}"] for name in plan if name != "recompute"}
    here["recompute"] = ["none", "selective", "full"].index(recipe["recompute"])
    assert here == plan
    assert float(fit.device.max()) == pytest.approx(float(search.own_device), rel=1e-12)
    assert float(fit.step_time) == pytest.approx(float(search.own), rel=1e-12)
    if plan["pipeline"] == 1 or number:  # schedules take accelerators from the degrees
        return
    said = jaxroof(f"schedule {line} --schedule 1f1b,interleaved,zb-h1 -o schedule.nc")
    assert f" {words} " in said.words
    own_kind = "interleaved" if plan["interleave"] > 1 else "1f1b"
    own_kind = "zb-h1" if setting == "schedule=zb_h1" else own_kind
    row = jr.read("schedule.nc").sel(schedule=own_kind)
    assert float(row.step_time) == pytest.approx(float(search.own), rel=1e-9)
    assert float(row.memory.max()) == pytest.approx(float(search.own_device), rel=1e-12)
