"""The stages of one pipeline: how long each works and idles in a step, and what it holds."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.units import percent, seconds, size
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import MEMORY, TIMES, ink

PICTURE = "stages"
NEEDED = ("busy_share", "idle_share", "step_time", "memory", "memory_limit")
LEAST = 0.07  # share of the step from which a part has its number


@style.drawn
def stages(data: xr.Dataset) -> Figure:
    """Return a bar a stage of the seconds that it works and idles, and one of its memory.

    Raises: InputError for data that are not the stages of one plan.
    """
    choose.check_has(data, PICTURE, NEEDED, ("stage",))
    choose.check_dimensions(data, PICTURE, ("stage",))
    title = choose.title(data, "The stages of a pipeline")
    made = style.figure(title, _finding(data), 2.1 + 0.45 * data.sizes["stage"])
    left, right = made.subplots(1, 2, sharey=True)
    _times(left, data)
    _memory(right, data)
    names = [f"stage {number}" for number in data.stage.values]
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    drawn = [axes.get_legend_handles_labels() for axes in (left, right)]
    handles, words = ([each for pair in drawn for each in pair[i]] for i in (0, 1))
    made.legend(handles, words, loc="outside lower center", ncols=4)
    return made


def _finding(data: xr.Dataset) -> str:
    """Return which stage idles the most, and how full the fullest is."""
    idle, held = data.idle_share.values, data.memory.values
    limit = float(data.memory_limit)
    most, full = int(idle.argmax()), int(held.argmax())
    fits = "fits" if held[full] <= limit else "does not fit"
    return (
        f"A step takes {seconds(float(data.step_time))}; stage {data.stage.values[most]} idles "
        f"the most, {percent(idle[most])} of it; stage {data.stage.values[full]} is the fullest, "
        f"{size(held[full], 'B')} of {size(limit, 'B')}: it {fits}"
    )


def _times(axes: Axes, data: xr.Dataset) -> None:
    places = np.arange(data.sizes["stage"])
    step = float(data.step_time)
    scale, unit = style.human(np.array([step]), "s")
    start = np.zeros(len(places))
    parts = (
        ("works and sends", TIMES["compute"], data.busy_share),
        ("idles", TIMES["idle"], data.idle_share),
    )
    for words, colour, shares in parts:
        widths = shares.values * step / scale
        axes.barh(places, widths, 0.7, left=start, color=colour, label=words)
        for place, share, wide in zip(places, shares.values, widths, strict=True):
            if share > LEAST:
                middle = start[place] + wide / 2
                axes.text(middle, float(place), percent(share), color=ink(colour), ha="center",
                          va="center")  # fmt: skip
        start = start + widths
    axes.set_xlabel(style.with_unit("one step", unit))
    style.grid(axes, "x")


def _memory(axes: Axes, data: xr.Dataset) -> None:
    places, held = np.arange(data.sizes["stage"]), data.memory.values
    limit = float(data.memory_limit)
    near = limit < 4.0 * held.max()  # else all bars would be slivers
    scale, unit = style.human(np.append(held, limit if near else held.max()), "B")
    weights = data.weights.values if "weights" in data else np.zeros(len(places))
    rest = (
        ("weights", MEMORY["weights"], weights),
        ("gradients, states, activations", MEMORY["activations"], held - weights),
    )
    start = np.zeros(len(places))
    for words, colour, values in rest:
        if values.any():
            axes.barh(places, values / scale, 0.7, left=start, color=colour, label=words)
        start = start + values / scale
    for place, value in zip(places, start, strict=True):
        beside = axes.annotate(f"{value:.3g}", (value, place), (4, 0), textcoords="offset points")
        beside.set(va="center")
    if near:
        axes.axvline(limit / scale, color=style.BLACK, linewidth=1.4, linestyle="--")
    axes.set_title(f"{'dashed' if near else 'capacity'}: {size(limit, 'B')}")
    axes.set_xlim(0.0, 1.2 * max(held.max(), limit if near else 0.0) / scale)
    axes.set_xlabel(style.with_unit("memory of a device", unit))
    style.grid(axes, "x")
