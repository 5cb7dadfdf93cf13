"""Pipeline schedules side by side: what a step is spent on, and how full each device is."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from jaxroof.errors import refusal
from jaxroof.units import seconds
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.schedule import best_of, gap, rows

PARTS = {  # of a step, in the order they are stacked: words, colour
    "busy_time": ("work and sends that wait", style.BLUE),
    "bubble_time": ("idle", style.ORANGE),
    "data_time": ("data-parallel links", style.GREEN),
}
UPDATE = {"update_time": ("update", style.PURPLE)}  # of an estimator that has it
PICTURE = "schedules"


def schedules(data: xr.Dataset) -> Figure:
    """Return the step time of every schedule by what it is spent on, and the memory by device.

    A schedule that does not fit is drawn paler and dotted.
    Raises: InputError for data that are not those of schedules, or where none allows the plan.
    """
    choose.check_has(data, PICTURE, ("step_time", "memory", *PARTS), ("schedule", "device"))
    if not rows(data):
        raise refusal(PICTURE, "no schedule allows the plan")
    made = style.figure(choose.title(data, "Pipeline schedules side by side"), 4.6)
    left, right = made.subplots(1, 2)
    _times(left, data)
    _memory(right, data)
    return made


def _times(axes: Axes, data: xr.Dataset) -> None:
    found, best = rows(data)[::-1], best_of(data)
    names = [name for name, _ in found]
    paler = [1.0 if bool(row.memory_fits) else 0.45 for _, row in found]
    least = float((data.sel(schedule=best) if best else found[-1][1]).step_time)
    scale, unit = style.human(data.step_time.values, "s")
    start = np.zeros(len(found))
    parts = PARTS | (UPDATE if "update_time" in data else {})
    for part, (_, colour) in parts.items():
        widths = np.array([float(row[part].mean()) / scale for _, row in found])
        bars = axes.barh(names, widths, left=start, color=colour, height=0.62)
        for bar, alpha in zip(bars, paler, strict=True):
            bar.set_alpha(alpha)
        start += widths
    for place, (_, row) in enumerate(found):
        total = float(row.step_time)
        words = f"{seconds(total)} ({gap(total, least)})"
        words += "" if bool(row.memory_fits) else ", does not fit"
        note: Any = {"ha": "right", "fontsize": 9, "va": "center"}
        note["color"] = "white" if bool(row.memory_fits) else style.BLACK
        axes.text(0.97 * float(row.busy_time.mean()) / scale, place, words, **note)
    axes.set_xlabel(style.with_unit("step time, mean over devices", unit))
    handles = [Patch(color=colour, label=words) for words, colour in parts.values()]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 1.12),
        ncols=len(parts),
        fontsize=8,
    )
    style.grid(axes, "x")


def _memory(axes: Axes, data: xr.Dataset) -> None:
    limit = float(data.memory_limit)
    scale, unit = style.human(np.append(data.memory.values.ravel(), limit), "B")
    names = [str(name) for name in data.schedule.values]
    for name, row in rows(data):
        look = style.line_style(names, name, families=False)
        look["linestyle"] = "-" if bool(row.memory_fits) else ":"
        axes.plot(data.device.values, row.memory.values / scale, label=name, **look)
    axes.axhline(limit / scale, color=style.BLACK, linewidth=1.0)
    axes.annotate("usable", (0.01, limit / scale), xycoords=("axes fraction", "data"), va="bottom")
    axes.set_ylim(0.0, None)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("device of the pipeline")
    axes.set_ylabel(style.with_unit("memory", unit))
    axes.legend(fontsize=8)
    style.grid(axes)
