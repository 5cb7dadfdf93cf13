"""A whole run over accelerators: dollars, days, and where the time of the best goes."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import RED, TIMES
from jaxroof.views.text.budget import AIMS, decision

HIGH = 9.5  # inches
LABELS = 9  # numbers of accelerators named below the picture
SEEN = 2e-3  # of the wall time: a shorter bar is not drawn
SCALES = {"cost": (1e6, "cost [million $]"), "energy": (3.6e12, "energy [GWh]")}
SCALES |= {"carbon": (1e6, "carbon [kt]"), "wall_days": (1.0, "days")}
DAY = 86400.0
STOPS = RED  # of what is no healthy step


@style.drawn
def picture(data: xr.Dataset) -> Figure:
    """Return dollars and days over accelerators with the deadline, and the wall time of the best.

    Raises: InputError for data that `jaxroof budget` did not make.
    """
    choose.check_has(data, "budget", ["wall_days", "allowed"], ("choice",))
    found = decision(data).partition("; save")[0]
    made = style.figure(choose.title(data, "Budget"), found, HIGH)
    above, middle, below = made.subplots(3, 1, height_ratios=(1.0, 1.0, 1.3))
    aim = AIMS[str(data.attrs["minimise"])]
    aim = aim if aim != "wall_days" else next(n for n in ("cost", "energy", aim) if n in data)
    _lines(above, data, aim)
    _lines(middle, data, "wall_days")
    if "deadline_days" in data.attrs:
        middle.axhline(float(data.attrs["deadline_days"]), color=style.BLACK, linestyle="--")
        middle.annotate(
            "deadline", (0.99, float(data.attrs["deadline_days"])),
            (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points", ha="right",
        )  # fmt: skip
    above.set_xlabel("")
    if not data.allowed.values.all():
        look: dict[str, Any] = {"color": style.BLACK, "markerfacecolor": "white"}
        above.plot([], [], "o", label="not allowed", **look)
    _waterfall(below, _shown(data))
    style.legend(made, [above])
    return made


def _shown(data: xr.Dataset) -> xr.Dataset:
    """Return the best choice, or the soonest where none is allowed."""
    best = int(data.best)
    return data.isel(choice=best if best >= 0 else int(np.argmin(data.wall_days.values)))


def _lines(axes: Axes, data: xr.Dataset, name: str) -> None:
    """Draw a result over the accelerators of every system; the best is a star."""
    scale, words = SCALES[name]
    for place, system in enumerate(dict.fromkeys(data.system.values.astype(str))):
        rows = data.isel(choice=np.flatnonzero(data.system.values == system)).sortby("gpus")
        look: dict[str, Any] = {"color": style.COLOURS[place % len(style.COLOURS)]}
        axes.plot(rows.gpus, rows[name] / scale, "-", linewidth=1.5, **look)
        allowed = rows.isel(choice=np.flatnonzero(rows.allowed.values))
        axes.plot(rows.gpus, rows[name] / scale, "o", markerfacecolor="white", **look)
        axes.plot(allowed.gpus, allowed[name] / scale, "o", label=system, **look)
    if int(data.best) >= 0:
        best = _shown(data)
        axes.plot(
            best.gpus, best[name] / scale, "*", color=style.BLACK, markersize=14, label="best"
        )
    sizes = np.unique(data.gpus.values)
    style.sizes_axis(axes, sizes)
    axes.xaxis.set_major_locator(FixedLocator(sizes[:: -(-len(sizes) // LABELS)].tolist()))
    axes.set_ylim(0.0, 1.1 * float(np.nanmax(data[name].values)) / scale)
    axes.set_ylabel(words)
    style.grid(axes)


def _waterfall(axes: Axes, run: xr.Dataset) -> None:
    """Draw the days of one run from its healthy step to its wall time, a bar each."""
    whole = float(run.wall_days)
    parts = {
        str(run[name].attrs.get("words", name)): float(run[name]) / DAY
        for name in run.data_vars
        if run[name].attrs.get("part_of") == "wall_time"
    }
    seen = {words: value for words, value in parts.items() if value > SEEN * whole}
    start = 0.0
    for place, (words, value) in enumerate(seen.items()):
        axes.barh(place, value, left=start, color=TIMES.get(words, STOPS), height=0.7)
        axes.annotate(
            f"{value:.3g}", (start + value, place), (4, 0), textcoords="offset points", va="center"
        )
        start += value
    axes.set_yticks(range(len(seen)), [*seen])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.1 * whole)
    name = f"{int(run.gpus):,} {run.system.values}"
    axes.set_xlabel(f"where the {whole:.3g} days of {name} go [days]")
    style.grid(axes, "x")
