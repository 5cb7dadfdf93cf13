"""How fast is the study of the limits of scaling?

1. The best utilisation of 200 training runs on 4 machines: jaxroof (the whole Dataset, and the
   search alone), numpy with the same algorithm, all splits of one run side by side, and a plain
   Python loop over every split of a few runs, each with its own Newton steps. The loop's time is
   given per value, for those few values alone. The values are compared.
2. All thresholds of the golden rows: each walks down from 1e40 FLOP and bisects.
3. The sweep file of the study, warm, thresholds and walls included.

Run: ``python benchmarks/limits_speed.py``; ``--quick`` for fewer rounds. The last line is JSON.
"""

import argparse
import csv
import gzip
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxroof as jr
from jaxroof.engine.grid.compiled import evaluate_jit
from jaxroof.estimators.scaling_limits.limits import LimitsInputs, limits, thresholds
from jaxroof.settings import build_inputs

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("h100-sxm5", "h100-sxm5-10gb", "h100-sxm5-1gb", "h100-pod32-5gb")
RUNS = np.geomspace(1e22, 1e34, 200)
LATENCY = 1e-6
AGREE = 1e-9
TIE = 1e-12
TENSOR, MICROBATCHES, NEWTON = 14, 22, 7
LOOPED = ((1, 3e25), (3, 1e26))  # machine, run: values that the plain loop finds


class Point(NamedTuple):
    """The coefficients of one run on one machine, as in the sheet of the study."""

    layers: float
    batch: float
    limit: float
    floor: float
    share: float  # utilisation of one device of one second a batch
    factor: float
    arithmetic: float
    memory: float
    sends: float
    sum_memory: float
    sum_network: float


def point(run: float, system: Any) -> Point:
    """Return the coefficients of one point, the defaults of the study for all else."""
    scaling = LimitsInputs(system=system, training_flops=run).scaling
    parameters = math.sqrt(run / (6 * scaling.tokens_per_parameter))
    tokens = scaling.tokens_per_parameter * parameters
    scale = run / scaling.reference_flops
    batch = scaling.reference_batch * scale**scaling.batch_exponent
    layers = scaling.reference_layers * scale**scaling.depth_exponent
    factor, width, kappa = scaling.hidden_factor, 2.0, 2.0
    hidden = math.sqrt(parameters / (2 * factor * layers))
    efficiency = float(system.matrix_efficiency)
    rate = efficiency * float(system.matrix_flops) * 2.0
    memory, network = efficiency * float(system.hbm_bandwidth), float(system.network_bandwidth)
    square = factor * hidden**2 * width
    return Point(
        layers=layers,
        batch=batch,
        limit=7776000.0 * batch / tokens,
        floor=4 * layers * LATENCY,
        share=run * width * batch / (tokens * rate),
        factor=factor,
        arithmetic=6 * square * batch / rate,
        memory=4 * square / memory,
        sends=kappa * batch * hidden * width / network,
        sum_memory=kappa * square / memory,
        sum_network=kappa * square / network,
    )


# ---- numpy --------------------------------------------------------------------------------------

PAIRS = [(i, j) for i in range(MICROBATCHES + 1) for j in range(i, MICROBATCHES + 1)]
PIPELINE, MICRO = (2.0 ** np.array(column)[None, :] for column in zip(*PAIRS, strict=True))
POWERS = np.arange(2.0 * TENSOR + 1.0)[:, None]
PRODUCT = 2.0**POWERS


def least_sent(factor: float) -> np.ndarray:
    """Return q of the pair of tensor degrees that sends least, for each product of the two."""
    residual = np.arange(TENSOR + 1.0)[None, :]
    legal = (residual <= POWERS) & (POWERS - residual <= TENSOR)
    sent = factor * (2.0**residual - 1) + 2.0 ** (POWERS - residual) - 1
    return np.where(legal, sent, np.inf).min(axis=1, keepdims=True)


def with_numpy(p: Point) -> float:
    """Return the best utilisation of one point, all splits side by side."""
    keep = ((p.layers >= PIPELINE) & (p.batch >= MICRO))[0]  # numpy may drop what is not legal
    pipeline, micro = PIPELINE[:, keep], MICRO[:, keep]
    sends, limit = p.sends * least_sent(p.factor), p.limit * PRODUCT
    stage = 2 * p.layers / pipeline - 1
    rest = micro - 1 + 2 * (pipeline - 1)
    math_each, sends_each = p.arithmetic / micro, sends / micro
    lines = (
        (1.0, (math_each, 0.0), (-p.sum_memory, p.memory + p.sum_memory),
         (sends_each - p.sum_network, p.sum_network)),
        (stage, (p.arithmetic, 0.0), (-p.sum_memory, micro * p.memory + p.sum_memory),
         (sends - p.sum_network, p.sum_network)),
        (rest, (math_each, 0.0), (0.0, p.memory), (sends_each, 0.0)),
    )  # fmt: skip

    def phases(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        time, slope = np.zeros_like(u), np.zeros_like(u)
        for times, *three in lines:
            most, steep = -np.inf, 0.0
            for rise, start in three:
                value = rise * u + start
                steep = np.where(value > most, rise, steep)
                most = np.maximum(value, most)
            time, slope = time + times * most, slope + times * steep
        return time, slope

    u = np.ones((len(PRODUCT), int(keep.sum())))
    for _ in range(NEWTON):
        time, slope = phases(u)
        rising = slope > 0
        nearer = np.where(rising, u - (time - limit) / np.where(rising, slope, 1.0), 0.0)
        u = np.where(time > limit, nearer, u)
    time = phases(u)[0] / PRODUCT
    within = p.limit * (1 + TIE)
    good = (u * p.batch >= micro * (1 - TIE)) & (time <= within) & (p.floor <= within)
    share = p.share * u / (np.maximum(time, p.floor) * pipeline * PRODUCT)
    return float(np.max(np.where(good, share, 0.0), initial=0.0))


# ---- A plain loop -------------------------------------------------------------------------------


def with_a_loop(p: Point) -> tuple[float, int]:
    """Return the best utilisation of one point, split by split, and how many there are."""
    best, count = 0.0, 0
    within = p.limit * (1 + TIE)
    if p.floor > within:
        return best, count
    for i in range(MICROBATCHES + 1):
        for j in range(i, MICROBATCHES + 1):
            pipeline, micro = 2.0**i, 2.0**j
            if pipeline > p.layers or micro > p.batch:
                continue
            for hidden in range(TENSOR + 1):
                for residual in range(TENSOR + 1):
                    count += 1
                    best = max(best, split(p, pipeline, micro, 2.0**hidden, 2.0**residual))
    return best, count


def split(p: Point, pipeline: float, micro: float, hidden: float, residual: float) -> float:
    """Return the utilisation of one split with the fewest replicas that end in time, or 0."""
    ranks = hidden * residual
    sent = p.sends * (p.factor * (residual - 1) + hidden - 1) / ranks
    arithmetic, memory = p.arithmetic / ranks, p.memory / ranks
    sum_memory, sum_network = p.sum_memory / ranks, p.sum_network / ranks
    stage, rest = 2 * p.layers / pipeline - 1, micro - 1 + 2 * (pipeline - 1)

    def phases(u: float) -> tuple[float, float]:
        boundary = max(
            (arithmetic / micro * u, arithmetic / micro),
            (memory + sum_memory * (1 - u), -sum_memory),
            (sent / micro * u + sum_network * (1 - u), sent / micro - sum_network),
        )
        reducing = max(
            (arithmetic * u, arithmetic),
            (micro * memory + sum_memory * (1 - u), -sum_memory),
            (sent * u + sum_network * (1 - u), sent - sum_network),
        )
        sustained = max(
            (arithmetic / micro * u, arithmetic / micro),
            (memory, 0.0),
            (sent / micro * u, sent / micro),
        )
        both = zip(boundary, reducing, sustained, strict=True)
        time, slope = (a + stage * b + rest * c for a, b, c in both)
        return time, slope

    u = 1.0
    for _ in range(NEWTON):
        time, slope = phases(u)
        if time <= p.limit * (1 + TIE):
            break
        if slope <= 0:
            return 0.0
        u -= (time - p.limit) / slope
        if u * p.batch < micro * (1 - TIE):
            return 0.0
    time = phases(u)[0]
    if time > p.limit * (1 + TIE):
        return 0.0
    return p.share * u / (max(time, p.floor) * pipeline * ranks)


# ---- Measurements -------------------------------------------------------------------------------


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return a call's seconds and what it returned."""
    start = time.perf_counter()
    result = jax.block_until_ready(function())
    return time.perf_counter() - start, result


def differs(ours: Any, other: Any) -> float:
    """Return the largest relative difference; stop where it is no rounding."""
    ours, other = np.asarray(ours), np.asarray(other)
    worst = float(np.max(np.abs(ours - other) / np.where(other > 0, other, 1.0)))
    if not worst <= AGREE:
        raise SystemExit(f"the searches disagree: {worst}")
    return worst


def frontier(quick: bool) -> dict[str, float]:
    """Compare the searches on 200 runs and 4 machines."""
    inputs = LimitsInputs(system=jr.system(MACHINES[0]), training_flops=1e25, step_latency=LATENCY)
    axes = {"system": list(MACHINES), "training_flops": RUNS}
    systems = [jr.system(name) for name in MACHINES]
    columns = {"training_flops": RUNS[None, :], "step_latency": LATENCY}
    for field in ("matrix_flops", "hbm_bandwidth", "network_bandwidth"):
        column = np.array([float(getattr(system, field)) for system in systems])
        columns[f"system.{field}"] = column[:, None]
    wide = build_inputs(LimitsInputs, columns)
    points = [[point(run, system) for run in RUNS.tolist()] for system in systems]
    calls: dict[str, Callable[[], Any]] = {
        "dataset": lambda: jr.tabulate(limits, inputs, axes=axes)["relative_utilisation"].values,
        "search": lambda: evaluate_jit(limits, limits.recipe, wide).relative_utilisation,
        "numpy": lambda: np.array([[with_numpy(p) for p in row] for row in points]),
    }
    cold, times, found = {}, {name: [] for name in calls}, {}
    for name, call in calls.items():
        if name != "numpy":
            cold[name] = timed(call)[0]
    for number in range(3 if quick else 9):  # in turn, so that all see the same machine
        for name, call in calls.items():
            if name != "numpy" or number < (1 if quick else 3):
                seconds, found[name] = timed(call)
                times[name].append(seconds)
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    worst = max(differs(found["dataset"], found[name]) for name in ("search", "numpy"))
    seconds, splits = [], 0
    for machine, run in LOOPED:
        taken, (share, count) = timed(lambda m=machine, r=run: with_a_loop(point(r, systems[m])))
        worst = max(worst, differs(with_numpy(point(run, systems[machine])), share))
        seconds.append(taken)
        splits += count
    loop, count = statistics.mean(seconds), len(RUNS) * len(MACHINES)
    print(f"best utilisation of {len(RUNS)} runs on {len(MACHINES)} machines, warm:")
    for name, words in (("dataset", "jaxroof, whole dataset"), ("search", "jaxroof, search alone")):
        each = 1e3 * middle[name] / count
        print(
            f"  {words:<24}{middle[name]:8.3f} s  {each:8.3f} ms a value, first {cold[name]:.1f} s"
        )
    each = 1e3 * middle["numpy"] / count
    print(f"  {'numpy, same algorithm':<24}{middle['numpy']:8.3f} s  {each:8.3f} ms a value")
    said = f"{len(LOOPED)} values of {splits // len(LOOPED):,} splits each"
    print(f"  {'plain Python loop':<24}{'':10}  {1e3 * loop:8.0f} ms a value ({said})")
    print(f"  largest difference {worst:.1e}", flush=True)
    return {
        "frontier_seconds": middle["dataset"],
        "frontier_search_seconds": middle["search"],
        "frontier_first_seconds": cold["dataset"],
        "milliseconds_a_value": 1e3 * middle["search"] / count,
        "ratio_to_numpy": middle["numpy"] / middle["search"],
        "ratio_to_loop": loop * count / middle["search"],
    }


def golden_thresholds(quick: bool) -> dict[str, float]:
    """Time all thresholds of the golden rows."""
    with gzip.open(ROOT / "tests/golden/linear/study.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "threshold"]

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in rows])

    settings = {
        "system.matrix_flops": column("flop_per_sec_8bit") / 2,
        "system.hbm_bandwidth": column("global_Bps"),
        "system.network_bandwidth": column("net_Bps"),
        "system.matrix_efficiency": column("base_util"),
        "traffic_coefficient": column("allreduce_coeff"),
        "width": column("bytewidth"),
        "target": column("target"),
        "longest_run": column("max_train_secs"),
        "step_latency": column("latency_secs"),
        "scaling.hidden_factor": column("hidden_factor"),
        "scaling.batch_exponent": column("beta"),
        "scaling.depth_exponent": column("lam"),
    }
    inputs = build_inputs(thresholds.inputs, settings, thresholds.names)
    first, found = timed(lambda: evaluate_jit(thresholds, None, inputs).threshold)
    rounds = 3 if quick else 9
    warm = statistics.median(
        timed(lambda: evaluate_jit(thresholds, None, inputs).threshold)[0] for _ in range(rounds)
    )
    worst = float(np.max(np.abs(np.asarray(found) / column("answer") - 1)))
    if not worst <= 1e-4:
        raise SystemExit(f"a threshold differs: {worst}")
    print(f"{len(rows)} thresholds: {warm:.3f} s warm, first {first:.1f} s, differ by {worst:.1e}")
    return {"thresholds_seconds": warm, "thresholds_first_seconds": first}


def sweep() -> dict[str, float]:
    """Time the sweep file of the study."""
    path = ROOT / "sweeps/training_limits.toml"
    first, data = timed(lambda: jr.run(path))
    warm = statistics.median(timed(lambda: jr.run(path))[0] for _ in range(3))
    points = data["relative_utilisation"].size
    print(f"sweep file of {points:,} points: {warm:.2f} s warm, first {first:.1f} s", flush=True)
    return {"sweep_seconds": warm, "sweep_first_seconds": first}


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    print(json.dumps(frontier(quick) | golden_thresholds(quick) | sweep()))


if __name__ == "__main__":
    main()
