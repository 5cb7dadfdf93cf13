"""The frontier of serving: tokens a second an accelerator gives against those that a user sees."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from jaxroof.validation.serving import measured_points
from jaxroof.views.plots import labels, style
from jaxroof.views.plots import select as choose
from jaxroof.views.text.frontier import (
    WITH,
    Frontier,
    frontiers,
    lead_sentences,
    middle_speed,
)
from jaxroof.views.text.serve import lengths, plan_words, title_of

HIGH = 5.6  # inches
BANDS = 3  # frontiers in one picture that all show their band; of more, the best alone
LOW, LEAST = 0.15, 300.0  # share of the most below which what matters lies low: a logarithmic
# axis, that ends so many times below the most
PLACES = tuple(np.linspace(0.02, 0.98, 49))  # along a frontier, where its name may stand
GAPS = (11.0, 15.0)  # points between a frontier and its name
ROOM = 1.15
SAMPLES = 120  # points of a frontier that words keep off
HALO = [withStroke(linewidth=3.0, foreground="white")]


@style.drawn
def picture(data: xr.Dataset) -> Figure:
    """Return every frontier as a staircase with its name, its band, and the speed asked for.

    A point on it: users see x tokens a second, and no plan gives more than y an accelerator. In
    the band lie 80 % of measured servers. The best at the speed asked for has its plan beside it.
    """
    choose.check_has(data, "frontier", ("interactivity", "output_rate"), ("step_number",))
    every, speed = frontiers(data), middle_speed(data, frontiers(data))
    made = style.figure(
        title_of(data), lead_sentences(data, every)[0].partition(WITH)[0].removesuffix("."), HIGH
    )
    axes = made.subplots()
    best = max(every, key=lambda one: one.rate(speed))
    measured = [measured_of(data, one) for one in every]
    _axes(axes, every, np.concatenate([[best.rate(speed)], *(some[:, 1] for some in measured)]))
    for one, points, colour in zip(every, measured, style.COLOURS, strict=False):
        x, y = _curve(one)
        axes.step(x, y, where="pre", color=colour, linewidth=2.2 if one is best else 1.6, zorder=3)
        axes.plot(x[-1], y[-1], "o", color=colour, markersize=4, zorder=3)
        if len(every) <= BANDS or one is best:
            _band(axes, one, colour)
        look: dict[str, Any] = {"facecolors": "none", "s": 26, "linewidths": 1.1, "zorder": 4}
        axes.scatter(points[:, 0], points[:, 1], edgecolors=colour, **look)
        if len(points):
            axes.scatter([], [], edgecolors=style.BLACK, label="measured servers", **look)
    style.grid(axes)
    axes.set_xlabel("output tokens/s that a user sees (1 / TPOT)")
    axes.set_ylabel("output tokens/s an accelerator gives")
    made.draw_without_rendering()
    taken: list[labels.Box] = []
    for one in every:  # no words on the lines
        x, y = _curve(one)
        for at in np.linspace(x[0], x[-1], SAMPLES):
            labels.take(axes, taken, float(at), float(y[np.searchsorted(x, at)]), 2.0)
    _asked(axes, best, speed, taken)
    for one, colour in zip(every, style.COLOURS, strict=False):
        _name(axes, one, colour, taken)
    handles, words = axes.get_legend_handles_labels()
    if words:
        entries = dict(zip(words, handles, strict=True))
        axes.legend(entries.values(), entries.keys(), loc="upper right")
    return made


def _curve(one: Frontier) -> tuple[np.ndarray, np.ndarray]:
    """Return speeds, rising, and the rate at each; it begins at the speed 0."""
    x, y = one.steps.interactivity.values[::-1], one.steps.output_rate.values[::-1]
    return np.append(x[0] * 1e-3, x), np.append(y[0], y)


def _axes(axes: Axes, every: Sequence[Frontier], matters: np.ndarray) -> None:
    """Set the axes to what the frontiers span; rates are in logarithms where most lie low."""
    top = max(float(one.steps.output_rate.max()) for one in every)
    if np.median(matters) < LOW * top:
        style.few_of_a_decade(axes.yaxis)
        axes.set_ylim(top / LEAST, top * 1.6)
    else:
        axes.set_ylim(0.0, top * ROOM)
        axes.yaxis.set_major_formatter(FuncFormatter(style.count))
    axes.set_xlim(0.0, max(float(one.steps.interactivity.max()) for one in every) * ROOM)


def _band(axes: Axes, one: Frontier, colour: str) -> None:
    """Shade where measured servers lie."""
    low, high = axes.get_xlim()
    grid = np.linspace(max(low, 1e-6), high, 600)
    edges = (np.maximum(end, 1e-9) for end in band_of(one, grid))  # on a logarithmic axis, too
    axes.fill_between(grid, *edges, color=colour, alpha=0.13, linewidth=0.0, zorder=1)


def band_of(one: Frontier, grid: np.ndarray) -> list[np.ndarray]:
    """Return between which rates measured servers lie: speed and rate move with the TPOT alike."""
    edges = []
    for end in ("tpot_high", "tpot_low"):
        factor = (one.steps.tpot / one.steps[end]).values
        x, y = (one.steps[n].values * factor for n in ("interactivity", "output_rate"))
        edges.append(np.where(x[:, None] >= grid, y[:, None], 0.0).max(axis=0))
    return edges


def measured_of(data: xr.Dataset, one: Frontier) -> np.ndarray:
    """Return measured servers of the model, chip, software, formats and lengths, [row, (x, y)]."""
    model, system, software, formats = map(
        one.about.__getitem__, ("model", "system", "software", "precision")
    )
    prompt, output = lengths(json.loads(data.attrs["inputs"]))
    return measured_points(model, system, software, formats, prompt, output)


def _asked(axes: Axes, best: Frontier, speed: float, taken: list[labels.Box]) -> None:
    """Mark the speed asked for, and the best plan there."""
    axes.axvline(speed, color=style.BLACK, linestyle=":", linewidth=1.2, zorder=2)
    top = axes.get_ylim()[1]
    labels.place(
        axes, taken, f"TPOT {1e3 / speed:.3g} ms", [(speed, top)], ((5.0, -11.0),), fontsize=10
    )
    found = best.at(speed)
    if found is None:
        return
    rate = float(found.output_rate)
    axes.plot(speed, rate, "*", color=style.BLACK, markersize=13, zorder=5)
    labels.take(axes, taken, speed, rate, 8.0)
    words = f"{rate:,.0f} tokens/s\n{plan_words(found)}"
    look: dict[str, Any] = {"path_effects": HALO, "sides": (1.0, -1.0)}
    labels.place(
        axes,
        taken,
        words,
        [(speed, rate)],
        tuple((11.0, up) for up in (16.0, 30.0, 50.0, -20.0, -34.0, -50.0)),
        **look,
    )


def _name(axes: Axes, one: Frontier, colour: str, taken: list[labels.Box]) -> None:
    """Write the name of a frontier beside it; where there is no room it goes to a legend."""
    x, y = _curve(one)
    inside = y >= axes.get_ylim()[0]
    x, y = x[inside], y[inside]
    points = [(x[-1] * share, float(y[np.searchsorted(x, x[-1] * share)])) for share in PLACES]
    look: dict[str, Any] = {"color": colour, "weight": "bold", "path_effects": HALO, "fontsize": 10}
    for gap in GAPS:
        for side in (1.0, -1.0):  # above to the right, or below to the left: off the line itself
            at = ((4.0, side * gap),)
            if labels.place(axes, taken, one.name, points, at, sides=(side,), **look):
                return
    axes.plot([], [], color=colour, label=one.name)
