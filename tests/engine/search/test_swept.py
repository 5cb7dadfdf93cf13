"""Bounds of limits swept in one pass, and frontiers: equal to comparing all plans at each bound."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxroof as jr
from jaxroof.engine.search.cells import cells_of, firsts, frontier_of, misses
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.one_machine import one_machine
from jaxroof.engine.search.problem import axis_roles, check_search
from jaxroof.engine.search.several_limits import relaxed_limits
from jaxroof.estimator import FAR, TIE
from tests.helpers.pools import estimator, example

NEAR = (1.0, 1.0 + 3e-13, 1.0 + 8e-13, 1.0 + 2.5e-12, 2.0, FAR)
FEW = (1.0, 2.0, 3.0, 4.0)


def first_of(values: np.ndarray, held: np.ndarray) -> int:
    """Return the first plan that ties with the least of those held; -1 if none is."""
    least = np.min(values, where=held, initial=FAR)
    return int(np.argmax(held & (values <= least + TIE * least))) if least < FAR else -1


@st.composite
def compared(draw):
    plans, lanes, limits = draw(st.integers(0, 9)), draw(st.integers(1, 2)), draw(st.integers(1, 3))

    def column(some, *shape):
        size = int(np.prod(shape))
        return np.array(draw(st.lists(st.sampled_from(some), min_size=size, max_size=size)), float)

    values = column(NEAR, plans, lanes).reshape(plans, lanes)
    results = [column(FEW, plans, lanes).reshape(plans, lanes) for _ in range(limits)]
    bounds = [column((*FEW, 0.5, np.inf), draw(st.integers(1, 4))) for _ in range(limits)]
    return values, results, bounds


@given(compared())
def test_the_first_of_all_plans_at_every_combination_of_bounds(asked):
    values, results, bounds = asked
    cells, numbers = zip(*map(cells_of, results, bounds), strict=True)
    position, best = firsts(values, cells, [len(some) for some in bounds])
    for index in np.ndindex(position.shape):
        *at, lane = index
        held = np.ones(len(values), bool)
        for limit, place in enumerate(at):
            held &= results[limit][:, lane] <= bounds[limit][place]
        mine = (*(number[place] for number, place in zip(numbers, at, strict=True)), lane)
        assert position[mine] == first_of(values[:, lane], held)
        assert best[mine] == (values[position[mine], lane] if position[mine] >= 0 else 0.0)


@given(compared(), st.randoms(use_true_random=False))
def test_the_steps_of_a_frontier_win_at_some_bound(asked, random):
    values, (swept, *_), _ = asked
    value, swept = values[:, 0], swept[:, 0]
    order = np.array(random.sample(range(len(value)), len(value)), int)
    won = {first_of(value[order], swept[order] <= most) for most in np.unique(swept)} - {-1}
    steps = frontier_of(swept, value, order)
    assert {*steps.tolist()} == {int(order[place]) for place in won}
    assert np.all(np.diff(swept[steps]) >= 0.0)


MACHINES = {"system.rate": np.array([1e3, 4e3, 5e2]), "widest": np.array([8.0, 16.0])}
BOUNDS = st.lists(
    st.sampled_from([1e-9, 0.004, 0.0095, 0.02, 0.05, 0.1, 0.2, 1e9]), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=40)
@given(BOUNDS, BOUNDS, st.lists(st.sampled_from([1e9, 4e9, 16e9, 64e9]), min_size=1, max_size=3))
def test_one_pass_has_the_winners_of_a_search_at_each_combination(first, each, memory):
    axes = {"limits.first": first, "system.memory": memory, "limits.each": each, **MACHINES}
    asked = check_search(estimator, example(), axes=axes)
    moved = {name for name, some in (("first", first), ("each", each)) if len(some) > 1}
    assert {limit.result for limit in axis_roles(asked).swept.values()} == moved
    found = best_plans(asked)
    for rate, widest in np.ndindex(3, 2):
        here = {"system.rate": MACHINES["system.rate"][rate], "widest": MACHINES["widest"][widest]}
        every = jr.survey(estimator, example(), settings=here)
        order = np.argsort(every.cache.values, kind="stable")
        results = {n: every[n].values[order] for n in ("cost", "first", "each", "cache")}
        for f, m, e in np.ndindex(len(first), len(memory), len(each)):
            held = (results["first"] <= first[f]) & (results["each"] <= each[e])
            best = first_of(results["cost"], held & (results["cache"] <= memory[m]))
            at = (f, m, e, rate, widest, 0)
            assert found.held[at] == (best >= 0)
            for field in estimator.plan_fields:
                expected = every[field].values[order[best]] if best >= 0 else -1
                assert found.plans[field][at] == expected


def test_bounds_that_move_together_or_with_more_are_no_sweep():
    zipped = {"service": {"limits.first": [0.1, 0.2], "limits.each": [0.01, 0.02]}}
    both = {"machine": {"limits.first": [0.1, 0.2], "system.rate": [1e3, 2e3]}}
    for axes in (zipped, both, {"system.rate": [1e3, 2e3]}):
        assert not axis_roles(check_search(estimator, example(), axes=axes)).swept
    asked = check_search(estimator, example(), axes={"limits.first": [0.1]}, top=2)
    assert not axis_roles(asked).swept


@pytest.mark.parametrize(("against", "sign"), [("each", 1.0), ("throughput", -1.0)])
def test_a_frontier_is_what_searches_find_at_each_bound(against, sign):
    bounds = {"limits.first": 0.2, "limits.each": 0.01}
    found = jr.pareto(
        estimator, example(), against=against, settings=bounds, axes={"system.rate": [1e3, 2e3]}
    )
    assert found.attrs["question"] == "against"
    for rate in (1e3, 2e3):
        every = jr.survey(estimator, example(), settings={**bounds, "system.rate": rate})
        order = np.argsort(every.cache.values, kind="stable")
        every = every.isel(plan=order)
        held = (every.cache.values <= 16e9) & (every["first"].values <= 0.2)
        held &= (every.each.values <= 0.01) | (against == "each")
        swept = sign * every[against].values
        won = {first_of(every.cost.values, held & (swept <= most)) for most in swept} - {-1}
        steps = found.isel(step_number=np.flatnonzero(found.rate.values == rate))
        expected = every.isel(plan=sorted(won, key=lambda place: swept[place]))
        for field in (*estimator.plan_fields, "cost", against):
            np.testing.assert_array_equal(steps[field].values, expected[field].values)
        np.testing.assert_array_equal(steps.fits, steps.each <= 0.01)
        assert len(won) > 1


@pytest.mark.parametrize("against", ["cost", "fist"])
def test_a_frontier_is_against_a_result(against):
    with pytest.raises(jr.InputError, match=f"against: .*{against}"):
        jr.pareto(estimator, example(), against=against)


def test_points_without_a_plan_say_why_as_a_search_there_does():
    axes = {"limits.first": [1e-3, 0.2], "limits.each": [1e-4, 1e-3, 1.0]}
    found = jr.search(estimator, example(), axes=axes)
    for f, e in np.ndindex(2, 3):
        bounds = {path: values[at] for (path, values), at in zip(axes.items(), (f, e), strict=True)}
        alone = jr.search(estimator, example(), settings=bounds)
        here = found.isel(dict(zip(found.reason.dims, (f, e), strict=True)))
        for name in ("reason", "first_missing", "each_missing", "cache_missing"):
            np.testing.assert_array_equal(here[name], alone[name])


def test_more_evaluations_by_numpy_where_one_serves_many_bounds():
    few = check_search(estimator, example(), axes={"limits.each": np.geomspace(1e-3, 1.0, 500)})
    assert best_plans(few).held[..., 0].any()
    many = dataclasses.replace(few, executor="jax")
    np.testing.assert_array_equal(best_plans(few).winner, best_plans(many).winner)


@pytest.mark.parametrize("first", [0.07, 1e-3, None])
def test_relaxing_one_limit_gives_what_a_search_there_finds(first):
    bounds = {"limits.first": first or 1e9, "limits.each": 0.0095, "system.memory": 2e9}
    found = relaxed_limits(one_machine(check_search(estimator, example(), settings=bounds)))
    assert [*found] == ["cache", "first", "each"]
    every = jr.survey(estimator, example(), settings=bounds)
    paths = ("system.memory", "limits.first", "limits.each")
    for name, path in zip(found, paths, strict=True):
        here = found[name]
        assert here["limit_bound"] == bounds[path]
        assert here["limit_excludes"] == int((every[name] > bounds[path]).sum())
        looser = jr.search(estimator, example(), settings=bounds | {path: 1.1 * bounds[path]})
        np.testing.assert_allclose(here["limit_relaxed"], looser.cost, rtol=0)
    there = jr.search(estimator, example(), settings=bounds)
    if not bool(there.feasible):
        missing = [float(there[f"{name}_missing"]) for name in found]
        np.testing.assert_array_equal([one["limit_missing"] for one in found.values()], missing)
    told = json.loads(there.attrs["relaxed"])
    assert told["each"]["limit_bound"] == 0.0095
    assert [*told] == [*found]


def test_a_limit_that_holds_by_nature_is_not_relaxed():
    limits = (*estimator.limits[:2], estimator.limits[2]._replace(relax=False))
    found = jr.search(dataclasses.replace(estimator, limits=limits), example())
    told = json.loads(found.attrs["relaxed"])
    assert [one["limit_relaxed"] is None for one in told.values()] == [False, False, True]
    published = {"model": "gpt3", "system": "b200-nvs8", "gpus": 64, "global_batch": 64}
    assert "relaxed" not in jr.search("published", **published).attrs


def test_more_memory_and_looser_bounds_are_never_worse():
    axes = {
        "limits.first": np.geomspace(0.02, 2.0, 9),
        "limits.each": np.geomspace(1e-3, 0.1, 17),
        "system.memory": np.geomspace(1e9, 64e9, 7),
        "system.rate": [1e3, 3e3],
    }
    found = best_plans(check_search(estimator, example(), axes=axes))
    cost = np.where(found.held, found.objective, FAR)
    for dimension in range(3):
        assert np.all(np.diff(cost, axis=dimension) <= 1e-11)
    assert 0 < found.held.sum() < found.held.size


@given(compared())
def test_what_each_limit_keeps_out_is_counted_at_every_combination(asked):
    values, results, bounds = asked
    if not len(values):
        return
    named = {str(n): result[:, 0] for n, result in enumerate(results)}
    points = dict(zip(named, (one.ravel() for one in np.meshgrid(*bounds)), strict=True))
    for name, (count, missing) in misses(named, points).items():
        for point in range(points[name].size):
            over = {n: named[n] - some[point] for n, some in points.items()}
            near = np.all([o <= 0.0 for n, o in over.items() if n != name], axis=0)
            more = over[name][near] if np.any(near) else over[name]
            assert count[point] == (over[name] > 0.0).sum()
            assert missing[point] == max(more.min(), 0.0)
