"""What a roofline picture draws: roofs, points under them, and the sizes that are named."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from jaxroof.analyses.roofline_reading import (
    TIMES,
    across,
    against,
    binding,
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
from jaxroof.errors import refusal
from jaxroof.units import show
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

COLOURS = (
    style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE, style.SKY, style.BLACK,
    style.BROWN,
)  # fmt: skip
SAME = 1e-9  # rates that differ by less are one
SHARED = "#444444"  # of a roof over several cases
MARKED = 16  # sizes, at most
LETTER, GAP = 0.0165, 0.014  # width of a letter and between two labels, shares of the axes
APART = 0.06  # least distance of two roofs with labels of their own, as a share of the height


@dataclasses.dataclass(frozen=True, eq=False)
class Roof:
    """One case: its machine's roof, and where the operator stands under it."""

    name: str
    colour: str
    marker: str
    peak: float  # FLOP/s
    ridge: float  # the intensity at which arithmetic and transfers take as long [FLOP/B]
    intensity: np.ndarray
    rate: np.ndarray  # where everything overlaps
    apart: np.ndarray  # where nothing does
    part: xr.Dataset
    links: bool = False  # intensity counts the bytes that links carry, not those of memory

    @property
    def machine(self) -> str:
        """Return the name of the machine alone."""
        return self.name.partition(" ")[0]

    @property
    def marked(self) -> list[int]:
        """Return the positions of the sizes that are marked."""
        dim = sweep_dimension(self.part)
        return [0] if dim is None else milestones(self.part[dim].values, MARKED)

    @property
    def rates(self) -> tuple[tuple[float, str], tuple[float, str]]:
        """Return the peak and the bandwidth, each with its unit."""
        return (self.peak, "FLOP/s"), (self.peak / self.ridge, "B/s")

    @property
    def rises(self) -> bool:
        """Return whether intensity grows with the size, so that sizes make a curve."""
        return not self.stands and bool(np.all(np.diff(self.intensity) >= 0))

    @property
    def stands(self) -> bool:
        """Return whether intensity is the same at every size, so that they lie on one point."""
        return bool(np.ptp(self.intensity) <= SAME * np.max(self.intensity))

    @property
    def turns(self) -> bool:
        """Return whether the size that is swept has a critical value to mark at the ridge."""
        kind = "link" if self.links else "memory"
        return is_critical(self.part) and against(self.part) == kind and self.critical > 0

    @property
    def critical(self) -> float:
        """Return the size from which arithmetic binds."""
        return float(np.ravel(self.part.critical.values)[-1])

    @property
    def verdict(self) -> str:
        """Return what binds, and where that turns."""
        if sweep_dimension(self.part) is not None:
            return turn_words(self.part)
        bound = TIMES[binding(self.part)][2]
        return f"{bound}, {100 * float(self.rate[0]) / self.peak:.3g} % of the peak"

    def height(self, intensity: np.ndarray | float) -> np.ndarray:
        """Return the rate under the roof at an intensity [FLOP/s]."""
        return np.asarray(self.peak * np.minimum(1.0, np.asarray(intensity) / self.ridge))


def check_points(data: xr.Dataset) -> str | None:
    """Return the dimension that is swept in data that can be drawn.

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
    rates = (data.link_balance if links else data.balance, data.flops / data.math_time)
    if dim is not None and any(_moves(rate, dim) for rate in rates):
        what = f"the roof itself moves along {letter(data, dim)}"
        raise refusal(picture, f"{what}; expected a sweep of what the operator does alone")
    return dim


def _moves(rate: xr.DataArray, dim: str) -> bool:
    """Return whether a rate of the machine changes along a dimension."""
    ends = (rate.max(dim), rate.min(dim)) if dim in rate.dims else (rate, rate)
    return not np.allclose(ends[0].values, ends[1].values, rtol=SAME, atol=0.0)


def roof(name: str, part: xr.Dataset, place: int, links: bool) -> Roof:
    """Return one case: its rates follow from the work and its times; ``links`` make its slope."""
    dim = sweep_dimension(part)

    def column(result: str) -> np.ndarray:
        value = part[result] if dim is None else part[result].broadcast_like(part[dim])
        return np.atleast_1d(value.values)

    flops, math_time = column("flops"), column("math_time")
    ridge = float(np.max(column("link_balance" if links else "balance")))
    return Roof(
        name=name or str(part.attrs.get("estimator", "")),
        colour=COLOURS[place % len(COLOURS)],
        marker=style.MARKERS[place % len(style.MARKERS)],
        peak=float(np.max(flops / math_time)),
        ridge=ridge,
        intensity=ridge * math_time / column("link_time") if links else column("intensity"),
        rate=flops / column("lower"),
        apart=flops / column("upper"),
        part=part,
        links=links,
    )


def alike(roofs: Sequence[Roof]) -> list[list[Roof]]:
    """Return the cases by their roofs, those under one roof together, the lowest ridge first."""
    found: list[list[Roof]] = []
    for each in sorted(roofs, key=lambda roof: roof.ridge):
        same = (f for f in found if np.allclose([f[0].peak, f[0].ridge], [each.peak, each.ridge]))
        held = next(same, None)
        if held is None:
            found.append([each])
        else:
            held.append(each)
    return found


def machines(group: Sequence[Roof]) -> str:
    """Return the machines of the cases under one roof, of one case with its format."""
    if len(group) == 1:
        return group[0].name
    return ", ".join(dict.fromkeys(roof.machine for roof in group))


def colour(group: Sequence[Roof]) -> str:
    """Return the colour of a roof over one case, or over several."""
    return group[0].colour if len(group) == 1 else SHARED


def labels(axes: Axes, roof: Roof, head: str = "") -> list[tuple[int, str]]:
    """Return the sizes that are named beside their points, so far apart that they can be read.

    ``head`` is what stands before each; the critical size at the ridge keeps its room.
    """
    dim = sweep_dimension(roof.part)
    if dim is None:
        return []
    left, right = np.log(axes.get_xlim())
    where = (np.log(roof.intensity) - left) / (right - left)
    unit, values = str(roof.part[dim].attrs.get("units", "1")), roof.part[dim].values
    if roof.stands and len(values) > 1:
        return [(0, head + " to ".join(sized(float(end), unit) for end in values[[0, -1]]))]
    ridge = float((np.log(roof.ridge) - left) / (right - left))
    taken = [(ridge, critical_label(roof))] if roof.turns else []
    chosen: dict[int, str] = {}
    first, *between, last = roof.marked if len(roof.marked) > 1 else [0, 0]
    for i in [first, last, *between]:
        said = f"{head}{sized(float(values[i]), unit)}"
        room = [LETTER * (len(said) + len(words)) / 2 + GAP for _, words in taken]
        if all(abs(where[i] - w) >= r for (w, _), r in zip(taken, room, strict=True)):
            chosen[i] = said
            taken.append((float(where[i]), said))
    return sorted(chosen.items())


def distinct_labels(axes: Axes, groups: Sequence[Sequence[Roof]]) -> bool:
    """Return whether roofs lie so far apart that each has room for labels of its own."""
    low, high = np.log(axes.get_ylim())
    peaks, slopes = [g[0].peak for g in groups], [g[0].peak / g[0].ridge for g in groups]
    for values, least in ((peaks, -1.0), (slopes, SAME)):  # equal slopes share their label
        steps = np.diff(np.sort(np.log(values))) / (high - low)
        if np.any((steps < APART) & (steps > least)):
            return False
    return True


def rates(roof: Roof) -> str:
    """Return the peak and the bandwidth of a roof in words."""
    peak, slope = (show(float(f"{rate:.4g}"), unit) for rate, unit in roof.rates)
    return f"{peak}, {slope}"


def critical_label(roof: Roof) -> str:
    """Return the critical size in words."""
    size = roof.critical
    whole = float(math.ceil(size - SAME)) if size > 1.0 else size  # there is no half of a size
    return f"{letter(roof.part, str(sweep_dimension(roof.part)))} = {number(whole)}"
