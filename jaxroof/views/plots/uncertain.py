"""A result under uncertain inputs: its bands, the plans that are best, and what spreads it."""

import textwrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.units import amount, percent
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import bars, style
from jaxroof.views.plots import select as choose
from jaxroof.views.text.plan import placed_words
from jaxroof.views.text.uncertain import first_to_last, short_names

BINS = 32
MOST = 4  # plans, or inputs, of one panel
UNKNOWN = "shares of the variance\nneed an answer to every draw"
NEEDED = ("sobol_first", "sobol_total", "feasible_share")
SHADES = ((0, 4, 0.20, "90 % of the draws"), (1, 3, 0.35, "half of the draws"))  # of the quantiles


@style.drawn
def bands(data: xr.Dataset) -> Figure:
    """Return how far a result is spread, how probably each plan is the best, and by what.

    One point shows its distribution, the points of an axis of numbers a band along it.
    Raises: InputError where the data are not of uncertain inputs or vary over more than one axis.
    """
    choose.check_has(data, "bands", NEEDED, ("quantile", "parameter", "draw"))
    own = ("quantile", "parameter", "draw", "candidate")
    kept = data.squeeze([d for d, n in data.sizes.items() if n == 1 and d not in own])
    dims = [str(d) for d in kept.sizes if d not in own]
    choose.check_dimensions(kept, "bands", (*own, *dims[:1]))
    made = style.figure(choose.title(data, "Under uncertain inputs"), _finding(kept, dims), 7.4)
    planned = "probability" in kept and not dims
    look: Any = {"height_ratios": [1.15, 1], "width_ratios": [1.25, 1]}
    panels = made.subplot_mosaic("ss;pi" if planned else "ss;ii", **look)
    if not (kept.feasible_share.values > 0).any():
        for axes in panels.values():
            style.nothing(axes, "no plan fits in any draw")
        return made
    if not np.isfinite(kept.sobol_total.values).any():
        style.nothing(panels["i"], UNKNOWN)
    elif dims:
        _indices_along(panels["i"], kept, dims[0])
    else:
        _indices(panels["i"], kept)
    if dims:
        _along(panels["s"], kept, dims[0])
    else:
        _distribution(panels["s"], kept)
    if planned:
        _plans(panels["p"], kept)
    return made


def _finding(data: xr.Dataset, dims: list[str]) -> str:
    """Return how wide a result is spread, and what spreads it most."""
    aim = str(data.attrs["objective"])
    point = data.isel(dict.fromkeys(dims, -1))
    low, middle, high = (float(point[aim][i]) for i in (0, 2, 4))
    if not np.isfinite(middle):
        return "No plan fits in every draw"
    unit = data[aim].attrs.get("units", "1")
    where = f" at {choose.label(data, dims[0], data.sizes[dims[0]] - 1)}" if dims else ""
    said = f"90 % of the draws{where}: {amount(low, unit)} to {amount(high, unit)}"
    total = point.sobol_total.values
    if not np.isfinite(total).any():
        return said
    return f"{said}; most of it because of {_named(data)[int(np.nanargmax(total))]}"


def _scaled(data: xr.Dataset) -> tuple[str, float, str]:
    """Return the result's name, what to divide it by, and its label."""
    aim = str(data.attrs["objective"])
    scale, unit = style.human(data[aim].values, data[aim].attrs.get("units", "1"))
    return aim, scale, style.with_unit(aim.replace("_", " "), unit)


def _distribution(axes: Axes, data: xr.Dataset) -> None:
    """Draw how often each value is drawn, and the same of the plan that is best today."""
    aim, scale, label = _scaled(data)
    drawn = data[f"{aim}_drawn"].values / scale
    one = 100 / len(drawn)  # per cent that a draw is
    kept = data[f"{aim}_kept_drawn"].values / scale if f"{aim}_kept_drawn" in data else None
    drawn = drawn[np.isfinite(drawn)]
    kept = None if kept is None else kept[np.isfinite(kept)]
    look: dict[str, Any] = {"histtype": "step", "color": style.VERMILION, "linewidth": 1.4}
    both = drawn if kept is None else np.concatenate([drawn, kept])
    room = 0.5 * (both.min() == both.max()) or 0.0
    bins = np.linspace(both.min() - room, both.max() + room, BINS + 1).tolist()
    words = "draws" if kept is None else "best plan of each draw"
    axes.hist(drawn, bins, weights=np.full(len(drawn), one), color=style.SKY, label=words)
    if kept is not None and len(kept) and not np.array_equal(kept, drawn):
        each = np.full(len(kept), one)
        axes.hist(kept, bins, weights=each, label="plan that is best today, kept", **look)
    ends = data[aim].values / scale
    for low, high, alpha, words in SHADES:
        look = {"color": style.GREY, "alpha": alpha, "lw": 0, "zorder": 0.5}
        axes.axvspan(ends[low], ends[high], label=words, **look)
    axes.axvline(ends[2], color=style.BLACK, linewidth=1.2, label="median")
    today = float(data[f"{aim}_today"]) / scale
    if np.isfinite(today):
        look = {"color": style.GREEN, "linewidth": 1.6, "linestyle": "--"}
        axes.axvline(today, label="today's inputs", **look)
    axes.set(xlabel=label, ylabel="draws [%]")
    style.grid(axes)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)


def _place(axes: Axes, data: xr.Dataset, dim: str) -> tuple[np.ndarray, np.ndarray]:
    """Set the axis along a dimension; return the order of its points and where they stand."""
    name = (choose.linked_coordinates(data, dim) or [dim])[0]
    values = data[name].values if name in data.coords else np.arange(data.sizes[dim])
    axes.set_xlabel(dim.replace("_", " "))
    if values.dtype.kind not in "if":
        axes.set_xticks(range(len(values)), values.astype(str))
        return np.arange(len(values)), np.arange(len(values))
    order = np.argsort(values)
    scale, unit = style.human(values, data[name].attrs.get("units", "1"))
    if dim == "gpus":
        style.sizes_axis(axes, values)
    else:
        axes.set_xlabel(style.with_unit(dim.replace("_", " "), unit))
    return order, values[order] / scale


def _along(axes: Axes, data: xr.Dataset, dim: str) -> None:
    """Draw the bands along an axis."""
    aim, scale, label = _scaled(data)
    order, places = _place(axes, data, dim)
    ordered = data.isel({dim: order})
    best = ordered[aim].transpose(dim, "quantile").values / scale
    for low, high, alpha, words in SHADES:
        span = best[:, low], best[:, high]
        axes.fill_between(places, *span, color=style.BLUE, alpha=alpha, lw=0, label=words)
    look: dict[str, Any] = {"color": style.BLUE, "marker": "o", "markersize": 4}
    chosen = f"{aim}_kept" in data
    axes.plot(places, best[:, 2], label=f"median{' of the best plans' if chosen else ''}", **look)
    if chosen:
        # where it does not fit in every draw, it is of other draws than the best
        whole = ordered[f"{aim}_kept_drawn"].notnull().sum("draw") == ordered[
            f"{aim}_drawn"
        ].notnull().sum("draw")
        kept = ordered[f"{aim}_kept"].where(whole).transpose(dim, "quantile").values / scale
        look = {"color": style.VERMILION, "linewidth": 1.3}
        axes.plot(places, kept[:, 2], linestyle="--", label="today's best kept: median", **look)
        axes.plot(places, kept[:, 4], linestyle=":", label="today's best kept: 95 %", **look)
    today = ordered[f"{aim}_today"].values / scale
    axes.plot(places, today, "D", color=style.GREEN, markersize=5, label="today's inputs")
    held = best[np.isfinite(best)]
    if held.min() > 0 and held.max() / held.min() > 4:
        style.powers_of_two(axes.yaxis, held.min() / 1.2, held.max() * 1.2)
    axes.set_ylabel(label)
    style.grid(axes)
    axes.legend()


def _plans(axes: Axes, data: xr.Dataset) -> None:
    """Draw how probably each plan is the best, and what it costs to commit to it."""
    held = [i for i in range(data.sizes["candidate"]) if np.isfinite(float(data.probability[i]))]
    committed = int(data.candidate_committed)
    if len(held) > MOST:  # the one to commit to is among them
        held = [*held[: MOST - 1], max(held[MOST - 1], committed - 1)]
    chance = 100 * data.probability.values[held]
    place = np.arange(len(held))
    colours = [style.GREEN if int(data.candidate[i]) == committed else style.SKY for i in held]
    axes.barh(place, chance, color=colours, height=0.62)
    for at, i in enumerate(held):
        plan = data.isel(candidate=i)
        mean, fits = float(plan.regret_mean), float(plan.fits)
        more = f", {percent(mean, 1)} longer" if mean >= 5e-4 else ""
        words = f"{chance[at]:.3g} %{more}" + (f"\nfits in {100 * fits:.3g} %" if fits < 1 else "")
        inside = chance[at] > 60
        colour = "white" if inside and colours[at] == style.GREEN else style.BLACK
        where, side = chance[at] + (-1.5 if inside else 1.5), "right" if inside else "left"
        axes.text(where, at, words, ha=side, va="center", color=colour)
    names = [placed_words(data.isel(candidate=i)) for i in held]
    bars.names(axes, [name.replace(" (", "\n(") for name in names])
    axes.set_title("the plan to commit to: green", loc="left")
    axes.set(xlim=(0, 105), xlabel="draws in which it is the best [%]")
    style.grid(axes, "x")


def _named(data: xr.Dataset) -> list[str]:
    return [words_of(name) for name in short_names(list(map(str, data.parameter.values)))]


def _indices(axes: Axes, data: xr.Dataset) -> None:
    """Draw the share of the variance that each input has a part in, and explains by itself."""
    chosen, place = first_to_last(data)[:MOST], np.arange(min(MOST, data.sizes["parameter"]))
    for name, colour, words, shift in (
        ("total", style.SKY, "with all others", -0.19),
        ("first", style.BLUE, "alone", 0.19),
    ):
        share = 100 * data[f"sobol_{name}"].values[chosen]
        error = 100 * data[f"sobol_{name}_error"].values[chosen]
        look: dict[str, Any] = {"ecolor": style.GREY, "capsize": 2, "label": words}
        axes.barh(place + shift, share, 0.36, xerr=error, color=colour, **look)
    names = _named(data)
    bars.names(axes, [textwrap.fill(names[i], 14) for i in chosen])
    axes.set_xlim(left=0)
    axes.set_xlabel("share of the variance [%]")
    axes.legend(loc="lower right")
    style.grid(axes, "x")


def _indices_along(axes: Axes, data: xr.Dataset, dim: str) -> None:
    """Draw the total share of each input along an axis."""
    order, places = _place(axes, data, dim)
    names = _named(data)
    total = data.sobol_total.transpose(dim, "parameter").values[order]
    for i, colour, mark in zip(
        first_to_last(data)[:MOST], style.COLOURS, style.MARKERS, strict=False
    ):
        look: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 5}
        axes.plot(places, 100 * total[:, i], label=names[i], **look)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("part in the variance [%]")
    axes.set_title("What spreads it")
    axes.legend(loc="center right")
    style.grid(axes)
