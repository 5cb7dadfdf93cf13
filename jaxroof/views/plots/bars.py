"""Bars of parts, alike in every picture: the parts, numbers in and beside them, a capacity."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxroof.units import amount, percent
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import RED, ink
from jaxroof.views.text.margin import Margin

Parts = Mapping[str, tuple[np.ndarray, str]]  # words: a value a bar, colour
THICK = 0.62  # of a bar
SEEN = 2e-3  # of the longest bar: what is narrower is neither drawn nor in the legend
INSIDE = 0.12  # of the longest bar: the room that a number needs
FAR = 4.0  # times the longest bar: a capacity beyond it is told and not drawn
PALE = 0.45  # of what does not fit


def stacked(
    axes: Axes,
    parts: Parts,
    beside: Sequence[str] = (),
    places: Sequence[float] | np.ndarray | None = None,
    *,
    inside: bool = False,
    fits: Sequence[bool] | np.ndarray = (True,),
    room: float = 1.32,
    thick: float = THICK,
    spread: np.ndarray | None = None,
) -> np.ndarray:
    """Draw a bar a place of parts one after the other; return where the bars end.

    ``inside`` writes the share of a part in it, ``beside`` is written at the ends. Bars that do
    not fit are pale. ``spread`` has the ends of an interval of every bar.
    """
    whole = np.nansum([values for values, _ in parts.values()], axis=0)
    at = np.arange(len(whole)) if places is None else np.asarray(places)
    longest, ends = float(whole.max(initial=0.0)) or 1.0, np.zeros(len(whole))
    for words, (given, colour) in parts.items():
        values = np.where(np.isfinite(given), given, 0.0)
        seen = values.max(initial=0.0) > SEEN * longest
        label = words if seen else "_"
        look: dict[str, Any] = {"marker": "s", "markersize": 10, "linestyle": "none"}
        axes.plot([], [], color=colour, label=label, **look)  # a legend is never pale
        drawn = axes.barh(at, values * seen, thick, left=ends, color=colour)
        for bar, fit in zip(drawn, np.broadcast_to(fits, ends.shape), strict=True):
            bar.set_alpha(1.0 if fit else PALE)
        if inside:
            shares = values / np.where(whole > 0, whole, 1.0)
            said = [
                percent(s) if v > INSIDE * longest else ""
                for s, v in zip(shares, values, strict=True)
            ]
            axes.bar_label(drawn, said, label_type="center", color=ink(colour))
        ends = ends + values
    right = ends
    if spread is not None:
        look = {"fmt": "none", "ecolor": style.BLACK, "elinewidth": 1.2, "capsize": 3}
        apart = np.abs(spread - ends)
        axes.errorbar(ends, at + 0.4 * thick, xerr=apart, label="80 % of runs", **look)
        right = np.fmax(ends, spread[1])
    for place, end, words in zip(at, right, beside, strict=bool(len(beside))):
        axes.annotate(words, (end, place), (4, 0), textcoords="offset points", va="center")
    axes.set_xlim(0.0, room * max(longest, float(np.nanmax(right, initial=0.0))))
    style.grid(axes, "x")
    return ends


def memory(
    axes: Axes,
    parts: Parts,
    limit: np.ndarray | float | None,
    unit: str = "B",
    words: str = "memory of a device",
    places: Sequence[float] | np.ndarray | None = None,
    margin: Margin | None = None,
    there: str = "",
    thick: float = THICK,
) -> None:
    """Draw needs as bars against what there is, a dashed line; their numbers at the right edge.

    A number is bold and red where it does not fit.
    """
    whole = np.nansum([values for values, _ in parts.values()], axis=0)
    at = np.arange(len(whole)) if places is None else np.asarray(places)
    held = np.broadcast_to(np.inf if limit is None else limit, whole.shape).astype(np.float64)
    near = held < FAR * whole.max(initial=1.0)
    top = float(np.max([whole.max(initial=0.0), *held[near]]))
    scale, shown = style.human(np.array([top]), unit)
    stacked(axes, {w: (values / scale, c) for w, (values, c) in parts.items()}, (), at, thick=thick)
    for place, value, capacity in zip(at, whole, held, strict=True):
        full = value > capacity
        look: dict[str, Any] = {"color": RED, "weight": "bold"} if full else {}
        beside = axes.get_yaxis_transform()
        if value > 0.0:
            axes.text(1.01, place, f"{value / scale:.3g}", transform=beside, va="center", **look)
    half = 0.5 * float(np.min(np.diff(np.sort(at)), initial=1.0))
    for place, capacity in zip(at[near], held[near] / scale, strict=True):
        axes.vlines(capacity, place - half, place + half, color=style.BLACK, linestyle="--")
    one = np.unique(held[np.isfinite(held)])
    if len(one) == 1:
        said = [f"{'dashed: ' if near.any() else ''}{amount(float(one[0]), unit)} {there}".strip()]
        if margin is not None and margin.error and near.any():
            low, high = margin.doubtful(float(one[0]) / scale)
            axes.axvspan(low, min(high, 1.12 * top / scale), color=style.PALE, alpha=0.5, zorder=0)
            said.append(margin.band)
        axes.set_title("\n".join(said))
    elif len(one):
        axes.set_title("dashed: what there is")
    axes.set_xlim(0.0, 1.12 * top / scale)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(style.with_unit(words, shown.strip("1")))


def names(axes: Axes, said: Iterable[str], places: Sequence[float] | None = None) -> None:
    """Name the bars at the left, the first at the top."""
    shown = list(said)
    axes.set_yticks(range(len(shown)) if places is None else list(places), shown)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.4, -0.6) if places is None else axes.invert_yaxis()
