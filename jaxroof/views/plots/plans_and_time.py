"""Bars: the plans of a sweep along one dimension, with their memory and time."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from jaxroof.analyses.result_metadata import (
    head_of,
    label_of,
    need_of,
    objective_of,
    optional,
    roles,
    unit_of,
    unused,
    words_of,
)
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import DEGREES, colours_of, ink
from jaxroof.views.text.tables import amount

Degrees = dict[str, tuple[str, str, np.ndarray]]  # by field: words, colour, a value a point
SEEN = 0.2  # per cent: what is nowhere more is not in the legend
FEW = 10  # points, up to which their times stand side by side
CRAMPED = 5.0  # per cent of height that a share needs to be written
TOP = 104.0  # per cent
MOST = 40  # points of one picture
NOTHING = "nothing fits"
LETTERS = 74  # of the names below all points
KEPT = 2  # cluster sizes drawn below the first that fits


@style.drawn
def plans_and_time(data: xr.Dataset) -> Figure:
    """Return, along one dimension, the plan and its memory above, the shares of its time below.

    Degrees, and the step time below, are on axes in powers of two; memory is in GB.
    Raises: InputError where the data have not one dimension, or lack time parts or plan fields.
    """
    picture = "plans_and_time"
    kept = choose.best_plans(data)
    aim, need = objective_of(kept), need_of(kept)
    choose.check_has(kept, picture, [aim, *([need] if need else [])])
    dim = "gpus" if "gpus" in kept.sizes else next(map(str, kept.sizes), "")
    choose.check_dimensions(kept, picture, (dim,))
    kept = kept if dim else kept.expand_dims("point")
    dim = dim or "point"
    if kept.sizes[dim] > MOST:
        many = f"shows {MOST} points at most; the data have {kept.sizes[dim]:,} along {dim!r}."
        raise refusal(picture, many)
    kept, below = _trimmed(kept, dim, aim)
    degrees = _degrees(kept, picture, dim)
    title = choose.title(data, "Plans and where their time goes")
    made = style.figure(title, _finding(kept, dim, aim), 9.0)
    upper, lower = made.subplots(2, 1, sharex=True, height_ratios=(1.0, 1.15))
    _plans(upper, kept, dim, degrees)
    _shares(lower, kept, dim, aim)
    refused = _refused(kept, dim, aim)
    _unfit(upper, refused, below, named=True)
    _unfit(lower, refused, below, named=False)
    ticks = [_tick(kept, dim, i) for i in range(kept.sizes[dim])]
    lower.set_xticks(range(len(ticks)), ticks, **_turned(ticks))
    tied = choose.linked_coordinates(kept, dim)
    words = kept[dim].attrs.get("long_name", dim) if tied == [dim] else dim
    lower.set_xlabel("accelerators" if dim == "gpus" else str(words).replace("_", " "))
    return made


def _turned(ticks: Sequence[str]) -> dict[str, Any]:
    """Return how the names of the points stand: upright where they would touch."""
    lines = [line for tick in ticks for line in tick.split("\n")]
    wide = len(ticks) * (max(map(len, lines)) + 1) > LETTERS
    return {"rotation": 90} if wide else {}


def _finding(data: xr.Dataset, dim: str, aim: str) -> str:
    """Return the best point, its result, and its largest part."""
    found = data[aim].where(data.feasible) if "feasible" in data else data[aim]
    if not np.isfinite(found.values).any():
        return "Nothing fits anywhere"
    places = np.where(np.isfinite(found.values), found.values, np.inf)
    best = int(places.argmin())
    where = _tick(data, dim, best).replace("\n", " ")
    where = f"{where} accelerators" if dim == "gpus" else where
    point = data.isel({dim: best})
    parts = {w: float(point[n]) for n, (w, _) in style.parts(data, aim).items()}
    most = max(parts, key=lambda words: parts[words])
    share = f"; {most} is {percent(parts[most] / places[best])} of it" if len(parts) > 1 else ""
    return f"Shortest: {amount(places[best], unit_of(data, aim))} at {where}{share}"


def _degrees(data: xr.Dataset, picture: str, dim: str) -> Degrees:
    """Return the split of every plan along the dimension, without degrees that none has.

    A microbatch stands as the number of them, which is a degree as the others are.
    """
    known = roles(data)["split"]
    values = {name: value for name in known if (value := _along(data, name, dim)) is not None}
    choose.check_has(data, picture, () if values else known[:1])
    batch, replicas = (_along(data, name, dim) for name in ("global_batch", "data"))
    fits = next(iter(values.values())) > 0
    found: Degrees = {}
    hues = colours_of(known, DEGREES)
    for name, colour in hues.items():
        value, words = values.get(name), label_of(data, name)
        if value is None or name in unused(data):
            continue
        if name == "microbatch" and batch is not None and replicas is not None:
            value, words = batch / (replicas * value), "microbatches"
        value = np.where(fits, value, np.nan)
        if np.nanmax(value, initial=1.0) > 1.0 or not optional(data, name):
            found[name] = words, colour, value
    return found


def _along(data: xr.Dataset, name: str, dim: str) -> np.ndarray | None:
    """Return a number of the plan or of the inputs along the dimension, None where it is not."""
    value = choose.field(data, name)
    if value is None:
        return None
    return np.broadcast_to(value.values, data.sizes[dim]).astype(np.float64)


def _plans(axes: Axes, data: xr.Dataset, dim: str, degrees: Degrees) -> None:
    places, width = np.arange(data.sizes[dim]), 0.8 / len(degrees)
    for i, (words, colour, values) in enumerate(degrees.values()):
        left = places - 0.4 + (i + 0.5) * width
        # a degree of 1 would have no height on this axis
        axes.bar(left, values - 0.5, width, bottom=0.5, color=colour, label=words)
    most = max(float(np.nanmax(values, initial=2.0)) for *_, values in degrees.values())
    style.powers_of_two(axes.yaxis, 1.0, most, labels=9)
    counted = "degree, microbatches" if "microbatch" in degrees else "plan"
    axes.set(ylim=(0.5, most * 3), xlim=(-0.6, len(places) - 0.4), ylabel=counted)
    style.grid(axes, "y")
    _legend(axes, _needs(axes, data, places) if need_of(data) else axes)


def _needs(axes: Axes, data: xr.Dataset, places: np.ndarray) -> Axes:
    """Draw what the plans need and what there is of it on an axis of its own; return that."""
    need, limit = need_of(data), choose.capacity(data)
    values = np.broadcast_to(data[need].values, places.shape)
    shown = values if limit is None else limit.values
    scale, unit = style.human(shown, unit_of(data, need))
    twin = axes.twinx()
    twin.plot(
        places, values / scale, "--o", color="black", markersize=4, label=words_of(data, need)
    )
    top = float(np.nanmax(values / scale, initial=1.0))
    if limit is not None:
        held = np.broadcast_to(limit.values / scale, places.shape)
        edges = np.repeat(np.append(places - 0.5, places[-1] + 0.5), 2)[1:-1]
        twin.plot(edges, np.repeat(held, 2), color=style.BLACK, linewidth=1, label="capacity")
        top = max(top, float(held.max()))
    twin.set(ylim=(0, 1.2 * top), ylabel=style.with_unit(label_of(data, need), unit))
    return twin


def _shares(axes: Axes, data: xr.Dataset, dim: str, aim: str) -> None:
    places, step = np.arange(data.sizes[dim]), data[aim].values
    axes.set(ylim=(0, TOP), ylabel=f"share of the {label_of(data, aim)}")
    axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    start = np.zeros(len(places))
    for name, (words, colour) in style.parts(data, aim).items():
        share = 100.0 * np.broadcast_to(data[name].values, step.shape) / step
        seen = np.nanmax(share, initial=0.0) > SEEN
        axes.bar(places, share, 0.72, bottom=start, color=colour, label=words if seen else "_")
        for i in np.flatnonzero(share > CRAMPED):
            middle = (float(i), float(start[i] + share[i] / 2))
            axes.annotate(f"{share[i]:.0f} %" if len(places) <= FEW else f"{share[i]:.0f}", middle,
                          color=ink(colour), ha="center", va="center")  # fmt: skip
        start = start + share
    turned = 90 if len(places) > FEW else 0
    axes.set_ylim(0, TOP + (14.0 if turned else 5.0))
    axes.set_yticks(range(0, 101, 20))
    for i in np.flatnonzero(np.isfinite(step)):
        words = amount(float(f"{step[i]:.3g}"), unit_of(data, aim))
        axes.annotate(words, (float(i), 101.0), ha="center", va="bottom", rotation=turned,
                      weight="bold")  # fmt: skip
    _legend(axes, axes)


def _legend(axes: Axes, twin: Axes) -> None:
    """Put one legend of both axes above them."""
    handles, words = axes.get_legend_handles_labels()
    more, said = twin.get_legend_handles_labels() if twin is not axes else ([], [])
    above = (0.5, 1.0)
    axes.legend(
        [*handles, *more], [*words, *said], loc="lower center", bbox_to_anchor=above, ncols=4
    )


def _trimmed(data: xr.Dataset, dim: str, aim: str) -> tuple[xr.Dataset, str]:
    """Return the data without most sizes below the first that fits, and how to name the rest."""
    fits = np.isfinite(data[aim].values)
    if dim != "gpus" or fits.all() or not fits.any():
        return data, ""
    first = int(fits.argmax())
    below = f"nothing fits below {style.count(float(data.gpus[first]))}" if first else ""
    return data.isel(gpus=slice(max(0, first - KEPT), None)), below


def _refused(data: xr.Dataset, dim: str, aim: str) -> list[str]:
    """Return why each point has no plan, or one that cannot run; nothing where it can."""
    count = data.sizes[dim]
    if "feasible" not in data:
        return [""] * count

    def each(values: xr.DataArray) -> np.ndarray:
        return np.broadcast_to(values.values, count)

    limit, need = choose.capacity(data), need_of(data)
    full = (
        data[need] > (np.inf if limit is None else limit) if need else ~data.feasible.astype(bool)
    )
    if f"{need}_fits" in data:
        full = ~data[f"{need}_fits"].astype(bool)
    words = np.where(each(full), "does not fit", "not legal")
    words = np.where(np.isfinite(each(data[aim])), words, NOTHING)
    return [str(word) for word in np.where(each(data.feasible.astype(bool)), "", words)]


def _unfit(axes: Axes, refused: list[str], below: str, *, named: bool) -> None:
    """Hatch the places where the plan, or every plan, is refused; write why where it is named."""
    start = 0
    for why, run in itertools.groupby(refused):
        end = start + len(list(run))
        nothing = why == NOTHING
        if why:
            words = (below if start == 0 and below else why) if nothing else ""
            style.band(axes, start - 0.5, end - 0.5, words)
        if why and named and not nothing:
            middle, where = (start + end - 1) / 2, axes.get_xaxis_transform()
            style.note(axes, middle, 0.97, why, va="top", transform=where)
        start = end


def _tick(data: xr.Dataset, dim: str, index: int) -> str:
    """Return what a configuration is: the fields that move, one a line."""
    said = []
    for name in choose.linked_coordinates(data, dim):
        value, unit = data[name].values[index], data[name].attrs.get("units", "1")
        number = data[name].dtype.kind in "if"
        words = (
            choose.amount(float(value), unit) if number and unit not in ("1", "sequence") else ""
        )
        words = words or (style.count(float(value)) if number else str(value))
        short = head_of(data, name).replace("_", " ")
        said.append(words if name == dim else f"{short} {words}")
    return "\n".join(said) if said else str(index)
