"""An MLP's step under D x H x P ranks: golden rows, laws, quirks one by one, grids, bad input."""

import csv
import dataclasses
import functools
import gzip
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from places import GOLDEN
from refusals import refused

import jaxroof as jr
from jaxroof.catalog.lookup import mlp, system
from jaxroof.catalog.models import Mlp
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.all_plans import list_all_plans
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.estimators.mlp_pipeline import chain, costs
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Plan
from jaxroof.estimators.mlp_pipeline.plans import RULES
from jaxroof.estimators.mlp_pipeline.recipe import (
    Messages,
    Network,
    Order,
    Profile,
    Recipe,
    Rules,
)
from jaxroof.records import checked, get_at, replace_at
from jaxroof.schedules import build

FOLDER = GOLDEN / "distir"
PIPELINE = estimator("pipeline")
Rows = dict[str, np.ndarray]
TIME, OVERHEAD = 1e-12, 1e-11  # relative, of the sheet
BYTES = {"fp32": 4.0, "fp16": 2.0}

# ---- Golden rows --------------------------------------------------------------------------------


@functools.cache
def golden(*names: str) -> Rows:
    """Return the rows of files of the same columns, texts as they are."""
    rows: list[dict[str, str]] = []
    for name in names:
        with gzip.open(FOLDER / f"{name}.csv.gz", "rt", encoding="utf-8") as stream:
            rows += csv.DictReader(stream)
    shared = set.intersection(*(set(row) for row in rows))
    return {key: _column([row[key] for row in rows]) for key in shared}


def _column(texts: list[str]) -> np.ndarray:
    try:
        return np.array([float(text or "nan") for text in texts])
    except ValueError:
        return np.array(texts)


def asked(rows: Rows, machine: str, **more: Any) -> Inputs:
    plan = {
        "data": rows.get("dp_degree", rows.get("world_size", 1.0)),
        "tensor": rows.get("hp_degree", 1.0),
        "pipeline": rows.get("pp_degree", 1.0),
        "microbatches": rows.get("num_microbatches", 1.0),
    }
    model = Mlp(
        layers=rows.get("num_hidden_layers", 64.0),
        input_width=rows.get("input_dim", rows.get("hidden_dim", 8192.0)),
        hidden=rows.get("hidden_dim", 8192.0),
        inner=rows.get("inner_dim", rows.get("hidden_dim", 8192.0)),
        output_width=rows.get("output_dim", rows.get("hidden_dim", 8192.0)),
    )
    batch = rows.get("batch_size", 8192.0)
    inputs = Inputs(
        model=model, system=system(machine), global_batch=batch, plan=Plan(**plan), **more
    )
    return checked(inputs)


def answers(rows: Rows, machine: str, recipe: Recipe, pieces: int = 1, **more: Any) -> Rows:
    """Return the answers to rows, in pieces: more than 64 at once are padded to 1024.

    Each piece has some of the most stages, so that one program answers all.
    """
    inputs = asked(rows, machine, **more)
    stages = np.broadcast_to(inputs.plan.pipeline, np.shape(inputs.plan.data))
    order, found = np.argsort(-stages, kind="stable"), {}
    for first in range(pieces):
        some = order[first::pieces]
        part = jax.tree.map(lambda leaf, some=some: leaf[some] if np.ndim(leaf) else leaf, inputs)
        for name, values in evaluate_points(PIPELINE, recipe, part).items():
            found.setdefault(name, np.empty(len(order), values.dtype))[some] = values
    return found


GRIDS = ("grid_search", "grid_c4_l8", "isolated_dp", "isolated_hp", "isolated_pp", "trace_index")
SIZES = ("input_dim", "hidden_dim", "output_dim", "batch_size")


@functools.cache
def first_profile() -> dict[str, tuple[Rows, Rows]]:
    """Return rows and answers of the first profile, all through one program."""
    scaling = golden("sim_scaling")
    alone = dict.fromkeys((*SIZES, "dp_degree", "hp_degree", "pp_degree", "num_microbatches"), 64.0)
    alone |= dict.fromkeys(("dp_degree", "hp_degree", "pp_degree", "num_microbatches"), 1.0)
    one = {name: np.full(len(scaling["trial"]), value) for name, value in alone.items()}
    parts = {"grids": golden(*GRIDS), "edges": golden("edge_cases"), "scaling": {**scaling, **one}}
    asked_for = [*alone, "num_hidden_layers"]
    together = {key: np.concatenate([rows[key] for rows in parts.values()]) for key in asked_for}
    found = answers(together, "distir-a", Recipe(Profile.A), pieces=4)
    ends = np.cumsum([len(rows["dp_degree"]) for rows in parts.values()])
    split = {name: np.split(values, ends[:-1]) for name, values in found.items()}
    return {
        part: (rows, {name: pieces[i] for name, pieces in split.items()})
        for i, (part, rows) in enumerate(parts.items())
    }


def test_the_first_profile_as_published():
    rows, found = first_profile()["grids"]
    assert len(rows["running_time_s"]) == 52 + 18 + 28 + 24 + 24 + 4
    assert_as_published(found, rows)
    best = np.argsort(-found["throughput"][:52])[:3]
    plans = [[rows[f"{d}p_degree"][i] for d in "dhp"] for i in best]
    assert plans == [[4.0, 4.0, 1.0], [8.0, 2.0, 1.0], [2.0, 8.0, 1.0]]


def test_all_forwards_first():
    rows = golden("gpipe")
    assert len(rows["running_time_s"]) == 40
    assert_as_published(answers(rows, "distir-a", Recipe(Profile.A, order=Order.GPIPE)), rows)


def assert_as_published(found: Rows, rows: Rows) -> None:
    for ours, theirs in {
        "step_time": "running_time_s",
        "throughput": "throughput",
        "communication_time": "comm_device_seconds",
        "total_time": "total_device_seconds",
    }.items():
        bound = TIME if ours in ("step_time", "throughput") else OVERHEAD
        np.testing.assert_allclose(found[ours], rows[theirs], rtol=bound, err_msg=ours)
    np.testing.assert_allclose(
        found["communication_overhead"], rows["communication_overhead"], rtol=OVERHEAD
    )
    np.testing.assert_array_equal(found["operations"], rows["num_ops"])
    np.testing.assert_array_equal(found["events"], rows["num_trace_events"])
    assert found["feasible"].all()


REFUSED = {  # case: the verdict that does not hold
    "pipeline with a single microbatch": "microbatches_suit_stages",
    "pipeline, one microbatch, D=2": "microbatches_suit_stages", "D=3": "groups_have_costs",
    "D=6": "groups_have_costs", "H=3": "groups_have_costs",
    "P=3,L=8: L%P!=0": "stages_divide_layers", "odd L, H=2": "tensor_needs_pairs",
    "B not divisible by D": "data_divides_batch",
    "B/D not divisible by M": "microbatches_divide_batch", "B/D<M": "microbatches_divide_batch",
    "dim not divisible by H": "tensor_divides_width", "P=1 with M=4": "microbatches_suit_stages",
    "D=2,P=1,M=4": "microbatches_suit_stages",
}  # fmt: skip


def test_edge_cases_are_answered_or_refused_for_the_reason():
    rows, found = first_profile()["edges"]
    fine = rows["outcome"] == "ok"
    assert fine.sum() == 25
    np.testing.assert_array_equal(found["feasible"], fine)
    np.testing.assert_allclose(found["step_time"][fine], rows["running_time_s"][fine], rtol=TIME)
    np.testing.assert_allclose(found["throughput"][fine], rows["throughput"][fine], rtol=TIME)
    np.testing.assert_allclose(
        found["communication_overhead"][fine], rows["communication_overhead"][fine], rtol=OVERHEAD
    )
    assert set(REFUSED) == set(rows["case"][~fine])
    verdicts = [rule.name for rule in RULES[Rules.FIRST]]
    for i in np.flatnonzero(~fine):
        broken = [name for name in verdicts if not found[name][i]]
        assert REFUSED[rows["case"][i]] in broken, rows["case"][i]


def test_the_cold_start_of_the_published_grid():
    rows = golden("published_grid")
    found = answers(rows, "distir-a", Recipe(Profile.COLD), pieces=2)
    assert len(rows["throughput"]) == 111
    np.testing.assert_allclose(found["throughput"], rows["throughput"], rtol=TIME)


def test_the_time_of_ever_more_layers_on_one_device():
    rows, found = first_profile()["scaling"]
    np.testing.assert_allclose(found["step_time"], rows["running_time_s"], rtol=TIME)
    np.testing.assert_array_equal(found["operations"], rows["num_ops"])


def test_the_comparison_with_real_machines():
    rows = golden("euromlsys_real_vs_simulated_dp")
    found = answers(rows, "distir-real", Recipe(Profile.REAL))
    assert len(rows["simulated_ms"]) == 54
    np.testing.assert_allclose(found["step_time"] * 1e3, rows["simulated_ms"], atol=0.00501)
    measured = rows["batch_size"] / rows["real_ms"]
    correlation = np.corrcoef(found["throughput"], measured)[0, 1]
    np.testing.assert_allclose(correlation, 0.9311, atol=1e-4)


def test_the_last_profile_to_the_byte():
    rows = golden("head_mlp_grid")
    element = np.array([BYTES[dtype] for dtype in rows["dtype"]])
    assert len(element) == 159
    found = answers(rows, "distir-b", Recipe(Profile.B), pieces=3, element=element)
    np.testing.assert_allclose(found["step_time"], rows["latency_s"], rtol=TIME)
    np.testing.assert_allclose(found["throughput"], rows["throughput"], rtol=TIME)
    np.testing.assert_array_equal(found["memory"], rows["peak_memory_bytes"])
    np.testing.assert_array_equal(found["operations"], rows["num_ops"])
    assert all(found[rule.name].all() for rule in RULES[Rules.LAST])


# ---- Laws ---------------------------------------------------------------------------------------

STUDY = {"model": "mlp-study", "system": "distir-a", "global_batch": 8192}


def degrees(data: int, tensor: int, pipeline: int, microbatches: int) -> dict[str, int]:
    plan = {"data": data, "tensor": tensor, "pipeline": pipeline, "microbatches": microbatches}
    return {f"plan.{field}": degree for field, degree in plan.items()}


MACHINE = {"network_bandwidth": "25 GB/s", "launch_latency": "4 us"}
DRAW = np.random.default_rng(5)
SOME = 40
PLANS = {
    "data": 2.0 ** DRAW.integers(0, 4, SOME),
    "tensor": 2.0 ** DRAW.integers(0, 3, SOME),
    "pipeline": 2.0 ** DRAW.integers(0, 4, SOME),
    "microbatches": DRAW.integers(1, 25, SOME) * 1.0,
}


def some(**changes: Any) -> Inputs:
    """Return forty plans of a middling model on a real machine."""
    inputs = Inputs(
        model=Mlp(layers=16.0, input_width=640.0, hidden=1024.0, inner=4096.0, output_width=512.0),
        system=system("h200-nvs8", **MACHINE),
        global_batch=7680.0,
        plan=Plan(**PLANS),
    )
    for path, value in changes.items():
        inputs = replace_at(inputs, path.replace("__", "."), np.float64(value))
    return checked(inputs)


RATES = ("matrix_flops", "vector_flops", "hbm_bandwidth", "fast_bandwidth", "slow_bandwidth")
LATENCIES = ("launch_latency", "fast_latency", "slow_latency")
FLAT = ("matrix_flops", "vector_flops", "hbm_bandwidth", "network_bandwidth")


@pytest.mark.parametrize(("profile", "rates", "latencies"), [
    pytest.param(Profile.PHYSICAL, RATES, LATENCIES, marks=pytest.mark.slow),
    (Profile.B, FLAT, ("launch_latency",)),
])  # fmt: skip
def test_elasticities_pass_through_the_loop(profile, rates, latencies):
    """Slopes are those of differences off the ridges; rates less latencies sum to -1."""
    inputs, recipe = some(), Recipe(profile, most_stages=8, most_timesteps=64)
    paths = [f"system.{name}" for name in (*rates, *latencies)]

    def log_time(by: jax.Array) -> jax.Array:
        moved = inputs
        for path, some_by in zip(paths, by, strict=True):
            moved = replace_at(moved, path, get_at(moved, path) * jnp.exp(some_by))
        return jnp.log(PIPELINE.evaluate(moved, recipe).step_time)

    both = jax.jit(lambda by, along: jax.jvp(log_time, (by,), (along,)))
    nothing, step = np.zeros(len(paths)), 1e-5
    found = np.stack([both(nothing, along)[1] for along in np.eye(len(paths))])
    signs = np.array([1.0] * len(rates) + [-1.0] * len(latencies))
    np.testing.assert_allclose(signs @ found, -1.0, rtol=1e-12)
    assert (found[: len(rates)] <= 1e-15).all()
    assert (found[len(rates) :] >= -1e-15).all()
    for along, exact in zip(np.eye(len(paths)), found, strict=True):
        ends = [np.asarray(both(side * step * along, along)[0]) for side in (-1.0, 0.0, 1.0)]
        left, right = (ends[1] - ends[0]) / step, (ends[2] - ends[1]) / step
        smooth = np.abs(right - left) < 1e-4
        assert smooth.mean() > 0.8
        np.testing.assert_allclose(exact[smooth], ((left + right) / 2.0)[smooth], atol=2e-5)


@pytest.mark.parametrize(
    ("profile", "machine"),
    [
        (Profile.B, system("distir-b")),  # of which there is a program: the golden rows'
        pytest.param(Profile.PHYSICAL, system("h200-nvs8", **MACHINE), marks=pytest.mark.slow),
    ],
)
def test_room_changes_nothing(profile, machine):
    """A plan takes as long in a program made for it as in one made for far larger plans."""
    inputs = dataclasses.replace(some(), system=machine)
    together = evaluate_points(PIPELINE, Recipe(profile), inputs)
    keep = np.flatnonzero((PLANS["pipeline"] == 4.0) & (PLANS["microbatches"] <= 12.0))
    alone = checked(
        dataclasses.replace(inputs, plan=Plan(**{f: v[keep] for f, v in PLANS.items()}))
    )
    for name, values in evaluate_points(PIPELINE, Recipe(profile), alone).items():
        np.testing.assert_allclose(values, together[name][keep], rtol=1e-14, err_msg=name)


@pytest.mark.slow
def test_more_is_never_slower_and_busy_is_a_share():
    before = evaluate_points(PIPELINE, Recipe(), some())
    for path, more in {
        "system.hbm_bandwidth": 9e12,
        "system.slow_bandwidth": 4e11,
        "system.fast_latency": 0.0,
        "system.matrix_flops": 3e15,
    }.items():
        after = evaluate_points(PIPELINE, Recipe(), some(**{path.replace(".", "__"): more}))
        assert (after["step_time"] <= before["step_time"] * (1.0 + 1e-12)).all(), path
    for recipe in (Recipe(), Recipe(Profile.B)):
        found = evaluate_points(PIPELINE, recipe, some())
        assert (found["busy_least"] > 0.0).all()
        assert (found["busy_most"] <= 1.0 + 1e-12).all()
        assert ((found["idle_share"] >= -1e-12) & (found["idle_share"] < 1.0)).all()
        assert (found["communication_overhead"] <= 1.0).all()


@pytest.mark.parametrize("order", list(Order))
def test_closed_forms_are_the_tables(order):
    """The order in closed form is that of the schedule as data."""
    from jaxroof.schedules import orders
    from jaxroof.schedules.table import BACKWARD, FORWARD

    stages, many = np.array([2, 4, 5, 3]), np.array([3, 6, 2, 9])
    asked_of = orders.Chain(*(jnp.asarray(c, jnp.int32)[None] for c in (stages, many)))
    numbers = chain.stages_of(5)
    held = orders.CLOSED[order.value](numbers, asked_of)
    steps = jnp.arange(22, dtype=jnp.int32)
    now = jax.jit(jax.vmap(lambda t: chain.visit(t, held, numbers, asked_of)))(steps)
    for lane, (some_stages, some_many) in enumerate(zip(stages, many, strict=True)):
        table = build(order.value, int(some_stages), int(some_many))
        cells = np.s_[: table.timesteps, :some_stages, lane]
        np.testing.assert_array_equal(now.forward[cells], table.kind == FORWARD)
        np.testing.assert_array_equal(now.backward[cells], table.kind == BACKWARD)
        busy = table.kind > 0
        np.testing.assert_array_equal(
            np.asarray(now.microbatch[cells])[busy], table.microbatch[busy]
        )
        assert not np.asarray(now.forward[:, some_stages:, lane]).any()


@pytest.mark.slow  # memory of the stages daily: test_the_last_profile_to_the_byte
def test_stages_are_those_of_the_step():
    settings = {"model": "mlp-small", "system": "distir-b", **degrees(2, 1, 4, 8)}
    each = jr.stages(settings, profile="distir-b")
    whole = jr.evaluate("pipeline", settings, profile="distir-b")
    assert float(each.step_time) == float(whole.step_time)
    assert float(each.memory.max()) == float(whole.memory)
    np.testing.assert_allclose(each.idle_share.mean(), whole.idle_share, rtol=1e-12)
    np.testing.assert_allclose(each.busy_share.max(), whole.busy_most, rtol=1e-12)
    assert each.layers.values.tolist() == [4.0] * 4
    with pytest.raises(InputError, match="plan: missing"):
        jr.stages({"model": "mlp-small", "system": "distir-b"})
    with pytest.raises(
        InputError, match="pipeline=5: not legal; expected stages that divide the 16"
    ):
        jr.stages({**settings, "plan.pipeline": 5})


# ---- Quirks, one by one -------------------------------------------------------------------------


def test_the_network_unit_is_worth_64_and_16():
    """Quirk 1: sums over ranks 64 times too fast, sends 16 times, as they square the element."""
    first = Recipe(Profile.A).chosen()
    right = first._replace(network=Network.FLAT, messages=Messages.ONCE)
    inputs = Inputs(model=mlp("mlp-xs"), system=system("distir-a"))
    published, correct = (costs.prices(inputs, choices) for choices in (first, right))
    sums, sends = (
        [cost(asked) for asked in (correct, published)]
        for cost in (lambda p: costs.all_reduce(p, 1e6, 4.0, True), lambda p: costs.send(p, 1e6))
    )
    np.testing.assert_allclose(sums[0] / sums[1], 64.0)
    np.testing.assert_allclose(sends[0] / sends[1], 16.0)


@pytest.mark.slow
def test_a_calibrated_network_follows_its_law():
    law = {"per_byte": 2e-11, "per_rank": 1e-6, "constant": 5e-6}
    laws = {
        f"{group}_sums.{name}": value for group in ("tensor", "data") for name, value in law.items()
    }
    asked_for = {"model": "mlp-xs", "system": "distir-b", "profile": "distir-b"}
    asked_for |= degrees(4, 1, 1, 1)
    free = dict.fromkeys(laws, 0.0)
    without = jr.evaluate("pipeline", {**asked_for, **free}, network="calibrated")
    measured = jr.evaluate("pipeline", {**asked_for, **laws}, network="calibrated")
    each = 2e-11 * 4.0 * 512**2 + 4e-6 + 5e-6
    np.testing.assert_allclose(measured.step_time - without.step_time, 8 * each, rtol=1e-12)
    with pytest.raises(InputError, match=r"tensor_sums\.per_byte, .*: not given"):
        jr.evaluate("pipeline", asked_for, network="calibrated")


# ---- Grids --------------------------------------------------------------------------------------


def test_every_plan_is_kept_with_its_reason():
    inputs = Inputs(model=mlp("mlp-xs", layers=12), system=system("distir-a"), global_batch=96.0)
    recipe = Recipe(Profile.A)
    data = jr.plans(PIPELINE, inputs, recipe, axes={"gpus": [12, 16]})
    reasons = data.reason.attrs["flag_meanings"].split()
    said = np.array(reasons)[data.reason.values]
    groups = np.where(data.tensor > 1, data.tensor, data.data)
    powers = (groups & (groups - 1)) == 0
    np.testing.assert_array_equal(data.legal.values, powers & (said == "fits"))
    assert (said == "groups_have_costs").sum() >= 3
    assert np.isnan(data.step_time.values[~data.legal.values]).all()
    assert np.isfinite(data.step_time.values[data.legal.values]).all()
    best = jr.search(PIPELINE, inputs, recipe, axes={"gpus": [12, 16]}, top=12)
    for gpus in (12, 16):
        rows = np.flatnonzero((data.gpus == gpus) & data.legal)
        order = rows[np.argsort(data.step_time.values[rows], kind="stable")][:12]
        np.testing.assert_array_equal(best.step_time.sel(gpus=gpus), data.step_time.values[order])
    only = list_all_plans(PIPELINE, inputs, recipe, axes={"gpus": [4]}, where="pipeline=1")
    assert (only.axis.columns["plan.pipeline"] == 1.0).all()


def test_capacity_decides_what_a_search_may_take():
    inputs = Inputs(model=mlp("mlp-xs"), system=system("distir-b"), global_batch=64.0)
    recipe = Recipe(Profile.B)
    data = jr.search(
        PIPELINE,
        inputs,
        recipe,
        axes={"gpus": [4], "system.hbm_capacity": ["32 GB", "6 MB", "1 MB"]},
    )
    assert data.reason.values.tolist() == [[0, 0, 1]]
    assert data.memory.values[0, 1] <= 6e6
    assert data.step_time.values[0, 0] <= data.step_time.values[0, 1]


# ---- Bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "said"), [
    ({"profile": "distir-c"}, "profile: distir-c: no such Profile. Did you mean 'distir-"),
    ({"model": "mlp-smal"}, "mlp-smal: no such mlp. Did you mean 'mlp-small'?"),
    ({"system": "h200-nvs8"}, "system.network_bandwidth: not given"),
])  # fmt: skip
def test_bad_input_is_one_line(settings, said):
    assert said in refused(
        jr.evaluate, "pipeline", {**STUDY, **degrees(2, 2, 4, 8), "profile": "distir-a", **settings}
    )


def test_what_has_no_plan_left_is_said():
    inputs = Inputs(model=mlp("mlp-xs"), system=system("distir-a"), global_batch=64.0, gpus=4.0)
    with pytest.raises(InputError, match="plans: none to try"):
        list_all_plans(PIPELINE, inputs, Recipe(Profile.A), where="pipeline=3")
    with pytest.raises(InputError, match="gpus: not given"):
        list_all_plans(PIPELINE, dataclasses.replace(inputs, gpus=None), Recipe(Profile.A))
