"""Pictures over cluster sizes: days of training, and throughput per accelerator."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from jaxroof.errors import unknown
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.line_ends import End, end_labels, family_ends, rank_entries
from jaxroof.views.text.tables import amount

Line = tuple[str, np.ndarray, np.ndarray]  # its name, cluster sizes, values (NaN: nothing fits)
ACROSS = 2  # panels in a row
NAMED = 2.6  # times the most accelerators: the room of the names at the ends of lines
ROOM = 4.0  # how far below the first size that fits the axis begins


@style.drawn
def training_days(
    data: xr.Dataset, reference: str | None = None, references: Sequence[float] | None = None
) -> Figure:
    """Return days of training against cluster sizes, a line a system, a panel a split and model.

    Grey lines fall as 1/n from the first size that fits of ``reference`` (else of the first line
    that has one), at its days over each of ``references`` (4 and 12; 1 where there is one line).
    Lines of several models have none unless it is asked for.
    Raises: InputError where the data lack days or sizes, or have no such line.
    """
    picture = "training_days"
    parts = _parts(data, picture, ("training_days",))
    grey: list[tuple[str, Sequence[float]]] = []
    ends: dict[Axes, list[End]] = {}

    def draw(axes: Axes, part: xr.Dataset) -> list[Line]:
        lines = _lines(part, part.training_days)
        asked = reference is not None or references is not None
        found = _first_of(lines, reference, picture) if asked or _alike(part) else None
        factors = references or ((4.0, 12.0) if len(lines) > 1 else (1.0,))
        if found is not None:
            ends[axes] = _perfect(axes, lines, found, factors)
            grey.append((found[0], factors))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(style.count))
        return lines

    def named() -> dict[str, Line2D]:
        names = {name for name, _ in grey}
        whose = " of the first line" if len(names) > 1 else f", {next(iter(names), '')}"
        times = ", ".join(f"{factor:g}×" for factor in (grey[0][1] if grey else ()))
        words = f"{times} perfect scaling{whose}".removesuffix(", ").removeprefix("1× ")
        return {words: Line2D([], [], color=style.GREY, dashes=(6, 3))} if grey else {}

    made = _figure(
        _fewest(parts),
        choose.title(data, "Days of training"),
        parts,
        draw,
        "days of training [day]",
        named,
        ends,
    )
    for axes in made.axes:
        low, high = axes.get_ylim()
        if high / low < 30:
            axes.yaxis.set_minor_formatter(FuncFormatter(_few))
    return made


def _few(value: float, _: object = None) -> str:
    """Return a minor tick of a decade where it starts with 2 or 5, else nothing."""
    return style.count(value) if f"{value:e}"[0] in "25" else ""


@style.drawn
def normalised_throughput(data: xr.Dataset, reference: str | None = None) -> Figure:
    """Return throughput per accelerator against cluster sizes, over that of one line's first size.

    The line is ``reference``, else the first at which any size fits; each panel has its own.
    Raises: InputError where the data lack throughput or sizes, or have no such line.
    """
    picture = "normalised_throughput"
    parts = _parts(data, picture, ("throughput",))

    def draw(axes: Axes, part: xr.Dataset) -> list[Line]:
        lines = _lines(part, part.throughput / part.gpus)
        found = _first_of(lines, reference, picture)
        if found is None:
            return lines
        name, size, unit = found
        axes.axhline(1.0, color=style.GREY, linewidth=0.9, zorder=1)
        axes.set_title(f"1 is {name} at {style.count(size)}".replace("  ", " "))
        scaled = [(label, x, y / unit) for label, x, y in lines]
        values = np.concatenate([y[np.isfinite(y)] for _, _, y in scaled])
        style.powers_of_two(axes.yaxis, values.min() / 2, values.max() * 2)
        axes.set_ylim(values.min() / 1.25, values.max() * 1.25)
        return scaled

    words = "relative throughput\nof an accelerator"
    title = choose.title(data, "Throughput per accelerator")
    return _figure(_most(parts), title, parts, draw, words)


def _parts(
    data: xr.Dataset, picture: str, variables: Sequence[str]
) -> list[tuple[str, xr.Dataset]]:
    """Return one dataset a panel: over gpus, and over what makes its lines."""
    kept = choose.best_plans(data)
    choose.check_has(kept, picture, variables, ("gpus",))
    dims = [str(dim) for dim in kept.sizes if dim != "gpus"]
    lines = "system" if "system" in dims else dims[-1] if dims else ""
    across = [dim for dim in dims if dim != lines]
    choose.check_dimensions(kept, picture, ("gpus", lines, *choose.named_dimensions(kept)))
    return choose.panels(kept, sorted(across))


def _lines(part: xr.Dataset, value: xr.DataArray) -> list[Line]:
    names = [str(dim) for dim in part.sizes if dim != "gpus"]
    values = choose.feasible_values(part, value)
    sizes = part.gpus.values.astype(np.float64)
    if not names:
        return [("", sizes, values.values)]
    dim = names[0]
    return [
        (choose.label(part, dim, i), sizes, values.isel({dim: i}).values)
        for i in range(part.sizes[dim])
    ]


def _alike(part: xr.Dataset) -> bool:
    """Return whether the lines of a panel are of one model, so that their days compare."""
    return "model" not in part.sizes


def _first(line: Line) -> tuple[str, float, float] | None:
    """Return the name, the first size that fits and the value there."""
    name, sizes, values = line
    held = np.flatnonzero(np.isfinite(values))
    return (name, float(sizes[held[0]]), float(values[held[0]])) if len(held) else None


def _first_of(
    lines: Sequence[Line], reference: str | None, picture: str
) -> tuple[str, float, float] | None:
    if reference is not None and reference not in [name for name, _, _ in lines]:
        names = [name for name, _, _ in lines]
        raise unknown(f"{picture}: reference", reference, "line of the picture", names)
    kept = [line for line in lines if reference in (None, line[0])]
    return next((found for found in map(_first, kept) if found is not None), None)


def _perfect(
    axes: Axes,
    lines: Sequence[Line],
    found: tuple[str, float, float],
    factors: Sequence[float],
) -> list[End]:
    """Draw perfect scaling from the first size of one line on, at its days over each factor.

    Returns: where each of the lines ends, and its factor.
    """
    _, size, days = found
    sizes, told = lines[0][1], []
    ends = np.array([size, sizes.max()])
    for factor in factors:
        values = days / factor * size / ends
        axes.plot(ends, values, color=style.GREY, linewidth=1.1, dashes=(6, 3), zorder=1)
        told.append((float(ends[1]), float(values[1]), f"{factor:g}×", "#555555"))
    return told


def _fewest(parts: Sequence[tuple[str, xr.Dataset]]) -> str:
    """Return where the fewest days are, and how many times as long the last line takes there."""
    found = [
        (float(y[i]), ", ".join(filter(None, (name, panel))), float(x[i]), panel)
        for panel, part in parts
        for name, x, y in _lines(part, part.training_days)
        if np.isfinite(y).any()
        for i in [int(np.nanargmin(y))]
    ]
    if not found:
        return "Nothing fits at any size"
    days, name, size, _ = min(found)
    same = [each for each in found if each[2] == size]
    worst = max(same)
    slower = f"; {worst[1]} takes {worst[0] / days:.3g} times as long" if len(same) > 1 else ""
    who = f"{name} on " if name else ""
    return f"Shortest: {amount(days, 'day')}, {who}{style.count(size)} accelerators{slower}"


def _most(parts: Sequence[tuple[str, xr.Dataset]]) -> str:
    """Return how much of its throughput per accelerator each line keeps, the best and the worst."""
    found = []
    for panel, part in parts:
        for name, _, y in _lines(part, part.throughput / part.gpus):
            held = y[np.isfinite(y)]
            if len(held) > 1:
                found.append((float(held[-1] / held[0]), ", ".join(filter(None, (name, panel)))))
    if not found:
        return "Nothing fits at any size"
    (low, worst), (high, best) = min(found), max(found)
    if len(found) == 1:
        return f"The most accelerators keep {percent(high)} of the throughput of the first"
    kept = f"{best} keeps {percent(high)} of its throughput, {worst} {percent(low)}"
    return f"From the first size to the last, {kept}"


def _figure(
    finding: str,
    title: str,
    parts: Sequence[tuple[str, xr.Dataset]],
    draw: Callable[[Axes, xr.Dataset], list[Line]],
    words: str,
    named: Callable[[], dict[str, Line2D]] | None = None,
    grey: Mapping[Axes, list[End]] | None = None,
) -> Figure:
    across = min(len(parts), ACROSS)
    down = -(-len(parts) // across)
    made = style.figure(title, finding, 5.4 if down == 1 else 1.6 + 3.6 * down)
    share: Literal["row", "none"] = "row" if named is not None else "none"  # ratios do not compare
    cells = made.subplots(down, across, squeeze=False, sharey=share).ravel()
    entries: dict[str, Line2D] = {}
    for axes, (name, part) in zip(cells, parts, strict=False):
        lines = draw(axes, part)
        _panel(axes, lines, entries, 14 // across, families=_alike(part))
        words_above = filter(None, (name, axes.get_title()))
        axes.set_title("; ".join(words_above))
    for spare in cells[len(parts) :]:
        spare.remove()
    for i, axes in enumerate(cells[: len(parts)]):
        if i % across == 0:
            axes.set_ylabel(words)
    entries = style.ordered(entries, _names(parts))
    families = style.families_of(list(entries)) if _alike(parts[0][1]) else None
    if families:
        entries = rank_entries(families[1], list(entries))
    if entries or named is not None:
        entries["first size that fits"] = Line2D(
            [], [], color="black", marker="o", markersize=9, fillstyle="none", linestyle="none"
        )
        entries |= named() if named is not None else {}
        made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)
    for axes in cells[: len(parts)]:
        own = family_ends(axes, families[0]) if families else []
        end_labels(axes, [*own, *(grey or {}).get(axes, [])])
    return made


def _names(parts: Sequence[tuple[str, xr.Dataset]]) -> list[str]:
    return [name for name, _, _ in _lines(parts[0][1], parts[0][1].gpus)]


def _panel(
    axes: Axes,
    lines: Sequence[Line],
    entries: dict[str, Line2D],
    labels: int,
    *,
    families: bool,
) -> None:
    """Draw the lines of one panel, ring the first size of each, hatch where none fits."""
    names = [name for name, _, _ in lines]
    firsts = [found for found in map(_first, lines) if found is not None]
    if not firsts:
        style.nothing(axes, "nothing fits at any size\n" + ("on any line" if names[0] else ""))
        return
    sizes = lines[0][1]
    start = min(size for _, size, _ in firsts)
    shown = sizes[sizes >= start / ROOM]
    for name, x, y in lines:
        look = style.line_style(names, name, families=families)
        kept = np.isin(x, shown)
        drawn = axes.plot(x[kept], y[kept], label=name or None, zorder=3, **look)
        if name and np.isfinite(y).any():
            entries.setdefault(name, drawn[0])
    for name, size, value in firsts:
        colour = style.line_style(names, name, families=families)["color"]
        axes.plot(size, value, "o", markersize=10, fillstyle="none", color=colour, zorder=4)
    families_told = families and style.families_of(names)
    style.sizes_axis(
        axes, shown, labels, right=NAMED ** (0.5 + 7 / labels) if families_told else 1.25
    )
    if shown[0] < start:
        edge = float((start * sizes[sizes < start].max()) ** 0.5)
        style.band(axes, axes.get_xlim()[0], edge, f"nothing fits below {style.count(start)}")
    absent = [name for name, _, y in lines if not np.isfinite(y).any()]
    if absent:
        words = "does not fit at any size: " + ", ".join(absent)
        words = textwrap.fill(words, 6 * labels)
        style.note(axes, 0.5, 0.02, words, va="bottom", transform=axes.transAxes)
    style.grid(axes)
