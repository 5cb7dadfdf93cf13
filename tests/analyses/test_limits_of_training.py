"""A second limit of training: search, fit, sizes, memory and run know it, as brute force does."""

import dataclasses
import json

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.analyses import training_plans
from jaxroof.engine.search.candidates import with_plans
from jaxroof.estimators.training import step
from jaxroof.views.text.sweep import sweep_sentences

ASKED = {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 256}
COMMAND = "--model llama3-70b --system h100-nvs8 --batch 256"
HOST = 14e9  # bytes of the host for one accelerator: few plans of 8 offload so little
OWN = "tp=8,pp=1,zero=0,off=1"


@pytest.fixture(autouse=True)
def limited(monkeypatch):
    """Let both estimators of a step have a second limit."""
    more = (step.Limit("host", lambda inputs: HOST),)
    for name in ("training", "stage_memory"):
        plain = getattr(step, name)
        monkeypatch.setattr(
            training_plans, name, dataclasses.replace(plain, limits=plain.limits + more)
        )


def every(gpus):
    """Return the results of every legal plan on some accelerators, and which are within both."""
    asked = training_plans.plans_asked(step.training, ASKED)
    machine = training_plans.plans_on(asked, gpus)
    plans = machine.plans.whole()
    found = step.training.evaluate(with_plans(step.training, machine.question.inputs, plans))
    memory, host = (np.asarray(one) for one in (found.memory, found.host))
    return found, plans, memory - machine.limit, host - HOST


def test_the_plans_that_fit_are_those_within_both():
    found, plans, memory, host = every(64)
    fits = (memory <= 0.0) & (host <= 0.0)
    assert 0 < fits.sum() < (memory <= 0.0).sum()
    data = jr.fastest_plans(**ASKED, gpus=64, top=3, own=OWN)
    times = np.asarray(found.step_time)
    np.testing.assert_allclose(data.step_time, np.sort(times[fits])[:3], rtol=1e-12)
    assert int(data.plans_feasible) == int(fits.sum())
    own = json.loads(str(data.own_plan.values))
    at = np.flatnonzero(np.all([plans[field] == value for field, value in own.items()], axis=0))
    assert json.loads(str(data.own_missed.values)) == {"host": pytest.approx(host[at].item())}
    searched = jr.search(training_plans.training, settings={**ASKED, "gpus": 64})
    assert int(searched.plans_feasible) == int(fits.sum())
    assert float(searched.step_time) == pytest.approx(times[fits].min(), rel=1e-12)
    fit = jr.least_memory(**ASKED, gpus=64, top=1, own="off=1")
    need = np.asarray(found.memory)
    assert float(fit.device[0]) == pytest.approx(need[fits].min(), rel=1e-12)
    offloads = fits & (plans["offload_optimizer"] == 1)
    assert float(fit.own) == pytest.approx(need[offloads].min(), rel=1e-12)
    assert "own_missed" not in fit


def test_where_nothing_fits_each_limit_says_by_how_much(jaxroof):
    _, _, memory, host = every(8)
    assert not np.any((memory <= 0.0) & (host <= 0.0))
    lack = host[memory <= 0.0].min() / 1e9
    why = f"host memory excludes {(host > 0).sum():,} legal plans, the nearest misses it by"
    for question in ("search", "search --objective memory", "fit"):
        said = jaxroof(f"{question} {COMMAND} --gpus 8")
        assert said.code == 1, question
        assert f"HBM excludes {(memory > 0).sum():,} legal plans" in said.words
        assert f"{why} {lack:.4g} GB" in said.words
    said = jaxroof(f"search {COMMAND} --gpus 8,64 --mine {OWN}")
    assert said.code == 0
    assert f"On 8: none of {len(host):,} legal ones fits on 8 accelerators" in said.words
    assert why in said.words
    assert "but it does not fit: its host memory is" in said.words
    data = jr.least_memory(**ASKED)  # the fewest accelerators
    assert bool(data.fits)
    assert float(data.host[0]) <= HOST
    grid = jr.search(training_plans.training, settings=ASKED, axes={"gpus": [8, 64]})
    assert (
        f"host memory excludes most, the nearest plan by {lack:.4g} GB" in sweep_sentences(grid)[-1]
    )
    assert grid.plans_feasible[0] == 0
    assert grid.plans_feasible.attrs["words"] == "plans within memory"


def test_a_plan_beyond_a_further_limit_is_not_feasible():
    plan = {"plan.tensor": 8, "plan.data": 8, "plan.offload_optimizer": 1, "plan.zero_stage": 0}
    asked = {**ASKED, **plan, "plan.recompute": 2}
    data = jr.evaluate(training_plans.training, settings=asked)
    assert bool(data.memory_fits)
    assert not bool(data.feasible)
    grid = jr.evaluate(training_plans.training, settings=asked, axes={"global_batch": [128, 256]})
    assert "2 of 2 points are not feasible: a further limit is missed." in sweep_sentences(grid)
    table = jr.plans(training_plans.training, settings={**ASKED, "gpus": 64}, where="tp=8,pp=1")
    held = (table.memory <= 85.52e9) & (table.host <= HOST)
    np.testing.assert_array_equal(table.feasible, held)
