"""Predicted GPU-hours of public training runs, and watts of nodes, beside what was published."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from jaxroof.analyses.named_questions import evaluate
from jaxroof.analyses.rows.columns import MARK
from jaxroof.analyses.rows.evaluate import evaluate_rows
from jaxroof.analyses.training_plans import fastest_plans
from jaxroof.errors import InputError
from jaxroof.validation.sources import packaged

SCORED = ("wall", "rate")  # kinds of rows that count: whole runs, and printed rates without stops


class RunScore(NamedTuple):
    """Predicted over published GPU-hours of some rows, or of families by their medians."""

    rows: str
    n: int
    median: float
    low: float  # 10th percentile
    high: float  # 90th


def run_answers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return public runs with the GPU-hours that are predicted of them, and why one has none.

    A row with a plan is evaluated; of another the best plan is taken that keeps ``#where``. A
    printed rate has no stops, so none are counted.
    """
    found = pd.DataFrame({n: frame[f"#{n}"] for n in ("family", "name", "kind")})
    published = frame["#published_gpu_hours"].astype(float)
    plan, hours, reasons = [], [], []
    rows: Any = frame.to_dict("records")
    for row in rows:
        given = {n: _read(v) for n, v in row.items() if v and not n.startswith(MARK) and n != "id"}
        plan.append("published" if "plan.data" in given else "best of a search")
        try:
            run = _predicted(given, str(row["#where"]))
        except InputError as error:
            hours.append(np.nan)
            reasons.append(str(error))
            continue
        stops = float(run.goodput) if row["#kind"] == "rate" else 1.0
        hours.append(float(run.gpu_hours) * stops)
        reasons.append("")
    experts = frame["#experts"] == "1"
    more: dict[str, Any] = {
        "plan": plan,
        "experts": experts,
        "hours": hours,
        "published": published,
    }
    return found.assign(**more, ratio=np.array(hours) / published, reason=reasons)


def _predicted(given: dict[str, Any], where: str) -> xr.Dataset:
    if "plan.data" in given:
        return evaluate("training", **given)
    named = {n: given.pop(n, None) for n in ("model", "system", "global_batch", "gpus")}
    return fastest_plans(**named, where=where, settings=given).isel(plan=0)


def _read(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def packaged_runs() -> pd.DataFrame:
    """Return the packaged public runs with the GPU-hours that are predicted of them."""
    return run_answers(packaged("runs", "public_runs"))


def run_scores(found: pd.DataFrame) -> list[RunScore]:
    """Return predicted over published GPU-hours: dense, with its plan, by family, experts."""
    known = found[found["ratio"].notna()]
    dense = known[~known["experts"] & known["kind"].isin(SCORED)]
    some = {
        "dense": dense["ratio"],
        "dense, plan published": dense["ratio"][dense["plan"] == "published"],
        "dense, by family": dense.groupby("family")["ratio"].median(),
        "experts": known["ratio"][known["experts"]],
    }
    return [_score(words, ratios) for words, ratios in some.items() if len(ratios)]


def _score(words: str, ratios: pd.Series) -> RunScore:
    low, median, high = (float(q) for q in np.quantile(ratios, (0.1, 0.5, 0.9)))
    return RunScore(words, len(ratios), median, low, high)


def node_answers() -> pd.DataFrame:
    """Return the nodes of MLPerf's power logs with their predicted watts, and the errors.

    ``all_busy`` is the error if every chip of them were busy.
    """
    frame = packaged("runs", "mlperf_power")
    found = pd.DataFrame({n: frame[f"#{n}"] for n in ("machine", "benchmark", "nodes")})
    found = found.assign(busy=frame["time_compute"].astype(float))
    found["measured"] = frame["#measured_watts"].astype(float)
    watts = evaluate_rows("whole_run", frame)
    found["predicted"] = watts["site_watts"].to_numpy()
    found["error"] = found["predicted"] / found["measured"] - 1.0
    found["all_busy"] = watts["peak_site_watts"].to_numpy() / found["measured"] - 1.0
    return found
