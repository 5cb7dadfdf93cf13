"""Plans or machines side by side: a bar each of its time by parts, and its memory beside it."""

import json
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.analyses.result_metadata import (
    about,
    headlines,
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
from jaxroof.units import amount, percent
from jaxroof.views.plots import bars, style
from jaxroof.views.plots import select as choose
from jaxroof.views.text.interval import HIGH, LOW
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import fields_words, plan_numbers, split_fields, used_fields

PICTURE = "plans"
BEST, MOST = 12, 40  # plans of a search, and points of a sweep, in one picture
TALL, THICK = 0.56, 0.42  # inches of a row, a line of words and a bar; its height, of a row
LINES = 2  # of what is found
KEPT = 2  # cluster sizes drawn below the first that fits
DOUBLE = 2.0  # times as long, from which on it is no longer told in per cent
ALIKE = 5e-4  # relative difference of times that are the same


class Row(NamedTuple):
    """One bar: what it is, its numbers, and why it cannot run, empty where it can."""

    words: str
    point: xr.Dataset
    group: str
    refused: str = ""


@style.drawn
def plans(data: xr.Dataset) -> Figure:
    """Return a bar a plan, or a machine, or a point of an axis: its time by parts, its memory.

    Of an axis of numbers the bars are shares of each time, which is written beside them. Where
    nothing fits the reason stands in place of the bar.
    Raises: InputError for data without results of plans, or with more than can be read.
    """
    several = [dim for dim in data.sizes if data.sizes[dim] > 1]
    listed = "plan" if "plan" in several else "rank" if several == ["rank"] else ""
    kept = data if listed else choose.best_plans(data)
    aim, need = (headlines(kept) or [objective_of(kept)])[0], need_of(kept)
    choose.check_has(kept, PICTURE, [aim])
    numbers = [str(d) for d in kept.sizes if d != listed and d not in choose.named_dimensions(kept)]
    if listed:
        choose.check_dimensions(kept, PICTURE, (listed,))
    elif len(numbers) > 1:
        choose.check_dimensions(kept, PICTURE, (*choose.named_dimensions(kept), numbers[0]))
    rows = _listed(kept, listed, aim) if listed else _points(kept, aim)
    if listed and not rows:
        raise refusal(PICTURE, "no plan of the data has a result")
    if len(rows) > MOST:
        raise refusal(PICTURE, f"shows {MOST} points at most; the data have {len(rows):,}")
    title = choose.title(data, _title(data) if listed else "Plans and where their time goes")
    groups = [row.group for row in rows]
    first = [i for i, group in enumerate(groups) if group and group not in groups[:i]]
    at = np.array([i + 0.6 * sum(i >= start for start in first) for i in range(len(rows))])
    made = style.figure(title, _finding(rows, aim), 2.2 + TALL * (at[-1] + 1.0))
    has_need = need in kept and bool(np.isfinite([float(row.point[need]) for row in rows]).any())
    cells = made.subplots(
        1, 1 + has_need, sharey=True, squeeze=False, width_ratios=(2.6, 1.0)[: 1 + has_need]
    )[0]
    _times(cells[0], rows, aim, at, shares=bool(numbers))
    if has_need:
        _memory(cells[1], kept, rows, need, at)
    for i in first:
        cells[0].text(0.0, at[i] - 0.68, rows[i].group, va="bottom", weight="bold")
        for axes in cells:
            axes.axhline(at[i] - 0.68, color=style.GREY, linewidth=0.8)
    cells[0].set_ylim(at[-1] + 0.6, -0.75)
    for axes in cells:
        axes.tick_params(axis="y", length=0, labelleft=False)
    style.legend(made, columns=4)
    return made


def _title(data: xr.Dataset) -> str:
    """Return which plans these are: of a model, on accelerators of a system, at a batch."""
    model, system = (str(data.attrs.get(name, "")) for name in ("model", "system"))
    sizes = np.unique(data.gpus.values) if "gpus" in data else np.ones(0)
    where = f"{style.count(float(sizes[0]))} " if len(sizes) == 1 else ""
    where = f" on {where}{system or 'accelerators'}" if where or system else ""
    batch = choose.run_inputs(data).get("global_batch")
    more = f", batch {style.count(float(batch))}" if batch is not None else ""
    return f"The best plans{f' of {model}' if model else ''}{where}{more}"


def _listed(data: xr.Dataset, along: str, aim: str) -> list[Row]:
    """Return the best plans of each number of accelerators, and one of one's own."""
    values = data[aim].values * (-1.0 if rises(data, aim) else 1.0)
    sizes = np.broadcast_to(data.gpus.values if "gpus" in data else np.zeros(()), values.shape)
    held, names = np.flatnonzero(np.isfinite(values)), _telling(data)
    counts, found = np.unique(sizes[held])[:BEST], []
    for size in counts:
        mine = held[sizes[held] == size]
        group = f"{style.count(float(size))} accelerators" if len(counts) > 1 else ""
        best = mine[np.argsort(values[mine], kind="stable")][: max(1, BEST // len(counts))]
        for number, i in enumerate(best, 1):
            point = data.isel({along: int(i)})
            found.append(Row(f"#{number}  {_plan_name(point, names)}", point, group))
    if len(counts) == 1 and "own_plan" in data:
        fields = {**json.loads(str(data.own_plan.values)), **json.loads(str(data.own_parts.values))}
        needed = float(data["own_device" if "own_device" in data else "own_need"])
        own = {**fields, aim: float(data.own), need_of(data): needed}
        own |= {LOW: np.nan, HIGH: np.nan}  # of the best
        best = found[0].point
        point = best.assign({n: best[n].copy(data=v) for n, v in own.items() if n in best})
        words = f"yours, #{int(data.own_place):,}  {_plan_name(point, names)}"
        found.append(Row(words, point, ""))
    return found


def _points(data: xr.Dataset, aim: str) -> list[Row]:
    """Return the best plan of every point, models apart; not most sizes on which none fits."""
    names, found = _telling(data), []
    dims = choose.ordered_dimensions(data)
    own = [n for n, c in data.coords.items() if c.dims == ("system",) and n != "system"]
    bare = data.drop_vars(own)  # the name of a system says what is its own
    for words, point in choose.panels(bare, dims):
        group = str(point.model.values) if "model" in data.sizes else ""
        said = words.removeprefix(group).removeprefix(", ")
        refused = _refused(point, aim)
        plan = _plan_name(point, names) if np.isfinite(float(point[aim])) else ""
        found.append(Row("  ".join(filter(None, (said, plan, refused))), point, group, refused))
    if not choose.number_dimensions(data):  # machines side by side: the best on top
        groups, sign = [row.group for row in found], -1.0 if rises(data, aim) else 1.0
        found.sort(
            key=lambda r: (groups.index(r.group), bool(r.refused), sign * float(r.point[aim]))
        )
    fits = [not row.refused for row in found]
    start = fits.index(True) if dims == ["gpus"] and any(fits) else 0
    return found[max(0, start - KEPT) :]


def _refused(point: xr.Dataset, aim: str) -> str:
    """Return why a point has no plan, or one that cannot run; nothing where it can."""
    if not np.isfinite(float(point[aim])):
        return choose.refusal_words(point)
    if "feasible" not in point or bool(point.feasible):
        return ""
    need, limit = need_of(point), choose.capacity(point)
    if f"{need}_fits" in point:
        return "not legal" if bool(point[f"{need}_fits"]) else "does not fit"
    full = need and limit is not None and float(point[need]) > float(limit)
    return "does not fit" if full else "not legal"


def _telling(data: xr.Dataset) -> list[str]:
    """Return the fields that name a plan, and those in which the plans, one's own too, differ."""
    fields = split_fields(data, used_fields(data))
    short = telling_fields(data, split_fields(data))
    own = json.loads(str(data.own_plan.values)) if "own_plan" in data else {}
    values = {n: [*data[n].values.ravel(), *([own[n]] if n in own else [])] for n in fields}
    return [n for n in fields if n in short or np.ptp(values[n]) > 0]


def _plan_name(row: xr.Dataset, names: list[str]) -> str:
    """Return a plan in short forms, without what it does not use."""
    shown = [n for n in names if float(row[n]) != float(about(row, n).get("default") or 0.0)]
    return fields_words(row, plan_numbers(row), shown, words_of)


def _finding(rows: list[Row], aim: str) -> str:
    """Return the best of each group with its result, by how much it leads, and its largest part."""
    said: list[str] = []  # with the second best
    short: list[str] = []  # without
    for group in dict.fromkeys(row.group for row in rows):
        held = [r for r in rows if r.group == group and not r.refused and np.isfinite(r.point[aim])]
        head = f"{group.removesuffix(' accelerators') if said else group}: " if group else ""
        if not held:
            said.append(f"{head}nothing fits" if group else "Nothing fits")
            short.append(said[-1])
            continue
        more = rises(held[0].point, aim)
        ordered = sorted(held, key=lambda row: float(row.point[aim]) * (-1.0 if more else 1.0))
        best, value = ordered[0], float(ordered[0].point[aim])
        words = f"{amount(value, unit_of(best.point, aim))}: {best.words.removeprefix('#1  ')}"
        parts = {label_of(best.point, n): float(best.point[n]) for n in parts_of(best.point, aim)}
        if parts and not group:
            most = max(parts, key=lambda name: parts[name])
            words += f", {percent(parts[most] / value)} of it {most}"
        words = f"{head}{words}"
        short.append(words)
        others = [row for row in ordered[1:] if not row.words.startswith("yours")]
        if others and not more:
            name = others[0].words.partition("  ")[0]
            words += f"; {name} takes {_longer(float(others[0].point[aim]) / value)}"
        said.append(words)
    told = ("; ".join(some[:count]) for count in (3, 2) for some in (said, short))
    lines = {words: style.wrapped(words, style.WRAP_BOLD).count("\n") + 1 for words in told}
    return next((words for words in lines if lines[words] <= LINES), short[0])


def _longer(ratio: float) -> str:
    """Return how much longer something takes.

    >>> _longer(1.034), _longer(2.5), _longer(1.0)
    ('3.4 % longer', '2.5 times as long', 'as long')
    """
    if ratio < 1.0 + ALIKE:
        return "as long"
    return f"{percent(ratio - 1.0, 1)} longer" if ratio < DOUBLE else f"{ratio:.3g} times as long"


def _times(axes: Axes, rows: list[Row], aim: str, at: np.ndarray, *, shares: bool) -> None:
    """Draw the parts of every time, or their shares of it, names above and times beside."""
    some = rows[0].point
    whole = np.array([float(row.point[aim]) for row in rows])
    held, unit = np.where(np.isfinite(whole), whole, 0.0), unit_of(some, aim)
    scale, shown = style.human(held, unit)
    best = np.array([_best_of(row.group, rows, whole) for row in rows])
    by = np.where(held > 0, held / 100.0, 1.0) if shares else scale
    parts = {
        words: (np.array([float(row.point[name]) for row in rows]) / by, colour)
        for name, (words, colour) in style.parts(some, aim).items()
    }
    said = [amount(float(f"{v:.4g}"), unit) if np.isfinite(v) else "" for v in whole]
    if not shares and not rises(some, aim) and rows[0].words[:1] != "#":
        said = [
            w + (f" ({v / b:.2f}×)" if v > 1.005 * b else "")
            for w, v, b in zip(said, whole, best, strict=True)
        ]
    fits = [not row.refused for row in rows]
    spread, room = None, 1.45 if any("(" in words for words in said) else 1.32
    if not shares and aim == "step_time" and all(LOW in row.point for row in rows):
        spread = np.array([[float(row.point[end]) for row in rows] for end in (LOW, HIGH)]) / scale
    bars.stacked(
        axes, parts, said, at, inside=True, fits=fits, room=room, thick=THICK, spread=spread
    )
    for text, fit in zip([t for t in axes.texts if t.get_text() in said], fits, strict=False):
        text.set_fontweight("bold" if fit else "normal")
    for place, row in zip(at, rows, strict=True):
        axes.text(0.0, place - 0.28, row.words, va="bottom").set_in_layout(False)
        if row.refused and not np.isfinite(float(row.point[aim])):
            axes.axhspan(place - 0.3, place + 0.3, zorder=0.5, **style.UNFIT)
    if shares:
        axes.set_xticks(range(0, 101, 20))
    name = label_of(some, aim)
    axes.set_xlabel(
        f"share of the {name} [%]" if shares else style.with_unit(name, shown.strip("1"))
    )


def _best_of(group: str, rows: list[Row], whole: np.ndarray) -> float:
    """Return the least of a group's numbers that can run."""
    held = [row.group == group and not row.refused for row in rows]
    return float(np.nanmin(whole[held], initial=np.inf))


def _memory(axes: Axes, data: xr.Dataset, rows: list[Row], need: str, at: np.ndarray) -> None:
    values = np.array([float(row.point[need]) for row in rows])
    limits = [choose.capacity(row.point) for row in rows]
    held = np.array([np.inf if limit is None else float(limit.max()) for limit in limits])
    bars.memory(axes, {"_": (values, style.GREY)}, held, unit_of(data, need), words_of(data, need),
                at, margin_of(data), "there is")  # fmt: skip
