"""The roofline: the rate that an operator can reach against its arithmetic per byte."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from jaxroof.analyses.roofline_reading import (
    TIMES,
    across,
    against,
    at,
    binding,
    cases,
    is_critical,
    is_roofline,
    letter,
    milestones,
    number,
    on_links,
    sized,
    sweep_dimension,
    turn_words,
)
from jaxroof.errors import listing, refusal
from jaxroof.units import show
from jaxroof.views.plots import labels, style
from jaxroof.views.plots import select as choose
from jaxroof.views.text.roofline import fastest_names

COLOURS = (*(style.BLUE, style.VERMILION, style.GREEN, style.PURPLE), *(style.ORANGE, style.SKY),
           *(style.BLACK, style.BROWN))  # fmt: skip
SAME = 1e-9  # rates that differ by less are one
MARKED = 16  # sizes, at most
ROOM = 1.6  # around what is drawn, as a factor
GROUND = {True: "#EAF3FA", False: "#FDF1E7"}  # of the slope, of the flat
SAID = 3  # cases that the finding speaks of
DASHED: dict[str, Any] = {"dashes": (4, 2), "linewidth": 1.2}
STAR: dict[str, Any] = {"marker": "*", "markeredgecolor": "black", "linestyle": "none"}


@dataclasses.dataclass(frozen=True, eq=False)
class Roof:
    """One case: its machine's roof, and where the operator stands under it."""

    name: str
    part: xr.Dataset
    peak: float  # FLOP/s
    ridge: float  # the intensity at which arithmetic and transfers take as long [FLOP/B]
    intensity: np.ndarray
    rate: np.ndarray  # where everything overlaps
    apart: np.ndarray  # where nothing does

    @property
    def dim(self) -> str | None:
        """Return the dimension that is swept."""
        return sweep_dimension(self.part)

    @property
    def critical(self) -> str:
        """Return the size from which arithmetic binds, in words, where it is one to mark."""
        kind = "link" if on_links(self.part) else "memory"
        if not (is_critical(self.part) and against(self.part) == kind):
            return ""
        size = float(np.ravel(self.part.critical.values)[-1])
        whole = float(math.ceil(size - SAME)) if size > 1.0 else size  # there is no half of a size
        return f"{letter(self.part, str(self.dim))} = {number(whole)}" if size > 0 else ""

    @property
    def verdict(self) -> str:
        """Return what binds, and where that turns."""
        if self.dim is not None:
            return turn_words(self.part)
        share = 100 * float(self.rate[0]) / self.peak
        return f"{TIMES[binding(self.part)][2]}, {share:.3g} % of the peak"

    @property
    def rates(self) -> str:
        """Return the peak and the bandwidth in words."""
        both = ((self.peak, "FLOP/s"), (self.peak / self.ridge, "B/s"))
        return ", ".join(show(float(f"{rate:.4g}"), unit) for rate, unit in both)

    def height(self, intensity: np.ndarray | float) -> np.ndarray:
        """Return the rate under the roof at an intensity [FLOP/s]."""
        return np.asarray(self.peak * np.minimum(1.0, np.asarray(intensity) / self.ridge))


@style.drawn
def roofline(data: xr.Dataset) -> Figure:
    """Return the roof of every machine and number format, and an operator's points under it.

    The dimension that is swept makes the points; ``case`` makes roofs of several colours. A ridge
    has a star where a critical size of what is swept is known.
    Raises: InputError where the data are not those of an operator's roofline.
    """
    _check(data)
    links = on_links(data)
    roofs = [_roof(*case, links) for case in cases(data)]
    alone = len(roofs) == 1
    made = style.figure(
        choose.title(data, "Roofline"), _finding(data, roofs), 4.8 + 0.3 * len(roofs)
    )
    axes = made.subplots()
    _limits(axes, roofs)
    for place, roof in enumerate(roofs):
        _draw(axes, roof, place, alone)
    axes.set_ylabel("highest rate")
    traffic = "on the links" if links else "of memory traffic"
    axes.set_xlabel(f"arithmetic per byte {traffic} [FLOP/B]")
    extra = []
    if any(roof.critical for roof in roofs):
        face = COLOURS[0] if alone else "#444444"
        words = "critical size: from here on arithmetic binds"
        extra = [Line2D([], [], color=face, markersize=13, label=words, **STAR)]
    style.legend(made, columns=2 if alone else 1, extra=extra)
    if alone:
        made.draw_without_rendering()
        _name(axes, roofs[0], "link bound" if links else "memory bound")
    return made


def _check(data: xr.Dataset) -> None:
    """Check that data can be drawn.

    Raises: InputError that says why they cannot.
    """
    picture, dim = "roofline", sweep_dimension(data)
    if not is_roofline(data):
        raise refusal(picture, "the data are not the answers of an operator's roofline")
    choose.check_dimensions(data, picture, [d for d in (across(data), dim) if d is not None])
    links = on_links(data)
    slope = data.link_time if links else data.memory_time
    if not np.all(data.math_time.values > 0) or not np.all(slope.values > 0):
        what = "no roof over an operator without arithmetic or without traffic"
        send = "; expected sizes that all send something over the links" if links else ""
        raise refusal(picture, f"{what}{send}")
    for rate in (data.link_balance if links else data.balance, data.flops / data.math_time):
        if dim in rate.dims and not np.allclose(rate.max(dim), rate.min(dim), rtol=SAME, atol=0.0):
            what = f"the roof itself moves along {letter(data, str(dim))}"
            raise refusal(picture, f"{what}; expected a sweep of what the operator does alone")


def _roof(name: str, part: xr.Dataset, links: bool) -> Roof:
    """Return one case: its rates follow from the work and its times; ``links`` make its slope."""
    dim = sweep_dimension(part)

    def column(result: str) -> np.ndarray:
        value = part[result] if dim is None else part[result].broadcast_like(part[dim])
        return np.atleast_1d(value.values)

    flops, math_time = column("flops"), column("math_time")
    ridge = float(np.max(column("link_balance" if links else "balance")))
    return Roof(
        name=name or str(part.attrs.get("estimator", "")),
        part=part,
        peak=float(np.max(flops / math_time)),
        ridge=ridge,
        intensity=ridge * math_time / column("link_time") if links else column("intensity"),
        rate=flops / column("lower"),
        apart=flops / column("upper"),
    )


def _finding(data: xr.Dataset, roofs: Sequence[Roof]) -> str:
    """Return from which size on arithmetic binds each case, or which takes the least time."""
    if len(roofs) == 1:
        return f"{roofs[0].name}: {roofs[0].verdict}"
    if all(roof.critical for roof in roofs) and len(roofs) <= SAID:
        return f"Compute bound from {listing([f'{r.critical} on ({r.name})' for r in roofs])}"
    dim = sweep_dimension(data)
    if dim is None:
        return f"Least time: {fastest_names(data)}"
    ends = [data.isel({dim: i}) for i in (0, -1)]
    said = [f"at {letter(data, dim)} = {at(end[dim])}: {fastest_names(end)}" for end in ends]
    return f"Least time {'; '.join(said)}"


def _limits(axes: Axes, roofs: Sequence[Roof]) -> None:
    left = min(min(roof.intensity.min(), roof.ridge / 10) for roof in roofs) / ROOM
    right = max(max(roof.intensity.max(), roof.ridge * 8) for roof in roofs) * ROOM
    low = min(min(roof.apart.min(), float(roof.height(left))) for roof in roofs) / ROOM
    high = max(roof.peak for roof in roofs) * (4.5 if len(roofs) == 1 else 2)
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(low, high))
    axes.xaxis.set_major_formatter(FuncFormatter(style.count))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value, "FLOP/s")))
    style.grid(axes)


def _draw(axes: Axes, roof: Roof, place: int, alone: bool) -> None:
    """Draw one roof and its ridge, and where the operator stands at a few of its sizes."""
    (left, right), low = axes.get_xlim(), axes.get_ylim()[0]
    colour = COLOURS[place % len(COLOURS)]
    x = np.array([left, roof.ridge, right])
    large = max(5.0, 11.0 - 4.0 * place)  # so that none under one roof hides another
    axes.plot(x, roof.height(x), color=colour, linewidth=large / 3, zorder=2)
    axes.plot([roof.ridge] * 2, [low, roof.peak], ":", color=colour, linewidth=1.3, zorder=2)
    if roof.critical:
        axes.plot(roof.ridge, roof.peak, color=colour, markersize=16, zorder=6, **STAR)
    words = "where everything overlaps" if alone else f"{roof.name}: {roof.rates}; {roof.verdict}"
    kept = [0] if roof.dim is None else milestones(roof.part[roof.dim].values, MARKED)
    look: dict[str, Any] = {"color": colour, "markersize": large, "markeredgecolor": "white"}
    mark = style.MARKERS[place % len(style.MARKERS)]
    words = style.wrapped(words, style.LEGEND - 12)
    axes.plot(roof.intensity[kept], roof.rate[kept], mark, label=words, zorder=4, **look)
    if alone and np.ptp(roof.intensity) > 0 and bool(np.all(np.diff(roof.intensity) >= 0)):
        label = "where nothing does"
        axes.plot(roof.intensity, roof.apart, color=colour, label=label, **DASHED)


def _name(axes: Axes, roof: Roof, slope: str) -> None:
    """Colour the two sides of one roof's ridge and say what binds there; name rates and sizes."""
    (left, right), low = axes.get_xlim(), axes.get_ylim()[0]
    taken: list[labels.Box] = []
    if roof.critical:
        words, at_ridge = f"critical {roof.critical}", (roof.ridge, roof.peak)
        labels.place(
            axes, taken, words, [at_ridge], ((8.0, 15.0),), sides=(-1.0, 1.0), weight="bold"
        )
    high, (peak, bandwidth) = axes.get_ylim()[1] / 1.9, roof.rates.split(", ")
    sides = {
        f"{slope}:\n{bandwidth}": (left, roof.ridge),
        f"compute bound:\n{peak}": (roof.ridge, right),
    }
    for words, (start, stop) in sides.items():
        axes.axvspan(start, stop, color=GROUND[start == left], zorder=0)
        points = [(start * (stop / start) ** share, high) for share in (0.5, 0.3, 0.7)]
        labels.place(axes, taken, words, points, color="#555555")
    ridge = f"ridge {roof.ridge:.4g} FLOP/B"
    labels.place(axes, taken, ridge, [(roof.ridge, low * 1.6)], ((6.0, 0.0),))
    if roof.dim is None:
        return
    values, unit = roof.part[roof.dim].values, str(roof.part[roof.dim].attrs.get("units", "1"))
    told = {i: sized(float(values[i]), unit) for i in milestones(values, MARKED)}
    if np.ptp(roof.intensity) <= SAME * roof.intensity.max():  # all sizes lie on one point
        told = {0: " to ".join(dict.fromkeys([told[min(told)], told[max(told)]]))}
    for i in dict.fromkeys([min(told), max(told), *told]):
        words, point = (
            f"{letter(roof.part, roof.dim)} = {told[i]}",
            (roof.intensity[i], roof.rate[i]),
        )
        labels.place(axes, taken, words, [point], ((7.0, 8.0), (7.0, -10.0)), sides=(-1.0, 1.0))
