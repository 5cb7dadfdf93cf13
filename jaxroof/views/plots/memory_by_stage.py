"""The memory of every stage of a training step: stacked bars of its terms, and the capacity."""

import json
import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.units import size
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import MEMORY, ink
from jaxroof.views.plots.memory_panels import NUMBER, WORDS, memory_panels
from jaxroof.views.text.fit import capacity_words, groups, title
from jaxroof.views.text.margin import margin_of

PICTURE = "memory_by_stage"
LABELLED = 0.095  # share of the height from which a part of a bar has its number
STAGES = 24  # most stages whose parts have numbers


@style.drawn
def memory_by_stage(data: xr.Dataset) -> Figure:
    """Return the groups of terms of every stage as a stacked bar, with the capacity as a line.

    Further dimensions make groups of bars, and panels where these would be too many.

    Raises: InputError for data that ``fit`` did not make.
    """
    choose.check_has(data, PICTURE, ("device", "capacity", "static", "transient"), ("stage",))
    if len(data.sizes) > 1:
        return memory_panels(data)
    asked = json.loads(data.attrs.get("inputs", "{}"))
    head = choose.title(data, title(data) if asked else "Memory by stage")
    made = style.figure(head, _finding(data), style.HIGH)
    axes = made.subplots()
    _bars(axes, data)
    _capacity(axes, data)
    handles, words = axes.get_legend_handles_labels()
    made.legend(handles[::-1], words[::-1], loc="outside right center")
    return made


def _finding(data: xr.Dataset) -> str:
    """Return whether the step fits, where it is fullest, and what takes most there."""
    full = int(data.fullest_stage)
    name, amounts = max(groups(data).items(), key=lambda each: float(each[1][full]))
    most = f"the most of it {name}, {size(float(amounts[full]), 'B')}"
    needs = f"stage {full} needs {size(float(data.device[full]), 'B')}, {most}"
    if bool(data.fits):
        return f"It fits: {needs}"
    return f"It does not fit by {size(float(data.missing), 'B')}: {needs}"


def _bars(axes: Axes, data: xr.Dataset) -> None:
    scale, unit = style.human(np.append(data.device.values, float(data.capacity)), "B")
    stages = data.stage.values
    top = 1.2 * max(float(data.device.max()), float(data.capacity)) / scale
    start = np.zeros(len(stages))
    for name, values in groups(data).items():
        colour, heights = MEMORY[name], values / scale
        if not heights.any():
            continue
        label = WORDS.get(name, name)
        axes.bar(stages, heights, bottom=start, color=colour, width=_width(stages), label=label)
        for stage, low, height in zip(stages, start, heights, strict=True):
            if height > LABELLED * top / 2 and len(stages) <= STAGES:
                place, words = (float(stage), float(low + height / 2)), f"{height:.3g}"
                axes.annotate(words, place, ha="center", va="center", color=ink(colour))
        start = start + heights
    full = int(data.fullest_stage)
    high, limit = float(start[full]), float(data.capacity) / scale
    crossed = limit - NUMBER * top < high <= limit  # the number would lie on the line
    axes.annotate(
        size(float(data.device[full]), "B"),
        (full, limit if crossed else high),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontweight="bold",
    )
    axes.set_ylim(0.0, top)
    axes.set_xlim(stages[0] - 0.7, stages[-1] + 0.7)
    every = max(1, -(-len(stages) // 32))
    axes.set_xticks(stages[::every])
    axes.set_xlabel("pipeline stage")
    axes.set_ylabel(style.with_unit("memory of one accelerator", unit))
    style.grid(axes, "y")


def _width(stages: np.ndarray) -> float:
    return 0.8 if len(stages) > 2 else 0.4


def _capacity(axes: Axes, data: xr.Dataset) -> None:
    """Draw the capacity as a line, with what it is."""
    scale, _ = style.human(np.append(data.device.values, float(data.capacity)), "B")
    level = float(data.capacity) / scale
    axes.axhline(level, color=style.BLACK, linewidth=1.4, linestyle="--", zorder=5)
    where = axes.get_yaxis_transform()
    words = textwrap.fill(capacity_words(data), 28)
    margin = margin_of(data, "device")
    if margin.error:
        low, high = margin.doubtful(level)
        axes.axhspan(low, min(high, axes.get_ylim()[1]), color=style.PALE, alpha=0.5, zorder=0)
        words += f"\n{margin.band}"
    above = level + 0.02 * axes.get_ylim()[1]
    style.note(axes, 0.985, above, words, ha="right", va="bottom", transform=where)
