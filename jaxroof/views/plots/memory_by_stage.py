"""The memory of a training step by its terms: of every stage, or the fullest of many points."""

import json

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxroof.errors import refusal
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import bars, style
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.colours import MEMORY
from jaxroof.views.text.fit import capacity_words, groups, title_of
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
    named = [dim for dim in choose.named_dimensions(data) if dim in dims]
    spoken = {dim: [f"{words_of(dim)} {value}" for value in data[dim].values] for dim in named}
    points = choose.panels(data.assign_coords(spoken), dims)
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
    head = title_of(data) if asked and not dims else "Memory of the fullest stage"
    made = style.figure(
        choose.title(data, head), choose.finding(data), max(3.8, 2.2 + 0.34 * len(rows))
    )
    axes = made.subplots()
    limits = np.array([float(part.capacity) for _, _, part in rows])
    margin = None if dims else margin_of(data, "device")
    there = "" if dims else capacity_words(data).removeprefix("the ").partition(" that ")[2]
    there = f"that {there}" if there else ""
    bars.memory(axes, needs, limits, words="memory of one accelerator", margin=margin, there=there)
    bars.names(axes, [words for words, _, _ in rows])
    style.legend(made, columns=4)
    return made
