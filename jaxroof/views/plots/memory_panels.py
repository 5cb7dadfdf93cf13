"""The memory of every stage over further dimensions: a group of bars a point, and panels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.errors import refusal
from jaxroof.units import size
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import MEMORY, RED
from jaxroof.views.text.fit import groups

WORDS = {"momentary": "for a moment", "outside": "context, messages,\nfragmentation"}
DEGREES = {"data": "dp", "tensor": "tp", "context": "cp", "pipeline": "pp", "expert": "ep"}
MORE = {"expert_tensor": "etp", "interleave": "vp", "microbatch": "mb"}
HEADS = {"recompute": "recomputation", "zero_stage": "ZeRO stage"} | {
    name: f"{name} degree" for name in DEGREES
}
MOST = 48  # bars of one panel
PANELS = 6
GAP = 1.0  # bars between two groups
NUMBER = 0.09  # of the height of a panel: the room of a number
PICTURE = "memory_by_stage"


def memory_panels(data: xr.Dataset) -> Figure:
    """Return a group of bars, one a stage, at every point of further dimensions.

    The last dimensions make groups beside each other, those before them panels on one scale.
    Raises: InputError for more panels than can be read.
    """
    dims = [str(dim) for dim in data.sizes if dim != "stage"]
    within: list[str] = []
    for dim in reversed(dims):
        bars = math.prod(data.sizes[d] for d in (dim, *within, "stage"))
        if bars > MOST:
            break
        within.insert(0, dim)
    above = dims[: len(dims) - len(within)]
    parts = _points(data, above)
    if len(parts) > PANELS:
        choose.check_dimensions(data, PICTURE, ("stage", *within))
        raise refusal(PICTURE, f"shows {PANELS} panels at most; the data have {len(parts)}")
    head = choose.title(data, "Memory by stage")
    made = style.figure(head, _finding(data, parts), 1.9 + 2.6 * len(parts))
    cells = made.subplots(len(parts), 1, squeeze=False, sharex=True, sharey=True).ravel()
    capacity = float(data.capacity.max())
    scale, unit = style.human(np.append(data.device.values.ravel(), capacity), "B")
    top = 1.12 * max(float(data.device.max()), capacity) / scale
    for axes, (name, part) in zip(cells, parts, strict=True):
        _panel(axes, part, within, scale, top)
        axes.set_title(name)
        axes.set_ylabel(style.with_unit("one accelerator", unit))
    cells[0].set_ylim(0.0, top)
    said = ", ".join(HEADS.get(dim, dim.replace("_", " ")) for dim in within)
    cells[-1].set_xlabel(f"{said}; a bar for each stage, the first on the left")
    entries: dict[str, Any] = {}
    for axes in cells:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4)
    return made


def _points(data: xr.Dataset, dims: Sequence[str]) -> list[tuple[str, xr.Dataset]]:
    """Return the data at every combination of some dimensions, each in words."""
    found = [("", data)]
    for dim in dims:
        head = HEADS.get(dim, dim.replace("_", " "))
        said = [f"{head} {_value(data, dim, i)}" for i in range(data.sizes[dim])]
        found = [
            (", ".join(filter(None, (words, own))), part.isel({dim: i}))
            for words, part in found
            for i, own in enumerate(said)
        ]
    return found


def _value(data: xr.Dataset, dim: str, index: int) -> str:
    if dim not in data.coords:
        return str(index)
    value = data[dim].values[index]
    return style.count(float(value)) if data[dim].dtype.kind in "if" else str(value)


def _finding(data: xr.Dataset, parts: Sequence[tuple[str, xr.Dataset]]) -> str:
    """Return how many of the points fit, and in which panel."""
    held = data.fits.values.astype(bool)
    limit = size(float(data.capacity.max()), "B")
    chosen = [f"{HEADS.get(str(n), n)} {c.values}" for n, c in data.coords.items() if not c.ndim]
    beside = f", {', '.join(chosen)}" if chosen else ""
    said = f"{int(held.sum())} of {held.size} fit in {limit}{beside}"
    if len(parts) == 1:
        return said
    each = [f"{int(p.fits.sum())} of {p.fits.size} with {name}" for name, p in parts]
    return f"{said}: {', '.join(each)}"


def _panel(axes: Axes, part: xr.Dataset, within: Sequence[str], scale: float, top: float) -> None:
    """Draw the groups of bars of one panel, the fullest of each with its number."""
    stages, wide = part.sizes["stage"], part.sizes["stage"] + GAP
    points = [("", part)]
    for dim in within:
        points = [
            ("\n".join(filter(None, (words, _tick(one, dim, i)))), one.isel({dim: i}))
            for words, one in points
            for i in range(part.sizes[dim])
        ]
    drawn: dict[str, str] = {}
    limit = float(part.capacity.max()) / scale
    for place, (_, one) in enumerate(points):
        at, start = place * wide + np.arange(stages), np.zeros(stages)
        for name, values in groups(one).items():
            if values.any():
                words = WORDS.get(name, name)
                label = "_" if words in drawn else drawn.setdefault(words, words)
                axes.bar(at, values / scale, 0.9, bottom=start, color=MEMORY[name], label=label)
            start = start + values / scale
        high = float(start.max())
        crossed = limit - NUMBER * top < high <= limit  # the number would lie on the line
        fits = bool(one.fits)
        axes.annotate(
            f"{high:.3g}",
            (float(at[int(start.argmax())]), limit if crossed else high),
            xytext=(-6 if stages > 1 else 0, 2),
            textcoords="offset points",
            ha="left" if stages > 1 else "center",
            color=style.BLACK if fits else RED,
            weight="normal" if fits else "bold",
        )
    ends = [place * wide + (stages - 1) / 2 for place in range(len(points))]
    axes.set_xticks(ends, [words for words, _ in points])
    axes.set_xlim(-1.0, len(points) * wide - GAP + 0.2)
    axes.axhline(limit, color=style.BLACK, linewidth=1.4, linestyle="--", zorder=5,
                 label="capacity (bold: does not fit)")  # fmt: skip
    style.grid(axes, "y")


def _tick(data: xr.Dataset, dim: str, index: int) -> str:
    short = {**DEGREES, **MORE}.get(dim, "")
    return f"{short} {_value(data, dim, index)}".strip()
