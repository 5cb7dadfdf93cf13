"""Utilisation against the FLOP of a training run: where scaling ends, machine by machine."""

import re
import textwrap
from fractions import Fraction
from typing import Any

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
HIGHEST, LOWEST = 0.72, 0.26  # utilisation at which the names of the lines stand
HALF = 0.5  # utilisation below which a line has fallen
AWAY = 0.06  # share of the runs between the last line that falls and the names
EXPONENT = re.compile(r"(\w+) exponent ([\d.]+)")
ACROSS = 2  # panels in a row
ROOM = 44  # letters above a panel


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
    made = style.figure(title, _finding(kept, lines), style.HIGH if down == 1 else 1.6 + 3.1 * down)
    cells = made.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for number, (axes, (name, part)) in enumerate(zip(cells, parts, strict=False)):
        _panel(axes, part, lines)
        axes.set_title(_heading(name, part, lines))
        if number % across == 0:
            axes.set_ylabel("share of the peak rate used")
        if number >= len(parts) - across:
            axes.tick_params(axis="x", labelbottom=True)
            axes.set_xlabel("training run [FLOP]")
    for spare in cells[len(parts) :]:
        spare.remove()
    made.draw_without_rendering()
    if lines:  # in the panel with the most room
        walls = [
            float(part.wall) if "wall" in part and not part.wall.ndim else 0.0 for _, part in parts
        ]
        place = int(np.argmax(walls))
        _labels(cells[place], parts[place][1], lines)
    entries = _marks(kept)
    if entries:
        grows = any(EXPONENT.search(name) for name, _ in parts)
        said = "panels: how batch and depth of the model grow with the run" if grows else None
        look: dict[str, Any] = {"loc": "outside lower center", "ncols": 2, "title": said}
        made.legend(entries.values(), entries.keys(), **look)
    return made


def _panel(axes: Axes, part: xr.Dataset, lines: str) -> None:
    """Draw the lines of one panel with their marks, and what they are in its legend."""
    names = _names(part, lines)
    runs = part.training_flops.values
    axes.set_xscale("log")
    axes.set_xlim(runs[0], runs[-1])
    axes.set_ylim(0.0, 1.08)
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
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
            label=name or None,
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
    style.grid(axes)


def _finding(data: xr.Dataset, lines: str) -> str:
    """Return which machine keeps 80 % of its rate for the largest runs, and which the smallest.

    Nothing is claimed of runs that are larger than those of the data.
    """
    mark = next((name for name in MARKS if name in data), "")
    if not mark or not (data[mark].values > 0.0).any():
        return ""
    share, reach = MARKS[mark], data[mark].where(data[mark] > 0.0)
    last = float(data.training_flops.max())
    panels = [dim for dim in reach.dims if dim != lines]
    surely, ever = reach.min(panels), reach.max(panels)
    best = int(surely.argmax(lines)) if lines else 0
    worst = int(ever.argmin(lines)) if lines else 0
    most = float(surely.max())
    least = " at least" if float(ever.max()) > most else ""
    far = f"beyond {flop(last)} FLOP" if most > last else f"up to {flop(most)} FLOP{least}"
    said = f"{choose.label(data, lines, best) if lines else 'It'} keeps {share} of its rate {far}"
    if not lines or worst == best or float(ever.min()) > last:
        return said
    return f"{said}, {choose.label(data, lines, worst)} up to {flop(float(ever.min()))} at most"


def _labels(axes: Axes, part: xr.Dataset, lines: str) -> None:
    """Write the names of the lines: of those that stay up below them, of others beside them.

    The latter stand one below the other where it is free, each tied to its line.
    """
    runs, share = np.log(part.training_flops.values), part.relative_utilisation
    names = _names(part, lines)
    own = [share.isel({lines: i}).values for i in range(len(names))]
    drops = {i: _drop(runs, values, HALF) for i, values in enumerate(own)}
    wide, top = runs[-1] - runs[0], axes.get_ylim()[1]
    fallen = [i for i in drops if _falls(own[i])]
    left = max((drops[i] - runs[0]) / wide for i in fallen) + AWAY if fallen else 0.0
    levels = np.linspace(HIGHEST, LOWEST, len(fallen)) if len(fallen) > 1 else [HIGHEST]
    for level, i in zip(levels, sorted(fallen, key=lambda i: -drops[i]), strict=False):
        colour = style.line_style(names, names[i], families=False)["color"]
        at = (_drop(runs, own[i], float(level)) - runs[0]) / wide
        high = float(level) / top
        look: dict[str, Any] = {"ha": "left", "va": "center", "color": colour, "zorder": 6}
        axes.text(left + 0.02, high, names[i], transform=axes.transAxes, **look)
        line = {"color": colour, "linewidth": 0.9, "transform": axes.transAxes, "zorder": 2}
        axes.plot([at, left + 0.01], [high, high], **line)
    for place, i in enumerate(i for i in drops if i not in fallen):
        colour = style.line_style(names, names[i], families=False)["color"]
        below = (float(own[i][own[i] > 0.0].min(initial=1.0)) - 0.1 * (place + 0.6)) / top
        where = {"ha": "left", "va": "center", "color": colour, "transform": axes.transAxes}
        axes.text(left + 0.02, below, names[i], **where)


def _falls(share: np.ndarray) -> bool:
    """Return whether a line falls below half in sight; where there is no number it ends."""
    held = share[share > 0.0]
    return bool(len(held) and held.min() < HALF)


def _drop(runs: np.ndarray, share: np.ndarray, level: float) -> float:
    """Return where a line last reaches a level, as the logarithm of the run."""
    held = np.flatnonzero(share >= level)
    return float(runs[held[-1]]) if len(held) else float(runs[0])


def _names(part: xr.Dataset, lines: str) -> list[str]:
    if not lines:
        return [""]
    return [choose.label(part, lines, number) for number in range(part.sizes[lines])]


def _wall(axes: Axes, one: xr.Dataset, colour: str, *, hatched: bool = False) -> None:
    """Draw the latency wall where it is in sight."""
    if "wall" not in one or not bool(one.wall_exists):
        return
    (low, high), at = axes.get_xlim(), float(one.wall)
    if at >= high:
        return
    axes.axvline(max(at, low), color=colour, linewidth=1.6, linestyle=":", zorder=4)
    if hatched:
        axes.axvspan(max(at, low), high, zorder=0.5, **style.UNFIT)


def _heading(name: str, part: xr.Dataset, lines: str) -> str:
    """Return what a panel is, with its latency wall where all lines share it."""
    said = textwrap.fill(_grows(name), ROOM)
    if "wall" not in part or lines in part["wall"].dims or not bool(part.wall_exists):
        return said
    return f"{said}\nlatency wall at {flop(float(part.wall))} FLOP".lstrip()


def _grows(name: str) -> str:
    """Return what grows how with the FLOP of a run, in words.

    >>> _grows("batch exponent 0.167, depth exponent 0")
    'batch ∝ FLOP^1/6, depth constant'
    """

    def told(found: re.Match[str]) -> str:
        power = Fraction(found[2]).limit_denominator(12)
        return f"{found[1]} ∝ FLOP^{power}" if power else f"{found[1]} constant"

    return EXPONENT.sub(told, name)


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
        found["latency wall: no larger run ends in time"] = Line2D(
            [], [], color="black", linestyle=":"
        )
    return found
