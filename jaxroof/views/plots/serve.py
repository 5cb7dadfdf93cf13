"""How a model is served: where the accelerators' time of a request goes, and their memory."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from jaxroof.analyses.serve import COST, POOLS, pool_of
from jaxroof.views.answers import headline
from jaxroof.views.plots import bars, style
from jaxroof.views.plots.plans import TALL, THICK
from jaxroof.views.text.ranked import limit_of
from jaxroof.views.text.serve import plan_words, title_of

ABOVE = 0.28  # of a bar's place: where its words stand


@style.drawn
def picture(data: xr.Dataset) -> Figure:
    """Return a bar a plan: its accelerator-seconds a request by parts, and memory beside it.

    Of a server the best plan of each split, of two pools the best of each: their sum is a request.
    """
    rows = [data.isel(plan=place) for place in range(data.sizes.get("plan", 0))]
    heads = [f"#{place}  " for place in range(1, len(rows) + 1)]
    limits = [limit_of(data)] * len(rows)
    if "decode_plan" in data.sizes:
        pools = {name: pool_of(data, name) for name in POOLS}
        rows += [pool.isel(plan=0) for pool in pools.values()]
        heads += [f"{name} pool  " for name in pools]
        limits += [limit_of(pool) for pool in pools.values()]
    made = style.figure(title_of(data), headline(data).removesuffix("."), 3.4 + TALL * len(rows))
    left, right = made.subplots(1, 2, sharey=True, width_ratios=(2.6, 1.0))
    at = np.arange(len(rows), dtype=np.float64)
    parts = {
        words: (np.array([float(row[name]) for row in rows]), colour)
        for name, (words, colour) in style.parts(rows[0], COST).items()
    }
    said = [f"{float(row[COST]):.3g}" for row in rows]
    fits = [bool(row.feasible) for row in rows]
    bars.stacked(left, parts, said, at, inside=True, fits=fits, room=1.15, thick=THICK)
    for place, head, row in zip(at, heads, rows, strict=True):
        words = f"{head}{plan_words(row)}"
        left.text(0.0, place - ABOVE, words, va="bottom").set_in_layout(False)
    left.set_xlabel("accelerator-seconds a request")
    held = np.array([float(row.memory) for row in rows])
    bars.memory(right, {"_": (held, style.GREY)}, np.array(limits), "B", "HBM", at, thick=THICK)
    for axes in (left, right):
        axes.tick_params(axis="y", length=0, labelleft=False)
    left.set_ylim(at[-1] + 0.6, -0.75)
    style.legend(made, columns=4)
    return made
