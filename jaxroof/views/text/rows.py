"""The first rows of a table with their results, for printing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from jaxroof.analyses.rows.evaluate import Verdicts, rows_words
from jaxroof.units import show
from jaxroof.views.text.tables import plain_table

WIDEST = 24  # most characters shown of a typed cell
GAP = 3  # characters between two columns
WHY = 60  # most characters shown of an error
ERROR = "error"
ELSE = "..."  # replaces the headings that are not shown


def rows_table(
    headings: Sequence[str],
    typed: Sequence[Sequence[str]],
    found: Sequence[Mapping[str, Any]],
    units: Mapping[str, str],
    width: int,
) -> tuple[Table, list[str]]:
    """Return rows with as many results as fit a width, and the names of the other results.

    Feasibility comes first, then numbers, then other flags. A row without results shows its error.
    """
    answered = next((one for one in found if ERROR not in one), {})
    flags = [name for name, value in answered.items() if isinstance(value, np.bool_)]
    verdict = [name for name in flags if name == "feasible"]
    others = [name for name in flags if name not in verdict]
    names = [*verdict, *(name for name in answered if name not in flags), *others]
    failed = any(ERROR in one for one in found)
    table, left = plain_table(), width - (min(WHY, width // 3) if failed else 0)
    first = {name: _answers(name, found, units) for name in names[:2]}  # always shown
    apart = len(ELSE) + GAP + sum(_width([name, *cells]) + GAP for name, cells in first.items())
    columns: list[list[str]] = []
    for number, heading in enumerate(headings):
        cells = [_cut(one[number]) for one in typed]
        head = heading.replace(" [", "\n[")  # the unit goes on a second line
        left -= _width([*head.split("\n"), *cells]) + GAP
        if left < max(width // 3, apart) and number < len(headings) - 1 and columns:
            table.add_column(ELSE, no_wrap=True)
            columns.append([ELSE] * len(typed))
            break
        table.add_column(head, no_wrap=True)
        columns.append(cells)
    shown: list[str] = []
    for name in names:
        cells = _answers(name, found, units)
        left -= _width([name, *cells]) + GAP
        if left < 0 and name not in first:
            break
        shown.append(name)
        table.add_numbers(name)
        columns.append(cells)
    if failed:
        table.add_column(ERROR)
        columns.append([str(one.get(ERROR, "")) for one in found])
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    return table, [name for name in names if name not in shown]


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


def _answers(name: str, found: Sequence[Mapping[str, Any]], units: Mapping[str, str]) -> list[str]:
    return [_value(one[name], units.get(name, "1")) if name in one else "" for one in found]


def _value(value: Any, unit: str) -> str:
    if isinstance(value, np.bool_):
        return str(bool(value)).lower()
    if np.isnan(value):
        return "-"
    return show(float(f"{float(value):.4g}"), unit)


def _width(cells: Iterable[str]) -> int:
    return max(map(len, cells))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDEST else line[: WIDEST - 3] + "..."
