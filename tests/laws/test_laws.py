"""Every way of asking gives one answer: alone, compiled, in a batch, in a grid, by search."""

import dataclasses
import functools
import importlib.util
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from places import ROOT

import jaxroof as jr
from jaxroof.engine.grid import compiled as points
from jaxroof.engine.grid import evaluate, tabulate
from jaxroof.engine.grid.axes import points as grid_points
from jaxroof.engine.grid.axes import read_axes
from jaxroof.engine.grid.executor import EXECUTORS, JAX
from jaxroof.engine.search import direct, fold, folded, problem
from jaxroof.estimator import Candidates
from jaxroof.estimators.published.step import Report
from jaxroof.records import Number, checked, get_at, replace_all

RTOL = 1e-12
TIE = 1e-12
BASELINES = ROOT / "benchmarks" / "baselines.py"


# ---- The estimators under law -------------------------------------------------------------------


@jr.record
class Box:
    """A user's inputs."""

    width: Number = jr.quantity("m", "Width of a box.")
    height: Number = jr.quantity("m", "Height of a box.")
    mass: Number = jr.quantity("kg", "Mass of a box.", default=1.0)


@jr.record
class Shape:
    """A user's results."""

    area: Number = jr.quantity("m2", "Area of the box.")
    density: Number = jr.quantity("kg/m2", "Mass of one square metre.")
    tall: Any = jr.quantity("1", "Higher than wide.")


def shape(inputs: Box, recipe: None) -> Shape:
    area = inputs.width * inputs.height
    return Shape(area=area, density=inputs.mass / area, tall=inputs.height > inputs.width)


FIELDS = [f.name for f in dataclasses.fields(jr.Plan)]
MACHINE = jr.system("h200-nvs4", hbm_capacity="3 GB")
DRAWN = (
    "matrix_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth", "slow_latency", "nics",
)  # fmt: skip


@st.composite
def machines(draw: Any) -> Any:
    """Return the machine with some of its numbers up to five times larger or smaller."""
    factors = {field: draw(st.floats(0.2, 5.0)) for field in (*DRAWN, "hbm_capacity")}
    scaled = {field: get_at(MACHINE, field) * factor for field, factor in factors.items()}
    return dataclasses.replace(MACHINE, **scaled)


def assert_same(actual: dict[str, Any], expected: dict[str, Any], floor: str = "") -> None:
    assert set(actual) == set(expected)
    for name, value in expected.items():
        atol = RTOL * np.max(expected[floor]) if floor and name.startswith("time_") else 0.0
        np.testing.assert_allclose(actual[name], value, rtol=RTOL, atol=atol, err_msg=name)


# ---- One evaluation -----------------------------------------------------------------------------


# ---- Search against brute force -----------------------------------------------------------------

SMALL = jr.Model(layers=12.0, hidden=1536.0, feedforward=6144.0, heads=12.0, sequence=96.0)
SPLIT = [field for field in FIELDS if field not in jr.published.placement]
BETTER = {f.name: f.metadata["better"] for f in dataclasses.fields(Report)}


def brute_force(every: dict[str, np.ndarray], objective: str, top: int, alike: list[str]) -> Any:
    """Return the rows of the best plans: argmin, then again without the plans like the winner."""
    sign = -1.0 if BETTER[objective] == "higher" else 1.0
    order = np.lexsort([*(every[field] for field in reversed(FIELDS)), every["memory"]])
    order = order[every["feasible"][order]]
    found = []
    while len(order) and len(found) < top:
        values = sign * every[objective][order]
        least = values.min()
        winner = order[np.argmax(values <= least + TIE * abs(least))]
        found.append({name: column[winner] for name, column in every.items()})
        same = [every[field][order] == every[field][winner] for field in alike]
        order = order[~np.all(same, axis=0)]
    return found


BANDWIDTHS = {"system.hbm_bandwidth": ["0.5 TB/s", "8 TB/s"]}
CAPACITIES = {"system.hbm_capacity": ["0.1 GB", "0.7 GB", "9 GB"]}
SIZES = {"gpus": [7, 16, 24, 48]}  # no legal plan on 7
MIXED = {"cluster": {"gpus": [8, 48], "system.hbm_capacity": ["1 GB", "0.5 GB"]}}
NODES = {"node": {"system.hbm_bandwidth": [1e12, 6e12], "system.hbm_capacity": [2e9, 4e8]}}
SEARCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # axes, options
    "machines and capacities": (BANDWIDTHS | CAPACITIES, {}),
    "best splits": (BANDWIDTHS | CAPACITIES, {"top": 5}),
    "best plans": (BANDWIDTHS | CAPACITIES, {"top": 5, "placements": True}),
    "more than there are": ({"gpus": [8]}, {"top": 40, "where": "tensor=2,pipeline=2"}),
    "throughput": (BANDWIDTHS, {"objective": "throughput"}),
    "utilisation": (BANDWIDTHS, {"objective": "mfu"}),
    "memory": (BANDWIDTHS | CAPACITIES, {"objective": "memory", "top": 3}),
    "a time that is often 0": (BANDWIDTHS, {"objective": "time_data", "top": 3}),
    "cluster sizes": (SIZES | CAPACITIES, {}),
    "domains": ({"system.fast_domain": [1, 6, 8]} | SIZES, {}),
    "batches": ({"global_batch": [72, 96]} | BANDWIDTHS, {}),
    "layers": ({"model.layers": [12, 24]}, {}),
    "size and capacity together": (MIXED | BANDWIDTHS, {}),
    "rate and capacity together": (NODES, {}),
    "constrained": ({"system.hbm_usable": [0.2, 0.9]}, {"where": "tensor<=4,microbatch!=2"}),
    "precision": ({"precision.activation": [1, 2, 4]} | CAPACITIES, {"attention": "unfused"}),
}


COMPILED = (  # of which a fold is compiled daily too, one a role that an axis may have
    *("machines and capacities", "cluster sizes", "size and capacity together"),
)


@pytest.mark.parametrize(
    ("executor", "axes", "options"),
    [
        pytest.param(
            executor,
            *row,
            id=f"{executor}-{name}",
            marks=[pytest.mark.slow] if executor == JAX and name not in COMPILED else [],
        )
        for name, row in SEARCHES.items()
        for executor in EXECUTORS
    ],
)
@settings(max_examples=2, phases=[Phase.generate], deadline=None, derandomize=True)
@given(machine=machines())
def test_search_is_survey_then_argmin(executor: str, axes: Any, options: Any, machine: Any) -> None:
    """A search finds what listing every plan at every point and taking the best finds."""
    inputs = checked(jr.Inputs(model=SMALL, system=machine, gpus=24.0, global_batch=48.0))
    found = jr.search(jr.published, inputs, axes=axes, executor=executor, **options)
    is_survey_then_argmin(found, inputs, axes, options)


def is_survey_then_argmin(found: xr.Dataset, inputs: Any, axes: Any, options: Any) -> None:
    top, objective = options.get("top", 1), options.get("objective", "step_time")
    alike = FIELDS if options.get("placements") else SPLIT
    choice = {key: options[key] for key in ("where", "attention") if key in options}
    grid = read_axes(inputs, axes)
    for index, values in grid_points(grid):
        at = found.isel(dict(zip([axis.name for axis in grid], index, strict=True)))
        listed = jr.survey(jr.published, replace_all(inputs, values), **choice)
        every = {name: column.values for name, column in listed.items()}
        expected = brute_force(every, objective, top, alike)
        assert int(at.plans_legal) == listed.sizes["plan"]
        assert int(at.plans_feasible) == int(listed.feasible.sum())
        least = every["memory"].min() if listed.sizes["plan"] else np.nan
        np.testing.assert_allclose(at.memory_least, least, rtol=RTOL)
        for rank in range(top):
            ranked = at.isel(rank=rank) if top > 1 else at
            winner = {name: ranked[name].values for name in ranked if name in every}
            if rank < len(expected):
                assert [int(winner[f]) for f in FIELDS] == [expected[rank][f] for f in FIELDS]
                same = {name: expected[rank][name] for name in winner}
                assert_same(winner, same, "step_time")
            else:
                assert not winner["feasible"]
                assert [int(winner[f]) for f in FIELDS] == [-1] * len(FIELDS)
                assert np.isnan(winner[objective])


SHORT = [  # module, limit, and a size that cuts every grid below
    (folded, "CPU", folded.CallSize(lanes=8, cells=4096)), (direct, "CELLS", 4096),
    (problem, "QUESTIONS", 2), (evaluate, "PIECE", 100), (tabulate, "CHUNK", 5),
    (tabulate, "PLACED", 3), (points, "CHUNK", 100),
]  # fmt: skip
CLUSTER = checked(jr.Inputs(model=SMALL, system=MACHINE, gpus=24.0, global_batch=48.0))
CHUNKED = {
    "gpus": [7, 24, 48, 24],
    "system.hbm_capacity": ["0.1 GB", "0.7 GB", "9 GB"],
    "system.hbm_bandwidth": [1e12, 2e12, 3e12, 5e12, 7e12],
}


@functools.cache
def whole_answers() -> list[xr.Dataset]:
    return chunked_questions("numpy")


def chunked_questions(executor: str) -> list[xr.Dataset]:
    planned = dataclasses.replace(
        CLUSTER, gpus=None, plan=jr.Plan(data=2.0, tensor=4.0, pipeline=3.0, microbatch=1.0)
    )
    axes = {"plan.tensor": [1, 2, 4], "system.hbm_bandwidth": [1e12, 2e12, 3e12]}
    axes |= {"system.hbm_capacity": [1e9, 1e11], "system.slow_bandwidth": [1e9, 1e11]}
    return [
        jr.search(jr.published, CLUSTER, axes=CHUNKED, top=2, executor=executor),
        jr.tabulate(jr.published, planned, axes=axes, executor=executor),
        jr.survey(jr.published, CLUSTER),
    ]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_chunks_do_not_change_answers(monkeypatch: pytest.MonkeyPatch, executor: str) -> None:
    """Cut into other chunks, a grid has the answers that NumPy finds at once."""
    known = whole_answers()
    for module, name, size in SHORT:
        monkeypatch.setattr(module, name, size)
    for chunked, whole in zip(chunked_questions(executor), known, strict=True):
        xr.testing.assert_allclose(chunked, whole, rtol=RTOL, atol=0.0)
        assert {n: chunked[n].dims for n in chunked} == {n: whole[n].dims for n in whole}


@pytest.mark.parametrize("kept", [0, folded.EVERY], ids=["of blocks", "of every plan"])
def test_capacity_as_threshold_is_mask(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """At every capacity, one that a plan fills exactly too, a threshold keeps what a mask keeps.

    The fold keeps the minima of blocks of plans, or of every plan.
    """
    monkeypatch.setattr(folded, "EVERY", kept)
    search = functools.partial(jr.search, jr.published, CLUSTER)
    every = {name: column.values for name, column in jr.survey(jr.published, CLUSTER).items()}
    needs = np.unique(every["memory"])
    needs = needs[:: len(needs) // 4]
    capacities = np.unique([np.nextafter(needs, 0.0), needs, np.nextafter(needs, np.inf)])
    found = search(axes={"system.hbm_capacity": capacities}, executor="jax")
    for number, capacity in enumerate(capacities):
        fits = {**every, "feasible": every["memory"] <= capacity}
        expected = brute_force(fits, "step_time", 1, FIELDS)
        at = found.isel(hbm_capacity=number)
        assert int(at.plans_feasible) == int(fits["feasible"].sum())
        assert bool(at.feasible) == bool(expected)
        assert [int(at[f]) for f in FIELDS] == [
            e[f] for e in expected for f in FIELDS
        ] or not expected
        alone = search(executor="numpy", **{"system.hbm_capacity": capacity})
        assert [int(alone[f]) for f in FIELDS] == [int(at[f]) for f in FIELDS]


def test_one_compile_serves_all_sizes() -> None:
    """All cluster sizes share one compile, and a question of equal shape needs none."""
    estimator = dataclasses.replace(jr.published, name="compiled anew")
    axes = {
        "gpus": [6, 12, 24, 48],
        "system.hbm_bandwidth": [1e12, 2e12],
        "system.hbm_capacity": [1e9],
    }
    before = fold.best._cache_size()
    jr.search(estimator, CLUSTER, axes=axes, executor="jax")
    assert fold.best._cache_size() == before + 1
    folds, evaluations = fold.best._cache_size(), points.evaluate_jit._cache_size()
    other = dataclasses.replace(CLUSTER, system=jr.system("b200-nvs8", fast_domain=4))
    axes = {
        "gpus": [48, 16, 8, 24],
        "system.hbm_bandwidth": [3e12, 4e12],
        "system.hbm_capacity": [2e9],
    }
    jr.search(estimator, other, axes=axes, executor="jax")
    assert fold.best._cache_size() == folds
    assert points.evaluate_jit._cache_size() == evaluations


# ---- Ties ---------------------------------------------------------------------------------------


@jr.record
class Option:
    """What a user's search chooses."""

    left: Number = jr.quantity("1", "Number of the option.", whole=True)
    right: Number = jr.quantity("1", "Where it is put.", whole=True)


@jr.record
class Pool:
    """How many options there are and how close they come."""

    options: Number = jr.quantity("1", "Options to choose from.", whole=True)
    stride: Number = jr.quantity("1", "One option in so many is good.", whole=True)
    noise: Number = jr.quantity("s", "Step between the costs of good options.", zero=True)
    room: Number = jr.quantity("B", "What an option may need.")
    plan: Option | None = None


@jr.record
class Outcome:
    """What an option costs and needs."""

    cost: Number = jr.quantity("s", "Cost of the option.")
    need: Number = jr.quantity("B", "Need of the option, equal for some.")


def outcome(pool: Pool, recipe: None) -> Outcome:
    left, right = pool.plan.left, pool.plan.right
    scatter = jnp.mod(left * 7919.0 + right * 104729.0, 13.0) - 6.0
    good = jnp.mod(left, pool.stride) == 0.0
    return Outcome(
        cost=jnp.where(good, 1.0 + pool.noise * scatter, 2.0 + 1e-3 * scatter),
        need=1.0 + jnp.floor(jnp.mod(left * 7907.0, pool.options) / 4.0),
    )


def options(pool: Pool, recipe: None) -> Candidates:
    left = np.arange(1, int(pool.options) + 1)
    plans = {"left": np.repeat(left, 3), "right": np.tile([1, 2, 3], len(left))}
    return Candidates(plans, {})


pools = jr.Estimator(
    name="pools",
    inputs=Pool,
    plan=Option,
    step=outcome,
    candidates=options,
    structural=("options",),
    objective="cost",
    need="need",
    limit=lambda pool: pool.room,
    placement=("right",),
)

TIES = [  # options (three placements each), one good in so many, noise
    (300.0, 7.0, 0.0),
    (300.0, 7.0, 5e-14),  # all good ones within 1e-12 of each other
    (300.0, 1.0, 5e-14),
    (300.0, 7.0, 3e-13),  # some within 1e-12 of the best, all within 1e-12 of another
    (300.0, 1.0, 3e-13),
    (25000.0, 997.0, 5e-14),  # larger blocks
    (25000.0, 97.0, 3e-13),
]


@pytest.mark.parametrize(("count", "stride", "noise"), TIES)
@pytest.mark.parametrize(("top", "placements"), [(1, False), (6, False), (6, True)])
def test_ties_go_to_the_leaner_then_the_smaller(
    count: float, stride: float, noise: float, top: int, placements: bool
) -> None:
    """Costs within 1e-12 of the best are equal: the leaner option wins, then the smaller tuple."""
    pool = Pool(options=count, stride=stride, noise=noise, room=count)
    rooms = [count / 80.0, count]
    axes = {"noise": [noise, 0.0], "room": rooms}
    found = jr.search(pools, pool, axes=axes, top=top, placements=placements)
    every = {name: column.values for name, column in jr.survey(pools, pool).items()}
    order = np.lexsort([every["right"], every["left"], every["need"]])
    for index, room in enumerate(rooms):
        left = order[every["need"][order] <= room]
        for rank in range(top):
            costs = every["cost"][left]
            winner = left[np.argmax(costs <= costs.min() + TIE * abs(costs.min()))]
            at = found.isel(noise=0, room=index, **({"rank": rank} if top > 1 else {}))
            assert (int(at.left), int(at.right)) == (every["left"][winner], every["right"][winner])
            like = every["left"][left] == every["left"][winner]
            like &= (every["right"][left] == every["right"][winner]) | (not placements)
            left = left[~like]


# ---- A second implementation --------------------------------------------------------------------


def baselines() -> Any:
    specification = importlib.util.spec_from_file_location("baselines", BASELINES)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_search_is_the_independent_implementation() -> None:
    """On random machines the winner is that of a NumPy program written apart from jaxroof."""
    other = baselines()
    random = np.random.default_rng(20241003)
    count = 60
    scaled = {
        field: get_at(MACHINE, field) * np.exp(random.uniform(-1.5, 1.5, count))
        for field in (*DRAWN, "hbm_capacity", "vector_flops", "launch_latency", "fast_latency")
    }
    for gpus, batch, domain in ((24, 48, 4), (24, 96, 8)):
        inputs = jr.Inputs(model=SMALL, system=MACHINE, gpus=float(gpus), global_batch=float(batch))
        found = jr.search(
            jr.published,
            inputs,
            axes={"machine": {f"system.{field}": values for field, values in scaled.items()}},
            **{"system.fast_domain": domain},
        )
        fields = {f: scaled.get(f, float(get_at(MACHINE, f))) for f in other.System._fields}
        machine = other.System(**{**fields, "fast_domain": domain})
        model = other.Model(**{f: int(get_at(SMALL, f)) for f in other.Model._fields})
        plans = other.enumerate_1d(model, gpus, batch, domain)
        stacked = other.stack_plans(plans)
        index, times = other.numpy_best(model, machine, batch, stacked)
        feasible = np.isfinite(times)
        assert feasible.any()
        np.testing.assert_array_equal(found.feasible, feasible)
        np.testing.assert_allclose(found.step_time[feasible], times[feasible], rtol=RTOL)
        for field in other.Plan._fields:
            np.testing.assert_array_equal(
                found[field][feasible], getattr(stacked, field)[index[feasible]]
            )
