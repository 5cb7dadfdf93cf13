"""What every estimator obeys: those with a name are found by themselves, with all their recipes."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr
from estimator_laws import Law, example, laws, smooth

import jaxroof as jr
from jaxroof import estimators
from jaxroof.dependence import dtypes
from jaxroof.engine.grid.axes import points as grid_points
from jaxroof.engine.grid.axes import read_axes
from jaxroof.engine.grid.dependencies import effective
from jaxroof.engine.grid.question import resolve
from jaxroof.errors import InputError, NotGiven
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.records import checked, get_at, is_quantity, leaves, replace_all, replace_at
from jaxroof.structure import results, structure
from jaxroof.views.text.estimators import listed

RTOL = 1e-12
POINTS = 4


each = pytest.mark.parametrize("law", [*laws()])


def nearby(inputs: Any, seed: int) -> list[Any]:
    """Return inputs whose numbers are up to twice as large or small, counts up to three times."""
    draw = np.random.default_rng(seed)
    some = []
    for _ in range(POINTS):
        other = inputs
        for path, field, value in leaves(inputs):
            factor = draw.integers(1, 4) if field.metadata["whole"] else 2 ** draw.uniform(-1, 1)
            moved = np.minimum(value * factor, field.metadata["most"])
            other = replace_at(other, path, np.float64(moved))
        some.append(other)
    return some


def arrays(report: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in results(report).items()}


def stacked(inputs: list[Any]) -> Any:
    return jax.tree.map(lambda *values: np.stack([*map(np.asarray, values)]), *inputs)


def assert_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert set(actual) == set(expected)
    for name, value in expected.items():
        # what is left of the subtraction of two near numbers has their rounding
        scale = max(
            (np.max(np.abs(v)) for v in expected.values() if v.dtype == float and v.size),
            default=0.0,
        )
        atol = 1e-15 * scale if name.startswith("time_") else 0.0
        np.testing.assert_allclose(actual[name], value, rtol=RTOL, atol=atol, err_msg=name)


def demanded(estimator: jr.Estimator, recipe: Any, values: dict[str, Any]) -> Iterator[str]:
    """Yield every path that is refused as missing until there is an answer, given one by one."""
    asked: dict[str, Any] = {}
    while True:
        try:
            inputs, _ = resolve(estimator, settings=asked, whole=True)[:2]
            dtypes(lambda some: estimator.evaluate(some, recipe), inputs)
        except InputError as error:
            named = error.paths if isinstance(error, NotGiven) else ()
            missing = next(iter(named), str(error).partition(":")[0])
        else:
            return
        within = (p for p in values if p == missing or p.startswith(f"{missing}."))
        path = next(p for p in within if p not in asked)
        yield path
        asked[path] = values[path]


FROZEN = "pipeline"  # its long programs are traced once a missing number: with -m slow


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == FROZEN))
        for name in estimators.names()
    ],
)
def test_what_is_listed_is_enough_and_is_all_that_is_asked_for(name: str) -> None:
    estimator = estimators.estimator(name)
    paths = {path for path, field in listed(estimator) if is_quantity(field)}
    given = {path: value for path, _, value in leaves(checked(estimator.example()))}
    some = {path: value for path, value in given.items() if path in paths}
    inputs, recipe = resolve(estimator, settings=some, whole=True)[:2]
    assert results(dtypes(lambda some: estimator.evaluate(some, recipe), inputs))
    assert set(demanded(estimator, recipe, dict.fromkeys(sorted(paths), 1.0) | given)) <= paths


def test_a_machine_is_asked_for_what_the_answer_needs_alone() -> None:
    run = {"chips": 8, "parameters": 7e9, "tokens": 2e12, "system.matrix_flops": 1e15}
    assert float(jr.evaluate("training_run", run).time) == pytest.approx(6 * 7e9 * 2e12 / 8e15)
    with pytest.raises(InputError, match=r"^system\.matrix_flops: not given; expected a value"):
        jr.evaluate(
            "matmul", {"system.hbm_bandwidth": 3e12, "batch": 8, "hidden": 8, "feedforward": 8}
        )
    listing = {path for path, _ in listed(estimators.estimator("pods"))}
    assert "system.slow_bandwidth" in listing  # the example gives another number in its place


@each
def test_alone_is_compiled_is_batch_is_grid(law: Law) -> None:
    """Every result is the same asked for alone, in a batch, and in a compiled grid; all finite.

    Its slopes are held to exact ones in engine/sensitivity/test_elasticities.py.
    """
    inputs = example(law)
    estimator, recipe = law
    assert estimator.name
    assert estimator.about.endswith("?")

    read = effective(estimator, recipe, structure(inputs))  # others are no axes of it
    paths = [path for path in smooth(inputs) if path in read]
    paths = sorted(paths, key=lambda path: not path.startswith("system."))[:2]
    assert paths
    axes = {path: get_at(inputs, path) * np.array([1.0, 0.7]) for path in paths}
    asked = [replace_all(inputs, at) for _, at in grid_points(read_axes(inputs, axes))]
    batch = stacked([*asked, *nearby(inputs, 3)])
    every = arrays(jax.jit(jax.vmap(lambda one: estimator.evaluate(one, recipe)))(batch))
    for name, values in every.items():
        assert np.all(np.isfinite(values)), name
    alone = arrays(estimator.evaluate(asked[-1], recipe))
    assert_same({n: v[len(asked) - 1] for n, v in every.items()}, alone)
    grid = jr.tabulate(estimator, inputs, recipe, axes=axes)
    wide = grid[[*every]].broadcast_like(xr.Dataset(coords=grid.coords)).stack(point=[*grid.coords])
    assert_same(
        {n: v.values for n, v in wide.items()}, {n: v[: len(asked)] for n, v in every.items()}
    )


def test_the_questions_are_those_of_the_estimators_in_their_order() -> None:
    about = {name: estimators.estimator(name).about for name in estimators.names()}
    assert [*about.items()] == [*QUESTIONS.items()]
