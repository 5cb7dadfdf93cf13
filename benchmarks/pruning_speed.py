"""How much faster is a search that prunes, and does it find the same winners?

1. Every 1D plan of GPT-3 1T, batch 4096, on domains of 8 accelerators, at all 13 cluster sizes
   (20,219 plans) on 100 x 100 x 100 machines (HBM, NVLink and network bandwidth): every size's
   winner on every machine, pruned and by the plain fold in the same run.
2. Every SUMMA plan at one cluster size on 100 x 100 machines of two coupled axes: matrix and vector
   rate together, and HBM bandwidth and capacity together.
3. As many decisions of plan and machine as Calculon's search (Isaev et al. 2023, SC'23):
   16.5e9, here the plans of 1 on 816,000 machines.

The plain fold is timed on a slice of the machines of the first axis, and its time scaled to all of
them, unless ``--whole``. Winners are compared on the slice, and with every plan on random machines
by NumPy (brute force). Run: ``python benchmarks/pruning_speed.py``. The last line is JSON.
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

import jaxroof as jr
from jaxroof.engine.search import boxes
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import check_search

SIZES = [2**k for k in range(2, 15)]
SUMMA_SIZE = 1024
SIDE = 100
SLICE = 10  # machines of the first axis on which the plain fold is timed
SUMMA_SLICE = 10
CALCULON = (100, 96, 85)  # sides of a grid of machines: 816,000
DRAWN = 20  # machines of the brute force
BATCH = 4096
ROUNDS = 7
PLAIN_ROUNDS = 2
AGREE = 1e-12
EVERYTHING_FITS = "1 PB"

Axes = dict[str, Any]


def inputs(**changes: Any) -> Any:
    """Return the model and the machine around which machines are varied."""
    system = jr.system("b200-nvs8", **changes)
    return jr.Inputs(model=jr.model("gpt3-1t"), system=system, global_batch=BATCH)


def three_rates(sides: tuple[int, int, int] = (SIDE, SIDE, SIDE)) -> Axes:
    """Return the axes of the first and of the third case."""
    return {
        "gpus": np.array(SIZES),
        "system.hbm_bandwidth": np.geomspace(1e12, 16e12, sides[0]),
        "system.fast_bandwidth": np.geomspace(100e9, 1.8e12, sides[1]),
        "system.slow_bandwidth": np.geomspace(10e9, 400e9, sides[2]),
    }


def coupled() -> Axes:
    """Return the axes of the second case."""
    rates, widths = np.geomspace(300e12, 10e15, SIDE), np.geomspace(1e12, 16e12, SIDE)
    return {
        "gpus": np.array([SUMMA_SIZE]),
        "rate": {"system.matrix_flops": rates, "system.vector_flops": rates / 7.0},
        "hbm": {"system.hbm_bandwidth": widths, "system.hbm_capacity": widths * 0.024},
    }


def cut(axes: Axes, name: str, places: np.ndarray) -> Axes:
    """Return the axes with some points of one of them."""
    values = axes[name]
    if isinstance(values, dict):
        return {**axes, name: {path: column[places] for path, column in values.items()}}
    return {**axes, name: values[places]}


def search(
    asked: Any, axes: Axes, split: str, prune: bool, executor: str | None = None
) -> SearchResult:
    """Return the winners, pruned or by the plain fold."""
    boxes.COMBINATIONS = 0 if prune else 1 << 62
    problem = check_search(
        jr.published, asked, axes=axes, executor=executor, settings={"split": split}
    )
    return best_plans(problem)


def timed(function: Callable[[], SearchResult]) -> tuple[float, SearchResult]:
    """Return a call's seconds and what it returned."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def check(found: SearchResult, other: SearchResult, at: tuple[Any, ...]) -> float:
    """Return the largest difference of the objectives; the winners must be the same."""
    for field, column in other.plans.items():
        if not np.array_equal(found.plans[field][at], column):
            raise SystemExit(f"another winner: {field}")
    if not np.array_equal(found.feasible[at], other.feasible):
        raise SystemExit("the searches disagree on what fits")
    ours, theirs = found.objective[at], other.objective
    if not np.array_equal(np.isnan(ours), np.isnan(theirs)):
        raise SystemExit("the searches disagree on where anything fits")
    worst = float(np.nanmax(np.abs(ours / theirs - 1.0)))
    if not worst <= AGREE:
        raise SystemExit(f"the searches disagree: {worst}")
    return worst


def brute_force(found: SearchResult, asked: Any, axes: Axes, split: str, names: list[str]) -> float:
    """Compare the winners on random machines with those of NumPy, which evaluates every plan."""
    draw, worst = np.random.default_rng(0), 0.0
    for _ in range(DRAWN):
        one, at = axes, [slice(None)]
        for name in names:
            values = axes[name]
            count = len(next(iter(values.values())) if isinstance(values, dict) else values)
            place = int(draw.integers(count))
            one = cut(one, name, np.array([place]))
            at.append(slice(place, place + 1))
        every = search(asked, one, split, prune=False, executor="numpy")
        worst = max(worst, check(found, every, tuple(at)))
    return worst


def case(
    title: str, asked: Any, axes: Axes, split: str, some: int, whole: bool
) -> dict[str, float]:
    """Time one case both ways, compare the winners, print."""
    names = list(axes)[1:]
    first = axes[names[0]]
    count = len(next(iter(first.values())) if isinstance(first, dict) else first)
    places = np.arange(count) if whole else np.linspace(0, count - 1, some).astype(int)
    few = cut(axes, names[0], places)
    cold = timed(lambda: search(asked, axes, split, prune=True))[0]
    search(asked, few, split, prune=False)
    taken, plain, cores = [], [], []
    for number in range(ROUNDS):  # in turn, so that both see the same machine
        found = None  # a gigabyte
        busy = time.process_time()
        seconds, found = timed(lambda: search(asked, axes, split, prune=True))
        taken.append(seconds)
        cores.append(time.process_time() - busy)
        if number < PLAIN_ROUNDS:
            busy = time.process_time()
            seconds, other = timed(lambda: search(asked, few, split, prune=False))
            plain.append(seconds)
            plain_cores = (time.process_time() - busy) * found.combinations / other.combinations
    worst = check(found, other, (slice(None), places))
    worst = max(worst, brute_force(found, asked, axes, split, names))
    ours = statistics.median(taken)
    rate = other.combinations / statistics.median(plain)
    theirs = found.combinations / rate
    note = "" if whole else f" (timed on {len(places)} of {count} values of {names[0]})"
    print(f"{title}: {found.combinations:.3g} evaluations")
    print(
        f"  pruned      {ours:8.2f} s  {found.combinations / ours:.3g}/s, first call {cold:.1f} s"
    )
    print(f"  plain fold  {theirs:8.2f} s  {rate:.3g}/s{note}")
    fewer = plain_cores / min(cores)
    print(f"  {theirs / ours:.1f} times as fast, {fewer:.1f} times in core-seconds; winners equal,")
    print(f"  also to NumPy's brute force on {DRAWN} machines; largest difference {worst:.1e}")
    return {
        "pruned_seconds": ours,
        "plain_seconds": theirs,
        "ratio": theirs / ours,
        "ratio_of_core_seconds": fewer,
        "first_call_seconds": cold,
        "evaluations": found.combinations,
        "largest_difference": worst,
    }


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--whole", action="store_true", help="time the plain fold on all machines")
    whole = parser.parse_args().whole
    cores = len(os.sched_getaffinity(0))
    jax.config.update("jax_num_cpu_devices", cores)
    rates = case(
        "1d, three rates",
        inputs(hbm_capacity=EVERYTHING_FITS),
        three_rates(),
        "1d",
        SLICE,
        whole,
    )
    summa = case("summa, two coupled axes", inputs(), coupled(), "summa", SUMMA_SLICE, whole)
    roomy = inputs(hbm_capacity=EVERYTHING_FITS)
    study = case(
        "1d, the size of Calculon's study", roomy, three_rates(CALCULON), "1d", SLICE, whole
    )
    figures = {f"summa_{name}": value for name, value in summa.items()}
    figures |= {f"calculon_{name}": value for name, value in study.items()}
    print(json.dumps({**rates, **figures, "cores": cores}))


if __name__ == "__main__":
    main()
