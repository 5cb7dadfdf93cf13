"""The memory of a training step by its terms: of every stage, or the fullest of many points."""

import json

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxroof.errors import refusal
from jaxroof.units import size
from jaxroof.views.plots import bars, style
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.colours import MEMORY
from jaxroof.views.text.fit import capacity_words, groups, title
from jaxroof.views.text.margin import margin_of

PICTURE = "memory_by_stage"
MOST = 64  # bars
WORDS = {"momentary": "for a moment", "outside": "context, messages, fragmentation"}


@style.drawn
def memory_by_stage(data: xr.Dataset) -> Figure:
    """Return the groups of terms of every stage as a stacked bar, with the capacity as a line.

    Over further dimensions it is a bar of the fullest stage of every point.
    Raises: InputError for data that ``fit`` did not make, or of more bars than can be read.
    """
    choose.check_has(data, PICTURE, ("device", "capacity", "static", "transient"), ("stage",))
    dims = [str(dim) for dim in data.sizes if dim != "stage"]
    points = choose.panels(data, dims)
    rows = [(words, int(part.fullest_stage), part) for words, part in points]
    if not dims:
        rows = [(f"stage {number}", i, data) for i, number in enumerate(data.stage.values)]
    if len(rows) > MOST:
        raise refusal(PICTURE, f"shows {MOST} points at most; the data have {len(rows)}")
    terms = [{n: float(v[stage]) for n, v in groups(part).items()} for _, stage, part in rows]
    needs = {
        WORDS.get(name, name): (np.array([row.get(name, 0.0) for row in terms]), colour)
        for name, colour in MEMORY.items()
    }
    asked = json.loads(data.attrs.get("inputs", "{}"))
    head = title(data) if asked and not dims else "Memory of the fullest stage"
    found = _points(data, rows) if dims else _one(data)
    made = style.figure(choose.title(data, head), found, max(3.4, 2.2 + 0.34 * len(rows)))
    axes = made.subplots()
    limits = np.array([float(part.capacity) for _, _, part in rows])
    margin = None if dims else margin_of(data, "device")
    there = "" if dims else capacity_words(data).removeprefix("the ").partition(" that ")[2]
    there = f"that {there}" if there else ""
    bars.memory(axes, needs, limits, words="memory of one accelerator", margin=margin, there=there)
    bars.names(axes, [words for words, _, _ in rows])
    style.legend(made, columns=4)
    return made


def _one(data: xr.Dataset) -> str:
    """Return whether the step fits, where it is fullest, and what takes most there."""
    full = int(data.fullest_stage)
    name, amounts = max(groups(data).items(), key=lambda each: float(each[1][full]))
    most = f"the most of it {name}, {size(float(amounts[full]), 'B')}"
    needs = f"stage {full} needs {size(float(data.device[full]), 'B')}, {most}"
    if bool(data.fits):
        return f"It fits: {needs}"
    return f"It does not fit by {size(float(data.missing), 'B')}: {needs}"


def _points(data: xr.Dataset, rows: list[tuple[str, int, xr.Dataset]]) -> str:
    """Return how many of the points fit, and the leanest of them."""
    held = data.fits.values.astype(bool)
    words, stage, least = min(rows, key=lambda row: float(row[2].device[row[1]]))
    limit = size(float(data.capacity.max()), "B")
    lean = f"the leanest, {words}, needs {size(float(least.device[stage]), 'B')}"
    return f"{int(held.sum())} of {held.size} fit in {limit}; {lean}"
