"""The operations of one layer: where their microseconds go."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

KINDS = {  # what an operation waits for: words, colour
    "compute": ("arithmetic and launch", style.BLUE),
    "memory": ("HBM not hidden", style.SKY),
    "tensor": ("tensor links", style.VERMILION),
}
SORTS = {  # what an operation is, where its parts are not told apart: words, colour
    "matrix product": ("matrix products", style.BLUE),
    "kernel": ("attention and other kernels", style.SKY),
    "message": ("messages that nothing hides", style.VERMILION),
    "computed again": ("computed again", style.ORANGE),
    "wait": ("waiting for the host", style.GREY),
}
WAYS = ("forward", "backward")


@style.drawn
def layer_bars(data: xr.Dataset) -> Figure:
    """Return the time of each operation of one layer as stacked bars, forward and backward.

    Raises: InputError for data that ``layers`` did not make.
    """
    picture = "layer_bars"
    parts = () if "kind" in data.coords else KINDS
    fields = [f"{kind}_{way}" for way in WAYS for kind in (*parts, "time")]
    choose.check_has(data, picture, fields, ("operation",))
    choose.check_dimensions(data, picture, ("operation",))
    names = data.operation.values.astype(str).tolist()
    title = choose.title(data, "One layer, one microbatch, one accelerator")
    made = style.figure(title, _finding(data), 1.9 + 0.3 * len(names))
    left, right = made.subplots(1, 2, sharey=True, sharex=True)  # one scale
    for axes, way in ((left, WAYS[0]), (right, WAYS[1])):
        _bars(axes, data, way)
        total = float(data[f"time_{way}"].sum()) * 1e6
        axes.set_title(f"{way}: {total:,.0f} us")
        axes.set_xlabel("time [us]")
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    longest = max(float(data[f"time_{way}"].max()) for way in WAYS)
    left.set_xlim(0, 1.2e6 * longest)
    handles, words = right.get_legend_handles_labels()
    made.legend(handles, words, loc="outside lower center", ncols=4)
    return made


def _finding(data: xr.Dataset) -> str:
    """Return the two operations that take most of the layer, both ways."""
    each = sum(data[f"time_{way}"].values for way in WAYS)
    first = np.argsort(-each)[:2]
    said = [f"{data.operation.values[i]} {percent(each[i] / each.sum())}" for i in first]
    return f"{each.sum() * 1e6:,.0f} us in all; the most: {', '.join(said)}"


Parts = dict[str, tuple[np.ndarray, str]]  # words: microseconds of every operation, colour


def _parts(data: xr.Dataset, way: str) -> Parts:
    """Return what the bars are stacked of: the parts of each, or each whole in its colour."""
    whole = data[f"time_{way}"].values * 1e6
    if "kind" in data.coords:
        kinds = data.kind.values.astype(str)
        there = {kind: about for kind, about in SORTS.items() if kind in kinds}
        return {w: (np.where(kinds == kind, whole, 0.0), c) for kind, (w, c) in there.items()}
    parts = {words: (data[f"{k}_{way}"].values * 1e6, c) for k, (words, c) in KINDS.items()}
    again = whole - sum(values for values, _ in parts.values())
    if (again > 1e-9 * whole.max()).any():
        parts["computed again"] = (again, style.ORANGE)
    return parts


def _bars(axes: Axes, data: xr.Dataset, way: str) -> None:
    places = np.arange(data.sizes["operation"])
    start = np.zeros(len(places))
    whole = data[f"time_{way}"].values * 1e6
    parts = _parts(data, way)
    for words, (values, colour) in parts.items():
        axes.barh(places, values, left=start, color=colour, label=words, height=0.7)
        start = start + values
    for place, value in zip(places, whole, strict=True):
        axes.annotate(
            f"{value:,.0f}" if value >= 100 else f"{value:.3g}",
            (value, place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
        )
    style.grid(axes, "x")
