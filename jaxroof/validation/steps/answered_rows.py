"""Measured rows with their predicted steps as lines of CSV."""

from collections.abc import Iterable, Iterator, Sequence

from jaxroof.io.csv_blocks import csv_line
from jaxroof.validation.memory import answered_rows as memory
from jaxroof.validation.memory.prediction import Answer
from jaxroof.validation.steps.prediction import PARTS, StepAnswer

ADDED = (  # columns after those of the file and of its memory
    "predicted_step_time_s",
    "step_time_low",
    "step_time_high",
    "regime",
    "step_error_percent",
    *(f"{part}_s" for part in PARTS),
    "step_reason",
)


def step_cells(one: StepAnswer) -> list[str]:
    """Return the cells of ``ADDED`` for a row."""
    if one.step is None:
        return [*[""] * (len(ADDED) - 1), one.reason]
    error = "" if one.error is None else f"{100.0 * one.error:.6g}"
    times = [repr(value) for value in (one.time, one.low, one.high)]
    return [*times, one.regime, error, *(repr(one.parts[part]) for part in PARTS), ""]


def predicted_lines(
    columns: Sequence[str], memories: Iterable[Answer], steps: Iterable[StepAnswer]
) -> Iterator[str]:
    """Yield the header, then every row with its memory and its step, each with its newline."""
    names = [*memory.ADDED, *ADDED]
    added = [name if name not in columns else f"result.{name}" for name in names]
    yield csv_line([*columns, *added]) + "\n"
    for peak, step in zip(memories, steps, strict=True):
        cells = [peak.row.cells.get(name, "") for name in columns]
        yield csv_line([*cells, *memory.memory_cells(peak), *step_cells(step)]) + "\n"


def scored_lines(answers: Iterable[tuple[str, StepAnswer]]) -> Iterator[str]:
    """Yield a header, then a line for every row of some sources."""
    yield csv_line(["source", "row_id", "measured_step_time_s", *ADDED]) + "\n"
    for source, one in answers:
        measured = None if one.step is None else one.step.measured
        cells = [source, one.row.cells["row_id"], "" if measured is None else repr(measured)]
        yield csv_line([*cells, *step_cells(one)]) + "\n"
