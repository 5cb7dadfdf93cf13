"""How fast is the search of every plan of Llama 3.1 405B on 4,096 H100s, on 256 machines?

Every legal plan with ring attention and pipelines that divide the layers as evenly as can be, on
16 bandwidths of HBM x 16 of the network. An evaluation is a pair of a plan and a machine that is
decided: the plan is the best there, or it is not. A lower bound of the step time decides most of
them, once for all plans that share it; what is left is evaluated in full. Both are counted.

1. The best plan of each machine, at a capacity that every plan fits, at the capacity that the
   machine has, and at the former on a fabric of four tiers: the first call (after the plans are
   listed and sorted: compilation) and later ones.
2. Beside them NumPy: the estimator's own formulas broadcast over a sample of plans x all machines.
3. Winners on some machines against the step time of every plan there, and all of them against the
   NumPy executor.
4. The peak of the process above what it had with the list of plans.

Run: ``python benchmarks/today_speed.py``; ``--quick`` for fewer plans. The last line is JSON.
"""

import argparse
import dataclasses
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxroof as jr
from jaxroof.catalog.fabrics import with_fabric
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.candidates import list_plans
from jaxroof.engine.search.direct import direct_objectives
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.problem import SearchProblem, axis_roles, check_search, problem_groups
from jaxroof.estimators.training.recipe import ContextExchange, LayerDivision
from jaxroof.estimators.training.step import example
from jaxroof.records import replace_all

HBM = np.linspace(1e12, 16e12, 16)
NETWORK = np.linspace(10e9, 400e9, 16)
CASES = {"all fit": (1e15, ""), "real": (None, ""), "tiers": (1e15, "taper-2-h100")}  # HBM [B]
LINKS = {  # paths of the network's bandwidth, without tiers and with them
    "": ("system.slow_bandwidth",),
    "taper-2-h100": tuple(f"system.tiers.{tier}.bandwidth" for tier in (1, 2, 3)),
}
SAMPLE = 4096  # plans that NumPy broadcasts
PIECE = 512  # plans of one array of it: its fastest
MACHINES = 3  # on which every plan is evaluated
ROUNDS = 7
AGREE = 1e-12


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and its result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def resident() -> float:
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def peak() -> float:
    """Return the most resident bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def question_of(
    capacity: float | None, fabric: str, division: LayerDivision, executor: str | None = None
) -> SearchProblem:
    """Return the search at a capacity of HBM, or at that of the machine, perhaps on a fabric."""
    inputs = dataclasses.replace(example(), plan=None)
    if fabric:
        inputs = dataclasses.replace(inputs, system=with_fabric(inputs.system, fabric))
    if capacity is not None:
        inputs = replace_all(inputs, {"system.hbm_capacity": capacity})
    recipe = jr.TrainingRecipe(context_exchange=ContextExchange.RING, layer_division=division)
    network = dict.fromkeys(LINKS[fabric], NETWORK)
    axes = {"system.hbm_bandwidth": HBM, "network": network}
    return check_search(jr.training, inputs, recipe, axes=axes, executor=executor)


def machines_of(question: SearchProblem, places: np.ndarray) -> dict[str, np.ndarray]:
    """Return the bandwidths of some of the machines, numbered as the grid is."""
    at = np.unravel_index(places, [len(axis) for axis in question.axes])
    each = zip(question.axes, at, strict=True)
    return {path: column[i] for axis, i in each for path, column in axis.columns.items()}


def with_numpy(question: SearchProblem) -> tuple[int, Callable[[], None]]:
    """Return how many pairs a broadcast of the formulas over a sample has, and the broadcast."""
    (group,) = problem_groups(question, axis_roles(question))
    every = machines_of(question, np.arange(len(HBM) * len(NETWORK)))
    objectives = direct_objectives(question, group.ready, every)
    plans = len(group.ready.plans[0])
    some = np.linspace(0, plans - 1, min(SAMPLE, plans)).astype(int)

    def broadcast() -> None:
        for start in range(0, len(some), PIECE):
            objectives(some[start : start + PIECE]).min(axis=0)

    return len(some) * len(HBM) * len(NETWORK), broadcast


def least_of_all(question: SearchProblem, places: np.ndarray) -> np.ndarray:
    """Return the least step time of all plans that fit, each evaluated, on some machines."""
    legal = list_plans(question.estimator, question.inputs, question.recipe).plans
    plan = jr.TrainingPlan(**{field: column.astype(float) for field, column in legal.items()})
    least = []
    for place in places:
        at = {path: float(v) for path, (v,) in machines_of(question, np.array([place])).items()}
        inputs = dataclasses.replace(replace_all(question.inputs, at), plan=plan)
        values = {
            name: evaluate_points(question.estimator, question.recipe, inputs, name)[name]
            for name in ("step_time", "memory")
        }
        fits = values["memory"] <= float(question.estimator.limit(inputs))
        least.append(values["step_time"][fits].min())
    return np.array(least)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest relative difference."""
    return float(np.max(np.abs(one / other - 1.0)))


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer plans")
    division = LayerDivision.WITH_ENDS if parser.parse_args().quick else LayerDivision.UNEVEN
    jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    questions = {name: question_of(*case, division) for name, case in CASES.items()}
    first = questions["all fit"]
    listing, _ = timed(lambda: list_plans(first.estimator, first.inputs, first.recipe))
    needing, (group,) = timed(lambda: list(problem_groups(first, axis_roles(first))))
    plans = len(group.ready.plans[0])
    columns = sum(column.nbytes for column in group.ready.every.values())
    before = resident()
    cold, found = timed(lambda: best_plans(first))
    growth = peak() - before
    others = {name: best_plans(questions[name]) for name in ("real", "tiers")}
    results: dict[str, SearchResult] = {"all fit": found, **others}
    pairs, broadcast = with_numpy(first)
    broadcast()
    times: dict[str, list[float]] = {name: [] for name in (*CASES, "numpy")}
    work: dict[str, list[float]] = {name: [] for name in CASES}  # core-seconds, all threads
    for _ in range(ROUNDS):  # in turn, so that all see the same machine
        for name, question in questions.items():
            busy = time.process_time()
            times[name].append(timed(lambda question=question: best_plans(question))[0])
            work[name].append(time.process_time() - busy)
        times["numpy"].append(timed(broadcast)[0])
    said: dict[str, Any] = {
        "plans": plans,
        "machines": len(HBM) * len(NETWORK),
        "evaluations": found.combinations,
        "seconds_to_list": listing,
        "seconds_to_need_and_sort": needing,
        "seconds_first_search": cold,
        "peak_above_list_bytes": growth,
        "list_bytes": columns,
        "numpy_evaluations_per_second": pairs / statistics.median(times["numpy"]),
        "cores": len(os.sched_getaffinity(0)),
    }
    places = np.linspace(0, said["machines"] - 1, MACHINES).astype(int)
    for name, result in results.items():
        seconds = statistics.median(times[name])
        short = name.replace(" ", "_")
        other = best_plans(question_of(*CASES[name], division, "numpy"))
        best = result.objective.reshape(-1)
        errors = [
            difference(best[places], least_of_all(questions[name], places)),
            difference(result.objective, other.objective),
        ]
        same = all(np.array_equal(column, other.plans[f]) for f, column in result.plans.items())
        if max(errors) > AGREE or not same or other.combinations != result.combinations:
            raise SystemExit(f"the searches disagree: {errors}")
        said[f"{short}_seconds"] = seconds
        said[f"{short}_evaluations_per_second"] = result.combinations / seconds
        said[f"{short}_core_seconds"] = statistics.median(work[name])
        said[f"{short}_evaluated_in_full"] = result.evaluated
        said[f"{short}_passed_over_by_bound"] = result.combinations - result.evaluated
        said[f"{short}_largest_difference"] = max(errors)
    said["ratio_to_numpy"] = (
        said["all_fit_evaluations_per_second"] / said["numpy_evaluations_per_second"]
    )
    said["tiers_to_two"] = said["all_fit_seconds"] / said["tiers_seconds"]
    for name, value in said.items():
        print(f"{name:36} {value:,.6g}")
    print(json.dumps(said))


if __name__ == "__main__":
    main()
