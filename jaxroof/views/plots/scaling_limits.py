"""Utilisation against the FLOP of a training run: where scaling ends, machine by machine."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator, PercentFormatter

from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.scaling_limits import MARKS, flop

MARKERS = {"threshold_80": "o", "threshold_50": "s"}
BAND = (0.4, 0.72)  # of utilisation, where the legend lies
ACROSS = 2  # panels in a row
WIDE = 1e3  # a wall less than this above the first run has its words on the right


@style.drawn
def frontier(data: xr.Dataset) -> Figure:
    """Return the best utilisation against the FLOP of the run, a line a machine.

    Marks where 80 % and 50 % are last reached, where the data tell, and the latency wall, behind
    which it is hatched. Other dimensions make panels.
    Raises: InputError where the data have no utilisation over runs.
    """
    kept = choose.best_plans(data)
    choose.check_has(kept, "frontier", ("relative_utilisation",), ("training_flops",))
    dims = [str(dim) for dim in kept.sizes if dim != "training_flops"]
    lines = "system" if "system" in dims else dims[-1] if dims else ""
    parts = choose.panels(kept, [dim for dim in dims if dim != lines])
    across = min(ACROSS, len(parts))
    down = -(-len(parts) // across)
    title = choose.title(data, "Utilisation of the largest training runs")
    made = style.figure(title, 6.0 if down == 1 else 1.0 + 4.0 * down, 6.2 + 3.4 * across)
    cells = made.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for number, (axes, (name, part)) in enumerate(zip(cells, parts, strict=False)):
        _panel(axes, part, lines)
        axes.set_title(textwrap.fill(name, 60))
        if number % across == 0:
            axes.set_ylabel("utilisation, of the sustained rate")
        if number >= len(parts) - across:
            axes.tick_params(axis="x", labelbottom=True)
            axes.set_xlabel("training run [FLOP]")
    for spare in cells[len(parts) :]:
        spare.remove()
    entries = _marks(kept)
    if entries:
        made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)
    return made


def _panel(axes: Axes, part: xr.Dataset, lines: str) -> None:
    """Draw the lines of one panel with their marks, and what they are in its legend."""
    names = _names(part, lines)
    runs = part.training_flops.values
    axes.set_xscale("log")
    axes.set_xlim(runs[0], runs[-1])
    axes.set_ylim(0.0, 1.08)
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    for share in (0.8, 0.5):
        axes.axhline(share, color=style.GREY, linewidth=0.8, dashes=(6, 3), zorder=1)
    shared = "wall" in part and lines not in part["wall"].dims
    for number, name in enumerate(names):
        one = part.isel({lines: number}) if lines else part
        look = style.line_style(names, name, families=False)
        colour = look["color"]
        axes.plot(
            runs,
            np.where(one.relative_utilisation > 0.0, one.relative_utilisation, np.nan),
            color=colour,
            linewidth=1.8,
            label=_legend(name, one, wall=not shared),
            zorder=3,
        )
        for mark, marker in MARKERS.items():
            if mark in one and float(one[mark]) > 0.0:
                at = float(one[mark])
                reached = float(mark[-2:]) / 100
                axes.plot(at, reached, marker, color=colour, markeredgecolor="white", zorder=6)
        if not shared:
            _wall(axes, one, colour)
    if shared:
        _wall(axes, part, "black", hatched=True)
    place = (_room(axes, part), sum(BAND) / 2 / axes.get_ylim()[1])
    small = {}
    if axes.get_legend_handles_labels()[0]:  # one machine alone has no name to tell
        axes.legend(loc="center", bbox_to_anchor=place, title=_head(part), **small)
    style.grid(axes)


def _room(axes: Axes, part: xr.Dataset) -> float:
    """Return where, of the width, the widest gap is between all that crosses the legend's band."""
    share = part.relative_utilisation.transpose("training_flops", ...).values
    runs = np.log(part.training_flops.values)
    share = share.reshape(len(runs), -1)
    low, high = np.minimum(share[1:], share[:-1]), np.maximum(share[1:], share[:-1])
    crossed = np.any((low < BAND[1]) & (high > BAND[0]), axis=1)
    taken = [runs[0], runs[-1], *runs[1:][crossed], *runs[:-1][crossed]]
    if "wall" in part:
        walls = part.wall.values[part.wall_exists.values].ravel()
        taken.extend(w for w in np.log(walls) if runs[0] < w < runs[-1])
    edges = np.sort(taken)
    widest = int(np.argmax(np.diff(edges)))
    middle = (edges[widest] + edges[widest + 1]) / 2
    return float((middle - runs[0]) / (runs[-1] - runs[0]))


def _names(part: xr.Dataset, lines: str) -> list[str]:
    if not lines:
        return [""]
    return [choose.label(part, lines, number) for number in range(part.sizes[lines])]


def _head(part: xr.Dataset) -> str:
    marks = [words for mark, words in MARKS.items() if mark in part]
    return f"largest run at {' and at '.join(marks)} [FLOP]" if marks else ""


def _legend(name: str, one: xr.Dataset, *, wall: bool) -> str:
    """Return the name of a line and where it reaches the marks."""
    said = [flop(float(one[mark])) for mark in MARKS if mark in one]
    if wall and "wall" in one and bool(one.wall_exists):
        said.append(f"wall {flop(float(one.wall))}")
    return ": ".join(filter(None, (name, ", ".join(said))))


def _wall(axes: Axes, one: xr.Dataset, colour: str, *, hatched: bool = False) -> None:
    """Draw the latency wall where it is in sight."""
    if "wall" not in one or not bool(one.wall_exists):
        return
    low, high = axes.get_xlim()
    at = float(one.wall)
    where = {"ha": "right", "va": "top", "transform": axes.get_xaxis_transform()}
    if at >= high:
        if hatched:
            style.note(
                axes, high / 1.2, 0.97, f"latency wall at {flop(at)}, off the scale", **where
            )
        return
    axes.axvline(max(at, low), color=colour, linewidth=1.6, linestyle=":", zorder=4)
    if hatched:
        axes.axvspan(max(at, low), high, zorder=0.5, **style.UNFIT)
        place = {**where, "ha": "left"} if at < low * WIDE else where
        style.note(axes, max(at, low), 0.97, f"latency wall at {flop(at)}", **place)


def _marks(data: xr.Dataset) -> dict[str, Line2D]:
    """Return what the legend says of the marks."""
    found = {
        f"{MARKS[mark]} is last reached": Line2D(
            [], [], color="black", marker=marker, linestyle="none"
        )
        for mark, marker in MARKERS.items()
        if mark in data
    }
    if "wall" in data and np.any(data.wall_exists.values):
        found["latency wall: no run beyond it ends in time"] = Line2D(
            [], [], color="black", linestyle=":"
        )
    return found
