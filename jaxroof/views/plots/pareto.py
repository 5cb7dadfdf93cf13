"""The staircase of step time against memory: what each byte of an accelerator buys."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from jaxroof.analyses.result_metadata import (
    label_of,
    need_of,
    objective_of,
    optional,
    roles,
    unit_of,
    words_of,
)
from jaxroof.catalog.lookup import device
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.label_boxes import Box, extent, shares, touch
from jaxroof.views.plots.map_axes import fraction
from jaxroof.views.plots.systems import machine_of, moved, real_system
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import fields_words, plan_numbers, split_fields
from jaxroof.views.text.tables import amount

MOST = 8  # staircases in one picture
WIDE = 20.0  # ratio of memories from which on they are in powers of two
ALIKE = 1e-9  # relative difference between numbers that are the same
LETTERS = 80  # of a line of the legend
SIZE = style.TEXT  # points of a plan's name
MOST_SAID = 2  # staircases that the title speaks of
# whose steps of training may fill what the device reports
REPORTED = {"A100": "a100-80-sxm", "H200": "h200-141-sxm", "B200": "b200-180-sxm"}
NAMED = 3  # staircases in one picture whose plans are written


@style.drawn
def staircase(data: xr.Dataset, days: float | None = None) -> Figure:
    """Return the best step time that a memory of each size allows, its plans written at the steps.

    Each value of a further dimension, or of the coordinates of the steps (as ``pareto`` gives
    them), makes a staircase. Lines stand at the capacity of real systems and of the machine
    searched; ``days`` draws the step time that takes so long.
    Raises: InputError where the data lack steps or have none, or days are asked for and not there.
    """
    picture = "staircase"
    choose.check_has(data, picture, (need_of(data), objective_of(data)), ("step_number",))
    kept = _readable(data)
    kept = kept.squeeze([d for d, n in data.sizes.items() if n == 1 and d != "step_number"])
    dims = [str(dim) for dim in kept.sizes if dim != "step_number"]
    if len(dims) > 1:
        choose.check_dimensions(kept, picture, ("step_number", dims[0]))
    stairs = [
        (", ".join(filter(None, (words, own))), steps)
        for words, part in choose.panels(kept, dims)
        for own, steps in _each(part)
        if steps.sizes["step_number"]
    ]
    if not stairs:
        raise refusal(picture, "the data have no stairs: no plan is legal.")
    if len(stairs) > MOST:
        raise refusal(picture, f"shows {MOST} staircases at most; the data have {len(stairs)}.")
    made = style.figure(choose.title(data, _title(data)), _finding(stairs), 5.6)
    axes = made.subplots()
    ends = _limits(kept, axes)
    if days is not None:
        _deadline(axes, kept, days, picture)
    taken = _capacities(axes, kept, ends, [points for _, points in stairs])
    for (name, points), colour in zip(stairs, style.COLOURS, strict=False):
        _stairs(axes, points, name, colour, ends[1])
        if len(stairs) <= NAMED:
            _plans(axes, points, taken)
    axes.set(xlabel=_axis_words(kept)[0], ylabel=_axis_words(kept)[1])
    style.grid(axes)
    if len(stairs) > 1:
        longest = max(len(name) for name, _ in stairs)
        columns = max(1, min(4, LETTERS // (longest + 6)))
        made.legend(loc="outside lower center", ncols=columns)
    return made


def _finding(stairs: Sequence[tuple[str, xr.Dataset]]) -> str:
    """Return the best time in the memory of the machine, and what all that is of use would save."""
    said = []
    for name, points in stairs[:MOST_SAID]:
        need, aim = need_of(points), objective_of(points)
        unit = f" {unit_of(points, need)}".replace(" 1", "")
        memory, times = points[need].values, points[aim].values
        limit = choose.capacity(points)
        own = float(limit.max()) if limit is not None else float(memory[0])
        start = max(0, int(np.searchsorted(memory, own, side="right")) - 1)
        saved = 1.0 - float(times[-1]) / float(times[start])
        head, best = f"{name}: " if name else "", amount(float(times[start]), unit_of(points, aim))
        more = f"; {memory[-1]:.3g}{unit} would save {percent(saved, 1)}" if saved > 0 else ""
        if memory[0] > own:
            said.append(f"{head}nothing fits below {memory[0]:.3g}{unit}")
        else:
            said.append(f"{head}{best} in {max(own, memory[0]):.4g}{unit}{more}")
    return "; ".join(said)


def _each(part: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """Return the staircases that lie one after another, told apart by the steps' coordinates."""
    names = [
        str(name)
        for name, values in part.coords.items()
        if values.dims == ("step_number",) and name != "step_number"
        if len(np.unique(values.values)) > 1
    ]
    words = [choose.coordinate_words(part, names, i) for i in range(part.sizes["step_number"])]
    return [
        (own, _points(part.isel(step_number=[i for i, said in enumerate(words) if said == own])))
        for own in dict.fromkeys(words)
    ]


def _points(part: xr.Dataset) -> xr.Dataset:
    """Return the steps of one staircase in the order of their memory."""
    need = need_of(part)
    held = np.isfinite(part[objective_of(part)].values) & np.isfinite(part[need].values)
    return part.isel(step_number=np.flatnonzero(held)).sortby(need)


def _readable(data: xr.Dataset) -> xr.Dataset:
    """Return the data with what plans need, and what there is of it, in units a person reads."""
    need, limit = need_of(data), choose.capacity(data)
    shown = data[need] if limit is None else limit
    scale, unit = style.human(shown.values, unit_of(data, need))
    about = {"units": unit or "1"}
    found = data.assign({need: (data[need] / scale).assign_attrs(data[need].attrs | about)})
    if limit is None:
        return found
    return found.assign({f"{need}_limit": (limit / scale).assign_attrs(about | {"scale": scale})})


def _title(data: xr.Dataset) -> str:
    """Return what the picture is called where the data have no title."""
    aim, need = words_of(data, objective_of(data)), words_of(data, need_of(data))
    return f"{aim[0].upper()}{aim[1:]} against {need}"


def _axis_words(data: xr.Dataset) -> tuple[str, str]:
    """Return what stands on the two axes."""
    need, aim = need_of(data), objective_of(data)
    unit = unit_of(data, need)
    across = style.with_unit(label_of(data, need), unit.strip("1"))
    return across, style.with_unit(label_of(data, aim), unit_of(data, aim).strip("1"))


def _limits(data: xr.Dataset, axes: Axes) -> tuple[float, float]:
    """Set the axes to the steps and the machine searched, with room for names; return x's ends."""
    memory, times = data[need_of(data)].values, data[objective_of(data)].values
    memory, times = memory[np.isfinite(memory)], times[np.isfinite(times)]
    limit = choose.capacity(data)
    most = [
        memory.max(initial=1.0),
        *([] if limit is None else [float(limit.max())]),
    ]
    low, high = float(memory.min(initial=most[0])), float(max(most))
    room = 0.06 * (high - low) or 1.0
    ends = (max(0.0, low - room), high + 2.5 * room)
    axes.set_yscale("log")
    if low > 0 and high / low > WIDE:
        ends = (low / 1.2, high * 1.5)
        style.powers_of_two(axes.xaxis, *ends)
    axes.set(xlim=ends)
    if len(times):
        spread = float(times.max() / times.min())
        axes.set_ylim(times.min() / spread**0.08 / 1.02, times.max() * spread**0.32 * 1.05)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(style.count))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return ends


def _stairs(axes: Axes, points: xr.Dataset, name: str, colour: str, end: float) -> None:
    memory, times = points[need_of(points)].values, points[objective_of(points)].values
    axes.step(
        np.append(memory, end),
        np.append(times, times[-1]),
        where="post",
        color=colour,
        label=name or None,
        linewidth=1.6,
    )
    axes.plot(memory, times, "o", color=colour, markersize=4)


def _plans(axes: Axes, points: xr.Dataset, taken: list[Box]) -> None:
    """Write the plan beside every step that leaves room for it."""
    for i in range(points.sizes["step_number"]):
        point = points.isel(step_number=i)
        words = _plan_words(point)
        memory, time = float(point[need_of(point)]), float(point[objective_of(point)])
        left, low = (
            float(fraction(axes, side, np.array([value]))[0])
            for side, value in (("x", memory), ("y", time))
        )
        wide, high = extent(axes, words, SIZE)
        beside = left + wide < 1
        if not beside and i < points.sizes["step_number"] - 1:
            continue  # below it runs the next stair
        left, low = (left, low) if beside else (1 - wide, low - high)
        box = (left, low, left + wide, low + high)
        if any(touch(box, other) for other in taken):
            continue
        taken.append(box)
        axes.annotate(
            words,
            (memory if beside else axes.get_xlim()[1], time),
            xytext=(5, 4) if beside else (-10, -4),
            textcoords="offset points",
            ha="left" if beside else "right",
            va="bottom" if beside else "top",
            fontsize=SIZE,
            zorder=7,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )


def _plan_words(point: xr.Dataset) -> str:
    """Return a plan in a few letters."""
    fields = [n for n in split_fields(point) if int(point[n]) > 1 or not optional(point, n)]
    return fields_words(point, plan_numbers(point), fields)


def _capacities(
    axes: Axes, data: xr.Dataset, ends: tuple[float, float], stairs: list[xr.Dataset]
) -> list[Box]:
    """Draw how much memory real systems have, and how much the machine searched may fill.

    Returns: where their names stand.
    """
    limit, unit = choose.capacity(data), unit_of(data, need_of(data)).strip("1")
    lines: dict[float, list[str]] = {}
    if limit is not None and "system.hbm_capacity" in roles(data).get("resources", {}):
        scale = float(limit.attrs["scale"])
        there = REPORTED if data.attrs.get("estimator") == "training" else choose.REAL
        for words, known in there.items():
            size = float(device(known).hbm_capacity) / scale
            lines.setdefault(size, []).append(f"capacity of the {words}")
    searched = np.unique(limit.values) if limit is not None else np.array([])
    own = float(searched[0]) if len(searched) == 1 else None
    if own is not None:
        real = "" if moved(data) else real_system(machine_of(data))
        shared = [] if real else lines.get(own, [])
        lines[own] = [f"this machine, the {real}" if real else "this machine", *shared]
    taken: list[Box] = []
    for place, said in sorted(lines.items(), key=lambda line: line[0] != own):
        if ends[0] < place < ends[1]:
            mine = place == own
            margin = margin_of(data)
            if mine and margin.error:
                axes.axvspan(*margin.doubtful(place), color=style.PALE, alpha=0.5, zorder=0)
                said = [*said, margin.band]
            words = f"{place:.4g} {unit} ({'; '.join(said)})"
            above = _low(axes, stairs, place)
            along = float(fraction(axes, "x", np.array([place]))[0])
            aside, tall = shares(axes, 10.0, 6.0 * len(words))
            low = 0.985 - tall if above else 0.015
            box = (along - aside, low, along + aside, low + tall)
            if any(touch(box, other) for other in taken):
                continue  # a line without a name says nothing
            axes.axvline(place, color=style.GREY, linestyle="-" if mine else "--", linewidth=1)
            style.note(
                axes,
                place,
                0.985 if above else 0.015,
                words,
                rotation=90,
                va="top" if above else "bottom",
                transform=axes.get_xaxis_transform(),
            )
            taken.append(box)
    return taken


def _low(axes: Axes, stairs: list[xr.Dataset], place: float) -> bool:
    """Return whether the stairs have come down, at a memory, to the lower half of the picture."""
    reached = [float(s[objective_of(s)].where(s[need_of(s)] <= place).min()) for s in stairs]
    held = [time for time in reached if np.isfinite(time)]
    if not held:
        return False
    low, high = np.log(axes.get_ylim())
    return bool((np.log(np.mean(held)) - low) / (high - low) < 0.5)


def _deadline(axes: Axes, data: xr.Dataset, days: float, picture: str) -> None:
    choose.check_has(data, picture, ("training_days",))
    # days are in proportion to step time, whatever the plan
    ratio = (data[objective_of(data)] / data.training_days).values
    if np.nanmax(ratio) > np.nanmin(ratio) * (1 + ALIKE):
        raise refusal(picture, "days: take another step time on each staircase; draw one of them.")
    step = days * float(np.nanmin(ratio))
    axes.axhline(step, color=style.VERMILION, linewidth=1.2, linestyle=":")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, step / 1.1), max(high, step * 1.1))
    right = axes.get_yaxis_transform()
    axes.text(0.01, step, f"{days:g} days", va="bottom", color=style.VERMILION, transform=right)
