"""Slopes of a server where a limit binds: golden rows, the limit held and the plan held."""

import dataclasses

import numpy as np
from serving_rows import by_recipe, inputs, rows

from jaxroof.engine.sensitivity.binding import slopes_at_limit
from jaxroof.estimators import estimator
from jaxroof.estimators.serving.inputs import DecodePlan, PrefillPlan, ServingLimits, ServingPlan
from jaxroof.structure import map_numbers

POOLS = {  # of a row: the estimator, its plan, and the field that gives way
    "aggregated": ("serving", ServingPlan, "batch"),
    "decode": ("serving_decode", DecodePlan, "batch"),
    "prefill": ("serving_prefill", PrefillPlan, "busy"),
}
RATES = ("matrix_flops", "fp8_flops", "fp4_flops", "hbm_bandwidth")
RATES += ("fast_bandwidth", "slow_bandwidth")


def test_golden_slopes():
    for recipe, some in by_recipe(rows("slopes")):
        for row in some:
            name, plan, field = POOLS[row["kind"]]
            start = {"batch": "8", "share": "0.5"}
            bound = ServingLimits(**{row["limit"]: np.float64(row["limit_value"])})
            asked = map_numbers(lambda leaf: np.ravel(leaf)[0], inputs([{**row, **start}], plan))
            paths = [f"system.{rate}" for rate in RATES if f"out_bound_{rate}" in row]
            held = {path: getattr(asked.system, path.partition(".")[2]) for path in paths}
            paths = [path for path, value in held.items() if np.isfinite(value)]
            found = slopes_at_limit(
                estimator(name),
                dataclasses.replace(asked, limits=bound),
                recipe,
                limit=row["limit"],
                field=field,
                parameters=[*paths, f"limits.{row['limit']}"],
            )
            real = float(row[f"out_{'share' if field == 'busy' else 'batch'}"])
            real *= 10.0 if field == "busy" else 1.0
            np.testing.assert_allclose(float(found[field]), real, rtol=1e-12)
            for given, cell in (
                (found.accelerator_time, "out_accelerator_time"),
                (found.price, "out_slope_limit"),
                (found.slope_held[-1], "out_slope_limit"),
            ):
                np.testing.assert_allclose(float(given), float(row[cell]), rtol=1e-12)
            for path in paths:
                rate = path.partition(".")[2]
                here = found.sel(parameter=path)
                expected = [float(row[f"out_{kind}_{rate}"]) for kind in ("fixed", "bound")]
                given = [float(here.slope), float(here.slope_held)]
                np.testing.assert_allclose(given, expected, rtol=1e-12, err_msg=f"{row} {rate}")
