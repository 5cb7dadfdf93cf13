"""How each axis of a split scales by itself."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.errors import refusal
from jaxroof.views.plan_styles import ALONG, fitting, moved_words, points
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

PICTURE = "isolated_scaling"
ACROSS = 2  # panels in a row
AXES = {  # a degree of the plan: what it is called alone
    "data": "data parallelism alone",
    "tensor": "tensor parallelism alone",
    "pipeline": "a pipeline alone",
}


class Line(NamedTuple):
    """One line of a panel: what it is, its devices, how many times faster than on one."""

    words: str
    devices: np.ndarray
    gain: np.ndarray


@style.drawn
def isolated_scaling(*data: xr.Dataset) -> Figure:
    """Return the speed-up of each axis of a split alone, a panel an axis, a line a batch or width.

    Any of the data is a grid over one degree and what makes its lines, or every plan of several
    cluster sizes, of which those with one degree above 1 are drawn (the best microbatches of
    each). The dashed line is ideal.
    Raises: InputError where no degree varies by itself.
    """
    panels: dict[tuple[int, str], list[Line]] = {}
    for number, one in enumerate(data):
        for degree, lines in (_studied(one) if ALONG in one.sizes else _grid(one)).items():
            panels[number, degree] = lines
    if not panels:
        raise refusal(PICTURE, "no degree varies by itself; expected an axis over plan.data")
    titles = [choose.title(one, "") for one in data] if len(panels) == 1 else ["Each axis alone"]
    finding = "; ".join(_finding(degree, lines) for (_, degree), lines in panels.items())
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    made = style.figure(titles[0], finding, style.HIGH if down == 1 else 1.0 + 3.6 * down)
    cells = made.subplots(down, across, squeeze=False, sharey=True).ravel()
    for spare in cells[len(panels) :]:
        spare.remove()
    for axes, ((_, degree), lines) in zip(cells, panels.items(), strict=False):
        _panel(axes, degree, lines)
    most = max(line.devices.max() for lines in panels.values() for line in lines)
    style.powers_of_two(cells[0].yaxis, 1.0, float(most))
    for axes in cells[: len(panels) : across]:
        axes.set_ylabel("speed-up over one accelerator")
    return made


def _grid(data: xr.Dataset) -> dict[str, list[Line]]:
    """Return the lines of a grid over one degree, by that degree."""
    kept = choose.best_plans(data)
    choose.check_has(kept, PICTURE, ("throughput",))
    found = {}
    for degree in AXES:
        dims = {d for d in kept.sizes if _column(kept, degree).dims == (d,)}
        if not dims:
            continue
        (dim,) = dims
        others = [str(d) for d in kept.sizes if d != dim]
        choose.check_dimensions(kept, PICTURE, (str(dim), *others[:1]))
        devices = _column(kept, degree).values.astype(np.float64)
        value = choose.feasible_values(kept, kept.throughput)
        if not others:
            found[degree] = [_line("", devices, value.values)]
            continue
        found[degree] = [
            _line(_words(kept, others[0], i), devices, value.isel({others[0]: i}).values)
            for i in range(kept.sizes[others[0]])
        ]
    return found


def _words(data: xr.Dataset, dim: str, index: int) -> str:
    """Return what a line is: all that moves together there."""
    names = choose.linked_coordinates(data, dim)
    said = [moved_words(data, name, data[name].values[index].item()) for name in names]
    return ", ".join(said) or f"{dim} {index}"


def _column(data: xr.Dataset, degree: str) -> xr.DataArray:
    """Return the degrees along an axis of the data; one number where it does not vary."""
    for name in (degree, f"plan_{degree}"):
        path = data[name].attrs.get("path") if name in data.coords else None
        if path == f"plan.{degree}":
            return data[name]
    return xr.DataArray(1.0)


def _studied(data: xr.Dataset) -> dict[str, list[Line]]:
    """Return the lines of every plan of a study that has one degree above 1, by that degree."""
    found: dict[str, list[Line]] = {}
    for words, part in points(data, within=("gpus",)):
        order = fitting(part)
        for degree in AXES:
            others = [part[name].values[order] for name in AXES if name != degree]
            alone = order[np.all(np.stack(others) == 1, axis=0)]
            devices, first = np.unique(part[degree].values[alone], return_index=True)
            if len(devices) > 1:
                line = _line(words, devices.astype(float), part.throughput.values[alone[first]])
                found.setdefault(degree, []).append(line)
    return found


def _line(words: str, devices: np.ndarray, throughput: np.ndarray) -> Line:
    """Return speed-ups over one device, or over the fewest that hold it, taken as ideal."""
    order = np.argsort(devices)
    devices, throughput = devices[order], throughput[order]
    held = np.flatnonzero(np.isfinite(throughput))
    unit = throughput[held[0]] / devices[held[0]] if len(held) else 1.0
    return Line(words, devices, throughput / unit)


def _finding(degree: str, lines: list[Line]) -> str:
    """Return the least and the most speed-up on the most devices."""
    most = max(float(line.devices.max()) for line in lines)
    gains = [float(line.gain[-1]) for line in lines if line.devices[-1] == most]
    low, high = (
        f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in (min(gains), max(gains))
    )
    reach = high if low == high else f"{low} to {high}"
    return f"{degree}: {reach} times on {most:,.0f} accelerators"


def _panel(axes: Axes, degree: str, lines: list[Line]) -> None:
    """Draw the lines of one axis, and the ideal one."""
    names = [line.words for line in lines]
    devices = np.unique(np.concatenate([line.devices for line in lines]))
    axes.plot(devices, devices, color=style.GREY, linewidth=1.2, dashes=(6, 3), label="ideal")
    for line in lines[::-1]:
        look = style.line_style(names, line.words, families=False)
        axes.plot(line.devices, line.gain, label=line.words or degree, **look)
    style.sizes_axis(axes, devices, 8)
    axes.set_title(AXES[degree])
    axes.legend()
    style.grid(axes)
