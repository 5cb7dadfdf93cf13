"""How fast is the search of every 1D plan of GPT-3 1T, at 13 cluster sizes, on 896 machines?

Side by side in one process: jaxroof's search (its best plan of each size and machine), numpy
broadcasting over the same grid, and plain Python with cached layers on a sample of it; the winners
of all three are compared. The search leaves out plans that fit no machine, so the rates are taken
at a capacity that holds every plan: each of the 20,219 is evaluated on each machine. The real
capacity is timed beside it. Run: ``python benchmarks/search_speed.py``. The last line is JSON.
"""

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import baselines

import jaxroof as jr
from jaxroof.engine.search import fold
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import check_search
from jaxroof.estimators.published.inputs import Inputs

SIZES = [2**k for k in range(2, 15)]
BANDWIDTHS = 32
NETWORKS = 28
SAMPLED = 12  # machines that plain Python evaluates
ROUNDS = 9
NUMPY_ROUNDS = 3
EVERYTHING_FITS = "1 PB"
BATCH = 4096
AGREE = 1e-12


def grid() -> dict[str, Any]:
    """Return the axes: cluster sizes, HBM bandwidths and slow bandwidths."""
    return {
        "gpus": SIZES,
        "system.hbm_bandwidth": jr.linspace("500 GB/s", "16 TB/s", BANDWIDTHS),
        "system.slow_bandwidth": jr.linspace("10 GB/s", "400 GB/s", NETWORKS),
    }


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return a call's seconds and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def machine(inputs: Inputs, hbm: np.ndarray, slow: np.ndarray) -> baselines.System:
    """Return the baselines' machine, or machines, of the same numbers."""
    system = inputs.system
    fields = {name: float(getattr(system, name)) for name in baselines.System._fields}
    return baselines.System(**{**fields, "hbm_bandwidth": hbm, "slow_bandwidth": slow})


def with_numpy(
    model: baselines.Model, many: baselines.System, plans: list[list[baselines.Plan]]
) -> list[np.ndarray]:
    """Return the best step time of each size on every machine, by broadcasting."""
    stacked = [baselines.stack_plans(p) for p in plans]
    return [baselines.numpy_best(model, many, BATCH, p)[1] for p in stacked]


def with_python(
    model: baselines.Model, machines: list[baselines.System], plans: list[list[baselines.Plan]]
) -> list[list[float]]:
    """Return the best step time of each size on the sampled machines, one plan after another."""
    baselines.plain_layer.cache_clear()
    best = []
    for some in plans:
        row = []
        for one in machines:
            least = float("inf")
            for plan in some:
                step_time, memory = baselines.plain_step_time(model, one, BATCH, plan)
                if memory <= one.hbm_capacity and step_time < least:
                    least = step_time
            row.append(least)
        best.append(row)
    return best


def agree(found: np.ndarray, other: np.ndarray) -> float:
    """Return the largest relative difference; nothing may fit in one and not in the other."""
    other = np.where(np.isfinite(other), other, np.nan)
    if np.any(np.isnan(found) != np.isnan(other)):
        raise SystemExit("the searches disagree on where anything fits")
    return float(np.nanmax(np.abs(found / other - 1.0)))


def main() -> None:
    """Run, compare, print."""
    jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    gpt = jr.model("gpt3-1t")
    roomy = jr.system("b200-nvs8", hbm_capacity=EVERYTHING_FITS)
    inputs = jr.Inputs(model=gpt, system=roomy, global_batch=BATCH)
    real = jr.Inputs(model=gpt, system=jr.system("b200-nvs8"), global_batch=BATCH)
    axes = grid()

    def search(asked: Inputs = inputs) -> SearchResult:
        return best_plans(check_search(jr.published, asked, axes=axes, settings={"split": "1d"}))

    cold, found = timed(search)
    whole_cold, _ = timed(
        lambda: jr.search(jr.published, inputs, axes=axes, settings={"split": "1d"})
    )
    compiles = fold.best._cache_size()

    wide = np.repeat(np.linspace(500e9, 16e12, BANDWIDTHS), NETWORKS)
    slow = np.tile(np.linspace(10e9, 400e9, NETWORKS), BANDWIDTHS)
    model = baselines.Model(*(int(getattr(inputs.model, f)) for f in baselines.Model._fields))
    plans = [baselines.enumerate_1d(model, gpus, BATCH, 8) for gpus in SIZES]
    count = sum(map(len, plans))
    evaluations = count * len(wide)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    chosen = np.random.default_rng(0).choice(len(wide), SAMPLED, replace=False)
    many = machine(inputs, wide, slow)
    few = [machine(inputs, float(wide[i]), float(slow[i])) for i in chosen]
    search(real)
    times: dict[str, list[float]] = {"search": [], "dataset": [], "real": [], "numpy": []}
    for number in range(ROUNDS):  # in turn, so that all see the same machine
        seconds, found = timed(search)
        times["search"].append(seconds)
        times["dataset"].append(timed(lambda: jr.search(jr.published, inputs, axes=axes))[0])
        times["real"].append(timed(lambda: search(real))[0])
        if number < NUMPY_ROUNDS:
            seconds, numpy_best = timed(lambda: with_numpy(model, many, plans))
            times["numpy"].append(seconds)
    python_seconds, python_best = timed(lambda: with_python(model, few, plans))

    ours = found.objective[..., 0].reshape(len(SIZES), -1)
    errors = {
        "numpy": agree(ours, np.stack(numpy_best)),
        "python": agree(ours[:, chosen], np.array(python_best)),
    }
    if max(errors.values()) > AGREE or found.combinations != evaluations:
        raise SystemExit(f"the searches disagree: {errors}")
    middle = {name: statistics.median(taken) for name, taken in times.items()}
    seconds, whole, numpy_seconds = middle["search"], middle["dataset"], middle["numpy"]
    rate = evaluations / seconds
    python_rate = count * SAMPLED / python_seconds
    numpy_rate = evaluations / numpy_seconds

    print(f"{count:,} plans of {len(SIZES)} sizes x {len(wide)} machines = {evaluations:,}")
    print(f"jaxroof, best plans     {seconds * 1e3:9.2f} ms  {rate:.3g} evaluations/s (warm)")
    print(
        f"  the same at 192 GB    {middle['real'] * 1e3:9.2f} ms  (without plans that fit nowhere)"
    )
    print(f"jaxroof, whole dataset  {whole * 1e3:9.2f} ms  {evaluations / whole:.3g} evaluations/s")
    print(f"numpy broadcasting      {numpy_seconds * 1e3:9.2f} ms  {numpy_rate:.3g} evaluations/s")
    print(
        f"plain Python            {python_seconds * 1e3:9.2f} ms  {python_rate:.3g} evaluations/s"
        f" ({SAMPLED} machines)"
    )
    print(f"largest difference: {errors}; first call {cold:.2f} s, with dataset {whole_cold:.2f} s")
    print(f"compiles of the fold for the {len(SIZES)} sizes: {compiles}")
    print(
        json.dumps(
            {
                "evaluations_per_second": rate,
                "ratio_to_python": rate / python_rate,
                "ratio_to_numpy": rate / numpy_rate,
                "peak_memory_bytes": peak,
                "dataset_evaluations_per_second": evaluations / whole,
                "compiles": compiles,
                "cores": len(os.sched_getaffinity(0)),
            }
        )
    )


if __name__ == "__main__":
    main()
