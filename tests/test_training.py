"""Plans, counts, times, memory and winners of a training step are those of the published one."""

import functools
from typing import Any

import golden_rows as golden
import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.engine.points import at_points
from jaxroof.estimators.training.block import operations

VALUES = [  # golden column, ours, SI size of its unit, rtol, floor as a share of the step time
    ("throughput", "throughput", 1.0, 1e-12, 0.0),
    ("t", "step_time", 1.0, 1e-12, 0.0),
    ("mem", "memory", golden.GIGA, 1e-12, 0.0),
    ("wts_mem", "memory_weights", golden.GIGA, 1e-12, 0.0),
    ("wts_mem", "memory_gradients", golden.GIGA, 1e-12, 0.0),
    ("wts_optimizer_states_mem", "memory_optimizer", golden.GIGA, 1e-12, 0.0),
    ("acts_mem", "memory_activations", golden.GIGA, 1e-12, 0.0),
    ("t_comp", "time_compute", 1.0, 1e-12, 1e-12),
    ("t_mem", "time_memory", 1.0, 1e-12, 1e-12),
    ("t_tp_comm", "time_tensor", 1.0, 1e-12, 1e-12),
    ("t_dp_comm", "time_data", 1.0, 1e-12, 1e-12),
    ("t_pp_comm", "time_pipeline", 1.0, 1e-12, 1e-12),
    ("t_bubble", "time_bubble", 1.0, 1e-12, 1e-12),
    ("flops_per_gpu", "flops", golden.TERA, 1e-12, 0.0),
]
FIELDS = list(golden.PLAN.values())
SAMPLES = 488281250  # sequences of 2048 tokens in 1e12 tokens, sheet section 9


def check_values(found: Any, rows: golden.Rows) -> None:
    """Assert every result of our plans against rows in the same order."""
    for column, field, unit, rtol, share in VALUES:
        floor = share * rows["t"]
        golden.agree(
            np.asarray(found[field]), rows[column] * unit, rtol, floor, says=column, rows=rows
        )


def check_plans(found: Any, rows: golden.Rows) -> None:
    """Assert that our plans are those of rows in the same order."""
    ours = np.stack([np.asarray(found[field]) for field in FIELDS], axis=1)
    np.testing.assert_array_equal(ours, golden.plans(rows))


def check_nothing(found: xr.Dataset) -> None:
    """Assert that where nothing fits there is no plan and no result."""
    assert not found["feasible"].any()
    assert all((found[field] == -1).all() for field in FIELDS)
    assert all(found[field].isnull().all() for _, field, *_ in VALUES)


def at(found: xr.Dataset, **places: np.ndarray) -> xr.Dataset:
    """Return the points of a grid that rows name, one index of each dimension a row."""
    return found.isel({name: xr.Variable("row", index) for name, index in places.items()})


LISTS = [  # system, gpus, plans, throughput of the best that fits, its rtol
    ("H200", 2048, 1810, 102.463805377367, 1e-12),
    ("B200", 2048, 1810, 246.6086955787982, 1e-12),
    ("B200", 1024, 1818, None, None),
    ("B200", 16384, 1310, None, None),
]


@pytest.mark.parametrize(("name", "gpus", "count", "best", "rtol"), LISTS)
def test_every_plan(
    name: str, gpus: int, count: int, best: float | None, rtol: float | None
) -> None:
    """All legal plans of a cluster, fitting or not, with all their times and all their memory."""
    rows = golden.read(f"candidates_1d_gpt3_{name}_nvs4_n{gpus}")
    system = jr.System(**golden.system_fields(name), fast_domain=4)
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=system, gpus=gpus, global_batch=4096)
    found = jr.survey(jr.training, inputs)
    assert found.sizes["plan"] == golden.size(rows) == count
    order = np.lexsort([found[field] for field in reversed(FIELDS)])
    found = found.isel(plan=order)
    check_plans(found, rows)
    check_values(found, rows)
    np.testing.assert_array_equal(found["feasible"], rows["feasible"] == 1)
    if best is not None:
        assert float(found["throughput"].where(found["feasible"]).max()) == pytest.approx(
            best, rel=rtol, abs=0.0
        )


def test_legal_plans_are_as_many() -> None:
    """Plans are counted for each model, fast domain and cluster size, whatever the hardware."""
    rows = golden.read("candidate_counts", tp_kind="1d")
    assert golden.size(rows) == 78
    for i, name in enumerate(rows["model"].tolist()):
        system = jr.system("b200-nvs8", fast_domain=rows["nvs"][i])
        inputs = jr.Inputs(
            model=jr.model(golden.MODELS[name]),
            system=system,
            gpus=rows["n"][i],
            global_batch=rows["global_batch"][i],
        )
        assert jr.training.candidates is not None
        plans = jr.training.candidates(inputs, jr.Recipe()).plans
        assert len(plans["data"]) == rows["n_candidates"][i], (name, inputs)


def winners(name: golden.Rows | str, rows: golden.Rows, top: int) -> xr.Dataset:
    """Return the best plans at every row of one model and one batch, by one search.

    The grid is the distinct systems crossed with the distinct (gpus, fast domain); every row is a
    point of it.
    """
    machines = list(golden.groups(rows, "system"))
    sites = list(golden.groups(rows, "n", "nvs"))
    first = {"system": np.array([m for (m,) in machines]), "nvs": np.ones(len(machines))}
    columns = golden.system(first)
    fields = [field for field, _ in golden.SYSTEM.values()]
    axes = {
        "machine": {f"system.{field}": getattr(columns, field) for field in fields},
        "site": {"gpus": [n for n, _ in sites], "system.fast_domain": [nvs for _, nvs in sites]},
    }
PUBLISHED = [  # model, rows of feasible_counts, rows of top10, of which say that nothing fits
    ("gpt3_1T", 78, 420, 0),
    ("vit_era5", 78, 78, 78),
]


@pytest.mark.parametrize(("name", "count", "ranks", "empty"), PUBLISHED)
def test_fitting_plans_are_as_many(name: str, count: int, ranks: int, empty: int) -> None:
    """Plans and those that fit are counted on each published system at each cluster size."""
    rows = golden.read("feasible_counts", tp_kind="1d", model=name)
    assert golden.size(rows) == count
    found = at(published(name)[2], **published_at(name, rows))
    np.testing.assert_array_equal(found["plans_legal"], rows["n_candidates"])
    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    shown = np.minimum(rows["n_feasible"], 10)
    np.testing.assert_array_equal(found["feasible"].sum("rank"), shown)


@pytest.mark.parametrize(("name", "count", "ranks", "empty"), PUBLISHED)
def test_ten_best_plans(name: str, count: int, ranks: int, empty: int) -> None:
    """The ten best plans come in the published order with the published values."""
    rows = golden.read("top10", tp_kind="1d", model=name)
    assert (golden.size(rows), int(np.sum(rows["rank"] < 0))) == (ranks, empty)
    found = published(name)[2]
    nothing = golden.where(rows, rows["rank"] < 0)
    check_nothing(at(found, **published_at(name, nothing)))
    rows = golden.where(rows, rows["rank"] >= 0)
    held = at(found, **published_at(name, rows), rank=rows["rank"].astype(int))
    check_plans(held, rows)
    check_values(held, rows)
    assert held["feasible"].all()


SINGLE = [("best_of", 35, 9), ("edge_cases", 17, 10)]  # file, rows, of which nothing fits


@pytest.mark.parametrize(("name", "count", "empty"), SINGLE)
def test_best_plan(name: str, count: int, empty: int) -> None:
    """The best plan and the runner-up, at odd sizes, batches, domains, models and machines."""
    rows = golden.read(name, tp_kind="1d")
    fits = rows["n_feasible"] > 0
    assert (golden.size(rows), int(np.sum(~fits))) == (count, empty)
    model, system = golden.model(rows), golden.system(rows)
    fields = (*(field for field, _ in golden.SYSTEM.values()), "fast_domain")
    row = {
        **{f"model.{field}": getattr(model, field) for field in golden.MODEL.values()},
        **{f"system.{field}": getattr(system, field) for field in fields},
        "gpus": rows["n"],
        "global_batch": rows["global_batch"],
    }
    inputs = jr.Inputs(model=jr.model("gpt3"), system=jr.system("b200-nvs8"), gpus=8)
    found = jr.search(jr.training, inputs, axes={"row": row}, top=2, placements=True)

    np.testing.assert_array_equal(found["plans_legal"], rows["n_candidates"])
    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    some = rows["n_candidates"] > 0
    least = found["memory_least"].values
    assert np.isnan(least[~some]).all()
    golden.agree(
        least[some], rows["min_mem_all"][some] * golden.GIGA, 1e-12, says="min_mem_all"
    )
    check_nothing(found.isel(row=~fits))
    best, held = found.isel(row=fits, rank=0), golden.where(rows, fits)
    check_plans(best, held)
    check_values(best, held)
    check_runner_up(found.isel(row=fits, rank=1), held)


def check_runner_up(found: Any, rows: golden.Rows) -> None:
    """Assert the step time of the second best plan, where a second fits."""
    two = rows["n_feasible"] > 1
    np.testing.assert_array_equal(found["feasible"], two)
    golden.agree(
        found["step_time"].values[two], rows["t_second"][two], 1e-12, says="t_second"
    )


BOTH = ("system.hbm_capacity", "system.hbm_bandwidth")
RATES = ("system.matrix_flops", "system.vector_flops")
HARDWARE = {path: path.partition(".")[2] for path in (*BOTH, *RATES)}
GOLDEN = {field: (column, unit) for column, (field, unit) in golden.SYSTEM.items()}
SWEEPS = [  # grid, gpus, rows, what moves along i, what moves along j
    ("bw_cap_small", 4096, 120, BOTH[:1], BOTH[1:]),
    ("flops_cap_small", 2048, 130, BOTH, RATES),
]


@pytest.mark.parametrize(("grid", "gpus", "count", "down", "across"), SWEEPS)
def test_hardware_sweeps(
    grid: str, gpus: int, count: int, down: tuple[str, ...], across: tuple[str, ...]
) -> None:
    """The best plan is found anew at every memory and rate of a varied B200."""
    rows = golden.read("hw_sweep_small", grid=grid, n=gpus)
    assert golden.size(rows) == count
    places = {}
    axes = {}
    for index, paths in (("i", down), ("j", across)):
        first, places[index] = np.unique(rows[index], return_index=True, return_inverse=True)[1:]
        axes[index] = {}
        for path in paths:
            column, unit = GOLDEN[HARDWARE[path]]
            axes[index][path] = rows[column][first] * unit
            np.testing.assert_array_equal(rows[column][first][places[index]], rows[column])
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), gpus=gpus)
    found = jr.search(jr.training, inputs, axes=axes, top=2, placements=True)
    dims = dict(zip(found["plans_legal"].dims, places.values(), strict=True))
    found = at(found, **{str(dim): place for dim, place in dims.items()})

    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    best = found.isel(rank=0)
    check_plans(best, rows)
    check_values(best, rows)
    check_runner_up(found.isel(rank=1), rows)
    days = SAMPLES / best["throughput"].values / 86400.0
    golden.agree(days, rows["days"], 1e-12, says="days", rows=rows)


def gpt3_1t(system: str, **plan: int) -> jr.Inputs:
    """Return the case of the sheet's section 11, by the names of our catalogue."""
    return jr.Inputs(
        model=jr.model("gpt3-1t"),
        system=jr.system(system),
        gpus=2048,
        global_batch=4096,
        plan=jr.Plan(**plan) if plan else None,
    )


HEADLINE = [  # result, value, rtol: sheet section 11, H200 in fast domains of 4, 2048 accelerators
    ("throughput", 102.463805377367, 1e-12),
    ("step_time", 39.97509154490915, 1e-12),
    ("memory", 124.64239104e9, 1e-12),
    ("memory_activations", 87.28346624e9, 1e-12),
    ("memory_weights", 15.7300736e9, 1e-12),
    ("memory_gradients", 15.7300736e9, 1e-12),
    ("memory_optimizer", 5.8987776e9, 1e-12),
    ("time_bubble", 4.237732820075002, 1e-12),
    ("time_compute", 32.352136660592585, 1e-12),
    ("time_memory", 0.150632624942302, 1e-12),
    ("time_tensor", 2.1066625219047626, 1e-12),
    ("time_data", 0.741887694537356, 1e-12),
    ("time_pipeline", 0.38603922285714287, 1e-12),
    ("flops", 25139.570013989574e12, 1e-12),
]
BEST = {"data": 16, "tensor": 4, "pipeline": 32, "microbatch": 1, "fast_tensor": 4}
ONES = dict.fromkeys(FIELDS, 1)


def test_headline() -> None:
    """GPT-3 of 1 T parameters on 2048 H200: 1810 plans, the best of them in every part."""
    found = jr.search(jr.training, gpt3_1t("h200-nvs4"))
    assert int(found["plans_legal"]) == 1810
    assert {field: int(found[field]) for field in FIELDS} == ONES | BEST
    for name, value, rtol in HEADLINE:
        assert float(found[name]) == pytest.approx(value, rel=rtol, abs=0.0), name


CHECKS = [  # system, plan, result, value, rtol: sheet section 11
    ("h200-nvs4", BEST | {"data": 64, "pipeline": 8}, "step_time", 41.544276438350856, 1e-12),
    ("h200-nvs4", BEST | {"data": 64, "pipeline": 8}, "memory", 219.02283264e9, 1e-12),
    ("b200-nvs4", BEST, "throughput", 246.6087, 2e-7),  # four decimals
]


@pytest.mark.parametrize(("system", "plan", "result", "value", "rtol"), CHECKS)
def test_one_plan(
    system: str, plan: dict[str, int], result: str, value: float, rtol: float
) -> None:
    """One plan, evaluated by itself."""
    report = jr.training.evaluate(gpt3_1t(system, **plan))
    assert float(getattr(report, result)) == pytest.approx(value, rel=rtol, abs=0.0)
