"""How long does the memory of a million plans take, and how much memory does that take itself?

Every legal plan of Llama 3.1 405B on 4,096 H100, with ring attention and pipelines that divide the
layers as evenly as can be: listed, and the bytes of the fullest stage of each, by NumPy on one
core. A sample is compared with the report of the estimator, plan by plan.

1. Cold: the first call of the process, the list included. Warm: the memory of all, once more; and
   the list anew with it.
2. The peak of the process above what it had before.
3. The same plans as columns through the estimator's whole report: by NumPy, and with ``--compiled``
   by a compiled program that returns the memory alone.

Run: ``python benchmarks/memory_speed.py``; ``--quick`` for fewer plans. The last line is JSON.
"""

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jaxroof as jr
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.candidates import needs_of, with_plans
from jaxroof.estimators.training.plans import plans
from jaxroof.estimators.training.recipe import ContextExchange, LayerDivision
from jaxroof.estimators.training.step import stage_memory
from jaxroof.records import checked

GPUS = 4096
SAMPLE = 20_000
AGREE = 1e-12
ROUNDS = 5


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and its result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def current() -> float:
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def peak() -> float:
    """Return the most resident bytes of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> None:
    """Print each measurement, then all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer plans")
    parser.add_argument("--compiled", action="store_true", help="also by a compiled program")
    given = parser.parse_args()
    inputs = checked(
        jr.TrainingInputs(
            model=jr.architecture("llama3.1-405b"),
            system=jr.training_system("h100-nvs8"),
            gpus=float(GPUS),
            global_batch=2048.0,
        )
    )
    division = LayerDivision.WITH_ENDS if given.quick else LayerDivision.UNEVEN
    recipe = jr.TrainingRecipe(context_exchange=ContextExchange.RING, layer_division=division)
    before = current()

    def listed() -> Any:
        return plans(inputs, recipe)

    def needs(found: Any) -> np.ndarray:
        return needs_of(stage_memory, recipe, inputs, found)

    listing, found = timed(listed)
    first, need = timed(lambda: needs(found))
    growth = peak() - before
    warm = [timed(lambda: needs(found))[0] for _ in range(ROUNDS)]
    both = [timed(lambda: needs(listed()))[0] for _ in range(ROUNDS)]
    some = np.linspace(0, len(need) - 1, min(SAMPLE, len(need))).astype(int)
    sample = with_plans(stage_memory, inputs, found.at(some))
    report, values = timed(lambda: evaluate_points(jr.training, recipe, sample, executor="numpy"))
    error = float(np.max(np.abs(values["memory"] / need[some] - 1.0)))
    if error > AGREE:
        raise SystemExit(f"the report says otherwise: {error:.3g}")
    said = {
        "plans": len(need),
        "feasible": int(np.sum(need <= float(inputs.system.hbm_capacity))),
        "seconds_cold": listing + first,
        "seconds_warm": statistics.median(warm),
        "seconds_with_list": statistics.median(both),
        "peak_growth_bytes": growth,
        "report_seconds_per_million": 1e6 * report / len(some),
        "largest_difference": error,
    }
    if given.compiled:
        every = with_plans(stage_memory, inputs, found.whole())

        def compiled() -> Any:
            return evaluate_points(jr.training, recipe, every, "memory", executor="jax")

        said["compiled_seconds_cold"], _ = timed(compiled)
        said["compiled_seconds_warm"], _ = timed(compiled)
    for name, value in said.items():
        print(f"{name:30} {value:,.6g}")
    print(json.dumps(said))


if __name__ == "__main__":
    main()
