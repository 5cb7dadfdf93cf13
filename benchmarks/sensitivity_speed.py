"""What do exact elasticities cost on top of the map that they are of?

The map: the best plan of GPT-3 1T (1D) at 13 cluster sizes on 896 machines, HBM bandwidth times
slow bandwidth, plans chosen anew at every point. Side by side in one process: the map alone, the
map with elasticities in 12 parameters at every point (winners found, gathered, differentiated,
ridges looked for on both sides), and finite differences by searching again, which the derivatives
are compared with. Timed too: forward and reverse mode of the same slopes; the exact envelope over
all plans of one machine, and a scan of it by search, which knows its switches to 2 %. Run:
``python benchmarks/sensitivity_speed.py``. The last line is JSON.
"""

import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxroof as jr
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import check_search
from jaxroof.engine.search.search import winning_inputs
from jaxroof.engine.sensitivity import compiled_slopes
from jaxroof.records import get_at, replace_at

SIZES = [2**k for k in range(2, 15)]
PARAMETERS = tuple(
    f"system.{field}"
    for field in (
        "matrix_flops", "vector_flops", "matrix_efficiency", "launch_latency", "hbm_bandwidth",
        "fast_bandwidth", "fast_efficiency", "fast_latency", "slow_bandwidth", "slow_efficiency",
        "slow_latency", "nics",
    )
)  # fmt: skip
STEP = 1e-5  # of a parameter, to either side
ROUNDS = 9
SEARCHED = 3  # rounds of finite differences
SPAN, SCANNED = 16.0, 280  # of a response, and the factors that a scan of it takes
# of elasticities; a difference across a ridge, or a switch of plan, is of neither side
AGREE = 1e-6
OFF = 0.98  # share of the points and parameters that must agree


def grid() -> dict[str, Any]:
    """Return the axes: cluster sizes, and 32 x 28 machines."""
    return {
        "gpus": SIZES,
        "system.hbm_bandwidth": jr.linspace("500 GB/s", "16 TB/s", 32),
        "system.slow_bandwidth": jr.linspace("10 GB/s", "400 GB/s", 28),
    }


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return a call's seconds and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def moved(inputs: Any, axes: dict[str, Any], path: str, factor: float) -> tuple[Any, Any]:
    """Return the question with one parameter times a factor, on an axis or not."""
    if path in axes:
        values = np.linspace(*RANGES[path]) * factor
        return inputs, {**axes, path: list(values)}
    value = float(get_at(inputs, path)) * factor
    return replace_at(inputs, path, value), axes


RANGES = {
    "system.hbm_bandwidth": (500e9, 16e12, 32),
    "system.slow_bandwidth": (10e9, 400e9, 28),
}


def searched_again(inputs: Any, axes: dict[str, Any]) -> np.ndarray:
    """Return elasticities by searching again at both sides of every parameter."""
    found = []
    for path in PARAMETERS:
        times = []
        for factor in (1.0 - STEP, 1.0 + STEP):
            other, cut = moved(inputs, axes, path, factor)
            question = check_search(jr.published, other, axes=cut, settings={"split": "1d"})
            times.append(best_plans(question).objective[..., 0])
        reach = np.log1p(STEP) - np.log1p(-STEP)
        found.append(np.log(times[1] / times[0]) / reach)
    return np.stack(found, axis=-1)


def scanned(inputs: Any) -> np.ndarray:
    """Return the best times of one machine with each parameter moved by factors, one search."""
    factors = np.geomspace(1.0 / SPAN, SPAN, SCANNED)
    columns = {}
    for row, path in enumerate(PARAMETERS):
        values = np.full((len(PARAMETERS), SCANNED), float(get_at(inputs, path)))
        values[row] *= factors
        most = 1.0 if path.endswith("efficiency") else np.inf
        columns[path] = list(np.minimum(values.reshape(-1), most))
    question = check_search(
        jr.published, inputs, axes={"move": columns}, settings={"gpus": 2048.0, "split": "1d"}
    )
    return best_plans(question).objective[..., 0]


def by_reverse(recipe: Any) -> Callable[[Any], Any]:
    """Return a compiled function of the points: the slopes of their times, in reverse mode."""

    @jax.jit
    def reverse(points: Any) -> Any:
        count = len(points.plan.data)

        def result(changes: tuple[jax.Array, ...]) -> jax.Array:
            asked = points
            for path, change in zip(PARAMETERS, changes, strict=True):
                asked = replace_at(asked, path, get_at(asked, path) * (1.0 + change))
            return jr.published.evaluate(asked, recipe).step_time

        times, back = jax.vjp(result, tuple(jnp.zeros(count) for _ in PARAMETERS))
        return back(jnp.ones_like(times))

    return reverse


def main() -> None:
    """Run, compare, print."""
    jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    inputs = jr.Inputs(
        model=jr.model("gpt3-1t"), system=jr.system("b200-nvs8"), global_batch=4096.0
    )
    axes = grid()
    question = check_search(jr.published, inputs, axes=axes, settings={"split": "1d"})

    def the_map() -> Any:
        return jr.search(jr.published, inputs, axes=axes, split="1d")

    def with_elasticities() -> Any:
        return jr.elasticities(jr.published, inputs, axes=axes, split="1d", parameters=PARAMETERS)

    the_map()
    cold, data = timed(with_elasticities)
    found = best_plans(question)
    points = winning_inputs(question, found)
    recipe, reverse = question.recipe, by_reverse(question.recipe)

    def forward() -> Any:
        ways = np.eye(len(PARAMETERS))
        return jax.block_until_ready(
            compiled_slopes.directional_slopes(
                jr.published, recipe, PARAMETERS, "step_time", points, ways
            )
        )

    jax.block_until_ready(reverse(points))
    forward()
    searched_again(inputs, axes)

    def response() -> Any:
        return jr.response(jr.published, inputs, gpus=2048, split="1d", parameters=PARAMETERS)

    first_response, moves = timed(response)
    scanned(inputs)
    times: dict[str, list[float]] = {
        name: []
        for name in (
            "map",
            "elasticities",
            "fold",
            "again",
            "forward",
            "reverse",
            "response",
            "scan",
        )
    }
    for number in range(ROUNDS):  # in turn, so that all see the same machine
        times["map"].append(timed(the_map)[0])
        times["elasticities"].append(timed(with_elasticities)[0])
        times["fold"].append(timed(lambda: best_plans(question))[0])
        times["forward"].append(timed(forward)[0])
        times["reverse"].append(timed(lambda: jax.block_until_ready(reverse(points)))[0])
        times["response"].append(timed(response)[0])
        times["scan"].append(timed(lambda: scanned(inputs))[0])
        if number < SEARCHED:
            seconds, differences = timed(lambda: searched_again(inputs, axes))
            times["again"].append(seconds)
    middle = {name: statistics.median(taken) for name, taken in times.items()}

    held = data.feasible.values
    error = np.abs(data.elasticity.values - differences)[held]
    agree = float(np.mean(error < AGREE))
    if agree < OFF or not np.isfinite(data.elasticity.values[held]).all():
        raise SystemExit(f"derivatives and differences disagree: {1 - agree:.1%} of {error.size}")
    added = middle["elasticities"] - middle["map"]
    ratio = middle["elasticities"] / middle["map"]
    print(f"{held.sum():,} winners of {held.size:,} points, {len(PARAMETERS)} parameters")
    print(f"map alone                   {middle['map'] * 1e3:9.2f} ms")
    print(f"map and elasticities        {middle['elasticities'] * 1e3:9.2f} ms  {ratio:.2f} x")
    print(f"  forward mode, every point {middle['forward'] * 1e3:9.2f} ms")
    print(f"  reverse mode, every point {middle['reverse'] * 1e3:9.2f} ms")
    print(f"differences, searched again {middle['again'] * 1e3:9.2f} ms (fold alone, no dataset)")
    print(f"elasticities within {AGREE:g} of the differences: {agree:.2%}; first call {cold:.2f} s")
    print(
        f"envelope, {moves.sizes['switch']} switches    {middle['response'] * 1e3:9.2f} ms, exact"
    )
    print(f"scan by search, to 2 %      {middle['scan'] * 1e3:9.2f} ms; first response ", end="")
    print(f"{first_response:.2f} s")
    print(
        json.dumps(
            {
                "map_seconds": middle["map"],
                "with_elasticities_seconds": middle["elasticities"],
                "ratio_to_map": ratio,
                "ratio_to_fold": (middle["fold"] + added) / middle["fold"],
                "forward_seconds": middle["forward"],
                "reverse_seconds": middle["reverse"],
                "searched_again_seconds": middle["again"],
                "ratio_to_searching_again": middle["again"] / added,
                "agree": agree,
                "response_seconds": middle["response"],
                "scan_seconds": middle["scan"],
                "switches": moves.sizes["switch"],
                "points": int(held.size),
                "parameters": len(PARAMETERS),
                "cores": len(os.sched_getaffinity(0)),
            }
        )
    )


if __name__ == "__main__":
    main()
