"""Pictures of collectives: measured times beside those of the model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.figure import Figure

from jaxroof.errors import InputError
from jaxroof.views.plots import style

Shape = tuple[int, int]  # nodes, GPUs in each

_STYLES = (
    (style.BLUE, "o", "-"),
    (style.VERMILION, "s", "--"),
    (style.GREEN, "^", ":"),
    (style.PURPLE, "D", "-."),
)
_GIGA = 1e9
_SIZES = {"size": "volume of the full buffer", "piece": "piece of one GPU"}


@style.drawn
def collectives_against_measured(
    data: xr.Dataset, op: str = "all_gather", shapes: Sequence[Shape] = ((8, 4), (16, 2))
) -> Figure:
    """Return measured times as points, the model as lines, and below them model over measured.

    Arguments:
        data: Of ``comparison`` of notebooks/nccl.py.
        op: Its operation: all_gather, reduce_scatter or all_reduce.
        shapes: Pairs (nodes, GPUs in each) to draw, four at most.

    Raises: InputError for a shape of which nothing was measured, and for too many shapes.
    """
    if not 0 < len(shapes) <= len(_STYLES):
        raise InputError(f"shapes: expected 1 to {len(_STYLES)} of them, given {len(shapes)}.")
    made = _modelled(data["ratio"].values[data["op"].values == op])
    title = f"{op.replace('_', '-').capitalize()} on Perlmutter (A100)"
    figure = style.figure(title, made, 6.0)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for (nodes, gpus), (color, marker, line) in zip(shapes, _STYLES, strict=False):
        rows = _rows(data, op, (nodes, gpus))
        volume, name = rows["size"].values / _GIGA, f"{nodes} nodes x {gpus} GPUs"
        points: dict[str, Any] = {"color": color, "marker": marker, "markersize": 6}
        hollow = {**points, "markerfacecolor": "none", "linestyle": "none"}
        above.plot(volume, rows["measured"].values, **hollow, label=f"{name}, measured")
        # A shape's time is linear in the volume: between two points of the model this is exact.
        fine = np.geomspace(volume[0], volume[-1], 200)
        times = np.interp(fine, volume, rows["modelled"].values)
        above.plot(fine, times, color=color, linestyle=line, label=f"{name}, model")
        below.plot(volume, rows["ratio"].values, **points, linestyle=line, linewidth=1)
    below.axhline(1.0, color="black", linewidth=1)
    above.set(xscale="log", yscale="log", ylabel="time [s]")
    above.legend(frameon=False)
    below.set(
        xlabel="volume of the full buffer [GB]", ylabel="model / measured [1]", ylim=(0.0, None)
    )
    for axes in (above, below):
        axes.grid(alpha=0.3)
    return figure


@style.drawn
def collective_ratios(data: xr.Dataset, by: str = "size") -> Figure:
    """Return model over measured of every row, a panel each operation, coloured by the GPUs.

    Arguments:
        data: Of ``comparison`` of notebooks/nccl.py.
        by: What the ratio is drawn against: ``size``, or ``piece``, one GPU's share of it.
    """
    operations = list(dict.fromkeys(data["op"].values.tolist()))
    figure = style.figure("Collectives on Perlmutter (A100)", _modelled(data["ratio"].values))
    panels = np.atleast_1d(figure.subplots(1, len(operations), sharex=True, sharey=True))
    gpus = (data["nodes"] * data["gpus_per_node"]).values
    shades = colormaps["cividis"]
    drawn: Any = None
    for axes, op in zip(panels, operations, strict=True):
        kept = data["op"].values == op
        drawn = axes.scatter(
            data[by].values[kept] / _GIGA,
            data["ratio"].values[kept],
            c=np.log2(gpus[kept]),
            cmap=shades,
            vmin=1.0,
            vmax=float(np.log2(gpus.max())),
            s=12,
        )
        axes.axhline(1.0, color="black", linewidth=1)
        axes.set(xscale="log", yscale="log", title=op.replace("_", "-"))
        axes.set_xlabel(f"{_SIZES[by]} [GB]")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("model / measured [1]")
    panels[0].set_yticks([0.125, 0.25, 0.5, 1, 2, 4, 8], ["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    panels[0].minorticks_off()
    ticks = np.arange(1, int(np.log2(gpus.max())) + 1, 2)
    bar = figure.colorbar(drawn, ax=list(panels), label="GPUs of the group", ticks=ticks)
    bar.ax.set_yticklabels([str(2**tick) for tick in ticks])
    return figure


def _modelled(ratio: np.ndarray) -> str:
    """Return how far the model is from what was measured."""
    low, middle, high = np.quantile(ratio, (0.05, 0.5, 0.95))
    return (
        f"Model over measured time: {middle:.2g} at the median, {low:.2g} to {high:.2g} "
        f"in 90 % of {len(ratio):,} rows"
    )


def _rows(data: xr.Dataset, op: str, shape: Shape) -> xr.Dataset:
    """Return the rows of one line, in order of size."""
    kept = data["op"].values == op
    kept &= (data["nodes"].values == shape[0]) & (data["gpus_per_node"].values == shape[1])
    if not kept.any():
        known = sorted(
            {
                *zip(
                    data["nodes"].values.tolist(),
                    data["gpus_per_node"].values.tolist(),
                    strict=True,
                )
            }
        )
        texts = ", ".join(f"{nodes} x {gpus}" for nodes, gpus in known)
        problem = f"{op} on {shape[0]} x {shape[1]}: nothing was measured"
        raise InputError(f"{problem}; expected one of {texts} (nodes x GPUs of each).")
    rows = data.isel(row=kept)
    return rows.isel(row=np.argsort(rows["size"].values))
