"""Searches that pass over plans by a lower bound have the winners of those that compare all."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from daily import daily

import jaxroof as jr
from jaxroof.catalog import lookup
from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.search import bounded
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import SearchProblem, axis_roles, check_search, problem_groups
from jaxroof.structure import structure

RATES = {
    "system.hbm_bandwidth": np.array([1e12, 4e12, 16e12]),
    "system.slow_bandwidth": np.array([1e10, 4e11]),
}
LIMITS = {"system.hbm_capacity": np.array([1e9, 40e9, 80e9, 1e15])}  # nothing fits the first


def question(
    model: str, axes: dict[str, np.ndarray], gpus: float = 64.0, **options: Any
) -> SearchProblem:
    """Return a search of the plans of a model."""
    inputs = jr.TrainingInputs(
        model=lookup.architecture_with_choices(model)[0],
        system=lookup.training_system("h100-nvs8"),
        gpus=gpus,
        global_batch=128.0,
    )
    return check_search(jr.training, inputs, axes=axes, **options)


def both(
    asked: SearchProblem, monkeypatch: pytest.MonkeyPatch
) -> tuple[SearchResult, SearchResult]:
    """Return the winners with bounds, and those without."""
    monkeypatch.setattr(bounded, "LEAST_PLANS", 0)
    found = best_plans(asked)
    without = dataclasses.replace(asked.estimator, lower_bound=None)
    return found, best_plans(dataclasses.replace(asked, estimator=without))


def assert_same(found: SearchResult, other: SearchResult) -> None:
    """Check that two searches agree in everything but what they evaluated."""
    for field, column in other.plans.items():
        np.testing.assert_array_equal(found.plans[field], column, err_msg=field)
    np.testing.assert_allclose(found.objective, other.objective, rtol=1e-12)
    for name in ("legal", "feasible", "least_need"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name), err_msg=name)
    assert found.refused == other.refused
    assert found.combinations == other.combinations == other.evaluated


@pytest.mark.parametrize("top", [1, 5])
@pytest.mark.parametrize("model", [
    "llama3.1-8b",
    pytest.param("mixtral-8x7b", marks=pytest.mark.slow),
    pytest.param("deepseek-v3", marks=pytest.mark.slow),
])  # fmt: skip
def test_the_winners_are_those_of_all_plans(
    model: str, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the machine, its capacity, the kind of model and how many plans are asked for."""
    found, other = both(
        question(model, {**LIMITS, **RATES}, top=top, executor="numpy"), monkeypatch
    )
    assert_same(found, other)
    assert (other.feasible == 0).any()
    assert (other.feasible > top).any()
    assert 0 < found.evaluated < 0.8 * other.evaluated


def test_sizes_are_problems_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of each size are bounded among themselves, and several sizes share a call."""
    axes = {"gpus": np.array([16.0, 64.0]), "global_batch": np.array([64.0, 256.0]), **RATES}
    found, other = both(question("llama3.1-8b", axes, executor="numpy"), monkeypatch)
    assert_same(found, other)
    assert found.evaluated < other.evaluated


@pytest.mark.parametrize("lanes", daily([1, 3, 8], 1))
def test_a_grid_may_be_cut_into_chunks(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each chunk of limits and machines has its own incumbents; the winners do not change."""
    monkeypatch.setattr(bounded, "LANES", lanes)
    axes = {**RATES, **LIMITS}
    assert_same(*both(question("llama3.1-8b", axes, executor="numpy"), monkeypatch))


def test_a_limit_may_move_with_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that differ in capacity and in rates have their own prefix of the plans each."""
    moved = {
        "system.hbm_capacity": np.array([20e9, 90e9, 40e9]),
        "system.hbm_bandwidth": np.array([8e12, 2e12, 4e12]),
    }
    asked = question("llama3.1-8b", {"hbm": moved}, executor="numpy")  # type: ignore[dict-item]
    found, other = both(asked, monkeypatch)
    assert len(set(other.feasible.tolist())) == 3
    assert_same(found, other)


def test_the_other_objectives_are_not_bounded() -> None:
    """A bound of the step time says nothing of memory, nor of what is to be high."""
    for objective, bounded_one in (("step_time", True), ("memory", False), ("mfu", False)):
        asked = question("llama3.1-8b", {}, gpus=1024.0, objective=objective)
        groups = list(problem_groups(asked, axis_roles(asked)))
        assert bounded.is_worthwhile(asked, groups) == bounded_one, objective


def test_few_plans_are_not_bounded() -> None:
    """They are compared sooner."""
    asked = question("llama3.1-8b", {}, gpus=1.0)
    groups = list(problem_groups(asked, axis_roles(asked)))
    assert len(groups[0].ready.plans[0]) < bounded.LEAST_PLANS
    assert not bounded.is_worthwhile(asked, groups)


def test_plans_that_share_a_row_share_their_bound() -> None:
    """The fields that the bound of a step reads are found from its formula, and are few."""
    asked = question("llama3.1-8b", {})
    found = bound_reads(asked.estimator, asked.recipe, structure(asked.inputs))
    (group,) = problem_groups(asked, axis_roles(asked))
    some = group.ready.plans[0].plans
    plan = jr.TrainingPlan(**{f: column.astype(float) for f, column in some.items()})
    inputs = dataclasses.replace(asked.inputs, plan=plan)
    parts = asked.estimator.evaluate_parts(inputs, asked.recipe)
    assert asked.estimator.lower_bound is not None
    bounds = asked.estimator.lower_bound(inputs, asked.recipe, **parts)
    ((first, number),) = group.ready.rows_of_each(found.fields)
    assert len(first) < 0.2 * len(bounds)
    np.testing.assert_array_equal(bounds[first][number], bounds)
    assert np.all(np.diff(first) > 0)
    np.testing.assert_array_equal(number[first], np.arange(len(first)))
