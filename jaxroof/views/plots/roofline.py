"""The roofline: the rate that an operator can reach against its arithmetic per byte."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from jaxroof.analyses.roofline_reading import (
    at,
    cases,
    letter,
    on_links,
    sweep_dimension,
)
from jaxroof.errors import listing
from jaxroof.units import show
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.roofline_points import (
    SHARED,
    Roof,
    alike,
    check_points,
    colour,
    critical_label,
    distinct_labels,
    labels,
    machines,
    rates,
    roof,
)
from jaxroof.views.text.roofline import fastest_names

ROOM = 1.6  # around what is drawn, as a factor
GROUND = {True: "#EAF3FA", False: "#FDF1E7"}  # of the slope, of the flat
SIZES = (14, 9.5, 6)  # of marks under one roof, so that none hides another
SAID = 3  # cases that the title speaks of
DASHED: dict[str, Any] = {"dashes": (4, 2), "linewidth": 1.2}
STAR: dict[str, Any] = {"marker": "*", "markeredgecolor": "black", "linestyle": "none"}


@style.drawn
def roofline(data: xr.Dataset) -> Figure:
    """Return the roof of every machine and number format, and an operator's points under it.

    The dimension that is swept makes the points; ``case`` makes roofs of several colours, and a
    lane of sizes each. A ridge is marked with its balance and, where that is what is swept, with
    the critical size.
    Raises: InputError where the data are not those of an operator's roofline.
    """
    dim = check_points(data)
    links = on_links(data)
    roofs = [roof(*case, place, links) for place, case in enumerate(cases(data))]
    alone = len(roofs) == 1
    lanes = 0 if alone or dim is None else len(roofs)
    depth = 0.46 * lanes + 0.5
    said = _finding(data, roofs)
    high = 5.0 + (depth if lanes else 0.3 * len(roofs))
    made = style.figure(choose.title(data, "Roofline"), said, high)
    ratios = {"height_ratios": [5.2, depth]} if lanes else None
    cells = made.subplots(1 + (lanes > 0), 1, squeeze=False, sharex=True, gridspec_kw=ratios)
    axes, last = cells[0, 0], cells[-1, 0]
    _limits(axes, roofs)
    groups = alike(roofs)
    named = distinct_labels(axes, groups)
    for place, group in enumerate(groups):
        _roof(axes, group)
        if named:
            _rates(axes, group, place, alone)
    for each, large in zip(roofs, _large(roofs), strict=True):
        _points(axes, each, alone, large)
    if alone:
        _grounds(axes, roofs[0])
    if lanes:
        _lanes(last, roofs)
    axes.set_ylabel("highest rate")
    last.set_xlabel(
        f"arithmetic per byte {'on the links' if links else 'of memory traffic'} [FLOP/B]"
    )
    _legend(made, roofs, named, lanes > 0)
    if named:
        _slopes(made, axes, groups)
    return made


def _finding(data: xr.Dataset, roofs: Sequence[Roof]) -> str:
    """Return from which size on arithmetic binds each case, or which takes the least time."""
    if len(roofs) == 1:
        return f"{roofs[0].name}: {roofs[0].verdict}"
    if all(each.turns for each in roofs) and len(roofs) <= SAID:
        return (
            f"Compute bound from {listing([f'{critical_label(r)} on ({r.name})' for r in roofs])}"
        )
    best = _best(data)
    return best[0].upper() + best[1:]


def _best(data: xr.Dataset) -> str:
    """Return which case takes the least time, at both ends of a sweep."""
    dim = sweep_dimension(data)
    if dim is None:
        return f"least time: {fastest_names(data)}"
    ends = [data.isel({dim: i}) for i in (0, -1)]
    said = [f"at {letter(data, dim)} = {at(end[dim])}: {fastest_names(end)}" for end in ends]
    return f"least time {'; '.join(said)}"


def _limits(axes: Axes, roofs: Sequence[Roof]) -> None:
    ridges = [roof.ridge for roof in roofs]
    left = min(*(roof.intensity.min() for roof in roofs), min(ridges) / 10) / ROOM
    right = max(*(roof.intensity.max() for roof in roofs), max(ridges) * 8) * ROOM
    low = min(*(roof.apart.min() for roof in roofs), *(roof.height(left) for roof in roofs))
    axes.set(xscale="log", yscale="log", xlim=(left, right))
    axes.set_ylim(low / ROOM, max(roof.peak for roof in roofs) * (4.5 if len(roofs) == 1 else 3))
    axes.xaxis.set_major_formatter(FuncFormatter(style.count))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value, "FLOP/s")))
    style.grid(axes)


def _roof(axes: Axes, group: Sequence[Roof]) -> None:
    """Draw one roof and its ridge, with a star where a critical size is known."""
    (left, right), low, look = axes.get_xlim(), axes.get_ylim()[0], colour(group)
    one = group[0]
    x = np.array([left, one.ridge, right])
    axes.plot(x, one.height(x), color=look, linewidth=2.2, zorder=2, label="_roof")
    axes.plot([one.ridge] * 2, [low, one.peak], ":", color=look, linewidth=1.3, zorder=2)
    if any(each.turns for each in group):
        axes.plot(one.ridge, one.peak, color=look, markersize=16, zorder=6, **STAR)


def _rates(axes: Axes, group: Sequence[Roof], place: int, alone: bool) -> None:
    """Write the peak beside a roof, and the balance beside its ridge."""
    one, look, low = group[0], colour(group), axes.get_ylim()[0]
    words, height = f"ridge {one.ridge:.4g} FLOP/B", low * 1.5 * 1.9**place
    style.note(axes, one.ridge * 1.06, height, words, color=look, ha="left", zorder=3)
    if alone:
        return  # the ground has its rate
    words = f"{machines(group)}: {_peak(one)}"
    _beside(axes, words, axes.get_xlim()[1], one.peak, (-4.0, 10.0), ha="right", color=look)


def _peak(one: Roof) -> str:
    return show(float(f"{one.peak:.4g}"), "FLOP/s")


def _large(roofs: Sequence[Roof]) -> list[float]:
    """Return how large the marks of every case are: of those on one slope, none hides another."""
    slopes = [f"{each.peak / each.ridge:.9g}" for each in roofs]
    if len(roofs[0].intensity) == 1 or len(set(slopes)) == len(slopes):
        return [8.0] * len(roofs)
    places = [slopes[:i].count(slope) for i, slope in enumerate(slopes)]
    return [SIZES[min(place, len(SIZES) - 1)] for place in places]


def _beside(
    axes: Axes, words: str, x: float, y: float, away: tuple[float, float], **more: Any
) -> None:
    """Write words at a point, some points of paper away from it."""
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "zorder": 5, **more}
    axes.annotate(words, (x, y), xytext=away, textcoords="offset points", **look)


def _points(axes: Axes, roof: Roof, alone: bool, large: float) -> None:
    """Draw where the operator stands at a few of its sizes; of one case alone, name them."""
    kept = roof.marked
    axes.plot(
        roof.intensity[kept], roof.rate[kept], roof.marker, color=roof.colour, markersize=large,
        markeredgecolor="white" if alone else "black", markeredgewidth=0.7, zorder=4,
        label=roof.name,
    )  # fmt: skip
    if not alone or len(roof.intensity) == 1:
        return
    if roof.rises:
        axes.plot(roof.intensity, roof.apart, color=roof.colour, label="_apart", **DASHED)
    name = letter(roof.part, str(sweep_dimension(roof.part)))
    for i, said in labels(axes, roof, f"{name} = "):
        flat = roof.intensity[i] > roof.ridge
        away, side = ((0, 7), "center") if flat else ((-7, 3), "right")
        _beside(axes, said, float(roof.intensity[i]), float(roof.rate[i]), away, ha=side)


def _grounds(axes: Axes, roof: Roof) -> None:
    """Colour the two sides of one roof's ridge, say what binds there, name the critical size."""
    left, right = axes.get_xlim()
    slope = "link bound" if roof.links else "memory bound"
    flat = f"compute bound:\n{_peak(roof)}"
    for start, stop, words in ((left, roof.ridge, slope), (roof.ridge, right, flat)):
        axes.axvspan(start, stop, color=GROUND[words == slope], zorder=0)
        where = axes.get_xaxis_transform()
        middle = (start * stop) ** 0.5
        look: dict[str, Any] = {"ha": "center", "va": "top", "color": "#555555"}
        axes.text(middle, 0.97, words, transform=where, **look)
    if roof.turns:
        words = f"critical {critical_label(roof)}"
        _beside(axes, words, roof.ridge, roof.peak, (8, 13), ha="right", weight="bold")


def _lanes(axes: Axes, roofs: Sequence[Roof]) -> None:
    """Draw a lane of sizes for every case, its critical size at the ridge."""
    for place, each in enumerate(roofs):
        y, kept = -float(place), each.marked
        ends = each.intensity[[0, -1]]
        axes.plot(ends, [y, y], color=each.colour, linewidth=1.2, zorder=2)
        look: dict[str, Any] = {"color": each.colour, "markersize": 5, "zorder": 3}
        axes.plot(each.intensity[kept], [y] * len(kept), each.marker, **look)
        if each.turns:
            axes.plot(each.ridge, y, color=each.colour, markersize=13, zorder=4, **STAR)
            words = critical_label(each)
            _beside(axes, words, each.ridge, y, (0, 5), weight="bold")
        for i, said in labels(axes, each):
            _beside(axes, said, float(each.intensity[i]), y, (0, 4))
    ticks = [-float(i) for i in range(len(roofs))]
    axes.set_yticks(ticks, [each.name for each in roofs])
    for label, each in zip(axes.get_yticklabels(), roofs, strict=True):
        label.set_color(each.colour)
    axes.set_ylim(-len(roofs) + 0.4, 0.8)
    name = letter(roofs[0].part, str(sweep_dimension(roofs[0].part)))
    axes.set_title(f"where the sizes {name} stand", loc="left")
    style.grid(axes, "x")


def _legend(made: Figure, roofs: Sequence[Roof], named: bool, lanes: bool) -> None:
    alone, entries = len(roofs) == 1, {}
    for each in roofs if not (lanes and named) else ():  # a lane has its name and colour
        mark: dict[str, Any] = {"marker": each.marker, "linestyle": "none", "markersize": 7}
        more = each.verdict if named else rates(each)
        words = "where everything overlaps" if alone else f"{each.name}: {more}"
        entries[words] = Line2D([], [], color=each.colour, **mark)
    if alone and roofs[0].rises:
        entries["where nothing does"] = Line2D([], [], color=roofs[0].colour, **DASHED)
    if any(each.turns for each in roofs):
        face = roofs[0].colour if alone else SHARED
        star = Line2D([], [], color=face, markersize=13, **STAR)
        entries["critical size: from here on arithmetic binds"] = star
    if not entries:
        return
    columns = 1
    made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)


def _slopes(made: Figure, axes: Axes, groups: Sequence[Sequence[Roof]]) -> None:
    """Write the bandwidth along the slope of every roof, turned as the figure lays it out."""
    made.draw_without_rendering()
    left = axes.get_xlim()[0]
    written: set[str] = set()
    for group in groups:
        one = group[0]
        words = show(float(f"{one.peak / one.ridge:.4g}"), "B/s")
        if words in written:
            continue
        written.add(words)
        x = left * (one.ridge / left) ** 0.12
        line = [(x, float(one.height(x))), (2 * x, float(one.height(2 * x)))]
        start, stop = axes.transData.transform(line)
        turned = float(np.degrees(np.arctan2(stop[1] - start[1], stop[0] - start[0])))
        look: dict[str, Any] = {
            "rotation": turned,
            "rotation_mode": "anchor",
            "color": colour(group),
        }
        away, side = ((6, -5), "top") if len(group) == len(groups) == 1 else ((-4, 4), "bottom")
        _beside(axes, words, *line[0], away, ha="left", va=side, **look)
