"""Pictures of every split of an MLP: by tensor degree, by memory, by style, beside measurements."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from mlp_steps import correlation

from jaxroof.units import size
from jaxroof.views.plots import style

DEGREES = ("data", "tensor", "pipeline")
LOOKS = {  # of a style of parallelism, the degrees above 1: colour, mark
    "one accelerator": (style.GREY, "P"),
    "data": (style.GREEN, "o"),
    "tensor": (style.VERMILION, "s"),
    "pipeline": (style.PURPLE, "^"),
    "data x tensor": (style.ORANGE, "D"),
    "data x pipeline": (style.SKY, "v"),
    "tensor x pipeline": (style.BLUE, "X"),
    "data x tensor x pipeline": (style.BLACK, "*"),
}


def styles_of(data: xr.Dataset) -> np.ndarray:
    """Return the style of parallelism of every plan: its degrees above 1."""
    above = np.stack([data[name].values > 1 for name in DEGREES], axis=-1)
    return np.array(
        [
            " x ".join(n for n, used in zip(DEGREES, row, strict=True) if used) or "one accelerator"
            for row in above
        ]
    )


def fitting(data: xr.Dataset) -> np.ndarray:
    """Return the plans that fit, the fastest first."""
    rate = data.throughput.values
    held = np.flatnonzero(data.feasible.values & np.isfinite(rate))
    return held[np.argsort(-rate[held], kind="stable")]


def words(data: xr.Dataset, i: int) -> str:
    """Return a split in words, with its microbatches where it has stages."""
    said = " x ".join(str(int(data[name].values[i])) for name in DEGREES)
    staged = data.pipeline.values[i] > 1
    return f"{said}, M {int(data.microbatches.values[i])}" if staged else said


def finish(made: Figure, axes: Axes, across: str, up: str = "throughput [samples/s]") -> Figure:
    """Name the axes, and put the legend below."""
    axes.set(xlabel=across, ylabel=up)
    axes.yaxis.set_major_formatter(FuncFormatter(style.count))
    style.grid(axes)
    made.legend(loc="outside lower center", ncols=3)
    return made


@style.drawn
def throughput_by_split(data: xr.Dataset) -> Figure:
    """Return throughput against the tensor degree, a colour a data degree, stars without stages."""
    order, rate, rank = fitting(data), data.throughput.values, data.tensor.values
    staged, copies = data.pipeline.values > 1, data["data"].values
    best = order[0]
    other = next((i for i in order if staged[i] != staged[best]), best)
    kind = "with a pipeline" if staged[other] else "without a pipeline"
    found = (
        f"Best: {words(data, best)} ({rate[best]:,.0f} samples/s), {rate[best] / rate[other]:.3g}"
    )
    made = style.figure(data.attrs["title"], f"{found} times the best {kind}", 5.4)
    axes = made.subplots()
    for colour, count in zip(style.COLOURS, np.unique(copies[order]), strict=False):
        mine = order[copies[order] == count]
        for some, mark in ((mine[~staged[mine]], "*"), (mine[staged[mine]], "o")):
            large = 12 if mark == "*" else 4
            label = f"{count:.0f} data ranks" if mark == "o" else "_"
            axes.plot(rank[some], rate[some], mark, color=colour, ms=large, alpha=0.8, label=label)
    flat = order[~staged[order]]
    flat = flat[np.unique(rank[flat], return_index=True)[1]]  # the best of each degree
    axes.plot(rank[flat], rate[flat], color=style.GREY, zorder=1, label="no pipeline (stars)")
    style.powers_of_two(axes.xaxis, rank.min(), rank.max())
    axes.set_ylim(0.0, None)
    return finish(made, axes, "tensor ranks")


@style.drawn
def memory_throughput(data: xr.Dataset) -> Figure:
    """Return throughput against the peak memory of every plan that fits, with the Pareto front."""
    order, rate = fitting(data), data.throughput.values
    scale, unit = style.human(data.memory.values[order], "B")
    need, names = data.memory.values / scale, styles_of(data)
    lean = order[np.argsort(need[order], kind="stable")]
    before = np.maximum.accumulate(np.append(-np.inf, rate[lean]))[:-1]
    front = lean[rate[lean] > before]
    ends = [f"{words(data, i)}, {rate[i]:,.0f} samples/s in {size(need[i] * scale, 'B')}"
            for i in (front[-1], front[0])]  # fmt: skip
    made = style.figure(data.attrs["title"], f"Fastest: {ends[0]}; leanest: {ends[1]}", 6.0)
    axes = made.subplots()
    for name, (colour, mark) in LOOKS.items():
        mine = order[names[order] == name]
        if len(mine):
            axes.plot(need[mine], rate[mine], mark, color=colour, markersize=7, label=name)
    axes.step(need[front], rate[front], where="post", color=style.BLACK, label="Pareto front")
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(style.count))
    return finish(made, axes, style.with_unit("peak memory of the fullest device", unit))


@style.drawn
def best_by_style(data: xr.Dataset) -> Figure:
    """Return the best throughput of each style over the best of one device, against devices."""
    order, rate, names = fitting(data), data.throughput.values, styles_of(data)
    gpus = data.gpus.values
    unit = rate[order][gpus[order] == 1][0]
    last = next(i for i in order if gpus[i] == gpus.max())
    found = f"{rate[last] / unit:.3g} times one accelerator on {gpus.max():,} ({words(data, last)})"
    made = style.figure(data.attrs["title"], found, 5.4)
    axes = made.subplots()
    ends = np.array([1, gpus.max()])
    axes.plot(ends, ends, color=style.GREY, dashes=(6, 3), label="ideal")
    for name, (colour, mark) in LOOKS.items():
        mine = order[names[order] == name]
        counts, first = np.unique(gpus[mine], return_index=True)
        if len(mine):
            axes.plot(counts, rate[mine[first]] / unit, color=colour, marker=mark, label=name)
    style.sizes_axis(axes, gpus)
    style.powers_of_two(axes.yaxis, 0.25, float(gpus.max()))
    return finish(made, axes, "accelerators", "speed-up over the best of one accelerator")


@style.drawn
def isolated_scaling(*data: xr.Dataset) -> Figure:
    """Return the speed-up of each degree alone, a panel a degree, a line a batch or a width."""
    made = style.figure("Each axis alone", height=4.6)
    for axes, one, degree in zip(
        made.subplots(1, len(data), sharey=True), data, DEGREES, strict=False
    ):
        (dim,) = (d for d in one.sizes if one.get(degree, one.get(f"plan_{degree}")).dims == (d,))
        devices = one.get(degree, one.get(f"plan_{degree}")).values
        (other,) = (d for d in one.sizes if d != dim)
        for i in range(one.sizes[other]):
            rate = one.throughput.isel({other: i})
            name = "width" if "hidden" in one.coords else "batch"
            value = one.hidden[i] if "hidden" in one.coords else one.global_batch[i]
            axes.plot(devices, rate / rate[0], ".-", label=f"{name} {int(value):,}")
        axes.plot(devices, devices, color=style.GREY, dashes=(6, 3), label="ideal")
        style.sizes_axis(axes, devices, 5)
        axes.set_title(f"{degree} alone")
        axes.legend(fontsize=9)
        style.grid(axes)
    style.powers_of_two(made.axes[0].yaxis, 1.0, 64.0)
    made.axes[0].set_ylabel("speed-up over one accelerator")
    return made


@style.drawn
def simulated_real(data: xr.Dataset) -> Figure:
    """Return simulated against measured throughput, and measured over simulated time."""
    measured, simulated = data.measured_throughput.values, data.simulated_throughput.values
    found = correlation(measured, simulated)
    several, ratio = data.gpus.values > 1, data.ratio.values
    spans = [f"{r.min():.3g} to {r.max():.3g}" for r in (ratio[~several], ratio[several])]
    said = f"{len(ratio)} steps: Pearson {found[0]:.4f}, Spearman {found[1]:.4f}; measured over "
    said += f"simulated time: {spans[0]} on one GPU, {spans[1]} on several"
    made = style.figure("MLPs: simulated against measured", said, 5.4)
    left, right = made.subplots(1, 2, width_ratios=(3, 2))
    weights = 4e-9 * data.layers.values * data.hidden.values.astype(np.float64) ** 2
    for gpus, colour, mark in zip(np.unique(data.gpus), style.COLOURS, style.MARKERS, strict=False):
        mine, look = (
            data.gpus.values == gpus,
            {"color": colour, "marker": mark, "linestyle": "none"},
        )
        left.plot(measured[mine], simulated[mine], label=f"GPUs: {gpus:.0f}", **look)
        right.plot(weights[mine], ratio[mine], **look)
    ends = np.array(
        [min(measured.min(), simulated.min()) / 1.3, max(measured.max(), simulated.max()) * 1.3]
    )
    left.plot(ends, ends, color=style.BLACK, linewidth=1.0, zorder=1, label="simulated = measured")
    left.set(
        xscale="log",
        yscale="log",
        xlim=ends,
        ylim=ends,
        aspect="equal",
        xlabel="measured [samples/s]",
    )
    right.axhline(1.0, color=style.BLACK, linewidth=1.0)
    right.set(
        xscale="log", ylim=(0.0, None), xlabel="weights [GB]", ylabel="measured / simulated time"
    )
    style.grid(right)
    return finish(made, left, "measured [samples/s]", "simulated [samples/s]")
