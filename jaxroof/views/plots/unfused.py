"""The unfused blocks of one layer: how long every operator takes alone, and what binds it."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

PICTURE = "unfused_bars"
WAYS = ("forward", "backward")
FIELDS = tuple(f"{kind}_{way}" for way in WAYS for kind in ("compute", "memory", "links", "time"))
COORDS = ("block", "topology")
BLOCKS = {"mlp": "MLP block", "attention": "self-attention block"}
MATRIX = ("arithmetic binds", style.BLUE)
MEMORY = ("HBM traffic binds", style.SKY)
LINKS = {  # by the links that messages take: words, colour
    "nvlink": ("messages, NVLink", style.VERMILION),
    "ib": ("messages, network", style.GREEN),
}
HIDDEN = "where the other of the two ends"
WORDS = {  # of operators
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
GAP = 1.4  # bars between two blocks, where the name of the next one stands
MOST_COLUMNS = 2  # of the legend
LEAST = 0.005  # share of the longest bar from which a hidden time is marked


@style.drawn
def unfused_bars(data: xr.Dataset) -> Figure:
    """Return the time of every operator of both blocks as stacked bars, forward and backward.

    A bar is the longer of arithmetic and HBM traffic, in the colour of what binds, a tick where the
    other one ends, then the messages.
    Raises: InputError for data that ``unfused_layers`` did not make.
    """
    choose.check_has(data, PICTURE, (*FIELDS, *COORDS), ("operation",))
    choose.check_dimensions(data, PICTURE, ("operation",))
    names = data.operation.values.astype(str)
    blocks = data.block.values.astype(str)
    starts = [i for i in range(len(names)) if i == 0 or blocks[i] != blocks[i - 1]]
    places = np.array([i + GAP * sum(i >= start for start in starts) for i in range(len(names))])
    high = 2.5 + 0.3 * (places[-1] + 1.0)
    made = style.figure(choose.title(data, _title(data)), _finding(data), high)
    left, right = made.subplots(1, 2, sharey=True, sharex=True)
    longest = max(float(data[f"time_{way}"].max()) for way in WAYS)
    scale, unit = style.human(np.array([longest]), "s")
    for axes, way in ((left, WAYS[0]), (right, WAYS[1])):
        _bars(axes, data, way, places, scale)
        for start in starts:
            part = data.isel(operation=blocks == blocks[start])
            _heading(axes, part, way, float(places[start]) - 1.0, data)
        axes.set_title(_shares(data, way))
        axes.set_xlabel(f"time of one layer [{unit}]")
    left.set_xlim(0, 1.8 * longest / scale)
    left.set_yticks(places, [WORDS.get(str(name), str(name)) for name in names])
    left.set_ylim(places[-1] + 0.7, places[0] - 1.7)
    _legend(made, data)
    return made


def _finding(data: xr.Dataset) -> str:
    """Return how much of the layer HBM traffic binds, and its longest operator."""
    total = sum(float(data[f"time_{way}"].sum()) for way in WAYS)
    bound = sum(
        float((data[f"time_{w}"] - data[f"links_{w}"]).values[~_bound(data, w)].sum()) for w in WAYS
    )
    each = np.sum([data[f"time_{way}"].values for way in WAYS], axis=0)
    longest = str(data.operation.values[int(np.argmax(each))])
    return (
        f"HBM traffic binds {percent(bound / total)} of {choose.amount(total, 's')}; "
        f"the longest: {WORDS.get(longest, longest)}, {percent(each.max() / total)}"
    )


def _title(data: xr.Dataset) -> str:
    """Return what the picture shows, with the degrees where the data tell."""
    said = "One layer, every operator alone, nothing hidden"
    for name, words in (("tensor", "tensor"), ("sequence", "sequence")):
        degree = choose.run_inputs(data).get(f"plan.{name}", 1.0)
        said += f", {words} degree {style.count(float(degree))}" if degree != 1.0 else ""
    return said


def _bound(data: xr.Dataset, way: str) -> np.ndarray:
    """Return whether arithmetic binds, operator by operator."""
    return np.asarray(data[f"compute_{way}"].values >= data[f"memory_{way}"].values)


def _bars(axes: Axes, data: xr.Dataset, way: str, places: np.ndarray, scale: float) -> None:
    compute, memory, links, whole = (
        data[f"{kind}_{way}"].values / scale for kind in ("compute", "memory", "links", "time")
    )
    work, hidden = np.maximum(compute, memory), np.minimum(compute, memory)
    looks = np.where(_bound(data, way), MATRIX[1], MEMORY[1]).tolist()
    axes.barh(places, work, color=looks, height=0.72)
    kinds = data.topology.values.astype(str)
    sent = [LINKS.get(str(kind), LINKS["ib"])[1] for kind in kinds]
    axes.barh(places, links, left=work, color=sent, height=0.72)
    seen = hidden > LEAST * whole.max()
    axes.vlines(hidden[seen], places[seen] - 0.36, places[seen] + 0.36, color="white", linewidth=2)
    total = float(whole.sum())
    for place, value in zip(places, whole, strict=True):
        words = f"{value:.3g}  ({100 * value / total:.1f} %)"
        beside = axes.annotate(words, (value, place), (4, 0), textcoords="offset points")
        beside.set(va="center")
    style.grid(axes, "x")


def _heading(axes: Axes, part: xr.Dataset, way: str, place: float, data: xr.Dataset) -> None:
    """Write a block's name and time above its bars."""
    name, field = str(part.block.values[0]), f"time_{way}"
    own = float(part[field].sum())
    share = 100 * own / float(data[field].sum())
    words = f"{BLOCKS.get(name, name)}: {choose.amount(own, 's')}, {share:.1f} %"
    axes.axhspan(place - 0.5, place + 0.4, color="#EEEEEE", zorder=0)
    where = axes.get_yaxis_transform()
    axes.text(0.985, place, words, transform=where, ha="right", va="center")


def _shares(data: xr.Dataset, way: str) -> str:
    """Return the time of a direction, and the share of what binds."""
    whole, links = data[f"time_{way}"].values, data[f"links_{way}"].values
    total, bound = float(whole.sum()), _bound(data, way)
    times = {
        "arithmetic": float((whole - links)[bound].sum()),
        "HBM": float((whole - links)[~bound].sum()),
        "messages": float(links.sum()),
    }
    said = ", ".join(f"{name} {100 * time / total:.1f} %" for name, time in times.items() if time)
    return f"{way}: {choose.amount(total, 's')}\n{textwrap.fill(said, 26)}"


def _legend(made: Figure, data: xr.Dataset) -> None:
    """Say what the colours are, of those that are there."""
    entries = {words: Patch(color=colour) for words, colour in (MATRIX, MEMORY)}
    kinds = data.topology.values.astype(str)
    for kind, (words, colour) in LINKS.items():
        if (kinds == kind).any():
            entries[words] = Patch(color=colour)
    handles: list[Patch | Line2D] = list(entries.values())
    tick = Line2D(
        [], [], color="white", marker="|", markersize=11, markeredgewidth=2, linestyle="none"
    )
    said = [*entries, HIDDEN]
    columns = 2 if len(said) > MOST_COLUMNS else len(said)
    box = made.legend([*handles, tick], said, loc="outside lower center", ncols=columns)
    box.get_frame().set_facecolor("#E4E4E4")
