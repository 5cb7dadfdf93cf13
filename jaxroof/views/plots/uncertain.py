"""A result under uncertain inputs: its bands, the plans that are best, and what spreads it."""

import textwrap
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.plan import placement_words, plan_words
from jaxroof.views.text.tables import amount
from jaxroof.views.text.uncertain_inputs import first_to_last, short_names

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
    picture = "bands"
    choose.check_has(data, picture, NEEDED, ("quantile", "parameter", "draw"))
    own = ("quantile", "parameter", "draw", "candidate")
    kept = data.squeeze([d for d, n in data.sizes.items() if n == 1 and d not in own])
    dims = [str(d) for d in kept.sizes if d not in own]
    choose.check_dimensions(kept, picture, (*own, *dims[:1]))
    made = style.figure(choose.title(data, "Under uncertain inputs"), _finding(kept, dims), 7.4)
    searched = "probability" in kept
    layout = "ss;pi" if searched else "ss;ii"
    panels = made.subplot_mosaic(layout, height_ratios=[1.15, 1], width_ratios=[1.25, 1])
    if not (kept.feasible_share.values > 0).any():
        for axes in panels.values():
            style.nothing(axes, "no plan fits in any draw")
        return made
    if dims:
        _along(panels["s"], kept, dims[0])
        _indices_along(panels["i"], kept, dims[0])
    else:
        _distribution(panels["s"], kept)
        _indices(panels["i"], kept)
    if searched and dims:
        _costs_along(panels["p"], kept, dims[0])
    elif searched:
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


def _place(data: xr.Dataset, dim: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the order of the points along an axis, where they stand, and its label."""
    name = choose.linked_coordinates(data, dim)[:1] or [dim]
    values = data[name[0]].values if name[0] in data.coords else np.arange(data.sizes[dim])
    if values.dtype.kind not in "if":
        return np.arange(len(values)), np.arange(len(values)), dim
    order = np.argsort(values)
    scale, unit = style.human(values, data[name[0]].attrs.get("units", "1"))
    label = "accelerators" if dim == "gpus" else style.with_unit(dim.replace("_", " "), unit)
    return order, values[order] / scale, label


def _ticks(axes: Axes, data: xr.Dataset, dim: str) -> None:
    _, values, label = _place(data, dim)
    if dim == "gpus":
        style.sizes_axis(axes, values)
    elif data[dim].dtype.kind not in "if":
        axes.set_xticks(values, [str(name) for name in data[dim].values])
    axes.set_xlabel(label)


def _along(axes: Axes, data: xr.Dataset, dim: str) -> None:
    """Draw the bands along an axis."""
    aim, scale, label = _scaled(data)
    order, places, _ = _place(data, dim)
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
    _ticks(axes, data, dim)
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
        mean = 100 * float(plan.regret_mean)
        fits = float(plan.fits)
        words = f"{chance[at]:.3g} %" + (f", {_digits(mean)} % longer" if mean >= 0.05 else "")
        words += f"\nfits in {100 * fits:.3g} %" if fits < 1 else ""
        inside = chance[at] > 60
        colour = "white" if inside and colours[at] == style.GREEN else style.BLACK
        where = chance[at] - 1.5 if inside else chance[at] + 1.5
        side = "right" if inside else "left"
        axes.text(where, at, words, ha=side, va="center", color=colour)
    names = [data.isel(candidate=i) for i in held]
    spelled = [
        "\n".join(filter(None, (plan_words(p), _placed(p)))).replace("microbatch", "mb")
        for p in names
    ]
    axes.set_yticks(place, spelled)
    axes.invert_yaxis()
    axes.set_title("the plan to commit to: green", loc="left")
    axes.set(xlim=(0, 105), xlabel="draws in which it is the best [%]")
    style.grid(axes, "x")


def _placed(plan: xr.Dataset) -> str:
    return f"placed {placement_words(plan)}" if placement_words(plan) else ""


def _digits(per_cent: float) -> str:
    return f"{per_cent:.2g}" if per_cent < 10 else f"{per_cent:.0f}"


def _costs_along(axes: Axes, data: xr.Dataset, dim: str) -> None:
    """Draw, along an axis, how open the choice of a plan is and what committing to one costs."""
    order, places, _ = _place(data, dim)
    points = [data.isel({dim: i}) for i in order]
    chosen = [
        p.sel(candidate=int(p.candidate_committed)) if int(p.candidate_committed) > 0 else None
        for p in points
    ]
    lines = {
        "probability": ("is the best", style.BLUE, "o", "-"),
        "regret_worst": ("costs in the worst 5 %", style.VERMILION, "s", ":"),
        "regret_mean": ("costs on average", style.VERMILION, "^", "-"),
    }
    twin = axes.twinx()
    for name, (words, colour, mark, dash) in lines.items():
        values = [np.nan if plan is None else 100 * float(plan[name]) for plan in chosen]
        look: dict[str, Any] = {"color": colour, "marker": mark, "linestyle": dash, "markersize": 5}
        (axes if name == "probability" else twin).plot(places, values, label=words, **look)
    _ticks(axes, data, dim)
    axes.set_ylim(0, 105)
    axes.set_ylabel("draws in which it is the best [%]", color=style.BLUE)
    twin.set_ylim(bottom=0)
    twin.set_ylabel("cost beyond the best of each draw [%]", color=style.VERMILION)
    axes.set_title("The plan to commit to")
    handles = [line for each in (axes, twin) for line in each.get_lines()]
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": 1}
    axes.legend(handles=handles, columnspacing=1.0, **below)
    style.grid(axes)


def _named(data: xr.Dataset) -> list[str]:
    return [words_of(name) for name in short_names(list(map(str, data.parameter.values)))]


def _indices(axes: Axes, data: xr.Dataset) -> None:
    """Draw the share of the variance that each input has a part in, and explains by itself."""
    if not np.isfinite(data.sobol_total.values).any():
        style.nothing(axes, UNKNOWN)
        return
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
    axes.set_yticks(place, [textwrap.fill(names[i], 14) for i in chosen])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("share of the variance [%]")
    axes.legend(loc="lower right")
    style.grid(axes, "x")


def _indices_along(axes: Axes, data: xr.Dataset, dim: str) -> None:
    """Draw the total share of each input along an axis."""
    if not np.isfinite(data.sobol_total.values).any():
        style.nothing(axes, UNKNOWN)
        return
    order, places, _ = _place(data, dim)
    names = _named(data)
    total = data.sobol_total.transpose(dim, "parameter").values[order]
    for i, colour, mark in zip(
        first_to_last(data)[:MOST], style.COLOURS, style.MARKERS, strict=False
    ):
        look: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 5}
        axes.plot(places, 100 * total[:, i], label=names[i], **look)
    _ticks(axes, data, dim)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("part in the variance [%]")
    axes.set_title("What spreads it")
    axes.legend(loc="center right")
    style.grid(axes)
