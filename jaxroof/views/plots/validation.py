"""Pictures of measured steps beside simulated ones."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

MARGIN = 1.3  # around the points, as a factor


@style.drawn
def simulated_real(data: xr.Dataset) -> Figure:
    """Return simulated against measured throughput, a colour a number of GPUs, and their ratio.

    On the line the simulation is right; the right panel has how many times longer than simulated
    a step took. Pearson's and Spearman's correlations of the throughputs are in the title.
    Raises: InputError for data that have no measured and simulated throughput.
    """
    picture = "simulated_real"
    columns = ("measured_throughput", "simulated_throughput", "ratio", "gpus")
    choose.check_has(data, picture, columns, ("row",))
    title = choose.title(data, "Simulated against measured")
    made = style.figure(title, f"{_agreement(data)}; {_ratios(data)}", 5.4)
    left, right = made.subplots(1, 2, width_ratios=(3, 2))
    _scatter(left, data)
    _times(right, data)
    return made


class Correlation(NamedTuple):
    """How well two columns agree: along a line, and in their order."""

    pearson: float
    spearman: float


def correlation(first: np.ndarray, second: np.ndarray) -> Correlation:
    """Return Pearson's correlation of two columns, and Spearman's, which is that of their ranks.

    >>> found = correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 9.0]))
    >>> [round(value, 4) for value in found]
    [0.9177, 1.0]
    """
    both = pd.DataFrame({"first": first, "second": second})
    pearson, spearman = (np.corrcoef(one.T)[0, 1] for one in (both, both.rank()))
    return Correlation(float(pearson), float(spearman))


def _agreement(data: xr.Dataset) -> str:
    """Return the correlations of the throughputs, and those of the published times."""
    measured = data.measured_throughput.values
    found = correlation(measured, data.simulated_throughput.values)
    said = f"{data.sizes['row']} steps: Pearson {found.pearson:.4f}, Spearman {found.spearman:.4f}"
    if "published" not in data:
        return said
    theirs = correlation(measured, (data.global_batch / data.published).values)
    return f"{said} (of the published times: {theirs.pearson:.4f}, {theirs.spearman:.4f})"


def _ratios(data: xr.Dataset) -> str:
    """Return how many times longer than simulated the measured steps took, alone and together."""
    several = data.gpus.values > 1
    said = []
    for kept, words in ((~several, "one GPU"), (several, "several")):
        if kept.any():
            ratio = data.ratio.values[kept]
            said.append(f"{ratio.min():.3g} to {ratio.max():.3g} on {words}")
    return f"measured over simulated time: {', '.join(said)}"


def _looks(data: xr.Dataset) -> dict[int, dict[str, object]]:
    counts = sorted({int(n) for n in data.gpus.values})
    return {
        n: {"color": style.COLOURS[i % len(style.COLOURS)], "marker": style.MARKERS[i]}
        for i, n in enumerate(counts)
    }


def _scatter(axes: Axes, data: xr.Dataset) -> None:
    measured, simulated = data.measured_throughput.values, data.simulated_throughput.values
    ends = np.array([min(measured.min(), simulated.min()) / MARGIN,
                     max(measured.max(), simulated.max()) * MARGIN])  # fmt: skip
    axes.plot(ends, ends, color=style.BLACK, linewidth=1.0, zorder=1, label="simulated = measured")
    for gpus, look in _looks(data).items():
        mine = data.gpus.values == gpus
        words = f"{gpus} GPU{'' if gpus == 1 else 's'}"
        axes.plot(measured[mine], simulated[mine], linestyle="none", markersize=7, alpha=0.85,
                  label=words, **look)  # type: ignore[arg-type]  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axes.set(xlabel="measured [samples/s]", ylabel="simulated [samples/s]")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(style.count))
    axes.legend(loc="lower right")
    style.grid(axes)


def _times(axes: Axes, data: xr.Dataset) -> None:
    """Draw measured over simulated time against the weights' bytes."""
    weights = 4.0 * data.layers.values * data.hidden.values.astype(np.float64) ** 2
    scale, unit = style.human(weights, "B")
    for gpus, look in _looks(data).items():
        mine = data.gpus.values == gpus
        axes.plot(weights[mine] / scale, data.ratio.values[mine], linestyle="none", markersize=7,
                  alpha=0.85, **look)  # type: ignore[arg-type]  # fmt: skip
    axes.axhline(1.0, color=style.BLACK, linewidth=1.0)
    axes.set_xscale("log")
    axes.set_ylim(0.0, None)
    axes.set_xlabel(style.with_unit("weights", unit))
    axes.set_ylabel("measured / simulated time")
    axes.xaxis.set_major_formatter(FuncFormatter(style.count))
    style.grid(axes)
