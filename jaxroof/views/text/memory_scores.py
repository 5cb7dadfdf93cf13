"""The error of predicted memory against measured rows: a table, reasons, the worst rows, JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxroof.io.csv_blocks import csv_line
from jaxroof.units import size
from jaxroof.validation.memory import (
    THREE,
    Fill,
    Score,
    fills,
    first_runs,
    largest_terms,
    predicted,
    scores,
    worst,
)
from jaxroof.validation.rows import Reason, reasons
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.step_scores import cut
from jaxroof.views.text.tables import plain_table

HEADS = ("n", "mean", "median", "p90", "max", "bias")


def scores_table(found: Sequence[Score]) -> PlainTable:
    """Return one row per kind of row and number, below the name of its source."""
    table = plain_table("error of predicted memory against measured rows [%]")
    table.add_column("source, kind", no_wrap=True)
    table.add_column("number", no_wrap=True)
    table.add_numbers(*HEADS)
    before = ""
    for score in found:
        if score.source != before:
            table.add_row(score.source, "", *[""] * len(HEADS))
            before = score.source
        table.add_row(f"  {score.kind}", score.number, *score_cells(score))
    return table


def score_cells(score: Score) -> list[str]:
    """Return the number of rows and the errors of a score as texts."""
    return [str(score.rows), *(_digits(value) for value in score[4:])]


def _digits(value: float) -> str:
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 10.0 else 1
    return f"{value:.{digits}f}"


def fill_sentences(found: Iterable[Fill]) -> Iterator[str]:
    """Yield, for runs without a measured memory, how many are said to fit."""
    for one in found:
        full = ", ".join(
            f"{name} {value:.2f}"
            for name, value in (("least", one.least), ("mean", one.mean), ("most", one.most))
        )
        yield (
            f"{one.source}: {one.fits} of {one.rows} runs that ran are said to fit; device over "
            f"capacity: {full}."
        )


def first_run_sentences(found: Iterable[Score]) -> Iterator[str]:
    """Yield the errors of sources whose rows are reruns, each configuration counted once."""
    by_source: dict[str, list[str]] = {}
    for one in found:
        said = f"{one.kind}: n {one.rows}, mean {_digits(one.mean)}, median {_digits(one.median)}"
        by_source.setdefault(one.source, []).append(said)
    for source, kinds in by_source.items():
        yield (
            f"{source}, the first run of each configuration and accelerator alone: "
            f"{'; '.join(kinds)}."
        )


def reason_lines(found: Sequence[Reason]) -> Iterator[str]:
    """Yield the rows without an answer, by reason, the commonest first."""
    if found:
        yield f"Not answered: {sum(one.rows for one in found)} rows."
    for one in found:
        yield f"{one.rows:>5}  {one.source}: {one.reason}"


def worst_lines(found: pd.DataFrame) -> Iterator[str]:
    """Yield the rows with the largest errors, with their largest terms."""
    yield "Largest errors, one of each configuration:"
    for _, one in found.iterrows():
        terms = ", ".join(
            f"{words[0].lower()}{words[1:]} {size(value, 'B')}"
            for words, value in largest_terms(one["terms"])
        )
        number = one["number"]
        yield (
            f"{100.0 * one['errors'][number]:+6.1f} %  {one['source']}: {one['id']}, {number}, "
            f"measured {size(one['measured'][number], 'B')}; {terms}"
        )


def scores_json(found: pd.DataFrame) -> str:
    """Return scores, fits, reasons and the worst rows as one JSON object; errors in per cent."""
    plain: dict[str, Any] = {
        "scores": [one._asdict() for one in scores(found)],
        "first_runs": [one._asdict() for one in first_runs(found)],
        "fits": [one._asdict() for one in fills(found)],
        "not_answered": [one._asdict() for one in reasons(found)],
        "worst": [
            {
                "source": one["source"],
                "row_id": one["id"],
                "number": one["number"],
                "error": 100.0 * one["errors"][one["number"]],
                "measured_bytes": one["measured"][one["number"]],
                "predicted_bytes": predicted(one, one["number"]),
                "terms": dict(largest_terms(one["terms"])),
            }
            for _, one in worst(found).iterrows()
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def rows_table(found: pd.DataFrame) -> PlainTable:
    """Return one row per measured run: three numbers, the error, whether it fits."""
    table = plain_table("predicted peak of one accelerator [GB]")
    table.add_column("id", no_wrap=True)
    table.add_column("kind", no_wrap=True, optional=1)
    table.add_numbers("allo-\ncated", "re-\nserved", "de-\nvice", "error\n[%]", "fits")
    for _, one in found.iterrows():
        error = next((f"{100.0 * value:.2f}" for value in one["errors"].values()), "-")
        fits = FITS[one["fits"]] or "-"
        numbers = ("-" if np.isnan(one[n]) else f"{one[n] / GB:.2f}" for n in THREE)
        kind = one["kind"] if isinstance(one["kind"], str) else ""
        table.add_row(cut(one["id"]), kind, *numbers, error, fits)
    return table


def scored_lines(found: pd.DataFrame) -> Iterator[str]:
    """Yield a header, then a line for every number of every row of some sources."""
    heads = ("source", "row_id", "kind", "number", "measured_bytes", "predicted_bytes")
    yield csv_line([*heads, "error_percent", "reason"]) + "\n"
    for _, one in found.iterrows():
        names = [one["source"], one["id"]]
        if not isinstance(one["kind"], str):
            yield csv_line([*names, "", "", "", "", "", one["reason"]]) + "\n"
            continue
        for number, error in one["errors"].items() or [("", None)]:
            values = ["", "", ""]
            if error is not None:
                pair = one["measured"][number], predicted(one, number)
                values = [*map(repr, pair), f"{100.0 * error:.6g}"]
            yield csv_line([*names, one["kind"], number, *values, one["reason"]]) + "\n"


def added_cells(one: Any) -> list[str]:
    """Return the cells of ``ADDED`` for a row."""
    number, error = next(iter(one["errors"].items()), ("", None))
    if not isinstance(one["kind"], str):
        return [*[""] * (len(ADDED) - 1), one["reason"]]
    numbers = [repr(float(one[name])) for name in THREE]
    bounds = [one["bounds"].get(name, "") for name in THREE]
    room = "" if np.isnan(one["capacity"]) else repr(float(one["capacity"]))
    compared = [number, "" if error is None else f"{100.0 * error:.6g}", room, FITS[one["fits"]]]
    return [one["kind"], str(int(one["stage"])), *numbers, *bounds, *compared, one["reason"]]


ADDED = (  # columns of a peak beside those of its row
    "kind",
    "stage",
    *(f"predicted_{name}_bytes" for name in THREE),
    *(f"{name}_bound" for name in THREE),
    "measured_number",
    "error_percent",
    "hbm_reported_bytes",
    "fits",
    "reason",
)
FITS = {True: "yes", False: "no", None: ""}
GB = 1e9
