"""The best plans of a search: where the time of each goes, and the memory that it needs."""

import json
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.analyses.result_metadata import (
    about,
    label_of,
    need_of,
    objective_of,
    parts_of,
    rises,
    telling_fields,
    unit_of,
    words_of,
)
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import ink
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import fields_words, plan_numbers, split_fields, used_fields
from jaxroof.views.text.tables import amount

PICTURE = "fastest_plans"
MOST = 12  # plans of one picture
HIGH = 0.56  # inches of a row: a line of words and a bar
BAR = 0.42  # height of a bar, of a row
SEEN = 5e-4  # of the longest bar: what is narrower is not in the legend
LEAST = 0.09  # of the longest bar: the room that a number needs


class Row(NamedTuple):
    """One bar: a plan, its numbers, and what is written above it."""

    words: str
    plan: xr.Dataset
    gpus: float


@style.drawn
def fastest_plans(data: xr.Dataset) -> Figure:
    """Return the best plans, a bar each: its time by parts, and its memory against the capacity.

    Plans of several numbers of accelerators stand in groups, the best of each first.
    Raises: InputError for data that are not over plans, or without any that has a result.
    """
    aim = objective_of(data)
    choose.check_has(data, PICTURE, (aim,), ("plan",))
    choose.check_dimensions(data, PICTURE, ("plan",))
    groups = _groups(data, aim)
    if not groups:
        raise refusal(PICTURE, "no plan of the data has a result")
    places = _places(groups)
    lines = places[-1][0] + 1.0
    made = style.figure(_title(data), _finding(data, groups, aim), 2.2 + HIGH * lines)
    need = need_of(data) if need_of(data) in data else ""
    cells = made.subplots(1, 2 if need else 1, sharey=True, squeeze=False, width_ratios=None)
    if need:
        cells[0, 0].get_gridspec().set_width_ratios((2.6, 1.0))
    _times(cells[0, 0], data, places, aim)
    if need:
        _memory(cells[0, 1], data, places, need)
    cells[0, 0].set_ylim(lines - 0.4, -0.75)
    for axes in cells[0]:
        axes.tick_params(axis="y", length=0, labelleft=False)
    handles, words = cells[0, 0].get_legend_handles_labels()
    made.legend(handles, words, loc="outside lower center", ncols=4)
    return made


def _title(data: xr.Dataset) -> str:
    """Return which plans these are: of a model, on accelerators of a system, at a batch."""
    model, system = (str(data.attrs.get(name, "")) for name in ("model", "system"))
    sizes = np.unique(data.gpus.values) if "gpus" in data else np.ones(0)
    where = f"{style.count(float(sizes[0]))} " if len(sizes) == 1 else ""
    where = f" on {where}{system or 'accelerators'}" if where or system else ""
    batch = choose.run_inputs(data).get("global_batch")
    more = f", batch {style.count(float(batch))}" if batch is not None else ""
    return choose.title(data, f"The best plans{f' of {model}' if model else ''}{where}{more}")


def _groups(data: xr.Dataset, aim: str) -> list[list[Row]]:
    """Return the best plans of each number of accelerators, and one of one's own."""
    values = data[aim].values * (-1.0 if rises(data, aim) else 1.0)
    sizes = np.broadcast_to(data.gpus.values if "gpus" in data else np.zeros(()), values.shape)
    held = np.flatnonzero(np.isfinite(values))
    names = _told(data)
    count = max(1, MOST // max(1, len(np.unique(sizes[held]))))
    found = []
    for size in np.unique(sizes[held])[:MOST]:
        mine = held[sizes[held] == size]
        order = mine[np.argsort(values[mine], kind="stable")][:count]
        rows = [data.isel(plan=int(i)) for i in order]
        said = [f"#{n}  {plan_name(row, names)}" for n, row in enumerate(rows, 1)]
        found.append([Row(w, row, float(size)) for w, row in zip(said, rows, strict=True)])
    if len(found) == 1 and "own_plan" in data:
        found[0].append(_own(data, found[0][0], names, aim))
    return found


def _own(data: xr.Dataset, best: Row, names: list[str], aim: str) -> Row:
    """Return the plan of one's own that was set beside the best."""
    fields = {**json.loads(str(data.own_plan.values)), **json.loads(str(data.own_parts.values))}
    numbers = {**fields, aim: float(data.own), need_of(data): float(data.own_device)}
    known = {n: best.plan[n].copy(data=v) for n, v in numbers.items() if n in best.plan}
    plan = best.plan.assign(known)
    return Row(f"yours, #{int(data.own_place):,}  {plan_name(plan, names)}", plan, best.gpus)


def _told(data: xr.Dataset) -> list[str]:
    """Return the fields that name a plan, and those in which the plans, one's own too, differ."""
    fields = split_fields(data, used_fields(data))
    short = telling_fields(data, split_fields(data))
    own = json.loads(str(data.own_plan.values)) if "own_plan" in data else {}
    values = {n: [*data[n].values.ravel(), *([own[n]] if n in own else [])] for n in fields}
    return [n for n in fields if n in short or np.ptp(values[n]) > 0]


def plan_name(row: xr.Dataset, names: list[str]) -> str:
    """Return a plan in short forms, without what it does not use."""
    usual = {name: float(about(row, name).get("default") or 0.0) for name in names}
    shown = [n for n in names if float(row[n]) != usual[n]]
    return fields_words(row, plan_numbers(row), shown, words_of)


def _places(groups: list[list[Row]]) -> list[tuple[float, Row, bool]]:
    """Return where each bar stands, and whether it is the first of its group."""
    found, at = [], 0.0
    for rows in groups:
        at += 0.55 if len(groups) > 1 else 0.0  # room for the number of accelerators
        for place, row in enumerate(rows):
            found.append((at, row, place == 0 and len(groups) > 1))
            at += 1.0
    return found


def _finding(data: xr.Dataset, groups: list[list[Row]], aim: str) -> str:
    """Return the best plan with its result, and its largest part; of several sizes, of the ends."""
    unit, names = unit_of(data, aim), _told(data)
    firsts = [rows[0] for rows in groups]
    best = (max if rises(data, aim) else min)(firsts, key=lambda row: float(row.plan[aim]))
    value = amount(float(best.plan[aim]), unit)
    run = " a step" if aim == "step_time" else ""
    where = f" on {style.count(best.gpus)} accelerators" if len(groups) > 1 else ""
    said = f"{value}{run}{where}: {plan_name(best.plan, names)}"
    others = [row for row in firsts if row is not best]
    if others:
        less = [
            f"{amount(float(r.plan[aim]), unit)} on{style.KEPT}{style.count(r.gpus)}"
            for r in others
        ]
        return f"{said}; {', '.join(less)}"
    parts = {label_of(data, n): float(best.plan[n]) for n in parts_of(data, aim)}
    if not parts:
        return said
    most = max(parts, key=lambda words: parts[words])
    return f"{said}; {percent(parts[most] / float(best.plan[aim]))} of it {most}"


def _times(axes: Axes, data: xr.Dataset, places: list[tuple[float, Row, bool]], aim: str) -> None:
    """Draw the parts of every plan's time, its name above, its time beside."""
    whole = np.array([float(row.plan[aim]) for _, row, _ in places])
    scale, unit = style.human(whole, unit_of(data, aim))
    longest, at = float(whole.max()) / scale, np.array([place for place, _, _ in places])
    start = np.zeros(len(places))
    for name, (words, colour) in style.parts(data, aim).items():
        widths = np.array([float(row.plan[name]) for _, row, _ in places]) / scale
        seen = (widths > SEEN * longest).any()
        axes.barh(at, widths, BAR, left=start, color=colour, label=words if seen else "_")
        for place, left, wide, all_of_it in zip(at, start, widths, whole / scale, strict=True):
            if wide > LEAST * longest:
                share, middle = percent(wide / all_of_it), left + wide / 2
                axes.text(middle, place, share, color=ink(colour), ha="center", va="center")
        start = start + widths
    for (place, row, first), end in zip(places, whole / scale, strict=True):
        axes.annotate(
            amount(end * scale, unit_of(data, aim)), (end, place), xytext=(4, 0),
            textcoords="offset points", va="center", weight="bold",
        )  # fmt: skip
        axes.text(0.0, place - 0.28, row.words, va="bottom").set_in_layout(False)
        if first:
            words = f"{style.count(row.gpus)} accelerators"
            axes.text(0.0, place - 0.68, words, va="bottom", weight="bold")
            axes.axhline(place - 0.68, color=style.GREY, linewidth=0.8)
    axes.set_xlim(0.0, 1.22 * longest)
    axes.set_xlabel(style.with_unit(label_of(data, aim), unit.strip("1")))
    style.grid(axes, "x")


def _memory(axes: Axes, data: xr.Dataset, places: list[tuple[float, Row, bool]], need: str) -> None:
    """Draw what every plan needs, and the capacity as a dashed line."""
    values = np.array([float(row.plan[need]) for _, row, _ in places])
    limit = choose.capacity(data)
    held = float(limit.max()) if limit is not None else float("nan")
    scale, unit = style.human(np.append(values, held), unit_of(data, need))
    top = float(np.nanmax(np.append(values, held))) / scale
    axes.barh([place for place, _, _ in places], values / scale, BAR, color=style.GREY)
    for (place, _, first), value in zip(places, values / scale, strict=True):
        inside = value > 0.3 * top
        axes.annotate(
            f"{value:.3g}", (value, place), xytext=(-4 if inside else 4, 0),
            textcoords="offset points", va="center", ha="right" if inside else "left",
            color="white" if inside else "black",
        )  # fmt: skip
        if first:
            axes.axhline(place - 0.68, color=style.GREY, linewidth=0.8)
    if np.isfinite(held):
        axes.axvline(held / scale, color=style.BLACK, linewidth=1.4, linestyle="--")
        margin, band = margin_of(data), ""
        if margin.error:
            low, high = margin.doubtful(held / scale)
            axes.axvspan(low, min(high, 1.1 * top), color=style.PALE, alpha=0.5, zorder=0)
            band = f"\n{margin.band}"
        axes.set_title(f"dashed: {amount(held, unit_of(data, need))} there is{band}")
    axes.set_xlim(0.0, 1.1 * top)
    axes.set_xlabel(style.with_unit(words_of(data, need), unit.strip("1")))
    style.grid(axes, "x")
