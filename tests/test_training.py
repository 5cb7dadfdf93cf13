"""Plans, counts, times, memory and winners of a training step are those of the published one."""

import functools
from typing import Any

import golden_rows as golden
import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
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


LISTS = [  # system, gpus, plans
    ("H200", 2048, 1810),
    ("B200", 2048, 1810),
    ("B200", 1024, 1818),
    ("B200", 16384, 1310),
]


def listed(name: str, gpus: int) -> tuple[golden.Rows, jr.Inputs]:
    """Return the golden plans of GPT-3 1T in fast domains of 4, and the question they answer."""
    rows = golden.read(f"candidates_1d_gpt3_{name}_nvs4_n{gpus}")
    fields = golden.system_columns(np.array([name]))
    system = jr.System(**{f: column[0] for f, column in fields.items()}, fast_domain=4)
    return rows, jr.Inputs(model=jr.model("gpt3-1t"), system=system, gpus=gpus, global_batch=4096)


@pytest.mark.parametrize(("name", "gpus", "count"), LISTS)
def test_every_plan(name: str, gpus: int, count: int) -> None:
    """All legal plans of a cluster, fitting or not, with all their times and all their memory."""
    rows, inputs = listed(name, gpus)
    found = jr.survey(jr.training, inputs)
    assert found.sizes["plan"] == golden.size(rows) == count
    found = found.isel(plan=np.lexsort([found[field] for field in reversed(FIELDS)]))
    check_plans(found, rows)
    check_values(found, rows)
    np.testing.assert_array_equal(found["feasible"], rows["feasible"] == 1)


FITTING = (1, 3, 16, 17, 33, 250, 1000)  # plans, leanest first, that a capacity is set to hold


@pytest.mark.parametrize(("name", "gpus", "count"), LISTS)
def test_best_of_every_plan(name: str, gpus: int, count: int) -> None:
    """A search of one machine finds the best golden plan that fits, however few or many do."""
    rows, inputs = listed(name, gpus)
    needs = np.sort(rows["mem"])
    own = golden.system_columns(np.array([name]))["hbm_capacity"][0] / golden.GIGA
    for capacity in (own, 0.5 * needs[0], *(needs[held - 1] * (1.0 + 1e-9) for held in FITTING)):
        fitting = golden.where(rows, rows["mem"] <= capacity)
        limit = {"system.hbm_capacity": capacity * golden.GIGA}
        found = jr.search(jr.training, inputs, **limit).expand_dims("row")
        assert found["plans_legal"].item() == count
        assert found["plans_feasible"].item() == golden.size(fitting)
        if not golden.size(fitting):
            check_nothing(found)
            continue
        best = golden.where(fitting, np.array([np.argmin(fitting["t"])]))
        check_plans(found, best)
        check_values(found, best)


def test_legal_plans_are_as_many() -> None:
    """Plans are counted for each model, fast domain and cluster size, whatever the hardware."""
    rows = golden.read("candidate_counts", tp_kind="1d")
    assert golden.size(rows) == 78
    assert jr.training.candidates is not None
    for i, name in enumerate(rows["model"].tolist()):
        inputs = jr.Inputs(
            model=jr.model(golden.MODELS[name]),
            system=jr.system("b200-nvs8", fast_domain=rows["nvs"][i]),
            gpus=rows["n"][i],
            global_batch=rows["global_batch"][i],
        )
        plans = jr.training.candidates(inputs, jr.Recipe()).plans
        assert len(plans["data"]) == rows["n_candidates"][i], (name, inputs)


def winners(model: jr.Model, rows: golden.Rows, top: int) -> xr.Dataset:
    """Return the best plans at every row of one model and one batch, from one search.

    Its grid crosses the systems with the sites: an accelerator count and a fast domain. Every row
    is one point of the grid.
    """
    systems, machine = golden.distinct(rows, "system")
    sites, site = golden.distinct(rows, "n", "nvs", "global_batch")
    columns = golden.system_columns(systems["system"])
    assert len(set(sites["global_batch"])) == 1
    found = jr.search(
        jr.training,
        jr.Inputs(model=model, system=jr.system("b200-nvs8")),
        axes={
            "machine": {f"system.{field}": column for field, column in columns.items()},
            "site": {"gpus": sites["n"], "system.fast_domain": sites["nvs"]},
        },
        top=top,
        placements=True,
        gpus=sites["n"][0],
        global_batch=sites["global_batch"][0],
    )
    return at(found, machine=machine, site=site)


@functools.cache
def published(name: str) -> tuple[golden.Rows, xr.Dataset]:
    """Return the published searches of a model, and our ten best plans of each."""
    rows = golden.read("feasible_counts", tp_kind="1d", model=name)
    return rows, winners(jr.model(golden.MODELS[name]), rows, top=10)


PUBLISHED = [  # model, rows of feasible_counts, rows of top10, of which say that nothing fits
    ("gpt3_1T", 78, 420, 0),
    ("vit_era5", 78, 78, 78),
]


@pytest.mark.parametrize(("name", "count"), [row[:2] for row in PUBLISHED])
def test_fitting_plans_are_as_many(name: str, count: int) -> None:
    """Plans and those that fit are counted on each published system at each cluster size."""
    rows, found = published(name)
    assert golden.size(rows) == count
    np.testing.assert_array_equal(found["plans_legal"], rows["n_candidates"])
    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    shown = np.minimum(rows["n_feasible"], 10)
    np.testing.assert_array_equal(found["feasible"].sum("rank"), shown)


@pytest.mark.parametrize(("name", "count", "empty"), [(n, *row) for n, _, *row in PUBLISHED])
def test_ten_best_plans(name: str, count: int, empty: int) -> None:
    """The ten best plans come in the published order with the published values."""
    rows = golden.read("top10", tp_kind="1d", model=name)
    nothing = rows["rank"] < 0
    assert (golden.size(rows), int(np.sum(nothing))) == (count, empty)
    searches, found = published(name)
    keys = ("system", "nvs", "n", "global_batch")
    both = golden.joined(*({key: t[key] for key in keys} for t in (searches, rows)))
    place = golden.distinct(both, *keys)[1][golden.size(searches) :]
    check_nothing(found.isel(row=place[nothing]))

    place, rows = place[~nothing], golden.where(rows, ~nothing)
    held = at(found, row=place, rank=rows["rank"].astype(int))
    assert held["feasible"].all()
    check_plans(held, rows)
    check_values(held, rows)


SINGLE = [  # model, batch, rows of best_of, rows of edge_cases, of both where nothing fits
    ("gpt3", 4096, 13, 8, 5),
    ("gpt3", 1, 0, 2, 1),
    ("gpt3", 3, 0, 1, 0),
    ("gpt3_1T", 4096, 16, 4, 10),
    ("gpt3_1T", 3072, 1, 0, 0),
    ("gpt3_1T", 2048, 1, 0, 0),
    ("gpt3_1T", 960, 1, 0, 0),
    ("wide", 4096, 1, 0, 1),
    ("wide", 1024, 1, 0, 0),
    ("vit_half", 4096, 1, 0, 0),
    ("vit_era5", 4096, 0, 2, 2),
]


@pytest.mark.parametrize(("name", "batch", "extra", "edge", "empty"), SINGLE)
def test_best_plan(name: str, batch: int, extra: int, edge: int, empty: int) -> None:
    """The best plan and the runner-up, at odd sizes, batches, domains, models and machines."""
    chosen = {"tp_kind": "1d", "model": name, "global_batch": batch}
    tables = [golden.read(file, **chosen) for file in ("best_of", "edge_cases")]
    assert [golden.size(table) for table in tables] == [extra, edge]
    rows = golden.joined(*tables)
    fits, some = rows["n_feasible"] > 0, rows["n_candidates"] > 0
    assert int(np.sum(~fits)) == empty
    shapes = golden.model(golden.distinct(rows, *golden.MODEL)[0])
    model = jr.Model(**{field: getattr(shapes, field).item() for field in golden.MODEL.values()})
    found = winners(model, rows, top=2)

    np.testing.assert_array_equal(found["plans_legal"], rows["n_candidates"])
    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    least = found["memory_least"].values
    assert np.isnan(least[~some]).all()
    expected = rows["min_mem_all"][some] * golden.GIGA
    golden.agree(least[some], expected, 1e-12, says="min_mem_all")
    check_nothing(found.isel(row=~fits))
    check_best(found.isel(row=fits), golden.where(rows, fits))


def test_every_best_plan_is_checked() -> None:
    """The models and batches above are all there are."""
    counts = [sum(row[column] for row in SINGLE) for column in (2, 3)]
    files = [golden.read(file, tp_kind="1d") for file in ("best_of", "edge_cases")]
    assert counts == [golden.size(rows) for rows in files] == [35, 17]


def check_best(found: xr.Dataset, rows: golden.Rows) -> None:
    """Assert the best plan with all its values, and the step time of the second where it fits."""
    best, second = found.isel(rank=0), found.isel(rank=1)
    assert best["feasible"].all()
    check_plans(best, rows)
    check_values(best, rows)
    two = rows["n_feasible"] > 1
    np.testing.assert_array_equal(second["feasible"], two)
    expected = rows["t_second"][two]
    golden.agree(
        second["step_time"].values[two],
        expected,
        1e-12,
        says="t_second",
        rows=golden.where(rows, two),
    )


SWEEPS = [  # grid, gpus, rows, columns that move together along i, and along j
    ("bw_cap_small", 4096, 120, ("hbm_capacity",), ("hbm_bandwidth",)),
    (
        *("flops_cap_small", 2048, 130),
        *(("hbm_capacity", "hbm_bandwidth"), ("matrix_flops_fp16", "vector_flops_fp16")),
    ),
]


@pytest.mark.parametrize(("grid", "gpus", "count", "down", "across"), SWEEPS)
def test_hardware_sweeps(
    grid: str, gpus: int, count: int, down: tuple[str, ...], across: tuple[str, ...]
) -> None:
    """The best plan is found anew at every memory and rate of a varied B200."""
    rows = golden.read("hw_sweep_small", grid=grid, n=gpus)
    assert golden.size(rows) == count
    axes, places = {}, {}
    for name, columns in (("i", down), ("j", across)):
        values, places[name] = golden.distinct(rows, *columns)
        ours = {column: golden.SYSTEM[column] for column in columns}
        axes[name] = {f"system.{ours[c][0]}": values[c] * ours[c][1] for c in columns}
    inputs = jr.Inputs(model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), gpus=gpus)
    found = jr.search(jr.training, inputs, axes=axes, top=2, placements=True)
    dims = dict(zip(found["plans_legal"].dims, places.values(), strict=True))
    found = at(found, **{str(dim): place for dim, place in dims.items()})

    np.testing.assert_array_equal(found["plans_feasible"], rows["n_feasible"])
    check_best(found, rows)
    days = SAMPLES / found["throughput"].values[:, 0] / 86400.0
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


def test_one_sample() -> None:
    """One sequence of GPT-3 of 1 T parameters: its FLOP, the MLP's share and the parameters."""
    inputs = gpt3_1t("h200-nvs4")
    layer = operations(inputs, jr.Recipe(), tensor=1.0, microbatch=1.0, fast_tensor=1.0)
    names = list(layer)
    flops = [float(o.work.forward.flops + o.work.backward.flops) for o in layer.values()]
    mlp, attention = sum(flops[: names.index("qkv")]), sum(flops[names.index("qkv") :])
    parameters = sum(float(o.work.parameters) for o in layer.values())
    for value, expected, rtol in (  # sheet section 11
        (128.0 * (mlp + attention), 12.569785006994787e15, 1e-12),
        (mlp / attention, 1.9074197861849107, 1e-12),
        (128.0 * parameters, 1006.665728e9, 1e-12),
    ):
        assert value == pytest.approx(expected, rel=rtol, abs=0.0)
