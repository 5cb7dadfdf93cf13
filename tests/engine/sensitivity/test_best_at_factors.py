"""Responses and staircases that pass over plans by a bound are those of every plan."""

import dataclasses
import functools

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.catalog import lookup
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search import candidates, one_machine
from jaxroof.engine.search.problem import check_search, constraints_of
from jaxroof.engine.sensitivity import parameter_lanes
from jaxroof.engine.sensitivity.parameter_lanes import ParameterLanes, plans_that_fit

UNBOUNDED = dataclasses.replace(jr.training, lower_bound=None)
ASKED = {"gpus": 32.0, "global_batch": 64.0}
WHERE = "cp=1,sp=1,zero>=2"


def machine():
    model, _ = lookup.architecture_with_choices("llama3-8b")
    return jr.TrainingInputs(model=model, system=lookup.training_system("h100-nvs8"), **ASKED)


def assert_same(some, others):
    assert dict(some.sizes) == dict(others.sizes)
    for name, column in some.variables.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(column, others[name], rtol=1e-12)
        else:
            np.testing.assert_array_equal(column, others[name])


@pytest.mark.parametrize("few", [parameter_lanes.FEW, 0])
def test_a_response_with_a_bound_is_that_of_every_plan(few, monkeypatch):
    monkeypatch.setattr(parameter_lanes, "FEW", few)  # with 0 every interval is halved
    paths = ["system.matrix_flops", "system.fast_bandwidth"]
    options = {"where": WHERE, "parameters": paths, "span": 8.0}
    found = jr.response(jr.training, machine(), **options)
    assert found.attrs["switches"] == "sampled"
    assert found.sizes["switch"] > 0
    assert_same(found, jr.response(UNBOUNDED, machine(), **options))


def test_the_ends_of_an_interval_reach_the_least_of_all_plans(monkeypatch):
    """Whichever plans are known first: so few are evaluated in between."""
    monkeypatch.setattr(parameter_lanes, "KNOWN", 1)
    question = check_search(jr.training, machine(), where=WHERE)
    path, factors = "system.matrix_flops", np.array([0.1, 1.0, 10.0])
    lanes = ParameterLanes(question, plans_that_fit(question), (path,), factors)
    every, known = np.arange(len(lanes)), []
    values = np.concatenate([cost[:, 0] for _, cost in lanes.every()])
    evaluate = functools.partial(parameter_lanes.evaluated, lanes, path)
    for factor, least in enumerate(values.min(axis=0)):
        found = parameter_lanes.bounds_at(evaluate, every, factor, known)
        known = [found.best]
        assert values[found.best, factor] == least
        assert least <= found.reached < least * (1.0 + 1e-9)
        assert np.all(found.plan <= values[:, factor] * (1.0 + 1e-12))


def test_a_staircase_with_a_bound_is_that_of_every_plan(monkeypatch):
    monkeypatch.setattr(one_machine, "LEAST_PLANS", 1)
    monkeypatch.setattr(one_machine, "STEPS", 16)
    found = jr.pareto(jr.training, machine(), where=WHERE)
    assert found.sizes["step_number"] > 5
    assert_same(found, jr.pareto(UNBOUNDED, machine(), where=WHERE))


@pytest.mark.parametrize("where", ["tp>=1", "off=0", "zero<=2,rc!=1,tp<=2", "zero=1,rc=0,off=0"])
def test_a_product_of_plans_needs_what_its_plans_need(where):
    """Whatever rules leave of it: a field of one value is one of the product still."""
    rules = constraints_of(jr.training, where)
    inputs, recipe = machine(), jr.training.recipe
    plans = candidates.plan_product(jr.training, inputs, recipe, rules)
    fields = ["rank_order", "reshard", "zero_stage", "recompute", "offload_optimizer"]
    assert [*plans.product] == fields
    need = candidates.needs_of(jr.training, recipe, inputs, plans)
    columns = {field: column.astype(float) for field, column in plans.whole().items()}
    assert all(rule.holds(columns).all() for rule in rules)
    each = dataclasses.replace(inputs, plan=jr.training.plan(**columns))
    report = evaluate_points(jr.training, recipe, each, "memory")
    np.testing.assert_array_equal(need, report["memory"])
    some = jr.Candidates({field: column[1:-1] for field, column in plans.whole().items()}, {})
    rest = candidates.needs_of(jr.training, recipe, inputs, some)
    np.testing.assert_array_equal(rest, need[1:-1])
    np.testing.assert_array_equal(plans.at(np.arange(plans.size))["data"], columns["data"])
