"""The operations of one layer: where their time goes."""

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from jaxroof.units import percent, seconds
from jaxroof.views.plots import colours, style
from jaxroof.views.plots import select as choose

KINDS = {  # what an operation waits for: words, colour
    "compute": ("arithmetic and launch", style.BLUE),
    "memory": ("HBM not hidden", style.SKY),
    "tensor": ("tensor links", style.VERMILION),
}
SORTS = {  # what an operation is, where its parts are not told apart: words, colour
    "matrix product": ("matrix products", style.BLUE),
    "kernel": ("attention and other kernels", colours.STEEL),
    "message": ("messages", style.VERMILION),
    "computed again": ("recomputation", colours.INDIGO),
    "wait": ("waiting for the host", colours.WINE),
}
WORDS = {"qkv": "queries, keys, values"}  # of operations that are called by a symbol
SEEN = 3e-3  # of the longest bar: what is narrower is not in the legend
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
    names = _names(data)
    title = choose.title(data, "One layer, one microbatch, one accelerator")
    made = style.figure(title, _finding(data), 1.9 + 0.3 * len(names))
    left, right = made.subplots(1, 2, sharey=True, sharex=True)  # one scale
    longest = max(float(data[f"time_{way}"].max()) for way in WAYS)
    scale, unit = style.human(np.array([longest]), "s")
    for axes, way in ((left, WAYS[0]), (right, WAYS[1])):
        _bars(axes, data, way, scale)
        axes.set_title(f"{way}: {seconds(float(data[f'time_{way}'].sum()))}")
        axes.set_xlabel(style.with_unit("time", unit))
        axes.xaxis.set_major_locator(MaxNLocator(4))
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set_xlim(0, 1.32 * longest / scale)
    entries: dict[str, Any] = {}
    for axes in (left, right):
        handles, words = axes.get_legend_handles_labels()
        entries |= dict(zip(words, handles, strict=True))
    made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3)
    return made


def _finding(data: xr.Dataset) -> str:
    """Return the two operations that take most of the layer, both ways."""
    each = np.sum([data[f"time_{way}"].values for way in WAYS], axis=0)
    names, whole = _names(data), float(each.sum())
    said = [f"{names[i]} {percent(each[i] / whole)}" for i in np.argsort(-each)[:2]]
    return f"{seconds(whole)} in all; the most: {', '.join(said)}"


def _names(data: xr.Dataset) -> list[str]:
    """Return the operations in words, where the data have some."""
    names = data.operation.values.astype(str).tolist()
    words = json.loads(data.operation.attrs.get("words", "{}"))
    return [words.get(name, WORDS.get(name, name)) for name in names]


Parts = dict[str, tuple[np.ndarray, str]]  # words: the time of every operation, colour


def _parts(data: xr.Dataset, way: str, scale: float) -> Parts:
    """Return what the bars are stacked of: the parts of each, or each whole in its colour."""
    whole = data[f"time_{way}"].values / scale
    if "kind" in data.coords:
        kinds = data.kind.values.astype(str)
        there = {kind: about for kind, about in SORTS.items() if kind in kinds}
        return {w: (np.where(kinds == kind, whole, 0.0), c) for kind, (w, c) in there.items()}
    parts = {words: (data[f"{k}_{way}"].values / scale, c) for k, (words, c) in KINDS.items()}
    again = whole - sum(values for values, _ in parts.values())
    if (again > 1e-9 * whole.max()).any():
        parts["recomputation"] = (again, colours.INDIGO)
    return parts


def _bars(axes: Axes, data: xr.Dataset, way: str, scale: float) -> None:
    places = np.arange(data.sizes["operation"])
    start = np.zeros(len(places))
    whole = data[f"time_{way}"].values / scale
    parts = _parts(data, way, scale)
    for words, (values, colour) in parts.items():
        seen = values.max(initial=0.0) > SEEN * whole.max()
        label = words if seen else "_"
        axes.barh(places, values, left=start, color=colour, label=label, height=0.7)
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
