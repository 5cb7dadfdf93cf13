"""Throughput of every split of a cluster, against its tensor degree."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from jaxroof.views.plan_styles import ALONG, Point, fitting, split_in_words
from jaxroof.views.plots import map_axes as fields
from jaxroof.views.plots import style
from jaxroof.views.plots.plan_styles import check_styled, sheet
from jaxroof.views.text.all_plans import rate

SIDE = 0.3  # of the width: words begin or end at a point that is closer to an edge
MOST_PIECES = 6  # counts of microbatches that one picture tells apart


@style.drawn
def throughput_by_split(data: xr.Dataset) -> Figure:
    """Return throughput against the tensor degree, by data degree and microbatches.

    Colours are data degrees, dashes counts of microbatches. Plans without a pipeline are joined
    by a grey line; the best plan is ringed and named. What
    axes move makes panels.
    Raises: InputError where the data are not the plans of a study, or of too many points.
    """
    picture = "throughput_by_split"
    parts = check_styled(data, picture, "microbatches")
    pieces = _pieces(data)
    replicas = sorted({int(n) for n in data["data"].values})
    made, cells = sheet(data, _finding(parts), len(parts), 6.6)
    for axes, (words, part) in zip(cells, parts, strict=True):
        axes.set_title(words)
        _splits(axes, part, replicas, pieces)
    _split_legend(made, data, replicas, pieces)
    return made


def _finding(parts: Sequence[Point]) -> str:
    """Return the best plan and what it beats, where there is one point."""
    firsts = [(p, fitting(p.data)) for p in parts if len(fitting(p.data))]
    if not firsts:
        return "no plan fits"
    if len(parts) > 1:
        each = (f"{split_in_words(p.data, o[0])} at {p.words}" for p, o in firsts)
        return "best: " + "; ".join(each)
    part, order = firsts[0]
    rates = part.data.throughput.values
    said = f"best: {split_in_words(part.data, order[0])}, {rate(rates[order[0]])} samples/s"
    staged = part.data.pipeline.values[order] > 1
    other = order[staged != staged[0]]
    kind = "without a pipeline" if staged[0] else "with a pipeline"
    if not len(other):
        return said
    ratio, after = rates[order[0]] / rates[other[0]], split_in_words(part.data, int(other[0]))
    return f"{said}: {ratio:.4g} times the best {kind} ({after})"


def _pieces(data: xr.Dataset) -> list[int]:
    """Return the counts of microbatches that are drawn: those whose best plans are the fastest."""
    order = fitting(data)
    staged = order[data.pipeline.values[order] > 1]
    fastest = dict.fromkeys(data.microbatches.values[staged].tolist())
    return sorted(list(fastest)[:MOST_PIECES])


def _splits(axes: Axes, part: xr.Dataset, replicas: Sequence[int], pieces: Sequence[int]) -> None:
    """Draw the lines of one panel."""
    order = fitting(part)
    if not len(order):
        style.nothing(axes, "no plan fits")
        return
    held = np.zeros(part.sizes[ALONG], bool)
    held[order] = True
    degree, rank, stages, many, rates = (
        part[name].values for name in ("data", "tensor", "pipeline", "microbatches", "throughput")
    )
    for copies in replicas:
        colour = style.COLOURS[replicas.index(copies) % len(style.COLOURS)]
        mine = held & (degree == copies) & (stages > 1)
        reach = {n: float(rates[mine & (many == n)].max(initial=0.0)) for n in pieces}
        for count in pieces:
            line = np.flatnonzero(mine & (many == count))
            line = line[np.argsort(rank[line])]
            look = _look(pieces, count)
            if reach[count] < max(reach.values()):  # a line for the fastest count alone
                look |= {"linestyle": "none", "alpha": 0.5}
            axes.plot(rank[line], rates[line], color=colour, linewidth=1.2, **look)
    flat = order[stages[order] == 1]
    flat = flat[np.unique(rank[flat], return_index=True)[1]]  # the best of each degree
    axes.plot(rank[flat], rates[flat], color=style.GREY, linewidth=1.0, zorder=2)
    for i in flat:
        colour = style.COLOURS[replicas.index(int(degree[i])) % len(style.COLOURS)]
        axes.plot(rank[i], rates[i], "*", markersize=12, color=colour, zorder=4)
    style.powers_of_two(axes.xaxis, rank.min(), rank.max())
    axes.set_xlim(rank.min() / 1.3, rank.max() * 1.3)
    _mark(axes, part, int(order[0]))
    axes.set_ylim(0.0, 1.13 * rates[order[0]])
    axes.yaxis.set_major_formatter(FuncFormatter(style.count))
    axes.set_xlabel("tensor ranks H")
    axes.set_ylabel("throughput [samples/s]")
    style.grid(axes)


def _look(pieces: Sequence[int], count: int) -> dict[str, Any]:
    place = pieces.index(count)
    return {
        "linestyle": style.DASHES[place % len(style.DASHES)],
        "marker": style.MARKERS[place % len(style.MARKERS)],
        "markersize": 4.5,
    }


def _mark(axes: Axes, part: xr.Dataset, best: int) -> None:
    """Ring and name the best plan."""
    x, y = float(part.tensor.values[best]), float(part.throughput.values[best])
    axes.plot(x, y, "o", markersize=17, fillstyle="none", color=style.BLACK, zorder=5)
    words = f"{split_in_words(part, best)}: {rate(y)}"
    along = float(fields.fraction(axes, "x", np.array([x]))[0])
    side = "left" if along < SIDE else "right" if along > 1.0 - SIDE else "center"
    away = {"left": -8, "center": 0, "right": 8}[side]
    axes.annotate(
        words, (x, y), xytext=(away, 13), textcoords="offset points", ha=side, fontweight="bold"
    )


def _split_legend(
    made: Figure, data: xr.Dataset, replicas: Sequence[int], pieces: Sequence[int]
) -> None:
    tried = len(set(data.microbatches.values[data.pipeline.values > 1].tolist()))
    left = f" (the {len(pieces)} fastest of {tried} counts)" if tried > len(pieces) else ""
    entries = {
        f"D = {n}": Line2D([], [], color=style.COLOURS[i % len(style.COLOURS)], linewidth=3)
        for i, n in enumerate(replicas)
    }
    entries["no pipeline (P = 1)"] = Line2D(
        [], [], color=style.GREY, marker="*", markersize=11, linewidth=1.0
    )
    entries |= {
        f"M = {n}": Line2D([], [], color=style.BLACK, linewidth=1.2, **_look(pieces, n))
        for n in pieces
    }
    words = "D data ranks, H tensor ranks, P = accelerators / (D H) stages, M microbatches"
    words += "\nlines join the M that is the fastest of each D; faint: other M"
    made.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=4,
        title=f"{words}{left}",
    )
