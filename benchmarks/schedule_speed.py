"""How many splits of an MLP does the simulation of a schedule answer in a second?

1. The published study: 52 configurations on 16 devices, all results, warm.
2. A large mixed grid: stages to 16, microbatches to 64, replicas, ranks and batches mixed, all
   results, under the first profile (times) and the last one (times and memory to the byte).
3. The same recurrence in plain Python, a loop over timesteps and stages for each configuration, on
   some of both; step times are compared.

Run: ``python benchmarks/schedule_speed.py``; ``--quick`` for a smaller grid. The last line is JSON.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxroof.catalog.lookup import mlp, system
from jaxroof.engine.grid import compiled as points
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.estimators import estimator
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Plan
from jaxroof.estimators.mlp_pipeline.plans import tried
from jaxroof.estimators.mlp_pipeline.recipe import Profile, Recipe
from jaxroof.records import checked

PIPELINE = estimator("pipeline")
AGREE = 1e-12
LOOP = 200  # configurations of the Python loop: they are like the others
RATE, MEMORY, NETWORK = 1e14, 1.2e12, 8e9 * 200.0  # of the first profile


def product(m: float, k: float, n: float) -> float:
    """Return the time of a matrix product under the first profile."""
    return 2.0 * (m * k + k * n) / MEMORY + 2.0 * m * k * n / RATE


def one_by_one(
    layers: int, width: float, batch: float, data: int, tensor: int, stages: int, many: int
) -> float:
    """Return the step time of one configuration by loops over layers, timesteps and stages."""
    samples, each = batch / (data * many), layers // stages
    forward, backward, again, sync = ([0.0] * stages for _ in range(4))
    for layer in range(layers):
        stage = layer // each
        rows = width / tensor if layer % 2 else width
        columns = width if layer % 2 else width / tensor
        ring = 8.0 * (tensor - 1) / tensor / NETWORK
        forward[stage] += product(samples, rows, columns) + 4.0 * samples * columns / RATE
        backward[stage] += product(samples, columns, rows) + product(rows, samples, columns)
        backward[stage] += 4.0 * samples * columns / RATE
        if layer % 2:
            forward[stage] += ring * samples * columns
        else:
            backward[stage] += ring * samples * rows
        again[stage] += 4.0 * rows * columns / RATE
        group = tensor if tensor > 1 else data
        if data > 1:
            sync[stage] += 8.0 * rows * columns * (group - 1) / group / NETWORK
    forward[-1] += 8.0 * samples * width / RATE
    odd = each % 2 == 1
    send = [
        16.0 * samples * (width / tensor if odd and stage % 2 == 0 else width) / NETWORK
        for stage in range(stages - 1)
    ]
    clock = [0.0] * stages
    warm = [min(many, 2 * (stages - i) - 1) for i in range(stages)]
    for t in range(2 * (many + stages - 1)):
        kinds = []
        for i in range(stages):
            kind, k = "", 0
            back, late = t - (2 * stages - 1 - i), t - (2 * stages - i)
            if back >= 0 and back % 2 == 0 and back // 2 < many:
                kind, k = "backward", back // 2
            elif i <= t < i + warm[i]:
                kind, k = "forward", t - i
            elif late >= 0 and late % 2 == 0 and warm[i] + late // 2 < many:
                kind, k = "forward", warm[i] + late // 2
            if kind == "forward":
                clock[i] += forward[i]
            elif kind == "backward":
                clock[i] += backward[i] + (again[i] if k else 0.0)
            kinds.append(kind)
        for i, kind in enumerate(kinds):
            other = i + 1 if kind == "forward" else i - 1
            if kind and 0 <= other < stages:
                met = max(clock[i], clock[other]) + send[min(i, other)]
                clock[i] = clock[other] = met
    return max(done + summed for done, summed in zip(clock, sync, strict=True))


def study() -> Inputs:
    """Return the 52 configurations of the published study."""
    inputs = Inputs(model=mlp("mlp-study"), system=system("distir-a"), gpus=16.0)
    columns = tried(inputs, Recipe(Profile.A))
    plan = Plan(**{field: column.astype(float) for field, column in columns.items()})
    return checked(Inputs(model=inputs.model, system=inputs.system, plan=plan))


def mixed(count: int, machine: str) -> Inputs:
    """Return many configurations, all numbers drawn by chance."""
    chance = np.random.default_rng(7)
    plan = Plan(
        data=2.0 ** chance.integers(0, 5, count),
        tensor=2.0 ** chance.integers(0, 5, count),
        pipeline=2.0 ** chance.integers(0, 5, count),
        microbatches=chance.integers(1, 65, count) * 1.0,
    )
    batch = 2.0 ** chance.integers(10, 16, count)
    return checked(
        Inputs(model=mlp("mlp-study"), system=system(machine), global_batch=batch, plan=plan)
    )


def looped(inputs: Any, rows: np.ndarray) -> np.ndarray:
    """Return the step times of some configurations by plain Python."""
    plan = inputs.plan
    batch = np.broadcast_to(inputs.global_batch, plan.data.shape)
    degrees = [plan.data, plan.tensor, plan.pipeline, plan.microbatches]
    return np.array(
        [one_by_one(64, 8192.0, float(batch[row]), *(int(d[row]) for d in degrees)) for row in rows]
    )


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, float, Any]:
    """Return the seconds of the first call and the median of the others, and what it returned."""
    begun = time.perf_counter()
    found = call()
    first = time.perf_counter() - begun
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return first, statistics.median(seconds), found


def agree(found: np.ndarray, other: np.ndarray) -> None:
    """End the run where the two ways differ."""
    worst = float(np.max(np.abs(found / other - 1.0)))
    if not worst <= AGREE:
        raise SystemExit(f"the answers differ: {worst}")


def main() -> None:
    """Print a line a figure, then all of them as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a smaller grid")
    count = 20_000 if parser.parse_args().quick else 200_000
    figures: dict[str, Any] = {}

    inputs = study()
    first, warm, found = timed(lambda: evaluate_points(PIPELINE, Recipe(Profile.A), inputs), 51)
    every = np.arange(len(inputs.plan.data))
    begun = time.perf_counter()
    agree(found["step_time"], looped(inputs, every))
    loop = time.perf_counter() - begun
    print(f"the study, {len(every)} configurations: {warm * 1e3:.2f} ms warm, {first:.2f} s first;")
    print(f"  plain Python {loop * 1e3:.0f} ms, {loop / warm:.0f} times as long")
    figures |= {
        "study_milliseconds": warm * 1e3,
        "study_first_seconds": first,
        "study_ratio_to_python": loop / warm,
    }
    for profile, machine in ((Profile.A, "distir-a"), (Profile.B, "distir-b")):
        inputs, recipe = mixed(count, machine), Recipe(profile)
        before = points.evaluate_jit._cache_size()
        first, warm, found = timed(lambda i=inputs, r=recipe: evaluate_points(PIPELINE, r, i), 5)
        programs = points.evaluate_jit._cache_size() - before
        rate, name = count / warm, profile.value.replace("-", "_")
        print(f"{profile.value}, {count:,} mixed configurations: {rate:,.0f}/s warm,", end=" ")
        print(f"{first:.1f} s first with {programs} programs")
        figures |= {f"{name}_per_second": rate, f"{name}_first_seconds": first}
        figures[f"{name}_programs"] = programs
        if profile is Profile.A:
            rows = np.arange(0, count, count // LOOP)
            begun = time.perf_counter()
            agree(found["step_time"][rows], looped(inputs, rows))
            alone = len(rows) / (time.perf_counter() - begun)
            print(f"  plain Python {alone:,.0f}/s: {rate / alone:,.0f} times")
            figures |= {"python_per_second": alone, "ratio_to_python": rate / alone}
    print(json.dumps({**figures, "cores": os.cpu_count()}))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
