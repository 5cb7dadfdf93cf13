"""Predicted step times of measured runs, and their error by source, chip and regime."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd

from jaxroof.analyses.named_questions import estimator_for
from jaxroof.errors import InputError
from jaxroof.estimators.tpu_training.report import TpuReport
from jaxroof.estimators.training.interval import REGIMES, of_own_runs
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.validation.rows import (
    MEASURED_STEP,
    Rows,
    Score,
    about,
    by_regime,
    furthest,
    measured,
    scored,
)
from jaxroof.validation.sources import packaged_rows

PARTS = tuple(  # of the step time, under any software
    dict.fromkeys(
        f.name
        for report in (TrainingReport, TpuReport)
        for f in dataclasses.fields(report)
        if f.metadata["part_of"] == "step_time"
    )
)
TIMES = {"time": "step_time", "low": "step_time_low", "high": "step_time_high"}
OWN = ", own runs"  # of a regime, where the chip was calibrated on them
SMALL = 0.005  # share below which a part is not worth a word


def step_answers(rows: Rows) -> pd.DataFrame:
    """Return rows with their predicted steps: seconds, interval, regime, error, parts [s].

    A row without a prediction has a reason; one without a measured time has no error.
    """
    found = about(rows)
    reasons = dict(rows.reasons)
    found["measured"] = measured(rows.frame, MEASURED_STEP, reasons)
    columns = {name: np.full(len(found), np.nan) for name in (*TIMES, *PARTS)}
    regimes = np.full(len(found), "", object)
    for group in rows.groups:
        try:
            report = estimator_for(group.inputs).evaluate(group.inputs, group.recipe)
        except InputError as error:
            reasons.update(dict.fromkeys(group.rows.tolist(), str(error)))
            continue
        for name in columns:
            columns[name][group.rows] = getattr(report, TIMES.get(name, name), 0.0)
        regimes[group.rows] = _regimes(report, len(group.rows))
    found = found.assign(**columns, regime=regimes)
    found["error"] = found["time"] / found["measured"] - 1.0
    found["covered"] = found["measured"].between(found["low"], found["high"])
    found["reason"] = [reasons.get(place, "") for place in range(len(found))]
    return found


def _regimes(report: TrainingReport | TpuReport, rows: int) -> list[str]:
    """Return the regime of each row in words."""
    low, high, places = (
        np.broadcast_to(value, rows)
        for value in (report.step_time_low, report.step_time_high, report.regime)
    )
    own = of_own_runs(low, high, places)
    return [REGIMES[int(p)].words + OWN * bool(o) for p, o in zip(places, own, strict=True)]


def packaged_answers(source: str | None = None) -> pd.DataFrame:
    """Return every packaged row with its prediction, or those of one source.

    >>> len(packaged_answers("mt_nlg_a100"))
    3
    """
    return step_answers(packaged_rows("steps", source))


def scores(found: pd.DataFrame) -> list[Score]:
    """Return the errors by source, chip and regime, in the order of the rows.

    >>> [one.rows for one in scores(packaged_answers("mt_nlg_a100"))]
    [3]
    """
    return scored(found, ("source", "chip", "regime"))


def regime_scores(found: pd.DataFrame) -> list[Score]:
    """Return the errors by regime over all sources, and over all rows.

    >>> [one.regime for one in regime_scores(packaged_answers("mt_nlg_a100"))]
    ['not calibrated', 'all']
    """
    words = [one.words for one in REGIMES]
    return by_regime(found, (*words, *(one + OWN for one in words)))


def worst(found: pd.DataFrame, most: int = 5) -> pd.DataFrame:
    """Return the rows that are furthest off, one of each configuration."""
    known = found.dropna(subset="error")
    return furthest(known, np.abs(np.log1p(known["error"])), most)


def largest_parts(parts: Mapping[str, float], most: int = 3) -> list[tuple[str, float]]:
    """Return the largest parts, each with its share of all.

    >>> largest_parts({"time_compute": 3.0, "time_bubble": 1.0}, 1)
    [('time_compute', 0.75)]
    """
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return [(name, value / total) for name, value in ordered[:most] if value > SMALL * total]
