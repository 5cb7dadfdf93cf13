"""The plans of one machine: the best, those within a value, and those with some fields."""

import dataclasses

import numpy as np
import pytest
from daily import daily

import jaxroof as jr
from jaxroof.engine.search import candidates, one_machine
from jaxroof.engine.search.candidates import needed_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import SearchProblem, check_search

MACHINE = jr.TrainingInputs(
    model=jr.architecture("mixtral-8x7b"),
    system=jr.training_system("h100-nvs8"),
    gpus=32.0,
    global_batch=64.0,
)


def question(**options) -> SearchProblem:
    return check_search(jr.training, MACHINE, **options)


@pytest.fixture(params=["bounded", "every plan"])
def machine(request, monkeypatch) -> one_machine.OneMachine:
    if request.param == "bounded":
        monkeypatch.setattr(one_machine, "LEAST_PLANS", 0)
        monkeypatch.setattr(one_machine, "FEW", 8)
    return one_machine.one_machine(question())


def every_value(machine: one_machine.OneMachine) -> np.ndarray:
    """Return what is minimised of all plans that fit, each by the report, infinite elsewhere."""
    asked = machine.question
    columns = {f: column.astype(float) for f, column in machine.at(machine.fitting).items()}
    inputs = dataclasses.replace(asked.inputs, plan=asked.estimator.plan(**columns))
    found = np.full(machine.plans.size, np.inf)
    found[machine.fitting] = asked.estimator.evaluate(inputs, asked.recipe).step_time
    return found


@pytest.mark.parametrize("top", daily([1, 7], 1))
def test_the_best_are_the_first_of_all_by_value(machine, top):
    values = every_value(machine)
    for rules in ([], [Constraint("pipeline", "=", 4), Constraint("zero_stage", ">=", 2)]):
        some = machine.having(rules)
        some = some[machine.need[some] <= machine.limit]
        order = machine.distinct(some[np.lexsort((some, machine.need[some], values[some]))])[:top]
        best, found = machine.best(top, some if rules else None)
        np.testing.assert_array_equal(best, order)
        np.testing.assert_allclose(found, values[order], rtol=1e-12)


def test_those_within_a_value_are_all_that_are(machine):
    values = every_value(machine)
    for most in np.quantile(values[machine.fitting], [0.0, 0.01, 0.5]) * (1.0 + 1e-9):
        some, found = machine.within(most)
        np.testing.assert_array_equal(some, np.flatnonzero(values <= most))
        np.testing.assert_allclose(found, values[some], rtol=1e-12)


def test_a_bound_passes_over_most_plans(monkeypatch):
    monkeypatch.setattr(one_machine, "LEAST_PLANS", 1 << 30)
    every = best_plans(question())
    monkeypatch.setattr(one_machine, "LEAST_PLANS", 0)
    few = best_plans(question())
    assert few.evaluated < every.evaluated / 2
    assert every.objective == few.objective
    for field, column in every.plans.items():
        assert column == few.plans[field]


def test_more_than_there_are_are_none():
    found = jr.search(
        "training", model="gpt2-124m", system="h100-nvs8", gpus=1, global_batch=1, top=20
    )
    assert 0 < int(found.feasible.sum()) < 20
    assert np.isnan(found.step_time.values[~found.feasible.values]).all()


@pytest.mark.parametrize("fields", [(), ("zero_stage",), ("tensor",), ("data", "recompute")])
def test_rows_of_a_product_are_the_distinct_values_of_its_fields(fields):
    """Whatever fields are of the splits and of what goes with each of them."""
    plans = one_machine.one_machine(question(where="zero<=1,rc!=1")).plans
    every = np.arange(plans.size)
    rows = plans.rows_of(fields)
    number, columns = rows.number(every), plans.at(every, fields)
    for field, column in plans.at(rows.first, fields).items():
        np.testing.assert_array_equal(column[number], columns[field])
    assert len(np.unique(number)) == len(rows.first)
    distinct = np.stack([*columns.values(), np.zeros(plans.size)])
    assert len(rows.first) == len(np.unique(distinct, axis=1).T)
    np.testing.assert_array_equal(every, np.sort(plans.positions([])))
    for field, column in plans.whole().items():
        np.testing.assert_array_equal(column, plans.at(every)[field])


def test_lists_of_plans_are_kept_as_far_as_their_bytes_allow(monkeypatch):
    """The latest stays, whatever its length; those of the same bytes and more make room for it."""

    def listed(batch: float):
        asked = dataclasses.replace(MACHINE, global_batch=batch)
        one_machine.one_machine(check_search(jr.training, asked))
        return needed_plans.__wrapped__, candidates.kept.nbytes

    candidates.kept.found.clear()
    _, one = listed(64.0)
    _, two = listed(128.0)
    _, again = listed(64.0)
    assert 0 < one < two == again
    monkeypatch.setattr(candidates.kept, "most", two)
    listed(32.0)
    assert candidates.kept.nbytes <= two
    monkeypatch.setattr(candidates.kept, "most", 1)
    listed(96.0)
    assert len(candidates.kept.found) == 1
