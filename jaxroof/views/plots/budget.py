"""A whole run over accelerators: dollars, days, and where the time of the best goes."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from jaxroof.analyses.budget import AIMS, LIMITS
from jaxroof.units import days
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import GREY, RED, TIMES
from jaxroof.views.text.budget import decision

ROWS = {"wall_days": 1.2, "peak_site_watts": 0.7}  # heights of panels, of that of dollars
WATERFALL, INCH = 1.6, 2.2
LABELS = 9  # numbers of accelerators named below the picture
SEEN = 2e-3  # of the wall time: a shorter bar is not drawn
SCALES = {"cost": (1e6, "cost [million $]"), "energy": (3.6e12, "energy [GWh]")}
SCALES |= {"carbon": (1e6, "carbon [kt]"), "wall_days": (1.0, "days")}
SCALES |= {"peak_site_watts": (1e6, "power [MW]")}
DAY = 86400.0
BAND = "published runs"


@style.drawn
def picture(data: xr.Dataset) -> Figure:
    """Return dollars and days over accelerators with the limits, and the wall time of the best.

    Raises: InputError for data that `jaxroof budget` did not make.
    """
    choose.check_has(data, "budget", ["wall_days", "allowed"], ("choice",))
    aim = AIMS[str(data.attrs["minimise"])]
    aim = aim if aim != "wall_days" else next((n for n in ("cost", "energy") if n in data), aim)
    bounded = {name: data.attrs[most] for name, most in LIMITS.values() if most in data.attrs}
    names = list(dict.fromkeys([aim, "wall_days", *bounded]))
    highs = [*(ROWS.get(name, 1.0) for name in names), WATERFALL]
    found = decision(data).partition("; save")[0]
    made = style.figure(choose.title(data, "Budget"), found, 1.6 + INCH * sum(highs))
    *over, below = made.subplots(len(highs), 1, height_ratios=highs)
    for axes, name in zip(over, names, strict=True):
        _lines(axes, data, name)
        if name in bounded:
            _limit(axes, float(bounded[name]) / _scale(data, name)[0], name)
        axes.tick_params(labelbottom=axes is over[-1])
        axes.set_xlabel("accelerators" if axes is over[-1] else "")
    if not data.allowed.values.all():
        words = " or ".join(
            {"wall_days": "late", "peak_site_watts": "too much power"}[n] for n in bounded
        )
        look: dict[str, Any] = {"color": style.BLACK, "markerfacecolor": "white"}
        over[0].plot([], [], "o", label=words, **look)
    over[0].fill_between([], [], color=GREY, alpha=0.3, linewidth=0.0, label=BAND)
    over[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False)
    _waterfall(below, _shown(data))
    return made


def _shown(data: xr.Dataset) -> xr.Dataset:
    """Return the best choice, or the soonest where none is allowed."""
    best = int(data.best)
    return data.isel(choice=best if best >= 0 else int(np.argmin(data.wall_days.values)))


def _limit(axes: Axes, value: float, name: str) -> None:
    """Draw a deadline, or the most power of a site, with its words at the right."""
    words = f"deadline\n{value:g} days" if name == "wall_days" else f"site\n{value:.3g} MW"
    axes.axhline(value, color=style.BLACK, linestyle="--")
    axes.set_ylim(top=max(axes.get_ylim()[1], 1.1 * value))
    axes.text(1.01, value, words, va="center", transform=axes.get_yaxis_transform())


def _scale(data: xr.Dataset, name: str) -> tuple[float, str]:
    """Return the unit of an axis and its words; thousands of dollars below a million."""
    small = name == "cost" and float(data.cost.max()) < SCALES["cost"][0]
    return (1e3, "cost [thousand $]") if small else SCALES[name]


def _lines(axes: Axes, data: xr.Dataset, name: str) -> None:
    """Draw a result over the accelerators of every system; the best is a star."""
    scale, words = _scale(data, name)
    for place, system in enumerate(dict.fromkeys(data.system.values.astype(str))):
        rows = data.isel(choice=np.flatnonzero(data.system.values == system)).sortby("gpus")
        look: dict[str, Any] = {"color": style.COLOURS[place % len(style.COLOURS)]}
        axes.plot(rows.gpus, rows[name] / scale, "-", linewidth=1.5, **look)
        if name == "wall_days":
            ends = rows.wall_days_low, rows.wall_days_high
            axes.fill_between(rows.gpus, *ends, alpha=0.15, linewidth=0.0, **look)
            axes.vlines(rows.gpus, *ends, alpha=0.3, linewidth=3.0, **look)
        allowed = rows.isel(choice=np.flatnonzero(rows.allowed.values))
        axes.plot(rows.gpus, rows[name] / scale, "o", markerfacecolor="white", **look)
        axes.plot(allowed.gpus, allowed[name] / scale, "o", **look)
        axes.plot([], [], "-o", label=system, **look)
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


def bars_of(run: xr.Dataset) -> list[tuple[str, float, float, str]]:
    """Return the bars of a run's days: words, start, end, colour; the last is the whole run.

    Red is what no healthy step has.
    """
    found, start, whole = [], 0.0, float(run.wall_days)
    for name in run.data_vars:
        if run[name].attrs.get("part_of") == "wall_time":
            words, value = str(run[name].attrs.get("words", name)), float(run[name]) / DAY
            if value > SEEN * whole:
                found.append((words, start, start + value, TIMES.get(words, RED)))
            start += value
    return [*found, ("the whole run", 0.0, whole, GREY)]


def _waterfall(axes: Axes, run: xr.Dataset) -> None:
    """Draw the days of one run from its healthy step to its wall time, a bar each."""
    bars = bars_of(run)
    for place, (_, start, end, colour) in enumerate(bars):
        axes.barh(place, end - start, left=start, color=colour, height=0.7)
        value = f"{end - start:.2g}" if end - start < 1 else days(end - start)
        axes.annotate(value, (end, place), (4, 0), textcoords="offset points", va="center")
        if place + 1 < len(bars):  # where the next begins
            axes.plot([end, end], [place + 0.35, place + 0.65], color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(bars)), [words for words, *_ in bars])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.12 * bars[-1][2])
    whole = float(run.wall_days)
    stops = whole - next((start for _, start, _, colour in bars if colour == RED), whole)
    name = f"{int(run.gpus):,} {run.system.values}"
    red = f"; in red the {stops:.2g} that do not train" * (stops > 0.0)
    axes.set_xlabel(f"days of {name}{red}")
    style.grid(axes, "x")
