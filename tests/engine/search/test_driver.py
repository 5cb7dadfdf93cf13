"""The arrays of winners: one dimension per axis, in the order of the axes."""

import numpy as np
import pytest

import jaxroof as jr
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import check_search

AXES = {
    "system.hbm_bandwidth": np.array([4e12, 8e12, 12e12]),
    "gpus": np.array([64, 128]),
    "system.hbm_capacity": np.array([1e9, 80e9, 192e9, 400e9]),  # nothing fits the first
    "global_batch": np.array([256, 512]),
}


def found(order: list[str], executor: str, top: int = 1) -> SearchResult:
    """Return the winners on a grid with its axes in a given order."""
    inputs = jr.Inputs(
        model=jr.model("gpt3-13b"), system=jr.system("b200-nvs8"), gpus=64, global_batch=256
    )
    axes = {name: AXES[name] for name in order}
    return best_plans(check_search(jr.published, inputs, axes=axes, top=top, executor=executor))


def columns(result: SearchResult) -> dict[str, np.ndarray]:
    """Return every array of a search by name."""
    counts = {name: getattr(result, name) for name in ("legal", "feasible", "least_need")}
    return {**result.plans, "objective": result.objective, **counts}


@pytest.mark.parametrize(("executor", "top"), [("numpy", 1), ("numpy", 3), ("jax", 1)])
def test_dimensions_are_in_the_order_of_the_axes(executor: str, top: int) -> None:
    """Turning the axes of a question turns its answer."""
    names = list(AXES)
    turn = [3, 2, 0, 1]
    plain, turned = found(names, "numpy", top), found([names[d] for d in turn], executor, top)
    sizes = tuple(len(AXES[name]) for name in names)
    assert not plain.feasible[:, :, 0].any()
    assert plain.feasible[:, :, -1].any()
    for name, column in columns(plain).items():
        assert column.shape[: len(sizes)] == sizes, name
        expected = column.transpose(*turn, *range(len(sizes), column.ndim))
        np.testing.assert_allclose(columns(turned)[name], expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("executor", ["numpy", "jax"])
def test_one_machine_has_no_dimensions_but_the_rank(executor: str) -> None:
    """A search without axes is a grid of one point."""
    one = found([], executor)
    assert {name: column.ndim for name, column in columns(one).items()} == {
        name: int(name in one.plans or name == "objective") for name in columns(one)
    }
    grid = found(["gpus"], executor)
    for name, column in columns(one).items():
        np.testing.assert_array_equal(column, columns(grid)[name][0], err_msg=name)
