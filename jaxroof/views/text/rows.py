"""The first rows of a table with their results, for printing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.analyses.rows.evaluate import Verdicts, rows_words
from jaxroof.units import show
from jaxroof.views.text.layout import PlainTable

WIDEST = 24  # most characters shown of a typed cell
ERROR = "error"


def rows_table(
    headings: Sequence[str],
    typed: Sequence[Sequence[str]],
    found: Sequence[Mapping[str, Any]],
    units: Mapping[str, str],
) -> PlainTable:
    """Return rows with their results; those further on leave a narrow page first.

    Feasibility comes first, then numbers, then other flags. A row without results shows its error.
    """
    answered = next((one for one in found if ERROR not in one), {})
    flags = [name for name, value in answered.items() if isinstance(value, np.bool_)]
    verdict = [name for name in flags if name == "feasible"]
    others = [name for name in flags if name not in verdict]
    names = [*verdict, *(name for name in answered if name not in flags), *others]
    table = PlainTable()
    for place, heading in enumerate(headings):
        table.add_column(heading.replace(" [", "\n["), no_wrap=True, optional=2 * place)
    for place, name in enumerate(names):
        table.add_numbers(name, optional=max(0, 2 * place - 3))
    failed = any(ERROR in one for one in found)
    if failed:
        table.add_column(ERROR)
    for cells, one in zip(typed, found, strict=True):
        values = [_value(one[name], units.get(name, "1")) if name in one else "" for name in names]
        table.add_row(*map(_cut, cells), *values, *([str(one.get(ERROR, ""))] if failed else []))
    return table


def rows_sentence(
    rows: int,
    passed: int,
    first: str,
    seconds: float,
    shown: int,
    output: str | None,
    verdicts: Verdicts,
) -> str:
    """Return the number of rows, the speed, and how many rows have no results or are feasible."""
    said = f"{rows_words(rows)} in {seconds:.2g} s"
    if rows / seconds > 1e3 and seconds > 1:
        said += f" ({float(f'{rows / seconds:.2g}'):,.0f} a second)"
    if passed:
        said += f"; {passed:,} passed over, the first of them {first}"
    if output is None and rows > shown:
        said += f"; the first {shown} are shown, -o FILE.csv writes them all"
    return f"{said.rstrip('.')}.{verdicts.sentence}"


def _value(value: Any, unit: str) -> str:
    if isinstance(value, np.bool_):
        return str(bool(value)).lower()
    if np.isnan(value):
        return "-"
    return show(float(f"{float(value):.4g}"), unit)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDEST else line[: WIDEST - 3] + "..."
