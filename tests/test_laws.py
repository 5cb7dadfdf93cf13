"""Every way of asking gives one answer: scalar, grid, jit and vmap; search and brute force."""

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxroof as jr
from jaxroof.engine import best, candidates, fold, points, tabulate
from jaxroof.engine.axes import spread
from jaxroof.engine.axes import read_axes as axes_of
from jaxroof.engine.axes import replace_all
from jaxroof.estimator import Candidates, Estimator, reads
from jaxroof.estimators.training.inputs import Inputs, Model, Plan
from jaxroof.estimators.training.recipe import Attention, Recipe
from jaxroof.estimators.training.step import training
from jaxroof.named import system
from jaxroof.record import Number, checked, get_at, quantity, record

RTOL = 1e-12
TIE = 1e-12

# ---- Estimators under test ----------------------------------------------------------------------


@record
class Box:
    """A user's inputs."""

    width: Number = quantity("m", "Width of a box.")
    height: Number = quantity("m", "Height of a box.")
    mass: Number = quantity("kg", "Mass of a box.", default=1.0)


@record
class Shape:
    """A user's results."""

    area: Number = quantity("m2", "Area of the box.")
    density: Number = quantity("kg/m2", "Mass of one square metre.")
    tall: Any = quantity("1", "Higher than wide.")


def shape(inputs: Box, recipe: None) -> Shape:
    area = inputs.width * inputs.height
    return Shape(area=area, density=inputs.mass / area, tall=inputs.height > inputs.width)


boxes = Estimator(step=shape, inputs=Box)

SMALL = Model(layers=12.0, hidden=1536.0, feedforward=6144.0, heads=12.0, sequence=96.0)
MACHINE = system("h200-nvs4", hbm_capacity="3 GB")
SPLITS = {"data": (1.0, 2.0, 6.0), "tensor": (1.0, 2.0, 4.0, 8.0, 12.0), "pipeline": (1.0, 3.0, 5.0)}


@st.composite
def training_inputs(draw: Any) -> Inputs:
    """Return a step of a drawn model on a drawn machine, its plan legal or not."""
    heads = draw(st.integers(1, 16))
    model = Model(
        layers=float(draw(st.integers(5, 40))),
        hidden=float(heads * draw(st.integers(8, 128))),
        feedforward=float(draw(st.integers(64, 8192))),
        heads=float(heads),
        sequence=float(draw(st.integers(64, 4096))),
    )
    factors = {
        field: get_at(MACHINE, field) * draw(st.floats(0.1, 10.0))
        for field in ("matrix_flops", "hbm_bandwidth", "fast_latency", "slow_bandwidth", "nics")
    }
    degrees = {field: draw(st.sampled_from(values)) for field, values in SPLITS.items()}
    fast = {f"fast_{field}": draw(st.sampled_from((1.0, 2.0))) for field in degrees}
    return Inputs(
        model=model,
        system=dataclasses.replace(MACHINE, **factors),
        global_batch=96.0,
        plan=Plan(**degrees, **fast, microbatch=draw(st.sampled_from((1.0, 2.0, 3.0)))),
    )


sizes = st.floats(1e-3, 1e3)
box_inputs = st.builds(Box, width=sizes, height=sizes, mass=sizes)


class Row(NamedTuple):
    """One estimator and two axes to try it on."""

    name: str
    estimator: Estimator
    recipe: Any
    draw: Any
    axes: tuple[str, str]
    floor: str  # the result that parts of it are small against: their rounding is of its size


TRAINING_AXES = ("system.hbm_bandwidth", "plan.tensor")
ESTIMATORS = [
    *(
        Row(f"training {a.value}", training, Recipe(attention=a), training_inputs(), TRAINING_AXES, t)
        for a, t in ((a, "step_time") for a in Attention)
    ),
    Row("one function", boxes, None, box_inputs, ("width", "mass"), ""),
]
each_estimator = pytest.mark.parametrize("row", ESTIMATORS, ids=[row.name for row in ESTIMATORS])


def results(report: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in points.results(report).items()}


def assert_same(actual: dict[str, Any], expected: dict[str, Any], floor: str = "") -> None:
    """Assert equality at RTOL; parts of a time may be differences, so they have its rounding."""
    assert set(actual) == set(expected)
    for name, value in expected.items():
        atol = RTOL * np.max(expected[floor]) if floor and name.startswith("time_") else 0.0
        np.testing.assert_allclose(actual[name], value, rtol=RTOL, atol=atol, err_msg=name)


@each_estimator
def test_scalar_is_grid_is_jit_is_vmap(row: Row) -> None:
    """Each result is the same whether asked for alone, in a grid, compiled or in a batch."""
    compiled = jax.jit(lambda inputs: row.estimator.evaluate(inputs, row.recipe))
    batched = jax.jit(jax.vmap(lambda inputs: row.estimator.evaluate(inputs, row.recipe)))

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(row.draw, st.sampled_from((0.25, 2.0, 3.0)))
    def same(inputs: Any, factor: float) -> None:
        inputs = checked(inputs)
        axes = {path: [float(get_at(inputs, path)) * f for f in (1.0, factor)] for path in row.axes}
        axes = {p: [max(v, 1.0) if "plan" in p else v for v in values] for p, values in axes.items()}
        if "plan.tensor" in axes:
            axes["plan.tensor"] = [np.floor(v) for v in axes["plan.tensor"]]
        grid = tabulate.tabulate(row.estimator, inputs, row.recipe, axes=axes)
        dims = [path.rpartition(".")[2] for path in row.axes]
        corners = [
            (i, j, replace_all(inputs, {p: np.float64(axes[p][k]) for p, k in zip(axes, (i, j), strict=True)}))
            for i in range(2)
            for j in range(2)
        ]
        batch = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *(c[2] for c in corners))
        every = results(batched(batch))
        for number, (i, j, one) in enumerate(corners):
            scalar = results(row.estimator.evaluate(one, row.recipe))
            at = {d: k for d, k in zip(dims, (i, j), strict=True)}
            cell = {n: v.isel({d: k for d, k in at.items() if d in v.dims}).values for n, v in grid.items()}
            assert_same(results(compiled(one)), scalar, row.floor)
            assert_same({n: v[number] for n, v in every.items()}, scalar, row.floor)
            assert_same(cell, scalar, row.floor)

    same()
