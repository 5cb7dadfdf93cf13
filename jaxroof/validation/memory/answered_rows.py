"""Measured rows with their predictions as lines of CSV."""

from collections.abc import Iterable, Iterator, Sequence

from jaxroof.io.csv_blocks import csv_line
from jaxroof.validation.memory.prediction import Answer

ADDED = (  # columns after those of the file
    "kind",
    "stage",
    "predicted_allocated_bytes",
    "predicted_reserved_bytes",
    "predicted_device_bytes",
    "allocated_bound",
    "reserved_bound",
    "device_bound",
    "measured_number",
    "error_percent",
    "hbm_reported_bytes",
    "fits",
    "reason",
)


def answered_lines(columns: Sequence[str], answers: Iterable[Answer]) -> Iterator[str]:
    """Yield the header, then every row with what is predicted for it, each with its newline."""
    added = [name if name not in columns else f"result.{name}" for name in ADDED]
    yield csv_line([*columns, *added]) + "\n"
    for one in answers:
        cells = [one.row.cells.get(name, "") for name in columns]
        yield csv_line([*cells, *memory_cells(one)]) + "\n"


def memory_cells(one: Answer) -> list[str]:
    """Return the cells of ``ADDED`` for a row."""
    number, error = next(iter(one.errors.items()), ("", None))
    room = "" if one.capacity is None else repr(one.capacity)
    compared = [number, "" if error is None else f"{100.0 * error:.6g}", room]
    fits = {True: "yes", False: "no", None: ""}[one.fits]
    found = one.prediction
    if found is None:
        return ["", "", "", "", "", "", "", "", *compared, fits, one.reason]
    numbers = [repr(value) for value in (found.allocated, found.reserved, found.device)]
    bounds = [found.bounds.get(name, "") for name in ("allocated", "reserved", "device")]
    return [found.kind, str(found.stage), *numbers, *bounds, *compared, fits, one.reason]


def scored_lines(answers: Iterable[tuple[str, Answer]]) -> Iterator[str]:
    """Yield a header, then a line for every number of every row of some sources."""
    heads = ("source", "row_id", "kind", "number", "measured_bytes", "predicted_bytes")
    yield csv_line([*heads, "error_percent", "reason"]) + "\n"
    for source, one in answers:
        name = one.row.cells["row_id"]
        if one.prediction is None:
            yield csv_line([source, name, "", "", "", "", "", one.reason]) + "\n"
        for number, error in one.errors.items() or [("", None)] * (one.prediction is not None):
            kind = one.prediction.kind if one.prediction else ""
            values = ["", "", ""]
            if error is not None:
                pair = one.measured[number], one.predicted(number)
                values = [*map(repr, pair), f"{100.0 * error:.6g}"]
            yield csv_line([source, name, kind, number, *values, one.reason]) + "\n"
