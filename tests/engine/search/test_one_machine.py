"""The plans of one machine: the best, those within a value, and those with some fields."""

import dataclasses

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.engine.search import one_machine
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import SearchProblem, check_search


def question(**options) -> SearchProblem:
    inputs = jr.TrainingInputs(
        model=jr.architecture("mixtral-8x7b"),
        system=jr.training_system("h100-nvs8"),
        gpus=32.0,
        global_batch=64.0,
    )
    return check_search(jr.training, inputs, **options)


@pytest.fixture(params=["bounded", "every plan"])
def machine(request, monkeypatch) -> one_machine.OneMachine:
    if request.param == "bounded":
        monkeypatch.setattr(one_machine, "LEAST_PLANS", 0)
        monkeypatch.setattr(one_machine, "FEW", 8)
    return one_machine.one_machine(question())


def every_value(machine: one_machine.OneMachine) -> np.ndarray:
    """Return what is minimised of all plans that fit, each by the report."""
    asked = machine.question
    plans = machine.at(np.arange(machine.fitting))
    columns = {field: column.astype(float) for field, column in plans.items()}
    inputs = dataclasses.replace(asked.inputs, plan=asked.estimator.plan(**columns))
    return np.asarray(asked.estimator.evaluate(inputs, asked.recipe).step_time)


@pytest.mark.parametrize("top", [1, 7])
def test_the_best_are_the_first_of_all_by_value(machine, top):
    values = every_value(machine)
    order = machine.distinct(np.lexsort((np.arange(len(values)), values)))[:top]
    best, found = machine.best(top)
    np.testing.assert_allclose(found, values[order], rtol=1e-12)
    np.testing.assert_array_equal(best, order)
    deep = machine.having([Constraint("pipeline", "=", 4.0)])
    deep = deep[deep < machine.fitting]
    some, found = machine.best(top, deep)
    order = machine.distinct(deep[np.lexsort((deep, values[deep]))])[:top]
    np.testing.assert_array_equal(some, order)


def test_those_within_a_value_are_all_that_are(machine):
    values = every_value(machine)
    for most in np.quantile(values, [0.0, 0.01, 0.5]):
        some, found = machine.within(most * (1.0 + 1e-9))
        np.testing.assert_array_equal(some, np.flatnonzero(values <= most * (1.0 + 1e-9)))
        np.testing.assert_allclose(found, values[some], rtol=1e-12)


def test_a_bound_passes_over_most_plans(monkeypatch):
    monkeypatch.setattr(one_machine, "LEAST_PLANS", 1 << 30)
    every = best_plans(question())
    monkeypatch.setattr(one_machine, "LEAST_PLANS", 0)
    few = best_plans(question())
    assert few.evaluated < every.evaluated / 2
    assert every.winner == few.winner


def test_more_than_there_are_are_none():
    found = jr.search(
        "training", model="gpt2-124m", system="h100-nvs8", gpus=1, global_batch=1, top=20
    )
    assert 0 < int(found.feasible.sum()) < 20
    assert np.isnan(found.step_time.values[~found.feasible.values]).all()
