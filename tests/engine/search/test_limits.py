"""Several limits on plans: winners, ties included, are those of every combination by itself."""

import dataclasses

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import check_search
from tests.helpers.pools import Inputs, estimator, example

SWEPT = {
    "limits.first": np.array([0.05, 1e9, 0.2, 0.1, 1e-9]),  # nothing is within the last
    "system.memory": np.array([16e9, 1e9, 64e9]),
    "limits.each": np.array([0.004, 0.02, 0.009, 1e9]),
}
RATES = {"system.rate": np.array([1e3, 4e3])}


def by_hand(inputs: Inputs, top: int = 1) -> list[dict[str, int]]:
    """Return the best plans of one machine, from the report of each."""
    every = jr.survey(estimator, inputs)
    bounds = [limit.of(inputs) for limit in estimator.limits]
    held = [every[o.result].values <= b for o, b in zip(estimator.limits, bounds, strict=True)]
    cost = np.where(np.all(held, axis=0), every.cost.values, np.inf)
    found = []
    for _ in range(top):
        least = cost.min()
        near = np.flatnonzero(np.isfinite(cost) & (cost <= least * (1.0 + 1e-12)))
        if not len(near):
            break
        place = near[np.lexsort((near, every.cache.values[near]))[0]]
        found.append({field: int(every[field][place]) for field in estimator.plan_fields})
        cost[place] = np.inf
    return found


@pytest.mark.parametrize(("executor", "top"), [("numpy", 1), ("numpy", 3), ("jax", 1)])
@pytest.mark.parametrize("names", [[*SWEPT, *RATES], ["limits.each"], ["system.rate"]])
def test_every_combination_has_the_winners_that_it_has_alone(names, executor, top):
    axes = {name: values for name, values in {**SWEPT, **RATES}.items() if name in names}
    start = example()
    start = dataclasses.replace(start, limits=dataclasses.replace(start.limits, first=0.3))
    asked = check_search(estimator, start, axes=axes, executor=executor, top=top)
    found = best_plans(asked)
    sizes = [len(values) for values in axes.values()]
    seen = set()
    for index in np.ndindex(*sizes):
        inputs = start
        for (path, values), at in zip(axes.items(), index, strict=True):
            record, _, field = path.partition(".")
            part = dataclasses.replace(getattr(inputs, record), **{field: values[at]})
            inputs = dataclasses.replace(inputs, **{record: part})
        expected = by_hand(inputs, top)
        ours = [
            {field: int(found.plans[field][(*index, rank)]) for field in estimator.plan_fields}
            for rank in range(top)
            if found.held[(*index, rank)]
        ]
        assert ours == expected, index
        seen.add(len(ours))
    if len(names) > 1:
        assert {0, top} <= seen


def test_a_point_without_a_plan_says_which_limit_missed_and_by_how_much():
    start = example()
    found = jr.search(estimator, start, axes={"limits.first": [1e-3, 0.2]})
    every = jr.survey(estimator, start)
    flags = found.reason.attrs["flag_meanings"].split()
    assert [flags[n] for n in found.reason.values] == ["first", "fits"]
    fits = every.cache.values <= 16e9
    nearest = every["first"].values[fits].min() - 1e-3
    np.testing.assert_allclose(found.first_missing, [nearest, 0.0])
    np.testing.assert_allclose(found.each_missing, 0.0)
    one = jr.search(estimator, start, settings={"limits.first": 1e-3})
    assert float(one.first_missing) == float(found.first_missing[0])
    assert flags[int(one.reason)] == "first"
    assert not bool(one.feasible)


def test_a_frontier_is_within_the_limits():
    start = example()
    held = jr.pareto(estimator, start, settings={"limits.first": 0.2, "limits.each": 0.02})
    assert held.sizes["step_number"] > 2
    assert (held["first"] <= 0.2).all()
    assert (held.each <= 0.02).all()
