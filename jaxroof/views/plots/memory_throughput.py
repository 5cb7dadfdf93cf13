"""Peak memory against throughput of every plan, by style of parallelism, with the Pareto front."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from jaxroof.errors import refusal
from jaxroof.units import percent, size
from jaxroof.views.plan_styles import (
    ALONG,
    STYLES,
    Point,
    capacities,
    fitting,
    front,
    split_in_words,
    styles_of,
)
from jaxroof.views.plots import style
from jaxroof.views.plots.plan_styles import (
    LOOKS,
    check_styled,
    entries,
    few,
    sheet,
)
from jaxroof.views.text.all_plans import rate

FRONT = "Pareto front: nothing is faster in less"
MOST_NAMED = 4  # plans of a front that are listed
NEAR = 14.0  # pixels: of numbers that are closer one stands on the right
WIDE = 8.0  # an axis over a larger ratio is logarithmic


@style.drawn
def memory_throughput(data: xr.Dataset) -> Figure:
    """Return throughput against the peak memory of every legal plan, by style of parallelism.

    The line is the Pareto front: no plan has more throughput in less memory; where there is one
    panel its plans are numbered and listed. Plans that do not fit are hollow, beyond the capacity;
    illegal ones are left out. What axes move makes panels.
    Raises: InputError where the data are not the plans of a study, or of too many points.
    """
    picture = "memory_throughput"
    parts = check_styled(data, picture, "memory", "legal")
    if not np.nanmax(data.memory.values, initial=0.0) > 0.0:
        raise refusal(picture, "the data have no memory; expected a profile that has, as distir-b")
    alone = len(parts) == 1
    made, cells = sheet(data, _finding(parts), len(parts), height=7.0)
    shown: dict[str, Line2D] = entries(data)
    shown[FRONT] = Line2D([], [], color=style.BLACK, linewidth=1.2)
    if (_legal(data) & ~data.feasible.values.astype(bool)).any():
        hollow: dict[str, Any] = {"fillstyle": "none", "linestyle": "none", "color": style.BLACK}
        shown["does not fit"] = Line2D([], [], marker="o", markersize=7, **hollow)
    for axes, (words, part) in zip(cells, parts, strict=True):
        axes.set_title(words)
        _panel(axes, part)
        if alone:
            shown |= _numbered(axes, part)
    title = "marks: how the devices are split"
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "title": title}
    if alone:
        place["ncols"] = 2
    made.legend(shown.values(), shown.keys(), **place)
    return made


def _finding(parts: Sequence[Point]) -> str:
    """Return the two ends of the front, where there is one point."""
    part = parts[0].data
    stairs = front(part)
    if len(parts) > 1:
        return "the front: most throughput in the least memory"
    if not len(stairs):
        return _nothing(part)
    rates, needs = part.throughput.values, part.memory.values
    fast, lean = int(stairs[-1]), int(stairs[0])
    most = f"fastest: {split_in_words(part, fast)}, {rate(rates[fast])} samples/s"
    most += f" in {size(needs[fast], 'B')}"
    if fast == lean:
        return f"{most}, which is also the leanest"
    of_both = (percent(some[lean] / some[fast]) for some in (needs, rates))
    share = " of the memory at ".join(of_both)
    return f"{most}; leanest: {split_in_words(part, lean)}, {share} of the throughput"


def _nothing(part: xr.Dataset) -> str:
    """Return what the leanest legal plan needs, where none fits."""
    legal = np.flatnonzero(_legal(part))
    if not len(legal):
        return "no plan is legal"
    lean = int(legal[np.argmin(part.memory.values[legal])])
    limit, need = capacities(part), size(float(part.memory.values[lean]), "B")
    of = f" of {size(float(limit[lean]), 'B')}" if limit is not None else ""
    return f"no plan fits: the leanest, {split_in_words(part, lean)}, needs {need}{of}"


def _legal(part: xr.Dataset) -> np.ndarray:
    """Return which plans have results."""
    allowed: np.ndarray = part.legal.values.astype(bool) & np.isfinite(part.throughput.values)
    return allowed


def _panel(axes: Axes, part: xr.Dataset) -> None:
    """Draw the plans of one panel, the front and the capacity."""
    legal = _legal(part)
    if not legal.any():
        style.nothing(axes, "no plan is legal")
        return
    held = np.isin(np.arange(part.sizes[ALONG]), fitting(part))
    styles, rates = styles_of(part), part.throughput.values
    scale, unit = style.human(part.memory.values[legal], "B")
    needs = part.memory.values / scale
    for name in STYLES:
        for kept, fill in ((held, "full"), (legal & ~held, "none")):
            mine = kept & (styles == name)
            look: dict[str, Any] = {**LOOKS[name], "markersize": 7, "fillstyle": fill}
            axes.plot(needs[mine], rates[mine], linestyle="none", alpha=0.9, zorder=3, **look)
    _scales(axes, needs[legal], rates[legal])
    stairs = front(part)
    axes.step(needs[stairs], rates[stairs], where="post", color=style.BLACK, zorder=2)
    _limit(axes, part, needs[legal], scale)
    axes.set_xlabel(style.with_unit("peak memory of the fullest device", unit))
    axes.set_ylabel("throughput [samples/s]")
    style.grid(axes)


def _scales(axes: Axes, needs: np.ndarray, rates: np.ndarray) -> None:
    """Set an axis to logarithms where it is over a large ratio, with room for numbers."""
    for values, axis in ((needs, axes.xaxis), (rates, axes.yaxis)):
        along = axis is axes.xaxis
        if values.max() > WIDE * values.min():
            (axes.set_xscale if along else axes.set_yscale)("log")
            axis.set_minor_formatter(FuncFormatter(few))
        else:
            (axes.set_xlim if along else axes.set_ylim)(0.0, 1.08 * values.max())
        axis.set_major_formatter(FuncFormatter(style.count))


def _numbered(axes: Axes, part: xr.Dataset) -> dict[str, Line2D]:
    """Number the plans of the front and return what they are."""
    stairs = front(part)
    count = min(len(stairs), MOST_NAMED)
    scale, _ = style.human(part.memory.values[part.legal.values.astype(bool)], "B")
    found, last = {}, np.array([np.inf, np.inf])
    places = sorted({round(i) for i in np.linspace(0, len(stairs) - 1, count).tolist()})
    for number, place in enumerate(places, 1):
        i = int(stairs[place])
        need, rates = float(part.memory.values[i]), float(part.throughput.values[i])
        here = axes.transData.transform((need / scale, rates))
        near = bool(np.abs(here - last)[1] < NEAR)
        side: dict[str, Any] = {
            "xytext": (7, 5) if near else (-6, 4),
            "ha": "left" if near else "right",
        }
        last = here
        axes.annotate(str(number), (need / scale, rates), textcoords="offset points", **side)
        words = (
            f"{number}: {split_in_words(part, i)}\n    {size(need, 'B')}, {rate(rates)} samples/s"
        )
        found[words] = Line2D([], [], linestyle="none")
    return found


def _limit(axes: Axes, part: xr.Dataset, needs: np.ndarray, scale: float) -> None:
    """Draw the capacity where it is near, else say where it is."""
    found = capacities(part)
    if found is None:
        return
    at = float(found[0]) / scale
    words = f"capacity {size(float(found[0]), 'B')}"
    low, high = axes.get_xlim()
    if at > 3.0 * needs.max():
        corner: dict[str, Any] = {"ha": "right", "va": "bottom", "transform": axes.transAxes}
        style.note(axes, 0.99, 0.02, f"{words}: far to the right", **corner)
        return
    axes.set_xlim(min(low, at / 1.2), max(high, at * 1.2))
    axes.axvspan(at, axes.get_xlim()[1], zorder=0.5, **style.UNFIT)
    axes.axvline(at, color=style.BLACK, linewidth=1.2, linestyle="--")
    style.note(axes, at, 0.02, words, rotation=90, ha="right", va="bottom",
               transform=axes.get_xaxis_transform())  # fmt: skip
