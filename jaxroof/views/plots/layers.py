"""The operations of one layer: where their time goes."""

import json

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxroof.units import percent, seconds
from jaxroof.views.plots import bars, colours, style
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
WORDS = {  # of operations that are called by a symbol
    "qkv": "queries, keys, values",
    "fc1": "MLP up",
    "act": "activation",
    "dpr1": "dropout in MLP",
    "fc2": "MLP down",
    "dpr2": "dropout after MLP",
    "layer_norm_1": "first layer norm",
    "qkv_proj": "queries, keys, values",
    "logits": "scores",
    "dropout_softmax": "dropout of scores",
    "attend": "weighted values",
    "v_proj": "attention output",
    "dropout": "dropout of attention",
    "layer_norm_2": "second layer norm",
}
WAYS = ("forward", "backward")


@style.drawn
def layer_bars(data: xr.Dataset) -> Figure:
    """Return the time of each operation of one layer as stacked bars, forward and backward.

    Raises: InputError for data that ``layers`` did not make.
    """
    fields = [f"time_{way}" for way in WAYS]
    choose.check_has(data, "layer_bars", fields, ("operation",))
    choose.check_dimensions(data, "layer_bars", ("operation",))
    names = _names(data)
    each = np.sum([data[name].values for name in fields], axis=0)
    most = [f"{names[i]} {percent(each[i] / each.sum())}" for i in np.argsort(-each)[:2]]
    found = f"{seconds(float(each.sum()))} in all; the most: {', '.join(most)}"
    title = choose.title(data, "One layer, one microbatch, one accelerator")
    made = style.figure(title, found, 1.9 + 0.3 * len(names))
    longest = np.array([float(data[name].max()) for name in fields])
    scale, unit = style.human(longest, "s")
    for axes, way in zip(made.subplots(1, 2, sharey=True, sharex=True), WAYS, strict=True):
        whole = data[f"time_{way}"].values / scale
        said = [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in whole]
        bars.stacked(axes, _parts(data, way, scale), said)
        axes.set_title(f"{way}: {seconds(float(data[f'time_{way}'].sum()))}")
        axes.set_xlabel(style.with_unit("time", unit))
    axes.set_xlim(0.0, 1.32 * longest.max() / scale)
    bars.names(made.axes[0], names)
    style.legend(made)
    return made


def _names(data: xr.Dataset) -> list[str]:
    """Return the operations in words, where the data have some."""
    words = WORDS | json.loads(data.operation.attrs.get("words", "{}"))
    return [words.get(name, name) for name in data.operation.values.astype(str).tolist()]


def _parts(data: xr.Dataset, way: str, scale: float) -> bars.Parts:
    """Return what the bars are stacked of: the parts of each, or each whole in its colour."""
    whole = data[f"time_{way}"].values / scale
    if "kind" in data.coords:
        kinds = data.kind.values.astype(str)
        there = {kind: about for kind, about in SORTS.items() if kind in kinds}
        return {w: (np.where(kinds == kind, whole, 0.0), c) for kind, (w, c) in there.items()}
    if f"links_{way}" in data:  # the longer of arithmetic and traffic, then messages
        links = data[f"links_{way}"].values / scale
        binds = data[f"compute_{way}"].values >= data[f"memory_{way}"].values
        return {
            "arithmetic binds": (np.where(binds, whole - links, 0.0), style.BLUE),
            "HBM traffic binds": (np.where(binds, 0.0, whole - links), style.SKY),
            "messages": (links, style.VERMILION),
        }
    parts = {words: (data[f"{k}_{way}"].values / scale, c) for k, (words, c) in KINDS.items()}
    again = whole - sum(values for values, _ in parts.values())
    if (again > 1e-9 * whole.max()).any():
        parts["recomputation"] = (again, colours.INDIGO)
    return parts
