"""Pipeline schedules side by side: what a step is spent on, and how full its devices are."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jaxroof.errors import listing, refusal
from jaxroof.units import seconds, size
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.schedule import best_of, gap, rows

PARTS = {  # of a step, in the order they are stacked: words, colour
    "busy_time": ("computing, and sends that nothing hides", style.BLUE),
    "bubble_time": ("idle", style.PALE),
    "data_time": ("data-parallel messages", style.GREEN),
}
UPDATE = {"update_time": ("update", style.BROWN)}  # of an estimator that has it
PICTURE = "schedules"
HIGH = 0.66  # of a row
PALE = 0.45  # of what does not fit
INSIDE = 0.4  # of the axis: a bar so long has its words inside
BESIDE: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}


@style.drawn
def schedules(data: xr.Dataset) -> Figure:
    """Return the step time of every schedule by what it is spent on, and the memory that it needs.

    A schedule that does not fit is drawn paler; its memory lies beyond the line of the capacity.
    Raises: InputError for data that are not those of schedules, or where none allows the plan.
    """
    choose.check_has(data, PICTURE, ("step_time", "memory", *PARTS), ("schedule", "device"))
    if not rows(data):
        raise refusal(PICTURE, "no schedule allows the plan")
    high = 2.8 + 0.5 * len(rows(data))
    made = style.figure(choose.title(data, "Pipeline schedules"), _finding(data), high)
    left, right = made.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    _times(left, data)
    _memory(right, data)
    parts = PARTS | (UPDATE if "update_time" in data else {})
    handles = [Patch(color=colour, label=words) for words, colour in parts.values()]
    handles.append(Patch(color=style.GREY, label="fullest device; white line: the leanest"))
    if not all(bool(row.memory_fits) for _, row in rows(data)):
        handles.append(Patch(color=style.GREY, alpha=PALE, label="pale: does not fit"))
    made.legend(handles=handles, loc="outside lower center", ncols=2)
    return made


def _finding(data: xr.Dataset) -> str:
    """Return the best schedule that fits, by how much, and what does not fit."""
    best, found = best_of(data), rows(data)
    full = [name for name, row in found if not bool(row.memory_fits)]
    if best is None:
        least = min(float(row.memory.max()) for _, row in found)
        limit = size(float(data.memory_limit), "B")
        return f"No schedule fits: the leanest needs {size(least, 'B')} of {limit}"
    time = float(data.sel(schedule=best).step_time)
    others = [(name, float(row.step_time)) for name, row in found if bool(row.feasible)][1:]
    longer = f", {others[-1][0]} takes {gap(others[-1][1], time)[1:]} longer" if others else ""
    out = f"; {listing(full)} {'does' if len(full) == 1 else 'do'} not fit" if full else ""
    return f"Best: {best}, {seconds(time)}{longer}{out}"


def _paler(found: list[tuple[str, xr.Dataset]]) -> list[float]:
    return [1.0 if bool(row.memory_fits) else PALE for _, row in found]


def _ordered(data: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """Return the schedules from the bottom up: the best that fits stands on top."""
    found = rows(data)[::-1]
    found.sort(key=lambda row: bool(row[1].memory_fits))
    return found


def _times(axes: Axes, data: xr.Dataset) -> None:
    """Draw what each step is spent on, with the step time beside it."""
    found = _ordered(data)
    names = [name for name, _ in found]
    scale, unit = style.human(data.step_time.values, "s")
    start = np.zeros(len(found))
    parts = PARTS | (UPDATE if "update_time" in data else {})
    for part, (_, colour) in parts.items():
        widths = np.array([float(row[part].mean()) / scale for _, row in found])
        bars = axes.barh(names, widths, left=start, color=colour, height=HIGH)
        for bar, alpha in zip(bars, _paler(found), strict=True):
            bar.set_alpha(alpha)
        start += widths
    for place, (_, row) in enumerate(found):
        _beside(axes, float(start[place]), place, seconds(float(row.step_time)))
    axes.set_xlim(0.0, 1.3 * float(start.max()))
    axes.set_xlabel(style.with_unit("step time", unit))
    style.grid(axes, "x")


def _memory(axes: Axes, data: xr.Dataset) -> None:
    """Draw what the fullest and the leanest device need under each schedule, and the capacity."""
    found, limit = _ordered(data), float(data.memory_limit)
    scale, unit = style.human(np.append(data.memory.values.ravel(), limit), "B")
    top = max(float(np.nanmax(data.memory.values)), limit) / scale
    for place, ((_, row), alpha) in enumerate(zip(found, _paler(found), strict=True)):
        most, least = (float(end) / scale for end in (row.memory.max(), row.memory.min()))
        axes.barh(place, most, color=style.GREY, height=HIGH, alpha=alpha)
        axes.vlines(least, place - HIGH / 2, place + HIGH / 2, color="white", linewidth=2)
        words = size(float(row.memory.max()), "B")
        if most > INSIDE * top:
            axes.annotate(words, (0.0, place), color="white", **BESIDE)
        else:
            _beside(axes, most, place, words)
    axes.axvline(limit / scale, color=style.BLACK, linewidth=1.4, linestyle="--")
    axes.set_xlim(0.0, 1.08 * top)
    axes.set_title(f"dashed: usable {size(limit, 'B')}")
    axes.set_xlabel(style.with_unit("memory of a device", unit))
    style.grid(axes, "x")


def _beside(axes: Axes, x: float, place: float, words: str) -> None:
    """Write words to the right of a bar."""
    axes.annotate(words, (x, place), **BESIDE)
