"""The staircase of step time against memory: what each byte of an accelerator buys."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from jaxroof.analyses.result_metadata import (
    label_of,
    need_of,
    objective_of,
    optional,
    roles,
    unit_of,
    words_of,
)
from jaxroof.catalog.needs import training_capacities
from jaxroof.errors import refusal
from jaxroof.units import amount, portion
from jaxroof.views.plots import labels, style, systems
from jaxroof.views.plots import select as choose
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import fields_words, plan_numbers, split_fields
from jaxroof.views.text.whole_run import days_result

PICTURE = "staircase"
MOST = 8  # staircases in one picture
NAMED = 3  # staircases in one picture whose plans are written
SAID = 2  # staircases that the finding speaks of
WIDE = 20.0  # ratio of memories from which on they are in powers of two
ALIKE = 1e-9  # relative difference between numbers that are the same
Stairs = tuple[str, xr.Dataset]  # a name, and the steps in the order of their memory


@style.drawn
def staircase(data: xr.Dataset, days: float | None = None) -> Figure:
    """Return the best step time that a memory of each size allows, its plans written at the steps.

    Each value of a further dimension, or of the coordinates of the steps (as ``pareto`` gives
    them), makes a staircase. Lines stand at the capacity of the machine searched and of real
    accelerators; ``days``, or those asked for, draw the step time that takes so long.
    Raises: InputError where the data lack steps or have none, or days are asked for and not there.
    """
    need, aim = need_of(data), objective_of(data)
    if days is None and "most_days" in data.attrs:
        days = float(data.attrs["most_days"])
    choose.check_has(data, PICTURE, (need, aim), ("step_number",))
    kept = data.squeeze([d for d, n in data.sizes.items() if n == 1 and d != "step_number"])
    dims = [str(dim) for dim in kept.sizes if dim != "step_number"]
    choose.check_dimensions(kept, PICTURE, ("step_number", *dims[:1]))
    stairs = [
        (", ".join(filter(None, (words, own))), steps)
        for words, part in choose.panels(kept, dims)
        for own, steps in _each(part)
        if steps.sizes["step_number"]
    ]
    if not stairs:
        raise refusal(PICTURE, "the data have no stairs: no plan is legal.")
    if len(stairs) > MOST:
        raise refusal(PICTURE, f"shows {MOST} staircases at most; the data have {len(stairs)}.")
    head = f"{words_of(data, aim)} against {words_of(data, need)}"
    title = choose.title(data, head[:1].upper() + head[1:])
    made = style.figure(title, _finding(stairs, need, aim), 5.6)
    axes, limit = made.subplots(), choose.capacity(data)
    scale, unit = style.human((data[need] if limit is None else limit).values, unit_of(data, need))
    end = _limits(axes, kept, limit, scale)
    if days is not None:
        _deadline(axes, kept, days)
    for (name, steps), colour in zip(stairs, style.COLOURS, strict=False):
        memory, times = steps[need].values / scale, steps[aim].values
        look: dict[str, Any] = {"where": "post", "color": colour, "linewidth": 1.6}
        axes.step([*memory, end], [*times, times[-1]], label=name or "_", **look)
        axes.plot(memory, times, "o", color=colour, markersize=4)
    axes.set_xlabel(style.with_unit(label_of(data, need), unit.strip("1")))
    axes.set_ylabel(style.with_unit(label_of(data, aim), unit_of(data, aim).strip("1")))
    style.grid(axes)
    band = [Patch(color=style.PALE, alpha=0.5, label=margin_of(data).band)]
    style.legend(made, columns=4, extra=band if limit is not None and margin_of(data).error else ())
    made.draw_without_rendering()
    taken: list[labels.Box] = []
    own = np.unique([] if limit is None else limit.values)
    _capacities(axes, kept, {float(own[0]): systems.BASE} if len(own) == 1 else {}, scale, taken)
    if len(stairs) <= NAMED:
        for _, steps in stairs:
            _plans(axes, steps, scale, taken)
    if limit is not None and "system.hbm_capacity" in roles(kept).get("resources", {}):
        _capacities(axes, kept, _real(kept), scale, taken)
    return made


def _each(part: xr.Dataset) -> list[Stairs]:
    """Return the staircases that lie one after another, told apart by the steps' coordinates."""
    need = need_of(part)
    held = np.isfinite(part[objective_of(part)].values) & np.isfinite(part[need].values)
    part = part.isel(step_number=np.flatnonzero(held))
    names = [
        str(name)
        for name, values in part.coords.items()
        if values.dims == ("step_number",) and name != "step_number"
        if len(np.unique(values.values)) > 1
    ]
    words = [choose.coordinate_words(part, names, i) for i in range(part.sizes["step_number"])]
    return [
        (
            own,
            part.isel(step_number=[i for i, said in enumerate(words) if said == own]).sortby(need),
        )
        for own in dict.fromkeys(words)
    ]


def _finding(stairs: Sequence[Stairs], need: str, aim: str) -> str:
    """Return the best time in the memory of the machine, and the gain of all that is of use."""
    said = []
    for name, steps in stairs[:SAID]:
        unit, memory, times = unit_of(steps, need), steps[need].values, steps[aim].values
        limit = choose.capacity(steps)
        own = float(limit.max()) if limit is not None else float(memory[0])
        head = f"{name}: " if name else ""
        if memory[0] > own:
            said.append(f"{head}nothing fits below {amount(memory[0], unit)}")
            continue
        best = float(times[np.searchsorted(memory, own, side="right") - 1])
        faster = best / float(times[-1]) - 1.0
        more = f"; {portion(faster)} faster with {amount(memory[-1], unit)}" if faster > 0 else ""
        said.append(f"{head}{amount(best, unit_of(steps, aim))} in {amount(own, unit)}{more}")
    return "; ".join(said)


def _limits(axes: Axes, data: xr.Dataset, limit: xr.DataArray | None, scale: float) -> float:
    """Set the axes to the steps and the machine searched, with room for names; return x's end."""
    memory, times = data[need_of(data)].values / scale, data[objective_of(data)].values
    memory, times = memory[np.isfinite(memory)], times[np.isfinite(times)]
    low = float(memory.min())
    high = float(max(memory.max(), 0.0 if limit is None else float(limit.max()) / scale))
    room = 0.06 * (high - low) or 1.0
    ends = (max(0.0, low - room), high + 2.5 * room)
    if low > 0 and high / low > WIDE:
        ends = (low / 1.2, high * 1.5)
        style.powers_of_two(axes.xaxis, *ends)
    style.few_of_a_decade(axes.yaxis, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
    spread = float(times.max() / times.min())
    axes.set(xlim=ends, ylim=(times.min() / spread**0.08 / 1.02, times.max() * spread**0.32 * 1.05))
    return ends[1]


def _plans(axes: Axes, steps: xr.Dataset, scale: float, taken: list[labels.Box]) -> None:
    """Write the plan beside every step that leaves room for it."""
    look: Any = {"zorder": 7, "path_effects": [withStroke(linewidth=2.5, foreground="white")]}
    for i in range(steps.sizes["step_number"]):
        point = steps.isel(step_number=i)
        fields = [n for n in split_fields(point) if int(point[n]) > 1 or not optional(point, n)]
        words = fields_words(point, plan_numbers(point), fields)
        at = (float(point[need_of(point)]) / scale, float(point[objective_of(point)]))
        labels.place(axes, taken, words, [at], ((5.0, 10.0),), sides=(1.0,), **look)


def _real(data: xr.Dataset) -> dict[float, str]:
    """Return the memory of accelerators of the catalogue, each in its usual size."""
    found: dict[str, float] = {}
    there = training_capacities(not roles(data).get("labelled"))
    for name in sorted(there, key=len):  # the usual part has the shortest name
        found.setdefault(name.partition("-")[0], there[name])
    return {c: ", ".join(n for n in found if found[n] == c) for c in found.values()}


def _capacities(
    axes: Axes, data: xr.Dataset, there: dict[float, str], scale: float, taken: list[labels.Box]
) -> None:
    """Draw what there is of memory, each a line where its name has room."""
    margin, (low, high) = margin_of(data), axes.get_ylim()
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
    for capacity, words in there.items():
        place, mine = capacity / scale, words == systems.BASE
        said = f"{amount(capacity, unit_of(data, need_of(data)))}: {words}"
        if mine and margin.error:
            axes.axvspan(*margin.doubtful(place), color=style.PALE, alpha=0.5, zorder=0)
        ends = [(place, high**t * low ** (1.0 - t)) for t in (0.72, 0.6, 0.3)]
        if labels.place(axes, taken, said, ends, turns=(90,), bbox=box) or mine:
            dash = "-" if mine else "--"
            axes.axvline(place, color=style.GREY, linestyle=dash, linewidth=1, zorder=1)


def _deadline(axes: Axes, data: xr.Dataset, days: float) -> None:
    choose.check_has(data, PICTURE, ("training_days",))
    # days are in proportion to step time, whatever the plan
    ratio = (data[objective_of(data)] / data[days_result(data)]).values
    if np.nanmax(ratio) > np.nanmin(ratio) * (1 + ALIKE):
        raise refusal(PICTURE, "days: take another step time on each staircase; draw one of them.")
    step = days * float(np.nanmin(ratio))
    axes.axhline(step, color=style.VERMILION, linewidth=1.2, linestyle=":")
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, step / 1.1), max(high, step * 1.1))
    right = axes.get_yaxis_transform()
    axes.text(0.01, step, f"{days:g} days", va="bottom", color=style.VERMILION, transform=right)
