"""The error of predicted step times against measured ones: tables, reasons, worst rows, JSON."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxroof.estimators.training.report import TrainingReport
from jaxroof.io.csv_blocks import csv_line
from jaxroof.units import percent, seconds
from jaxroof.validation.rows import reasons
from jaxroof.validation.steps import (
    PARTS,
    StepScore,
    largest_parts,
    regime_scores,
    scores,
    worst,
)
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.tables import plain_table

HEADS = ("n", "median", "mean", "p90", "bias", "covered")
LABELS = {f.name: f.metadata["label"] for f in dataclasses.fields(TrainingReport)}
LEGEND = (
    "Errors are predicted over measured, less 1; median, mean and p90 are of absolute errors, bias "
    "is the median of signed ones; covered: the 80 % interval holds the measured time."
)


def scores_table(found: Sequence[StepScore], total: Sequence[StepScore] = ()) -> PlainTable:
    """Return one row per chip and regime below the name of its source, then those of all."""
    table = plain_table("error of predicted step time against measured rows [%]")
    table.add_column("source; chip, regime", no_wrap=True)
    for head in HEADS:
        table.add_numbers(head, optional=int(head == "mean"))
    before = ""
    for score in [*found, *total]:
        if score.source != before:
            table.add_row(score.source, *[""] * len(HEADS))
            before = score.source
        words = ", ".join(filter(None, (score.chip, score.regime)))
        table.add_row(f"  {words}", *score_cells(score))
    return table


def score_cells(score: StepScore) -> list[str]:
    """Return the number of rows and the errors of a score as texts."""
    errors = [f"{value:.1f}" for value in score[4:7]]
    return [str(score.rows), *errors, f"{score.bias:+.1f}", f"{score.covered:.0f}"]


def part_words(parts: Iterable[tuple[str, float]]) -> str:
    """Return parts with their shares in words.

    >>> part_words([("time_compute", 0.9), ("time_bubble", 0.1)])
    'arithmetic 90 %, bubble 10 %'
    """
    return ", ".join(f"{LABELS[name]} {percent(share)}" for name, share in parts)


def parts_of(one: Any) -> dict[str, float]:
    """Return the parts of a row's predicted step [s]."""
    return {name: float(one[name]) for name in PARTS}


def worst_lines(found: pd.DataFrame) -> Iterator[str]:
    """Yield the rows that are furthest off, with the largest parts of the predicted step."""
    yield "Furthest off, one of each configuration, with the largest parts of the predicted step:"
    for _, one in found.iterrows():
        yield (
            f"{100.0 * one['error']:+6.1f} %  {one['source']}: {one['id']}, measured "
            f"{seconds(one['measured'])}, predicted {seconds(one['time'])}; "
            f"{part_words(largest_parts(parts_of(one)))}"
        )


def scores_json(found: pd.DataFrame) -> str:
    """Return scores, reasons and the worst rows as one JSON object; errors in per cent."""
    plain: dict[str, Any] = {
        "scores": [one._asdict() for one in scores(found)],
        "by_regime": [one._asdict() for one in regime_scores(found)],
        "not_answered": [one._asdict() for one in reasons(found)],
        "worst": [
            {
                "source": one["source"],
                "row_id": one["id"],
                "error": 100.0 * one["error"],
                "measured_step_time_s": one["measured"],
                "predicted_step_time_s": one["time"],
                "step_time_low": one["low"],
                "step_time_high": one["high"],
                "regime": one["regime"],
                "parts_s": parts_of(one),
            }
            for _, one in worst(found).iterrows()
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def rows_table(found: pd.DataFrame) -> PlainTable:
    """Return one row per measured run: the predicted step, its interval, the error."""
    table = plain_table("predicted step time and its 80 % interval [s]")
    table.add_column("id", no_wrap=True)
    table.add_column("regime", no_wrap=True, optional=1)
    table.add_numbers("step\ntime", "low", "high", "error\n[%]")
    for _, one in found.iterrows():
        error = "-" if np.isnan(one["error"]) else f"{100.0 * one['error']:+.1f}"
        times = ("-" if np.isnan(one[n]) else f"{one[n]:.4g}" for n in ("time", "low", "high"))
        table.add_row(cut(one["id"]), one["regime"], *times, error)
    return table


def cut(name: str) -> str:
    """Return a name, its beginning left out where it is long."""
    return name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]


def answered_lines(found: pd.DataFrame) -> Iterator[str]:
    """Yield a header, then a line for every row of some sources."""
    yield csv_line(["source", "row_id", "measured_step_time_s", *ADDED]) + "\n"
    for _, one in found.iterrows():
        time = "" if np.isnan(one["measured"]) or one["reason"] else repr(float(one["measured"]))
        yield csv_line([one["source"], one["id"], time, *added_cells(one)]) + "\n"


def added_cells(one: Any) -> list[str]:
    """Return the cells of ``ADDED`` for a row."""
    if np.isnan(one["time"]):
        return [*[""] * (len(ADDED) - 1), one["reason"]]
    error = "" if np.isnan(one["error"]) else f"{100.0 * one['error']:.6g}"
    times = [repr(float(one[name])) for name in ("time", "low", "high")]
    parts = map(repr, parts_of(one).values())
    return [*times, one["regime"], error, *parts, one["reason"]]


ADDED = (  # columns of a step beside those of its row
    "predicted_step_time_s",
    "step_time_low",
    "step_time_high",
    "regime",
    "step_error_percent",
    *(f"{part}_s" for part in PARTS),
    "step_reason",
)
LONGEST = 34  # characters of a name
