"""What a design, or a search in draws of its inputs, would take before it is run."""

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.codesign.descent import initial_machines
from jaxroof.engine.codesign.machines import (
    DesignProblem,
    best_plan_rows,
    feasible_plans,
    value_and_slope,
)
from jaxroof.engine.grid.size import COPIES, NUMBER
from jaxroof.engine.runs.dry_run import LONG, DryRun, Sample
from jaxroof.engine.uncertainty.sobol import check_draws
from jaxroof.engine.uncertainty.uncertain import LISTED, uncertain
from jaxroof.estimator import Estimator

# of a design of GPT-3 1T and of ViT: how often all starts are searched, and all plans bounded
SEARCHES, BOUNDS = 4, 8
SLOPED = 256  # plans whose slopes are timed
FEWEST, MOST, GROWTH = 4, 256, 4  # draws of the first sample, at most, and how they grow


def dry_run_of_design(task: DesignProblem) -> DryRun:
    """Return what a design would take: starts, plans, memory, and a time by samples.

    The plans are listed. A search of all starts, and the slopes of some plans, are timed.
    """
    start = time.perf_counter()
    plans = feasible_plans(task)
    listed = time.perf_counter() - start
    machines = initial_machines(task.market, task.starts)
    some = {field: column[:SLOPED] for field, column in plans.plans.items()}
    count, (fields, z) = len(plans.low[:SLOPED]), (len(task.market.way), machines[0])
    start = time.perf_counter()
    best_plan_rows(task, plans, machines)
    searched = time.perf_counter() - start
    start = time.perf_counter()
    value_and_slope(task, some, np.tile(z, (count, 1)))
    sloped = (time.perf_counter() - start) * len(plans.low) / count
    kept = len(plans.low) * (len(plans.plans) + COPIES * (2 * fields + 2))
    searches = task.starts * plans.legal * task.searched
    return DryRun(
        axes={"start": task.starts, "field": fields},
        points=task.starts,
        memory=float(NUMBER * (kept + searches)),
        seconds=listed + SEARCHES * searched + BOUNDS * sloped,
        sample=Sample(task.starts, searched, listed, xr.Dataset()),
        plans=float(plans.legal),
    )


def dry_run_of_draws(
    estimator: Estimator,
    inputs: Any,
    *,
    distributions: Mapping[str, Any],
    samples: int = 1024,
    seed: int = 0,
    axes: Mapping[str, Any] | None = None,
    **more: Any,
) -> DryRun:
    """Return what a search in draws of its inputs would take, its time by samples of few draws.

    The arguments are those of ``uncertain``. Two samples tell what is taken once, compiling
    included, from what is taken for every draw.
    """
    check_draws(samples, seed)

    def timed(draws: int) -> tuple[float, xr.Dataset]:
        start = time.perf_counter()
        found = uncertain(
            estimator,
            inputs,
            distributions=distributions,
            samples=draws,
            seed=seed,
            axes=axes,
            **more,
        )
        return time.perf_counter() - start, found

    few = count = min(FEWEST, samples)
    _, data = timed(few)  # what is imported is not counted
    places = {str(name): length for name, length in data.feasible_share.sizes.items()}

    def points(draws: int) -> int:  # the current inputs, two halves, and their crossings
        return math.prod(places.values()) * (1 + draws // 2 * (2 + len(distributions)))

    first, compiled = timed(few)[0], 0.0
    second = first
    while count < min(MOST, samples) and second < LONG:
        count = min(count * GROWTH, samples)
        cold, data = timed(count)
        second = timed(count)[0] if cold > LONG else cold
        compiled = max(compiled, cold - second)
    each = max(second - first, 0.0) / max(points(count) - points(few), 1)
    once = compiled + max(first - each * points(few), 0.0)
    numbers = LISTED * (len(estimator.plan_fields) + 2) + data.nbytes / points(count) / NUMBER
    whole = points(samples)
    return DryRun(
        axes={**places, "draw": samples},
        points=whole,
        memory=COPIES * NUMBER * numbers * whole,
        seconds=once + each * whole,
        sample=Sample(points(count), second, once, data),
    )
