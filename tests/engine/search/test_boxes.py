"""Searches by boxes have the winners of searches that compare every plan."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jobs import OWN, Job

import jaxroof as jr
from jaxroof.engine.search import boxes, direct, driver
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import SearchProblem, axis_roles, check_search, problem_groups

RTOL = 1e-12


@pytest.fixture(autouse=True)
def insist(monkeypatch):
    """Search by boxes however small the search, of few machines each."""
    monkeypatch.setattr(boxes, "COMBINATIONS", 0)
    monkeypatch.setattr(boxes, "LEAST_MACHINES", 1)
    monkeypatch.setattr(boxes, "PAIRS", 64)
    monkeypatch.setattr(boxes, "LANES", 2)
    monkeypatch.setattr(boxes.BoxSearch, "few", 0)
    monkeypatch.setattr(driver, "most_by_numpy", lambda *_: 0)


@pytest.fixture
def folds(monkeypatch):
    """Count the groups that were not searched by boxes alone."""
    by_boxes, called = boxes.chunks_of_group, []

    def chunks(question: Any, kind: Any, _: Any, group: Any) -> Any:
        def plain(group: Any) -> Any:
            called.append(group)
            return direct.chunks_of_group(question, kind, group)

        return by_boxes(question, kind, plain, group)

    monkeypatch.setattr(boxes, "chunks_of_group", chunks)
    return called


def asked(axes: dict[str, Any], executor: str | None, **more: Any) -> SearchProblem:
    return check_search(OWN, Job(), axes=axes, executor=executor, **more)


def same_winners(axes: dict[str, Any], **more: Any) -> SearchResult:
    """Check that pruning and NumPy's comparison of every plan agree; return the winners."""
    ours, every = (best_plans(asked(axes, who, **more)) for who in (None, "numpy"))
    np.testing.assert_array_equal(ours.feasible, every.feasible)
    np.testing.assert_array_equal(ours.legal, every.legal)
    np.testing.assert_allclose(ours.least_need, every.least_need, rtol=RTOL)
    np.testing.assert_allclose(ours.objective, every.objective, rtol=RTOL)
    for field, column in every.plans.items():
        np.testing.assert_array_equal(ours.plans[field], column, field)
    return ours


RATES = {"place.pace": np.geomspace(1e8, 1e10, 8), "place.road": np.geomspace(1e8, 1e10, 8)}
RATE = st.floats(7.0, 10.0)
few = settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@few
@given(low=st.tuples(RATE, RATE), wide=st.floats(0.1, 2.0), delay=st.floats(-6.0, -2.0))
def test_random_machines_and_sizes(folds, low, wide, delay):
    axes = {
        "count": [4, 16],
        "place.pace": np.logspace(low[0], low[0] + wide, 8),
        "place.road": np.logspace(low[1], low[1] + 1.0, 4),
        "place.delay": np.linspace(0.0, 10.0**delay, 4),
    }
    found = same_winners(axes)
    assert not folds
    assert found.combinations == (36 + 900) * 128


SPLITS = {"splits": {}, "placements": {"placements": True}}


@pytest.mark.parametrize("kind", SPLITS)
def test_best_three_at_every_capacity(kind, folds):
    axes = {
        "count": [3, 12],
        "place.room": [1e7, 2e8, 3.3e8, 1e9],
        "place.spare": [1.0, 2.0],  # moves nothing
        "place.pace": np.geomspace(1e8, 1e10, 8),
        "place.road": np.geomspace(1e10, 1e8, 8),
    }
    found = same_winners(axes, top=3, **SPLITS[kind])
    assert not folds
    assert (found.feasible == 0).any()
    assert 0 < np.min(found.feasible[found.feasible > 0]) < np.max(found.feasible)


def test_axes_that_move_several_numbers(folds):
    """Rates in proportion lie on a line, others on a curve; one axis moves the capacity too."""
    pace = np.geomspace(1e8, 1e10, 12)
    axes = {
        "count": [12],
        "line": {"place.pace": pace, "place.room": np.linspace(2e8, 1e9, 12)},
        "curve": {"place.road": np.geomspace(1e8, 1e10, 8), "place.delay": np.linspace(0, 1e-2, 8)},
    }
    same_winners(axes)
    both = {"place.pace": pace, "place.road": 3.0 * pace}
    same_winners({"count": [12], "both": both, "place.delay": [0.0, 1e-4, 1e-3, 1e-2]})
    assert not folds


def test_a_product_of_two_rates_is_convex_in_logarithms(folds):
    axes = {"place.road": np.geomspace(1e8, 1e10, 8), "place.share": np.linspace(0.1, 1.0, 8)}
    question = asked(axes, None)
    (group,) = problem_groups(question, axis_roles(question))
    found = boxes.convex_coordinates(question, group, question.axes, list(axes))
    assert {c.name for c in found.values()} == {"ln x"}
    same_winners(axes)
    assert not folds


def test_a_rate_that_is_to_be_high_is_pruned_too(folds):
    """A reciprocal time is concave in rates, and the search minimises its negative."""
    found = same_winners(RATES, objective="rate")
    assert not folds
    assert found.evaluated < 0.5 * found.combinations


def test_what_is_not_convex_is_folded(folds):
    same_winners(RATES, objective="bent")
    assert len(folds) == 1


def test_a_law_that_only_boxes_break_is_noticed(folds, monkeypatch):
    """If the samples let a wrong coordinate pass, incumbents and sampled plans do not."""

    def passing(question: Any, group: Any, axes: Any, moving: Any) -> Any:
        return dict.fromkeys(moving, boxes.COORDINATES[1])

    monkeypatch.setattr(boxes, "convex_coordinates", passing)
    same_winners(RATES, objective="bent")
    assert len(folds) == 1


SMALL = jr.Model(layers=12.0, hidden=1536.0, feedforward=6144.0, heads=12.0, sequence=512.0)


def test_training_on_coupled_axes(folds):
    inputs = jr.Inputs(model=SMALL, system=jr.system("h200-nvs4"), global_batch=12.0)
    rates = np.geomspace(1e14, 4e15, 8)
    axes = {
        "gpus": [24],
        "rate": {"system.matrix_flops": rates, "system.vector_flops": rates / 10.0},
        "hbm": {
            "system.hbm_bandwidth": np.geomspace(1e12, 2e13, 4),
            "system.hbm_capacity": np.linspace(1e9, 4e9, 4),
        },
    }
    ours, every = (
        best_plans(check_search(jr.published, inputs, axes=axes, executor=who))
        for who in ("jax", "numpy")
    )
    np.testing.assert_allclose(ours.objective, every.objective, rtol=RTOL)
    for field, column in every.plans.items():
        np.testing.assert_array_equal(ours.plans[field], column, field)
    assert not folds
