"""The error of predicted memory against measured rows: a table, reasons, the worst rows, JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxroof.units import size
from jaxroof.validation.memory.prediction import Answer
from jaxroof.validation.memory.scores import (
    Answers,
    Fill,
    Reason,
    Score,
    fills,
    first_runs,
    largest_terms,
    reasons,
    scores,
    worst,
)
from jaxroof.views.text.layout import PlainTable
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


def worst_lines(found: Iterable[tuple[str, str, Answer]]) -> Iterator[str]:
    """Yield the rows with the largest errors, with their largest terms."""
    yield "Largest errors, one of each configuration:"
    for source, number, one in found:
        terms = ", ".join(
            f"{words[0].lower()}{words[1:]} {size(value, 'B')}"
            for words, value in largest_terms(one)
        )
        measured = size(one.measured[number], "B")
        yield (
            f"{100.0 * one.errors[number]:+6.1f} %  {source}: {one.row.cells['row_id']}, {number}, "
            f"measured {measured}; {terms}"
        )


def scores_json(answers: Answers) -> str:
    """Return scores, fits, reasons and the worst rows as one JSON object; errors in per cent."""
    plain: dict[str, Any] = {
        "scores": [one._asdict() for one in scores(answers)],
        "first_runs": [one._asdict() for one in first_runs(answers)],
        "fits": [one._asdict() for one in fills(answers)],
        "not_answered": [one._asdict() for one in reasons(answers)],
        "worst": [
            {
                "source": source,
                "row_id": one.row.cells["row_id"],
                "number": number,
                "error": 100.0 * one.errors[number],
                "measured_bytes": one.measured[number],
                "predicted_bytes": one.predicted(number),
                "terms": dict(largest_terms(one)),
            }
            for source, number, one in worst(answers)
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def rows_table(found: Sequence[Answer]) -> PlainTable:
    """Return one row per measured run: three numbers, the error, whether it fits."""
    table = plain_table("predicted peak of one accelerator [GB]")
    table.add_column("row_id", no_wrap=True)
    table.add_column("kind", no_wrap=True, optional=1)
    table.add_numbers("allo-\ncated", "re-\nserved", "de-\nvice", "error\n[%]", "fits")
    for one in found:
        name = _cut(one.row.cells["row_id"])
        if one.prediction is None:
            table.add_row(name, "", "-", "-", "-", "-", "-")
            continue
        peak = one.prediction
        error = next((f"{100.0 * value:.2f}" for value in one.errors.values()), "-")
        fits = {True: "yes", False: "no", None: "-"}[one.fits]
        numbers = (f"{value / GB:.2f}" for value in (peak.allocated, peak.reserved, peak.device))
        table.add_row(name, peak.kind, *numbers, error, fits)
    return table


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]


GB = 1e9
LONGEST = 34  # characters of a name
