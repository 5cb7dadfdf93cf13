"""Plans, counts, times, memory and winners of a training step are those of the published one."""

from typing import Any

import golden_rows as golden
import numpy as np
import pytest
import xarray as xr

import jaxroof as jr
from jaxroof.estimators.published.operations import operations

FIELDS = list(golden.PLAN.values())
SAMPLES = 488281250  # sequences of 2048 tokens in 1e12 tokens, sheet section 9

LISTS = [  # golden kind, system, fast domain, gpus, plans, rows: where fewer, a sample of them
    ("1d", "H200", 4, 2048, 1810, 1810),
    ("1d", "B200", 4, 2048, 1810, 1810),
    ("1d", "B200", 4, 1024, 1818, 1818),
    ("1d", "B200", 4, 16384, 1310, 1310),
    ("2d", "B200", 8, 256, 34970, 20000),
    ("2d_seqp", "B200", 8, 1024, 18114, 18114),
]


def listed(kind: str, name: str, domain: int, gpus: int) -> tuple[golden.Rows, jr.Inputs]:
    """Return the golden plans of GPT-3 1T, and the question they answer."""
    rows = golden.read(f"candidates_{kind}_gpt3_{name}_nvs{domain}_n{gpus}")
    fields = golden.system_columns(np.array([name]))
    system = jr.System(**{f: column[0] for f, column in fields.items()}, fast_domain=domain)
    return rows, jr.Inputs(model=jr.model("gpt3-1t"), system=system, gpus=gpus, global_batch=4096)


@pytest.mark.parametrize(("kind", "name", "domain", "gpus", "legal", "count"), LISTS)
def test_every_plan(kind: str, name: str, domain: int, gpus: int, legal: int, count: int) -> None:
    """All legal plans of a cluster, fitting or not, with all their times and all their memory."""
    rows, inputs = listed(kind, name, domain, gpus)
    assert golden.size(rows) == count
    found = jr.survey(jr.published, inputs, split=golden.SPLITS[kind])
    assert found.sizes["plan"] == legal
    ours = {field: np.asarray(found[field]) for field in FIELDS}
    theirs = dict(zip(FIELDS, golden.plans(rows).T, strict=True))
    both = golden.joined(ours, theirs)
    kinds, place = golden.distinct(both, *FIELDS)
    assert golden.size(kinds) == legal  # ours are distinct, and theirs among them
    assert len(set(place[legal:].tolist())) == count
    found = found.isel(plan=place[legal:])
    golden.check_plans(found, rows)
    golden.check_values(found, rows)
    np.testing.assert_array_equal(found["feasible"], rows["feasible"] == 1)


FITTING = (1, 16, 17, 1000)  # plans, leanest first, that a capacity is set to hold


@pytest.mark.parametrize(
    ("kind", "name", "domain", "gpus", "count"), [row[:5] for row in LISTS if row[4] == row[5]]
)
def test_best_of_every_plan(kind: str, name: str, domain: int, gpus: int, count: int) -> None:
    """A search of one machine finds the best golden plan that fits, however few or many do."""
    rows, inputs = listed(kind, name, domain, gpus)
    needs = np.sort(rows["mem"])
    own = golden.system_columns(np.array([name]))["hbm_capacity"][0] / golden.GIGA
    for capacity in (own, 0.5 * needs[0], *(needs[held - 1] * (1.0 + 1e-9) for held in FITTING)):
        fitting = golden.where(rows, rows["mem"] <= capacity)
        limit = {"system.hbm_capacity": capacity * golden.GIGA}
        found = jr.search(jr.published, inputs, split=golden.SPLITS[kind], **limit)
        found = found.expand_dims("row")
        assert found["plans_legal"].item() == count
        assert found["plans_feasible"].item() == golden.size(fitting)
        if not golden.size(fitting):
            golden.check_nothing(found)
            continue
        best = golden.where(fitting, np.array([np.argmin(fitting["t"])]))
        golden.check_plans(found, best)
        golden.check_values(found, best)


@pytest.mark.parametrize("name", golden.MODELS)
@pytest.mark.parametrize("kind", golden.SPLITS)
def test_legal_plans_are_as_many(kind: str, name: str) -> None:
    """Plans are counted for each fast domain and cluster size, whatever the hardware."""
    rows = golden.read("candidate_counts", tp_kind=kind, model=name)
    assert golden.size(rows) == 39
    assert jr.published.candidates is not None
    for i, gpus in enumerate(rows["n"].tolist()):
        inputs = jr.Inputs(
            model=jr.model(golden.MODELS[name]),
            system=jr.system("b200-nvs8", fast_domain=rows["nvs"][i]),
            gpus=gpus,
            global_batch=rows["global_batch"][i],
        )
        plans = jr.published.candidates(inputs, jr.Recipe(split=golden.SPLITS[kind])).plans
        assert len(plans["data"]) == rows["n_candidates"][i], inputs


SINGLE = [  # kind, model, batch, rows of best_of, rows of edge_cases, of both where nothing fits
    ("1d", "gpt3", 4096, 13, 8, 5), ("1d", "gpt3", 1, 0, 2, 1), ("1d", "gpt3", 3, 0, 1, 0),
    ("1d", "gpt3_1T", 4096, 16, 4, 10),
    ("1d", "gpt3_1T", 3072, 1, 0, 0),
    ("1d", "gpt3_1T", 2048, 1, 0, 0),
    ("1d", "gpt3_1T", 960, 1, 0, 0), ("1d", "wide", 4096, 1, 0, 1), ("1d", "wide", 1024, 1, 0, 0),
    ("1d", "vit_half", 4096, 1, 0, 0),
    ("1d", "vit_era5", 4096, 0, 2, 2), ("2d", "gpt3", 4096, 5, 8, 4), ("2d", "gpt3", 1, 0, 2, 1),
    ("2d", "gpt3", 3, 0, 1, 0),
    ("2d", "gpt3_1T", 4096, 15, 4, 8),
    ("2d", "gpt3_1T", 2048, 1, 0, 0), ("2d", "wide", 4096, 1, 0, 1), ("2d", "wide", 1024, 1, 0, 0),
    ("2d", "vit_half", 4096, 1, 0, 0),
    ("2d", "vit_half", 768, 1, 0, 0),
    ("2d", "vit_half", 512, 1, 0, 0),
    ("2d", "vit_era5", 4096, 0, 2, 0),
    ("2d_seqp", "gpt3", 4096, 11, 8, 4),
    ("2d_seqp", "gpt3", 1, 0, 2, 1),
    ("2d_seqp", "gpt3", 3, 0, 1, 0),
    ("2d_seqp", "gpt3_1T", 4096, 9, 4, 9),
    ("2d_seqp", "gpt3_1T", 3072, 1, 0, 0),
    ("2d_seqp", "wide", 4096, 2, 0, 1),
    ("2d_seqp", "wide", 768, 1, 0, 0),
    ("2d_seqp", "vit_half", 4096, 2, 0, 0),
    ("2d_seqp", "vit_half", 1024, 1, 0, 0),
    ("2d_seqp", "vit_half", 512, 1, 0, 0),
    ("2d_seqp", "vit_era5", 4096, 0, 2, 0),
]  # fmt: skip


def single(kind: str, name: str, batch: int, extra: int, edge: int, empty: int) -> Any:
    """Return the rows of one model and batch, and the model."""
    chosen = {"tp_kind": kind, "model": name, "global_batch": batch}
    tables = [golden.read(file, **chosen) for file in ("best_of", "edge_cases")]
    assert [golden.size(table) for table in tables] == [extra, edge]
    rows = golden.joined(*tables)
    assert int(np.sum(rows["n_feasible"] == 0)) == empty
    shapes = golden.model(golden.distinct(rows, *golden.MODEL)[0])
    fields = golden.MODEL.values()
    return rows, jr.Model(**{field: getattr(shapes, field).item() for field in fields})


@pytest.mark.parametrize("chosen", SINGLE, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
def test_best_plan(chosen: Any) -> None:
    """The best plan and the runner-up, at odd sizes, batches, models, domains and machines.

    Where the time ignores the panels, on a grid of one, the tie goes to the fewest.
    """
    rows, model = single(*chosen)
    systems = golden.system_columns(rows["system"])
    for i in range(golden.size(rows)):
        row = golden.where(rows, np.array([i]))
        machine = {field: column[i] for field, column in systems.items()}
        inputs = jr.Inputs(
            model=model,
            system=jr.System(**machine, fast_domain=rows["nvs"][i]),
            gpus=rows["n"][i],
            global_batch=rows["global_batch"][i],
        )
        found = jr.survey(jr.published, inputs, split=golden.SPLITS[chosen[0]])
        assert found.sizes["plan"] == rows["n_candidates"][i]
        if found.sizes["plan"]:
            least = found["memory"].values.min()
            golden.agree(least, row["min_mem_all"] * golden.GIGA, 1e-12, says="min_mem_all")
        found = found.isel(plan=found["feasible"].values)
        assert found.sizes["plan"] == rows["n_feasible"][i]
        if not found.sizes["plan"]:
            continue
        found = found.isel(plan=np.lexsort([found[field] for field in reversed(FIELDS)]))
        times = found["step_time"].values
        best = int(np.argmax(times <= times.min() * (1.0 + 1e-12)))
        golden.check_plans(found.isel(plan=[best]), row)
        golden.check_values(found.isel(plan=[best]), row)
        if len(times) > 1:
            golden.agree(np.delete(times, best).min(), row["t_second"], 1e-12, says="t_second")


def test_every_best_plan_is_checked() -> None:
    """The models and batches above are all there are, ties among them."""
    files = [golden.read(file) for file in ("best_of", "edge_cases")]
    counts = [sum(row[column] for row in SINGLE) for column in (3, 4)]
    assert counts == [golden.size(rows) for rows in files] == [89, 51]
    grid = [rows["tp1"] * rows["tp2"] for rows in files]
    alone = [rows["tp_kind"][ranks == 1].tolist() for rows, ranks in zip(files, grid, strict=True)]
    assert [kinds.count("2d") for kinds in alone] == [3, 4]


def check_best(found: xr.Dataset, rows: golden.Rows) -> None:
    """Assert the best plan with all its values, and the step time of the second where it fits."""
    best, second = found.isel(rank=0), found.isel(rank=1)
    assert best["feasible"].all()
    golden.check_plans(best, rows)
    golden.check_values(best, rows)
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
    found = jr.search(jr.published, inputs, axes=axes, top=2, placements=True)
    dims = dict(zip(found["plans_legal"].dims, places.values(), strict=True))
    found = golden.at(found, **{str(dim): place for dim, place in dims.items()})

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
    found = jr.search(jr.published, gpt3_1t("h200-nvs4"))
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
    report = jr.published.evaluate(gpt3_1t(system, **plan))
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
