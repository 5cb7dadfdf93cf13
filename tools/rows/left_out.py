"""Errors of models with experts that took no part in the fit of the constants of experts.

python -m tools.rows.left_out    each model left out whole; some minutes

The constants of all chips that a layer with experts or Mamba-2 reads are fitted to the measured
rows of all models but one, and predict the rows of that one. The half widths of ``experts`` in
``jaxroof.estimators.training.interval`` come from such errors.
Source: docs/models/layers_2026.md, section 8 (priors, bounds at two deviations, weights).
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.validation.rows import MEASURED_STEP, measured, taken
from jaxroof.validation.sources import packaged_rows

PRIORS = {  # constant: most likely value, deviation of its logarithm
    "grouped": (0.90, 0.08),
    "expert_rows": (160.0, 0.4),
    "scatter_rate": (0.9, 0.25),
    "scatter_flex": (0.9, 0.25),
    "permute": (30.0, 0.35),
    "permute_flex": (12.0, 0.4),
    "permute_fused": (0.2, 0.5),
    "host_moe": (1.5e-3, 0.4),
    "sync": (6e-4, 0.5),
    "sync_flex": (0.3, 0.7),
    "graph_part": (0.5, 0.3),
    "exchange_hidden": (0.5, 0.3),
    "moe_years": (2.5, 0.4),
    "expert_bias_bytes": (60.0, 0.5),
    "attention_fp8": (1.4, 0.15),
    "scan": (2e11, 0.5),
}
SHARES = ("grouped", "permute_fused", "sync_flex", "graph_part", "exchange_hidden")  # 1 at most
SPREAD = 0.07  # of ln(predicted / measured) of runs of one kind, beyond which errors count less
RUNS = 4.0  # rows that say as much as one of their own would
LEVELS = (0.50, 0.80, 0.90, 0.95)
MOST = 12  # evaluations of a fit


class Measured(NamedTuple):
    """Rows of models with experts: what they ask, what was measured, and how much each counts."""

    groups: list[RowGroup]
    times: np.ndarray  # ln of seconds
    models: np.ndarray  # names; a model that is cut is the model
    weights: np.ndarray


def measured_rows() -> Measured:
    """Return the packaged rows of models with experts."""
    rows = packaged_rows("steps")
    seconds = measured(rows.frame, MEASURED_STEP, {})
    experts = pd.to_numeric(rows.frame["model.experts"]).fillna(0.0).to_numpy() > 0.0
    known = experts & np.isfinite(seconds)
    ours = [one for one in rows.groups if isinstance(one.inputs, TrainingInputs)]  # not MaxText's
    groups = [taken(one, np.flatnonzero(known[one.rows])) for one in ours]
    groups = [one for one in groups if len(one.rows)]
    frame = rows.frame.iloc[np.concatenate([one.rows for one in groups])]
    models = frame["#model"].str.removesuffix(" cut")
    kinds = (
        frame[["id", "#from", "#chip"]].assign(model=models).groupby(["#from", "model", "#chip"])
    )
    weights = kinds["id"].transform("size").to_numpy() ** -0.75
    return Measured(groups, np.log(seconds[frame.index]), models.to_numpy(), weights)


def errors(rows: Measured, logs: np.ndarray) -> np.ndarray:
    """Return ln(predicted / measured) of all rows with the constants of some logarithms."""
    constants = dict(zip(PRIORS, np.exp(logs), strict=True))
    found = []
    for places, inputs, recipe in rows.groups:
        shared = dataclasses.replace(inputs.shared, **constants)
        time = plan_time(dataclasses.replace(inputs, shared=shared), recipe).step_time
        found.append(np.broadcast_to(time, len(places)))
    return np.log(np.concatenate(found)) - rows.times


def fitted(rows: Measured, kept: np.ndarray, most: int = MOST) -> np.ndarray:
    """Return the logarithms of the constants that fit the rows ``kept``."""
    likely, deviation = np.array([*PRIORS.values()]).T
    likely = np.log(likely)
    bound = np.where([name in SHARES for name in PRIORS], 0.0, np.inf)
    low, high = likely - 2.0 * deviation, np.minimum(likely + 2.0 * deviation, bound)
    weights = rows.weights[kept] / rows.weights[kept].mean() / RUNS

    def residuals(logs: np.ndarray) -> np.ndarray:
        far = errors(rows, logs)[kept] / SPREAD
        robust = np.sign(far) * np.sqrt(2.0 * np.sqrt(1.0 + far**2) - 2.0)
        return np.concatenate([np.sqrt(weights) * robust, (logs - likely) / deviation])

    start = np.clip(likely, low + 1e-6, high - 1e-6)
    found: np.ndarray = least_squares(
        residuals, start, bounds=(low, high), diff_step=1e-3, max_nfev=most
    ).x
    return found


def left_out(rows: Measured, most: int = MOST) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every model with the errors of its rows by a fit without them."""
    for model in dict.fromkeys(rows.models):
        own = rows.models == model
        yield model, errors(rows, fitted(rows, ~own, most))[own]


def main() -> None:
    """Print the errors of models left out, and quantiles: a model weighs the root of its rows."""
    sizes, weights = [], []
    for model, some in left_out(measured_rows()):
        print(f"{model}: n {len(some)}, median {np.median(abs(some)):.3f}, {np.median(some):+.3f}")
        sizes += abs(some).tolist()
        weights += [len(some) ** -0.5] * len(some)
    order = np.argsort(sizes)
    below = np.cumsum(np.array(weights)[order]) / sum(weights)
    found = [sizes[order[np.searchsorted(below, level)]] for level in LEVELS]
    print(", ".join(f"{level:.0%} {size:.3f}" for level, size in zip(LEVELS, found, strict=True)))


if __name__ == "__main__":
    main()
