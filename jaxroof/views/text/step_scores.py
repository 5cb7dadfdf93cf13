"""The error of predicted step times against measured ones: tables, reasons, worst rows, JSON."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxroof.estimators.training.report import TrainingReport
from jaxroof.units import percent, seconds
from jaxroof.validation.measured_rows import Table
from jaxroof.validation.steps.prediction import StepAnswer
from jaxroof.validation.steps.scores import (
    Answers,
    StepScore,
    largest_parts,
    reasons,
    regime_scores,
    scores,
    worst,
)
from jaxroof.validation.steps.step_rows import ASSUMED, assumed
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.tables import plain_table

HEADS = ("n", "median", "mean", "p90", "bias", "covered")
LABELS = {f.name: f.metadata["label"] for f in dataclasses.fields(TrainingReport)}
LEGEND = (
    "Errors are predicted over measured, less 1; median, mean and p90 are of absolute errors, bias "
    "is the median of signed ones; covered: the 80 % interval holds the measured time."
)


def unknown_columns(table: Table) -> Iterator[str]:
    """Yield the columns of a file that nothing reads, and where those that are read are listed."""
    if table.unknown:
        names = ", ".join(table.unknown)
        yield (
            f"Columns that the schema does not have: {names}; those that it has are in "
            "docs/validation_memory.md (measured_step_time_s: seconds of a step)."
        )


def assumed_lines(table: Table) -> Iterator[str]:
    """Yield which columns of a model's shape are blank, and what was taken for them."""
    blank, rows = assumed(table.rows), len(table.rows)
    if blank:
        each = [
            f"{name} ({ASSUMED[name]}{'' if n == rows else f'; {n:,} rows'})"
            for name, n in blank.items()
        ]
        yield f"Blank, and taken as GPT has them: {', '.join(each)}. Other models need the columns."


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


def worst_lines(found: Iterable[tuple[str, StepAnswer]]) -> Iterator[str]:
    """Yield the rows that are furthest off, with the largest parts of the predicted step."""
    yield "Furthest off, one of each configuration, with the largest parts of the predicted step:"
    for source, one in found:
        assert one.step is not None
        assert one.step.measured is not None
        assert one.error is not None
        yield (
            f"{100.0 * one.error:+6.1f} %  {source}: {one.row.cells['row_id']}, measured "
            f"{seconds(one.step.measured)}, predicted {seconds(one.time)}; "
            f"{part_words(largest_parts(one.parts))}"
        )


def scores_json(answers: Answers) -> str:
    """Return scores, reasons and the worst rows as one JSON object; errors in per cent."""
    plain: dict[str, Any] = {
        "scores": [one._asdict() for one in scores(answers)],
        "by_regime": [one._asdict() for one in regime_scores(answers)],
        "not_answered": [one._asdict() for one in reasons(answers)],
        "worst": [
            {
                "source": source,
                "row_id": one.row.cells["row_id"],
                "error": 100.0 * (one.error or 0.0),
                "measured_step_time_s": one.step and one.step.measured,
                "predicted_step_time_s": one.time,
                "step_time_low": one.low,
                "step_time_high": one.high,
                "regime": one.regime,
                "parts_s": dict(one.parts),
            }
            for source, one in worst(answers)
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def rows_table(found: Sequence[StepAnswer]) -> PlainTable:
    """Return one row per measured run: the predicted step, its interval, the error."""
    table = plain_table("predicted step time and its 80 % interval [s]")
    table.add_column("row_id", no_wrap=True)
    table.add_column("regime", no_wrap=True, optional=1)
    table.add_numbers("step\ntime", "low", "high", "error\n[%]")
    for one in found:
        name = one.row.cells["row_id"]
        name = name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]
        if one.step is None:
            table.add_row(name, "", "-", "-", "-", "-")
            continue
        error = "-" if one.error is None else f"{100.0 * one.error:+.1f}"
        times = (f"{value:.4g}" for value in (one.time, one.low, one.high))
        table.add_row(name, one.regime, *times, error)
    return table


LONGEST = 34  # characters of a name
