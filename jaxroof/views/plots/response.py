"""How the best over all plans moves with each parameter, and where another plan takes over."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from jaxroof.analyses.result_metadata import CAPACITY, label_of, objective_of, resources_of, unit_of
from jaxroof.analyses.result_metadata import words_of as called_of
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.plan import split_fields

PICTURE = "response"
MOST = 3  # parameters: those that do the most
ACROSS = 3  # panels of a row
TELLING = 0.01  # of today's time: from here on the title has today's plan too
LEAST = 1e-3  # of today's time: a parameter that changes less has no panel
NARROW = 3.0  # times the least that a panel shows: up to there no powers of ten
HIGH = 6.0  # times today's time that a panel shows


@style.drawn
def response(data: xr.Dataset) -> Figure:
    """Return a panel a parameter: the time against it with plans chosen anew, and with today's.

    Dots are where another plan takes over. Raises: InputError for data that are no response.
    """
    choose.check_has(data, PICTURE, dims=("parameter", "factor"))
    name, known = objective_of(data), resources_of(data)
    choose.check_has(data, PICTURE, (name, f"{name}_kept", "switch_factor"))
    choose.check_dimensions(data, PICTURE, ("parameter", "factor", "switch"))
    ratio = data[name] / data[name].sel(factor=1.0)
    moves = (ratio.max("factor") - ratio.min("factor")).values
    # what multiplies a rate says what the rate says
    again = {p for p, what in known.of.items() if p not in known.signs and what != CAPACITY}
    own = [str(path) not in again for path in data.parameter.values]
    shown = [int(i) for i in np.argsort(-moves) if moves[i] > LEAST and own[i]][:MOST]
    if not shown:
        raise refusal(PICTURE, "the data have no parameter that changes anything")
    rows = -(-len(shown) // ACROSS)
    title = choose.title(data, "What each parameter does, with plans chosen anew")
    made = style.figure(title, _finding(data, name, shown), 4.6)
    panels = made.subplots(rows, min(ACROSS, len(shown)), sharey=True, squeeze=False)
    for place, axes in enumerate(panels.flat):
        if place >= len(shown):
            axes.set_visible(False)
            continue
        _panel(axes, data.isel(parameter=shown[place]), name)
        if place % ACROSS == 0:
            axes.set_ylabel(f"{label_of(data, name)}, times today's")
    low, high = panels[0, 0].get_ylim()  # of all panels
    low, high = panels[0, 0].set_ylim(max(low, 1.0 / HIGH), min(high, HIGH))
    axis = panels[0, 0].yaxis
    axis.set_major_formatter(FuncFormatter(_times))
    axis.set_minor_formatter(FuncFormatter(_few))
    if high < NARROW * low:
        axis.set_major_locator(MaxNLocator(5))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter("{x:g}")
    kinds = [
        Line2D([], [], color=style.BLUE, linewidth=2, label="best plan, chosen anew"),
        Line2D([], [], color=style.GREY, linestyle="--", label="today's plan, kept"),
        Line2D([], [], color=style.VERMILION, marker="o", linestyle="", label="another plan wins"),
    ]
    made.legend(handles=kinds, loc="outside lower center", ncols=3, frameon=False)
    return made


def _finding(data: xr.Dataset, name: str, shown: list[int]) -> str:
    """Return what the most of each parameter saves with the best plan, and with today's kept."""
    said = []
    for place in shown:
        row = data.isel(parameter=place)
        today, last = float(row[name].sel(factor=1.0)), row.isel(factor=-1)
        saved, kept = (1.0 - float(last[n]) / today for n in (name, f"{name}_kept"))
        words = words_of(str(row.parameter.values).rpartition(".")[2])
        if saved > LEAST and np.isfinite(kept) and saved - kept > TELLING:
            said.append(f"{words} {percent(saved)} ({percent(kept)} with today's plan)")
        elif saved > LEAST:
            said.append(f"{words} {percent(saved)}")
    most = float(data.factor.max())
    return f"{most:.3g} times as much of one saves: {', '.join(said)}" if said else ""


def _panel(axes: Axes, row: xr.Dataset, name: str) -> None:
    today = float(row[name].sel(factor=1.0))
    axes.plot(row.factor, row[f"{name}_kept"] / today, color=style.GREY, linestyle="--", zorder=2)
    mine = row.isel(switch=row.switch_parameter.values == str(row.parameter.values))
    at, there = mine.switch_factor.values, mine[f"switch_{name}"].values / today
    # the line bends where another plan takes over, not only at the factors of the grid
    factors = np.concatenate([row.factor.values, at])
    times = np.concatenate([row[name].values / today, there])
    order = np.argsort(factors)
    axes.plot(factors[order], times[order], color=style.BLUE, linewidth=2, zorder=3)
    axes.axvline(1.0, color=style.BLACK, linewidth=0.8, zorder=1)
    axes.plot(at, there, "o", color=style.VERMILION, markersize=4, zorder=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_times))
    axes.xaxis.set_major_locator(FixedLocator(_powers(row.factor.values)))
    axes.xaxis.set_minor_locator(NullLocator())
    style.grid(axes)
    axes.set_title(words_of(str(row.parameter.values).rpartition(".")[2]))
    axes.set_xlabel("times today's")
    ends = row[name].values[[0, -1]]
    _name(axes, row, mine, name, today, bool(ends[0] > ends[1]))


def _name(
    axes: Axes, row: xr.Dataset, mine: xr.Dataset, name: str, today: float, falls: bool
) -> None:
    """Name the plan that is next in each direction, in the corners that the lines leave free."""
    for more in (True, False):
        side = np.flatnonzero((mine.switch_factor.values > 1.0) == more)
        if not len(side):
            continue
        one = mine.isel(switch=side[np.argmin(mine.switch_order.values[side])])
        fields = [f for f in split_fields(row) if unit_of(row, f) == "1"]
        held = {called_of(row, f): int(one[f"switch_{f}"]) for f in fields}
        plan = " ".join(f"{short} {n}" for short, n in held.items() if n > 1)
        axes.annotate(
            f"{plan}\n{'from' if more else 'below'} {float(one.switch_factor):.3g} times",
            (float(one.switch_factor), float(one[f"switch_{name}"]) / today),
            xytext=(0.97 if more else 0.03, 0.97 if more == falls else 0.03),
            textcoords="axes fraction",
            ha="right" if more else "left",
            va="top" if more == falls else "bottom",
            arrowprops={"arrowstyle": "-", "color": style.GREY, "linewidth": 0.6, "shrinkB": 3},
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
            zorder=5,
        )


def _powers(factors: np.ndarray) -> list[float]:
    """Return the powers of two, or of four, between the ends of a span, or both ends."""
    top = int(np.floor(np.log2(float(factors.max())) + 1e-9))
    if top < 1:
        return [float(factors.min()), 1.0, float(factors.max())]
    every = 1 if top < 3 else 2
    return [2.0**k for k in range(-top // every * every, top + 1, every)]


def _times(value: float, _: object = None) -> str:
    """Return a multiple as people say it.

    >>> _times(4.0), _times(0.25)
    ('4', '1/4')
    """
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def _few(value: float, _: object = None) -> str:
    """Return a label for some of the lines between two powers of ten."""
    return f"{value:g}" if f"{value:e}"[0] in "235" else ""
