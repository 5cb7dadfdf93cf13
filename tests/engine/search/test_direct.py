"""A search by NumPy: the winners of a loop over the plans, and those of the compiled fold."""

import dataclasses

import numpy as np
import pytest
from daily import daily
from hypothesis import given
from hypothesis import strategies as st
from jobs import OWN, Job

import jaxroof as jr
from jaxroof.engine.runs.chunked_sweep import evaluate_sweep
from jaxroof.engine.runs.job import sweep_job
from jaxroof.engine.search import direct
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import check_search
from jaxroof.estimator import TIE

NEARLY = [1.0, 1.0 + TIE / 3, 1.0 + 5 * TIE, 2.0]  # the first two are a tie
AXES = {
    "gpus": [64, 256],
    "system.hbm_capacity": np.geomspace(10e9, 1e12, 5),
    "system.hbm_bandwidth": np.geomspace(1e12, 16e12, 3),
    "system.slow_bandwidth": np.geomspace(1e10, 4e11, 2),
}


@given(
    lanes=st.lists(st.lists(st.sampled_from(NEARLY), min_size=6, max_size=6), min_size=1),
    fits=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    split=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    top=st.integers(1, 4),
)
def test_first_plans_are_those_of_a_loop(lanes, fits, split, top):
    values, few = np.array(lanes).T, np.array(fits)[:, None] * np.ones(len(lanes), int)
    for kinds in (None, np.array(split)):
        position, objective = direct.firsts(top, values, few, kinds)
        for limit, count in enumerate(fits):
            for lane, column in enumerate(lanes):
                found = by_a_loop(column[:count], top, range(6) if kinds is None else split)
                assert position[:, limit, lane].tolist() == found
                assert objective[:, limit, lane].tolist() == [column[p] * (p >= 0) for p in found]
    alone = direct._first(values, few)
    for one, other in zip(alone, (position[0], objective[0]), strict=True):
        np.testing.assert_array_equal(one, other)


def by_a_loop(column, top, split):
    """Return the best plans, each of another split, -1 where there are no more."""
    left, found = list(range(len(column))), []
    for _ in range(top):
        least = min((column[plan] for plan in left), default=0.0)
        first = next((plan for plan in left if column[plan] <= least * (1 + TIE)), -1)
        found.append(first)
        left = [plan for plan in left if split[plan] != split[first]]
    return found


GRID = {
    "count": [8, 16],
    "place.room": np.geomspace(1e7, 1e9, 5),
    "place.pace": np.geomspace(1e8, 1e10, 3),
    "place.road": np.geomspace(1e8, 1e10, 2),
}


@pytest.mark.parametrize("options", daily([{}, {"top": 3}, {"top": 3, "placements": True}], 2))
def test_winners_are_those_of_the_compiled_fold(options, monkeypatch):
    monkeypatch.setattr(direct, "CELLS", 4)  # several chunks of machines, and of limits
    mine, compiled = (
        best_plans(check_search(OWN, Job(), axes=GRID, executor=executor, **options))
        for executor in ("numpy", "jax")
    )
    assert (mine.winner < 0).any()
    np.testing.assert_array_equal(mine.winner, compiled.winner)
    np.testing.assert_allclose(mine.objective, compiled.objective, rtol=1e-12)
    np.testing.assert_array_equal(mine.feasible, compiled.feasible)


def test_a_whole_sweep_counts_points_that_differ_in_the_limit_once(monkeypatch):
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), global_batch=512)
    one = check_search(jr.published, inputs, axes=AXES)
    most = best_plans(one).combinations // 5
    for limit in ("SMALL", "ONCE"):
        monkeypatch.setattr(f"jaxroof.engine.search.problem.{limit}", most)
    monkeypatch.setattr("jaxroof.engine.search.folded.machine_chunks", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # another search may follow: compiled
        best_plans(one)
    found = best_plans(dataclasses.replace(one, once=True))
    data = evaluate_sweep(sweep_job(one.estimator, one.inputs, one.recipe, axes=AXES))
    np.testing.assert_array_equal(data["step_time"], found.objective[..., 0])
