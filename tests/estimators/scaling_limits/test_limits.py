"""The limits of scaling: golden rows, values by hand, physics, slopes, bad input, pictures."""

import csv
import dataclasses
import functools
import gzip
from typing import Any

import jax
import numpy as np
import pytest
import xarray as xr
from places import GOLDEN

import jaxroof as jr
from jaxroof.analyses.scaling_sensitivities import sensitivities
from jaxroof.engine.grid.compiled import evaluate_jit
from jaxroof.errors import InputError
from jaxroof.estimators import estimator
from jaxroof.estimators.scaling_limits.data_movement import (
    Degrees,
    batch_seconds,
    latency_floor,
    problem_of,
    sizes_of,
)
from jaxroof.estimators.scaling_limits.limits import Detail, LimitsRecipe, limits
from jaxroof.records import checked, get_at, replace_at
from jaxroof.settings import build_inputs
from jaxroof.views.text.scaling_limits import limits_sentences

FOLDER = GOLDEN / "linear"
MARKED = LimitsRecipe(detail=Detail.THRESHOLDS)
Rows = dict[str, np.ndarray]

# ---- Golden rows --------------------------------------------------------------------------------

DEVICE = {  # input: golden column
    "system.hbm_bandwidth": "global_Bps",
    "system.network_bandwidth": "net_Bps",
    "system.matrix_efficiency": "base_util",
    "traffic_coefficient": "allreduce_coeff",
    "width": "bytewidth",
}
SCALING = {"scaling.batch_exponent": "beta", "scaling.depth_exponent": "lam"}
STUDY = {
    **DEVICE, **SCALING, "scaling.hidden_factor": "hidden_factor", "longest_run": "max_train_secs",
    "step_latency": "latency_secs",
}  # fmt: skip
PHASES = {"boundary": "boundary", "sustained_dp": "reducing", "sustained_no_dp": "sustained"}
PHASES["bubble"] = "bubble"
RESOURCES = {"flop": "math", "hbm": "memory", "net": "network"}
SYSTEMS = {  # golden device: ours
    "H100_SXM5": "h100-sxm5", "H100_10GBps": "h100-sxm5-10gb", "H100_1GBps": "h100-sxm5-1gb",
    "POD32_H100_5GBps": "h100-pod32-5gb", "POD64_H100_10GBps": "h100-pod64-10gb",
    "A100": "a100-sxm-flat", "RTX4090": "rtx-4090",
}  # fmt: skip


@functools.cache
def golden(name: str, kind: str = "") -> Rows:
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not kind or row["kind"] == kind]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    return {key: _column(cells) for key, cells in columns.items()}


def _column(cells: list[str]) -> np.ndarray:
    try:
        return np.array([float(cell or "nan") for cell in cells])
    except ValueError:
        return np.array(cells)


def answers(name: str, rows: Rows, columns: dict[str, str], **more: Any) -> dict[str, np.ndarray]:
    """Return the answers to golden rows: columns of our inputs, all rows at once."""
    asked = estimator(name)
    settings = {path: rows[column] for path, column in columns.items()} | more
    if "system.hbm_bandwidth" in columns:
        settings["system.matrix_flops"] = rows["flop_per_sec_8bit"] / 2.0
    inputs = build_inputs(asked.inputs, settings, asked.names)
    return {
        key: np.asarray(value)
        for key, value in vars(evaluate_jit(asked, asked.recipe, inputs)).items()
    }


def test_every_golden_row_is_here() -> None:
    kinds, counts = np.unique(golden("study")["kind"], return_counts=True)
    assert dict(zip(kinds.tolist(), counts.tolist(), strict=True)) == {
        "frontier": 70,
        "greedy": 40,
        "slack": 20,
        "threshold": 30,
        "wall": 25,
    }
    assert len(golden("linear")["id"]) == 500
    assert len(golden("batch_model")["id"]) == 200


def test_layers() -> None:
    rows = golden("linear")
    columns = {
        "inputs": "d_in", "outputs": "d_out", "input_ranks": "tp_in", "output_ranks": "tp_out",
        "data": "dp", "tokens": "b",
    }  # fmt: skip
    found = answers("linear_layer", rows, DEVICE | columns)
    for column, field in {
        "flop": "flops",
        "global_io_words": "memory_words",
        "net_io_words": "network_words",
        "flop_secs": "math_time",
        "global_io_secs": "memory_time",
        "net_io_secs": "network_time",
        "fwd_bwd_secs": "layer_time",
        "end_of_batch_words": "gradient_words",
        "end_of_batch_secs": "end_time",
    }.items():
        np.testing.assert_allclose(found[field], rows[column], rtol=1e-12, atol=0, err_msg=column)
    for bound, field in (("flop", "compute"), ("hbm", "memory"), ("net", "network")):
        np.testing.assert_array_equal(found[f"{field}_bound"], rows["bound"] == bound)


def test_the_number_that_all_began_with() -> None:
    layer = estimator("linear_layer")
    report = layer.evaluate(checked(layer.example()))
    assert float(report.layer_time) == 3.2554072481051035e-05
    assert bool(report.compute_bound)


def test_batches() -> None:
    rows = golden("batch_model")
    columns = {
        "training_flops": "training_flop", "scaling.hidden_factor": "hidden_factor",
        "pipeline": "pp", "data": "dp", "hidden_tensor": "tp_hidden",
        "residual_tensor": "tp_residual", "microbatches": "n_microbatches",
    }  # fmt: skip
    found = answers("whole_batch", rows, DEVICE | columns)
    fields = {"N": "parameters", "D": "tokens", "B": "batch", "L": "layers", "d": "hidden"}
    fields |= {"n_devices": "devices", "batch_secs": "batch_time", "train_secs": "train_time"}
    fields |= {"utilisation": "utilisation", "utilisation_rel": "relative_utilisation"}
    for phase, our_phase in PHASES.items():
        for resource, ours in RESOURCES.items():
            fields[f"{phase}_{resource}_secs"] = f"{our_phase}_{ours}"
    assert len(fields) == 22
    for column, field in fields.items():
        np.testing.assert_allclose(found[field], rows[column], rtol=1e-11, atol=0, err_msg=column)


def test_frontier() -> None:
    rows = golden("study", "frontier")
    found = answers("limits", rows, STUDY | {"training_flops": "training_flop"})
    share = found["relative_utilisation"]
    np.testing.assert_allclose(share, rows["answer"], rtol=1e-7, atol=0)
    np.testing.assert_array_equal(found["feasible"], rows["answer"] > 0)
    in_time = found["train_time"] <= rows["max_train_secs"] * (1 + 2e-12)
    assert in_time.all()


def test_slack_and_wall() -> None:
    for kind, rtol in (("slack", 1e-11), ("wall", 1e-10)):
        rows = golden("study", kind)
        columns = SCALING | {"longest_run": "max_train_secs"}
        columns |= {"training_flops": "training_flop"} if kind == "slack" else {}
        columns |= {"step_latency": "latency_secs"} if kind == "wall" else {}
        more = {} if kind == "slack" else {"training_flops": np.full(25, 1e26)}
        found = answers("limits", rows, columns, system="h100-sxm5", **more)
        np.testing.assert_allclose(found[kind], rows["answer"], rtol=rtol, atol=0)


@pytest.mark.slow
def test_thresholds() -> None:
    rows = golden("study", "threshold")
    found = answers("thresholds", rows, STUDY | {"target": "target"})
    np.testing.assert_allclose(found["threshold"], rows["answer"], rtol=1e-4, atol=0)
    assert np.all(found["utilisation"] >= rows["target"] * (1 - 1e-9))
    assert found["jumps"].sum() >= 7, "many end where the best split does"


def test_greedy_growth() -> None:
    rows = golden("study", "greedy")
    columns = DEVICE | {"scaling.hidden_factor": "hidden_factor", "steps": "step"}
    found = answers("growth", rows, columns | {"training_flops": "training_flop"})
    np.testing.assert_allclose(found["relative_utilisation"], rows["answer"], rtol=1e-9, atol=0)
    np.testing.assert_array_equal(found["devices"], 2.0 ** rows["step"])


@pytest.mark.parametrize(("device", "name"), SYSTEMS.items())
def test_devices_of_the_catalogue_are_those_of_the_rows(device: str, name: str) -> None:
    rows = golden("linear")
    row = int(np.flatnonzero(rows["device"] == device)[0])
    system = jr.system(name)
    assert float(system.matrix_flops) * 2.0 == rows["flop_per_sec_8bit"][row]
    assert float(system.hbm_bandwidth) == rows["global_Bps"][row]
    assert float(system.network_bandwidth) == rows["net_Bps"][row]


# ---- The search against a plain one -------------------------------------------------------------


def run_of(system: str = "h100-sxm5-10gb", **settings: Any) -> Any:
    paths = {path.replace("__", "."): value for path, value in settings.items()}
    given = {"system": system, "training_flops": 3e25, "step_latency": 1e-6} | paths
    return checked(build_inputs(limits.inputs, given, limits.names))


def test_the_winner_beats_every_split_of_the_whole_grid() -> None:
    """All 15 x 15 tensor degrees with p_d by bisection find no better split."""
    inputs = run_of(scaling__hidden_factor=4.0)
    found = evaluate_jit(limits, limits.recipe, inputs)
    sizes = jax.tree.map(float, sizes_of(inputs.training_flops, inputs.scaling))
    problem = jax.tree.map(float, problem_of(inputs, inputs.training_flops))
    pipeline, hidden, residual, microbatches = np.meshgrid(
        2.0 ** np.arange(8), *[2.0 ** np.arange(15)] * 2, 2.0 ** np.arange(23), indexing="ij"
    )
    legal = (pipeline <= sizes.layers) & (pipeline <= microbatches) & (microbatches <= sizes.batch)
    pipeline, hidden, residual, microbatches = (
        part[legal] for part in (pipeline, hidden, residual, microbatches)
    )
    limit = float(inputs.longest_run) * sizes.batch / sizes.tokens

    def time(data: np.ndarray) -> np.ndarray:
        split = Degrees(pipeline, data, hidden, residual, microbatches)
        return np.asarray(batch_seconds(problem, split))

    low, high = np.zeros(len(pipeline)), np.log(sizes.batch / microbatches)
    possible = time(np.exp(high)) <= limit  # utilisation falls with p_d, so that the least is best
    for _ in range(45):
        middle = 0.5 * (low + high)
        good = time(np.exp(middle)) <= limit
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    devices = pipeline * np.exp(high) * hidden * residual
    taken = np.maximum(time(np.exp(high)), float(latency_floor(sizes.layers, 1e-6)))
    rate = float(problem.rates.arithmetic) * sizes.tokens / sizes.batch
    share = float(inputs.training_flops * inputs.width) / (taken * devices * rate)
    best = np.max(np.where(possible, share, 0.0))
    np.testing.assert_allclose(float(found.relative_utilisation), best, rtol=1e-9)


# ---- Physics ------------------------------------------------------------------------------------

RUNS = np.geomspace(1e22, 1e34, 13)


def shares(axes: dict[str, Any], **settings: Any) -> np.ndarray:
    found = jr.tabulate(limits, run_of(**settings), axes={"training_flops": RUNS, **axes})
    return found.relative_utilisation.transpose("training_flops", ...).values


def test_no_machine_does_more_than_it_can() -> None:
    share = shares({"system": ["h100-sxm5", "h100-sxm5-1gb", "h100-pod32-5gb"]})
    assert share.min() >= 0.0
    assert share.max() <= 1.0 + 1e-12


MORE = ("system.network_bandwidth", "longest_run", "system.hbm_bandwidth")


@functools.cache
def shares_along() -> dict[str, np.ndarray]:
    """Return the shares [run, value] along single inputs, all by one program."""
    own = {path: float(get_at(run_of(), path)) for path in (*MORE, "step_latency")}
    along = {path: own[path] * np.geomspace(0.1, 10.0, 5) for path in MORE}
    along["step_latency"] = np.array([0.0, 1e-6, 1e-5, 1e-4])
    rows = [own | {path: value} for path, values in along.items() for value in values]
    found = shares({"one": {path: [row[path] for row in rows] for path in own}})
    ends = np.cumsum([len(values) for values in along.values()])
    return dict(zip(along, np.split(found, ends[:-1], axis=1), strict=True))


def test_latency_helps_nobody() -> None:
    share = shares_along()["step_latency"]
    assert np.all(np.diff(share, axis=1) <= 1e-12)
    assert np.any(np.diff(share, axis=1) < -1e-3)


@pytest.mark.parametrize("path", MORE)
def test_more_of_it_hurts_nobody(path: str) -> None:
    assert np.all(np.diff(shares_along()[path], axis=1) >= -1e-12)


def test_a_pod_is_one_device_of_many() -> None:
    pod = evaluate_jit(limits, limits.recipe, run_of("h100-pod32-5gb"))
    made = run_of("h100-sxm5", pod_size=32.0)
    made = replace_at(made, "system.network_bandwidth", np.float64(5e9))
    for ours, theirs in zip(
        vars(pod).values(), vars(evaluate_jit(limits, limits.recipe, made)).values(), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_published_slack() -> None:
    """Fact sheet linear_data_movement, C1: 2393.0 us for 4e26 FLOP in 1e7 s."""
    found = evaluate_jit(limits, limits.recipe, run_of(training_flops=4e26, longest_run=1e7))
    assert f"{1e6 * float(found.slack):.1f}" == "2393.0"


@pytest.mark.parametrize("exponents", [(1 / 6, 1 / 6), (0.0, 0.25), (0.25, 1 / 6)])
def test_the_wall_is_the_root_of_the_slack(exponents: tuple[float, float]) -> None:
    batch, depth = exponents
    given = {"scaling__batch_exponent": batch, "scaling__depth_exponent": depth}
    inputs = run_of("a100-sxm-flat", step_latency=3e-5, **given)
    wall = float(evaluate_jit(limits, limits.recipe, inputs).wall)
    for factor, feasible in ((1.0 - 1e-9, True), (1.0 + 1e-9, False)):
        there = replace_at(inputs, "training_flops", np.float64(wall * factor))
        found = evaluate_jit(limits, limits.recipe, there)
        np.testing.assert_allclose(found.slack, 3e-5, rtol=3e-9)
        assert bool(found.feasible) is feasible


def test_without_latency_there_is_no_wall() -> None:
    found = evaluate_jit(limits, limits.recipe, run_of(step_latency=0.0))
    assert not found.wall_exists
    steep = run_of(scaling__batch_exponent=0.8, scaling__depth_exponent=0.0)
    assert not evaluate_jit(limits, limits.recipe, steep).wall_exists


def test_growth_by_small_steps_ends_where_doubling_does() -> None:
    growth = estimator("growth")
    asked = {"system": "h100-sxm5", "training_flops": 1e26}
    cases = {"growth": [1.0, 1.0, 0.25], "steps": [0.0, 5.0, 16.0]}
    grown = jr.evaluate(growth, asked, axes={"case": cases})
    assert float(grown.devices[0]) == 1.0
    np.testing.assert_allclose(grown.relative_utilisation[1], 1.0, rtol=1e-12)
    np.testing.assert_allclose(grown.devices[2], 1.25**16, rtol=1e-12)
    assert grown.legal.all()


# ---- Slopes -------------------------------------------------------------------------------------

MOVED = ("system.network_bandwidth", "system.matrix_flops", "longest_run", "scaling.batch_exponent")


def test_slopes_of_utilisation_are_those_of_solving_again() -> None:
    """With the split on the limit, u follows it: exact on every machine, off the jumps."""
    runs = {"training_flops": np.array([2e24, 3e25, 2e26, 1e28, 1e36])}
    inputs = dataclasses.replace(run_of(), **runs)

    def total(inputs: Any) -> Any:
        return limits.evaluate(inputs).relative_utilisation

    @jax.jit
    @functools.partial(jax.jacfwd, has_aux=True)
    def solve(factors: Any) -> Any:
        share = total(scaled(inputs, factors))
        return share, share

    slopes = np.asarray(solve(np.ones(len(MOVED)))[0])
    for number, path in enumerate(MOVED):
        step = 1e-6 * np.eye(len(MOVED))[number]
        up, down = (np.asarray(solve(1.0 + some)[1]) for some in (step, -step))
        again = (up - down) / 2e-6
        np.testing.assert_allclose(slopes[:, number], again, rtol=1e-6, atol=1e-8, err_msg=path)
    assert np.all(slopes[-1] == 0.0), "no run, no slope"


def scaled(inputs: Any, factors: Any) -> Any:
    for path, factor in zip(MOVED, factors, strict=True):
        inputs = replace_at(inputs, path, get_at(inputs, path) * factor)
    return inputs


@pytest.mark.slow
def test_sensitivities_by_slope_and_by_solving() -> None:
    """On this machine the half threshold ends where no number of replicas is in time."""
    data = sensitivities(run_of(training_flops=4e25), change=1e-5)
    np.testing.assert_allclose(data.elasticity, data.solved, rtol=1e-4, atol=1e-5)
    wall = data.sel(result="wall").elasticity
    for parameter, expected in (("longest_run", 2.0), ("step_latency", -2.0), ("width", 0.0)):
        np.testing.assert_allclose(wall.sel(parameter=parameter), expected, atol=1e-9)
    np.testing.assert_allclose(data.value.sel(result="threshold_50"), 5.408e25, rtol=1e-3)
    with pytest.raises(InputError, match="Did you mean"):
        sensitivities(run_of(), parameters=["system.network_bandwith"])
    with pytest.raises(InputError, match="between 0 and 1"):
        sensitivities(run_of(), change=2.0)


# ---- The older models ---------------------------------------------------------------------------


def expert_step(**changes: float) -> xr.Dataset:
    settings = {
        "system.matrix_flops": 500.0,  # 1000 at one byte
        "system.hbm_bandwidth": 1e9,
        "system.network_bandwidth": 10.0,
        **dict.fromkeys(("layers", "experts"), 4.0),
        "hidden": 8.0,
        "feedforward": 16.0,
        "active_experts": 2.0,
        "sequence": 4.0,
        "global_batch": 8.0,
        "microbatch": 2.0,
        "pipeline": 2.0,
        "data": 2.0,
        "feedforward_tensor": 2.0,
        "residual_tensor": 2.0,
    }
    return jr.evaluate("moe_step", settings | changes)


def test_a_step_of_experts_by_hand() -> None:
    """Fact sheet linear_data_movement, D1, worked with small numbers."""
    found = expert_step()
    product = 2 * 8 * 4 * 2 / 1000  # A = 8, C = 4, t = 2 * 4 * 2 // (2 * 4)
    inner = 2 * (2 * 4 * 16 * 2 / 16) / 10
    outer = 2 * (2 * 4 * 8 / 8) / 10
    hop = 2 * (2 * 4 * 8 / 32) / 10
    expected = {
        "devices": 64,
        "parameters": 4 * 2 * 4 * 8 * 16,
        "active_parameters": 2 * 2 * 4 * 8 * 16,
        "batches": 20 * 4096 // 32,
        "matmul_time": product,
        "bubble_time": 2 * (6 * product + 2 * inner + 2 * outer) + 2 * hop,
        "steady_time": 3 * 2 * 2 * product * 4,
        "gradient_time": 2 * (4096 / 32) / 10,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(float(found[name]), value, rtol=1e-12, err_msg=name)
    batch = expected["bubble_time"] + expected["steady_time"] + expected["gradient_time"]
    used = 6 * 2048 * 8 * 4 / (64 * 1000 * batch)
    np.testing.assert_allclose(float(found.utilisation), used, rtol=1e-12)


def test_the_closed_form_in_its_three_stages() -> None:
    """Overlap, replicas, then three equal costs; the degrees always make up the devices."""
    found = jr.evaluate(
        "closed_form",
        {"system": "h100-sxm5-10gb", "training_flops": 1e25, "devices": 1.0},
        axes={"devices": np.geomspace(130.0, 1e5, 60)},
    )
    stages = found.stage.values
    assert set(stages) == {1.0, 2.0, 3.0}
    assert np.all(np.diff(stages) >= 0)
    product = found.pipeline * found.residual_tensor * found.hidden_tensor * found.data
    np.testing.assert_allclose(product.broadcast_like(found.devices), found.devices, rtol=1e-12)
    assert np.all(np.diff(found.utilisation.values) <= 1e-12)
    np.testing.assert_allclose(found.utilisation.values[stages == 1.0], 0.8, rtol=1e-12)
    last = found.isel(devices=-1)
    hidden = np.sqrt(np.sqrt(1e25 / 120.0) / 1200.0)  # d of N = 2 h L d^2
    replica = 4.0 * np.sqrt(1e25 / 120.0) / (120.0 * 4e6)
    np.testing.assert_allclose(last.residual_tensor * 8 * hidden, last.data * replica, rtol=1e-12)


# ---- Bad input ----------------------------------------------------------------------------------

RUN = {"system": "h100-sxm5", "training_flops": 1e26}
BAD = [
    ("whole_batch", RUN | {"dta": 2.0}, "dta: no such field of BatchInputs. Did you mean 'data'?"),
    ("limits", {"system": "h100-sxm5"}, "training_flops: missing"),
    ("limits", RUN | {"system": "b200-nvs8"}, "system.network_bandwidth: not given"),
    ("limits", RUN | {"training_flops": 1e60}, "training_flops: expected a finite number"),
    ("thresholds", {"system": "h100-sxm5", "target": 1.5}, "target: .* at most 1"),
]


@pytest.mark.parametrize(("name", "settings", "said"), BAD)
def test_bad_input_is_refused_in_one_line(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        jr.evaluate(name, settings)
    assert "\n" not in str(error.value)


def test_a_split_that_cannot_be_is_told() -> None:
    assert not jr.evaluate("whole_batch", RUN | {"pipeline": 4.0}).legal  # more than microbatches
    assert jr.evaluate("whole_batch", RUN | {"pipeline": 4.0, "microbatches": 4.0}).legal


# ---- Sentences and pictures ---------------------------------------------------------------------


@functools.cache
def swept() -> xr.Dataset:
    axes = {
        "system": ["h100-sxm5", "h100-sxm5-10gb"],
        "training_flops": np.geomspace(1e23, 1e34, 23),
    }
    return jr.tabulate(limits, run_of(step_latency=1e-5), MARKED, axes=axes)


def test_sentences_tell_each_machine_its_reach() -> None:
    fast, slow = limits_sentences(swept())
    assert fast.startswith("h100-sxm5: 80 % of the rate up to 1.39e31 FLOP, then nothing")
    assert slow.endswith("latency allows none beyond 1.39e31.")
    assert "half of it up to" in slow
    assert swept().threshold_80.dims == ("system",), "thresholds do not depend on the run"
