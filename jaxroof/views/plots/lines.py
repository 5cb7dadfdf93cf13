"""A result along an axis of numbers: a line a machine or another choice, panels of the rest."""

import textwrap

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter

from jaxroof.analyses.result_metadata import headlines, label_of, rises, unit_of
from jaxroof.errors import refusal
from jaxroof.units import amount, percent
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.map_axes import counted, primary, readable

PICTURE = "lines"
DAYS = "training_days"  # rather than the time of a step, where both are there
PANELS, LINES, MARKED = 6, 12, 24  # panels, lines of one, points up to which each is marked
ROOM = 2.0  # how far below the first size that fits the axis begins
FAR = 1e5  # ratio of the ends of an axis from which on it has powers of ten
TIMES = ("s", "day")  # units of results of which less is better
WIDE = 8.0  # ratio of values from which on an axis is logarithmic
Line = tuple[str, np.ndarray]  # its name, its values (NaN: nothing fits)
Panel = tuple[str, list[Line]]


def shown_result(data: xr.Dataset) -> str:
    """Return the result that is drawn: days of training, or what is printed before others."""
    return DAYS if DAYS in data else next(iter(headlines(data)), "")


@style.drawn
def lines(data: xr.Dataset, value: str | None = None) -> Figure:
    """Return a result along an axis of numbers, by default cluster sizes.

    Systems, or the last dimension that is left, make lines, the others panels. ``value`` names the
    result, days of training or the estimator's headline unless said otherwise. Times over sizes
    have a dashed line of perfect scaling; where nothing fits is hatched.
    Raises: InputError where the data lack the result or an axis, or have more lines than are read.
    """
    kept = choose.best_plans(data)
    value = value or shown_result(kept)
    choose.check_has(kept, PICTURE, (value,))
    numbers = choose.number_dimensions(kept)
    if not numbers:
        has = f"the data have {choose.dimension_words(data)}"
        raise refusal(PICTURE, f"needs an axis of numbers, such as 'gpus'; {has}.")
    along = "gpus" if "gpus" in numbers else max(numbers, key=lambda dim: kept.sizes[dim])
    rest = [dim for dim in choose.ordered_dimensions(kept) if dim != along]
    across = "system" if "system" in rest else rest[-1] if rest else ""
    parts = choose.panels(kept, [dim for dim in rest if dim != across])
    if len(parts) > PANELS or kept.sizes.get(across, 0) > LINES:
        choose.check_dimensions(kept, PICTURE, (along, across))
        raise refusal(PICTURE, f"shows {LINES} lines at most; choose with --at {across}=...")
    each = [(name, _lines(part, value, along, across)) for name, part in parts]
    head = f"{label_of(kept, value)} along {choose.axis_words(kept, along)}"
    title = choose.title(data, head[:1].upper() + head[1:])
    found = _finding(kept, value, along, each)
    made, cells = style.panels(title, found, len(parts), 3.6, sharey=True)
    ideal = along == "gpus" and not rises(kept, value) and unit_of(kept, value) in TIMES
    for axes, (name, drawn) in zip(cells, each, strict=True):
        _panel(axes, kept, along, drawn, ideal, across == "system" and len(drawn) > 2)
        axes.set_title(textwrap.fill(name, 48))
    _values(cells, kept, value, each)
    extra = [Line2D([], [], color=style.GREY, dashes=(6, 3), label="perfect scaling of the first")]
    style.legend(made, cells, extra=extra if ideal and across else ())
    return made


def _lines(part: xr.Dataset, value: str, along: str, across: str) -> list[Line]:
    values = choose.feasible_values(part, part[value]).sortby(primary(part, along))
    if not across:
        return [("", values.values)]
    names = [choose.label(part, across, i) for i in range(part.sizes[across])]
    return [(name, values.isel({across: i}).values) for i, name in enumerate(names)]


def _panel(
    axes: Axes, data: xr.Dataset, along: str, drawn: list[Line], ideal: bool, families: bool
) -> None:
    """Draw the lines of one panel, hatch where none fits."""
    unordered, label = readable(data, along)
    raw = data[primary(data, along)]
    if raw.values.max() > FAR * raw.values.min() > 0:  # no prefix fits both ends
        unit = str(raw.attrs.get("units", "1")).strip("1")
        unordered, label = raw.values, style.with_unit(words_of(str(raw.name)), unit)
    x = np.sort(unordered).astype(np.float64)
    fits = np.isfinite([values for _, values in drawn]).any(axis=0)
    if not fits.any():
        style.nothing(axes, "nothing fits at any size" if along == "gpus" else "nothing fits")
        return
    start = float(x[fits.argmax()])
    shown = x[x >= start / ROOM] if along == "gpus" else x
    kept, names = np.isin(x, shown), [name for name, _ in drawn]
    for name, values in drawn:
        look = style.line_style(names, name, families=families)
        look |= {} if len(x) <= MARKED else {"marker": ""}
        axes.plot(x[kept], values[kept], label=name or "_", zorder=3, **look)
    if ideal:
        first = next(values for _, values in drawn if np.isfinite(values).any())
        at = int(np.isfinite(first).argmax())
        perfect = first[at] * x[at] / x[at:]
        axes.plot(x[at:], perfect, color=style.GREY, linewidth=1.1, dashes=(6, 3), zorder=1)
    if along == "gpus":
        style.sizes_axis(axes, shown, 8)
    elif counted(data, along) and x[-1] > WIDE * x[0] > 0:
        style.powers_of_two(axes.xaxis, x[0], x[-1], 8)
    elif x[-1] > WIDE * x[0] > 0:
        axes.set_xscale("log")
    axes.set_xlabel("accelerators" if along == "gpus" else label)
    if along == "gpus" and shown[0] < start:
        style.band(axes, axes.get_xlim()[0], start / 2**0.5, f"nothing fits below {start:,.0f}")
    never = [name for name, values in drawn if not np.isfinite(values).any()]
    if never:
        words = textwrap.fill(f"does not fit: {', '.join(never)}", 40)
        style.note(axes, 0.5, 0.02, words, va="bottom", transform=axes.transAxes)
    style.grid(axes)


def _values(cells: list[Axes], data: xr.Dataset, value: str, each: list[Panel]) -> None:
    """Set the axis of the values, alike in all panels."""
    every = np.concatenate([values for _, drawn in each for _, values in drawn])
    held, unit = every[np.isfinite(every)], unit_of(data, value)
    words = style.with_unit(label_of(data, value), unit.strip("1"))
    for axes in cells:
        axes.label_outer()
        axes.tick_params(axis="x", labelbottom=True)
    for axes in cells[::2]:
        axes.set_ylabel(textwrap.fill(words, 32))
    if not len(held):
        return
    axis = cells[0].yaxis
    if _is_share(data, value):
        cells[0].set_ylim(0.0, 1.06 * held.max())
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    elif held.min() > 0 and held.max() > WIDE * held.min():
        style.few_of_a_decade(axis)
    else:
        cells[0].set_ylim(0.0, 1.06 * held.max())
        axis.set_major_formatter(FuncFormatter(style.count))


def _finding(data: xr.Dataset, value: str, along: str, each: list[Panel]) -> str:
    """Return the best value at the last point, and how far the worst line is from it there."""
    order, sign = np.argsort(data[primary(data, along)].values), -1.0 if rises(data, value) else 1.0
    drawn = {
        ", ".join(filter(None, (name, panel))): values
        for panel, some in each
        for name, values in some
    }
    fits = np.isfinite([*drawn.values()]).any(axis=0)
    if not fits.any():
        return "Nothing fits at any size" if along == "gpus" else "Nothing fits"
    at = int(np.flatnonzero(fits)[-1])
    last = {name: float(values[at]) for name, values in drawn.items() if np.isfinite(values[at])}
    best, worst = (end(last, key=lambda name: sign * last[name]) for end in (min, max))
    amounts = {name: _amount(data, value, last[name]) for name in (best, worst)}
    where = choose.label(data, along, int(order[at]))
    said = f"{amounts[best]} with {where}{f': {best}' if best else ''}"
    if amounts[worst] != amounts[best]:
        time = unit_of(data, value) in TIMES
        ratio = f", {last[worst] / last[best]:.3g} times as long" if time else ""
        said += f"; {worst} {'takes' if time else 'has'} {amounts[worst]}{ratio}"
    return said[:1].upper() + said[1:]


def _amount(data: xr.Dataset, value: str, number: float) -> str:
    return percent(number) if _is_share(data, value) else amount(number, unit_of(data, value))


def _is_share(data: xr.Dataset, value: str) -> bool:
    """Return whether a result is a share of the most that there can be."""
    one = unit_of(data, value) == "1" and rises(data, value)
    return one and float(data[value].max()) < 1.0 + 1e-6
