"""A collective over the size of its buffer: bus bandwidth predicted, its band, and measured."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from jaxroof.errors import refusal
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.collective import bytes_of, ratio_sentence, time_sentence

LABELS = 9  # sizes named below the picture
SIDES = 1.3  # room beside the sizes, as a factor
DECADES = 4.0  # of bandwidth that are shown
HIGH = 5.6  # inches
MODES = {"tuned": "a tuned library", "best": "the least time"}


@style.drawn
def picture(data: xr.Dataset) -> Figure:
    """Return bus bandwidth over size: what runs, with its band, every algorithm, and measured.

    Raises: InputError for data that `jaxroof collective` did not make, or of nothing sent.
    """
    choose.check_has(data, "collective", ["busbw", "time"], ("size",))
    choose.check_dimensions(data, "collective", ("size", "candidate"))
    data = data.isel(size=data.busbw.values > 0.0)
    if not data.sizes["size"]:
        raise refusal(
            "collective", "nothing is sent; expected a group of several, and sizes above 0"
        )
    found = ratio_sentence(data) if "ratio" in data else time_sentence(data)
    found = found.replace(" of bus bandwidth", "").removesuffix(".")
    made = style.figure(choose.title(data, "Collective"), found, HIGH)
    axes, size, scale = made.subplots(), data["size"].values, 1e-9 * float(data.attrs["factor"])
    if "candidate_time" in data:
        for place, name in enumerate(data.candidate.values.astype(str)):
            rate = scale * size / data.candidate_time.values[:, place]
            colour = style.COLOURS[place % len(style.COLOURS)]
            axes.plot(size, rate, color=colour, linewidth=1.5, label=name)
    runs = data.busbw.values * 1e-9
    spread = data.spread.values
    if np.isfinite(spread).any():
        words = "nine in ten measured"
        low, high = runs / (1.0 + spread), runs * (1.0 + spread)
        axes.fill_between(size, low, high, color="#BBBBBB", alpha=0.5, linewidth=0, label=words)
    label = MODES.get(str(data.attrs.get("mode")), "predicted")
    axes.plot(size, runs, color=style.BLACK, linewidth=5.0, alpha=0.6, label=label, zorder=1.8)
    if "measured_busbw" in data:
        look: Any = {"color": "white", "markeredgecolor": "black", "markersize": 7, "zorder": 5}
        axes.plot(size, data.measured_busbw.values * 1e-9, "o", label="measured", **look)
    axes.set_xscale("log", base=2)
    top = 2.0 * float(np.nanmax(np.append(runs, data.get("measured_busbw", data.busbw) * 1e-9)))
    least = max(top / 10.0**DECADES, 0.5 * float(runs.min()))
    style.few_of_a_decade(axes.yaxis, (1.0, 2.0, 5.0) if top < 300.0 * least else (1.0,))
    axes.set_ylim(least, top)
    axes.set_xlim(size[0] / SIDES, size[-1] * SIDES)
    kept = size[:: -(-len(size) // LABELS)]
    axes.xaxis.set_major_locator(FixedLocator(kept.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_of(value)))
    axes.set_xlabel("buffer, as nccl-tests counts it")
    axes.set_ylabel("bus bandwidth [GB/s]")
    style.grid(axes)
    style.legend(made)
    return made
