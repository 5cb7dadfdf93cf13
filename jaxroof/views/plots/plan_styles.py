"""What pictures of all plans share, and the best of each style of parallelism against devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from jaxroof.errors import refusal
from jaxroof.views.plan_styles import (
    ALONE,
    ALONG,
    STYLES,
    Point,
    fitting,
    points,
    split_words,
    styles_of,
)
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

COLOURS = (  # of the styles, in their order
    style.GREY,
    style.GREEN,
    style.VERMILION,
    style.PURPLE,
    style.ORANGE,
    style.SKY,
    style.BLUE,
    style.BLACK,
)
MARKERS = ("P", "o", "s", "^", "D", "v", "X", "*")
DASHES: tuple[Any, ...] = ("none", "-", "--", "-", "-", "-", "-.", "-")
LOOKS: dict[str, dict[str, Any]] = {
    name: {"color": colour, "marker": marker}
    for name, colour, marker in zip(STYLES, COLOURS, MARKERS, strict=True)
}
LINES = dict(zip(STYLES, DASHES, strict=True))
ACROSS, MOST_PANELS = 2, 6


def check_styled(
    data: xr.Dataset, picture: str, *columns: str, within: Sequence[str] = ()
) -> list[Point]:
    """Return the points of a study, a panel each; what is ``within`` a panel makes none.

    Raises: InputError where the data are not the plans of a study, or of too many points.
    """
    choose.check_has(
        data, picture, ("throughput", "data", "tensor", "pipeline", *columns), (ALONG,)
    )
    found = points(data, within)
    if len(found) > MOST_PANELS:
        few = f"choose at most {MOST_PANELS}, as with data.isel({ALONG}=data.gpus.values == 16)"
        raise refusal(picture, f"cannot show {len(found)} points of the axes; {few}.")
    return found


def sheet(
    data: xr.Dataset, finding: str, count: int, height: float = 5.4
) -> tuple[Figure, list[Axes]]:
    """Return a figure of some panels, two in a row, under the data's title and a finding."""
    across = min(ACROSS, count)
    down = -(-count // across)
    high = height if down == 1 else 1.2 + 3.6 * down
    said = finding[:1].upper() + finding[1:]
    made = style.figure(choose.title(data, ""), said, high)
    cells = made.subplots(down, across, squeeze=False).ravel().tolist()
    for spare in cells[count:]:
        spare.remove()
    return made, cells[:count]


def entries(data: xr.Dataset) -> dict[str, Line2D]:
    """Return the legend of the styles of parallelism that the legal plans have."""
    legal = data.legal.values.astype(bool)
    known = set(styles_of(data)[legal].tolist())
    return {
        name: Line2D([], [], linestyle="none", markersize=7, **LOOKS[name])
        for name in STYLES
        if name in known
    }


@style.drawn
def best_by_style(data: xr.Dataset) -> Figure:
    """Return the best throughput of each style of parallelism against devices.

    The wide line is the best of all; where one accelerator is among the data, throughput is over
    its best, and the dashed line is ideal. Other axes make panels.
    Raises: InputError where the data are not the plans of a study over accelerators.
    """
    picture = "best_by_style"
    parts = check_styled(data, picture, "gpus", within=("gpus",))
    words = _winners(parts[0].data) if len(parts) == 1 else "best of each style of parallelism"
    made, cells = sheet(data, words, len(parts))
    for axes, (name, part) in zip(cells, parts, strict=True):
        axes.set_title(name)
        _against_devices(axes, part)
    shown = entries(data)
    for name, line in shown.items():
        line.set_linestyle(LINES[name])
    shown["best of all"] = Line2D([], [], **BEST)
    made.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3)
    return made


BEST: dict[str, Any] = {"color": "#D9D9D9", "linewidth": 9, "solid_capstyle": "round"}


def _sizes(part: xr.Dataset) -> list[tuple[float, xr.Dataset]]:
    """Return the plans of each number of accelerators that any plan fits on."""
    sizes = part.gpus.values
    found = [(float(n), part.isel({ALONG: sizes == n})) for n in np.unique(sizes)]
    return [(n, one) for n, one in found if len(fitting(one))]


def _winners(part: xr.Dataset) -> str:
    """Return which style is best from which number of accelerators on, and the last plan."""
    spans: list[list[Any]] = []
    for n, one in _sizes(part):
        name = str(styles_of(one)[fitting(one)[0]])
        if name != ALONE and (not spans or spans[-1][0] != name):
            spans.append([name, n, n])
        elif name != ALONE:
            spans[-1][2] = n
    if not spans:
        return "no plan fits on several accelerators"
    said = [f"{s} on {a:,.0f}{f' to {b:,.0f}' if b > a else ''}" for s, a, b in spans]
    return f"best: {', '.join(said)}{_last(part)}"


def _last(part: xr.Dataset) -> str:
    """Return how far the most accelerators get, where there is one to compare with."""
    found = _sizes(part)
    (first, one), (last, many) = found[0], found[-1]
    i, j = fitting(one)[0], fitting(many)[0]
    if first != 1.0 or last == 1.0:
        return ""
    gain = float(many.throughput.values[j] / one.throughput.values[i])
    return f"; {gain:.3g} times one accelerator on {last:,.0f} ({split_words(many, int(j))})"


def _against_devices(axes: Axes, part: xr.Dataset) -> None:
    """Draw the best of every style and of all in one panel."""
    found = _sizes(part)
    if not found:
        style.nothing(axes, "no plan fits")
        return
    sizes = np.array([n for n, _ in found])
    best = np.array([one.throughput.values[fitting(one)[0]] for _, one in found])
    single = float(best[0]) if sizes[0] == 1.0 else None
    unit = single or 1.0
    axes.plot(sizes, best / unit, zorder=1, **BEST)
    if single:
        ends = np.array([1.0, sizes.max()])
        axes.plot(ends, ends, color=style.GREY, linewidth=1.0, dashes=(6, 3), zorder=1)
        axes.annotate("ideal", (ends[1], ends[1]), xytext=(-4, 0), textcoords="offset points",
                      ha="right", color="#555555")  # fmt: skip
    for name in STYLES:  # what is drawn first shows behind what is drawn over it
        rates = np.full(len(found), np.nan)
        for place, (_, one) in enumerate(found):
            order = fitting(one)
            mine = order[styles_of(one)[order] == name]
            if len(mine):
                rates[place] = one.throughput.values[mine[0]] / unit
        wide = 9.0 - 0.5 * STYLES.index(name)
        look: dict[str, Any] = {**LOOKS[name], "linestyle": LINES[name], "markersize": wide}
        axes.plot(sizes, rates, linewidth=wide / 4.0, zorder=3, label=name, **look)
    style.sizes_axis(axes, sizes)
    low, high = axes.get_ylim()
    if single:
        style.powers_of_two(axes.yaxis, max(low, 2.0**-4), high)
        axes.set_ylabel("speed-up over the best of one accelerator")
    else:
        axes.set_yscale("log")
        axes.set_ylabel("throughput [samples/s]")
        axes.yaxis.set_major_formatter(FuncFormatter(style.count))
        axes.yaxis.set_minor_formatter(FuncFormatter(few))
    style.grid(axes)


def few(value: float, _: object = None) -> str:
    """Return a minor tick of a decade where it starts with 2 or 5, else nothing."""
    return style.count(value) if f"{value:e}"[0] in "25" else ""
