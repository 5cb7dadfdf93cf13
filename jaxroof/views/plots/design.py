"""A machine that a budget should buy, beside the base: its fields, its money and its slopes."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from jaxroof.errors import listing
from jaxroof.units import amount, percent, show
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.design import SAME, bound_kinds, dollars, leaf, result_of

PICTURE = "design"
BASE, BEST = style.GREY, style.BLUE
WORDS = {"least": "at its least", "most": "at its most", "need": "as the plan needs", "inside": ""}
HALF = 0.36  # height of one of two bars


@style.drawn
def design(data: xr.Dataset) -> Figure:
    """Return what the best machine has and costs against the base, and what a dollar saves in each.

    Raises: InputError for data that are not those of a design.
    """
    needed = ("value", "spent", "saved_per_dollar", "budget_value", "held")
    choose.check_has(data, PICTURE, needed, ("field", "machine"))
    (before, after), unit = result_of(data)
    head = choose.title(data, "The machine that a budget should buy")
    finding = _finding(data, float(before), float(after), unit)
    made = style.figure(head, finding, 1.7 + 0.62 * data.sizes["field"])
    left, middle, right = made.subplots(1, 3, sharey=True, width_ratios=(2.2, 1, 1))
    _values(left, data)
    _money(middle, data)
    _saved(right, data)
    handles, labels = middle.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=3)
    return made


def _finding(data: xr.Dataset, before: float, after: float, unit: str) -> str:
    """Return what the best machine reaches against the base, and what it has more and less of."""
    if not np.isfinite(before):
        return f"{amount(after, unit)}, where no plan fits on the base"
    ratio = data.value.values[1] / data.value.values[0]
    names = [words_of(leaf(str(path))) for path in data.field.values]
    more = [name for name, r in zip(names, ratio, strict=True) if r > 1.0 + SAME]
    less = [name for name, r in zip(names, ratio, strict=True) if r < 1.0 - SAME]
    buys = f": more {listing(more)}" if more else ""
    gives = f", less {listing(less)}" if less else ""
    now, was = amount(after, unit), amount(before, unit)
    base, best = (float(cost) for cost in data.cost.values)
    if abs(best / base - 1.0) > SAME:  # a machine of another price is no like for like
        now, was = f"{now} for {dollars(best)}", f"{was} for {dollars(base)}"
    change = f"{now} instead of {was} ({percent(after / before - 1.0, 0)})"
    return f"{change}{buys}{gives}"


def _values(axes: Axes, data: xr.Dataset) -> None:
    """Draw each field of the best machine over that of the base, in doublings."""
    ratio = data.value.values[1] / data.value.values[0]
    places = np.arange(len(ratio))
    axes.barh(places, np.log2(ratio), color=BEST, height=0.62)
    axes.axvline(0.0, color=style.BLACK, linewidth=1.0)
    for place, how in enumerate(bound_kinds(data)):
        unit = str(data.field_units.values[place])
        was, now = (show(float(f"{v:.3g}"), unit) for v in data.value.values[:, place])
        if was.rpartition(" ")[2] == now.rpartition(" ")[2]:
            was = was.rpartition(" ")[0]
        words = f"{was} to {now}" + (f"\n{WORDS[how]}" if WORDS[how] else "")
        end = max(0.0, float(np.log2(ratio[place])))
        axes.annotate(words, (end, place), (4, 0), textcoords="offset points", va="center")
    least, most = (float(end(np.log2(ratio), initial=0.0)) for end in (np.min, np.max))
    room = max(1.0, most - least)  # the words need as much again
    axes.set_xlim(least - 0.1 * room, most + 1.9 * room)
    axes.set_xticks(np.arange(np.ceil(least - 0.5), np.floor(most + 0.5) + 1.0))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{2.0**x:.3g}"))
    axes.set_yticks(
        places, [words_of(leaf(str(path))).replace(" ", "\n", 1) for path in data.field.values]
    )
    axes.invert_yaxis()
    axes.set_xlabel("times the base machine's")
    style.grid(axes, "x")


def _money(axes: Axes, data: xr.Dataset) -> None:
    for number, (name, colour) in enumerate((("base machine", BASE), ("best machine", BEST))):
        places = np.arange(data.sizes["field"]) + (number - 0.5) * HALF
        axes.barh(places, data.spent.values[number], HALF, color=colour, label=name)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    sums = [dollars(float(cost)) for cost in data.cost.values]
    axes.set_title((sums[0] if sums[0] == sums[1] else " to ".join(sums)).replace("$", r"\$"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e3:g}"))
    axes.set_xlabel(r"cost [1,000 \$]")
    style.grid(axes, "x")


def _saved(axes: Axes, data: xr.Dataset) -> None:
    """Draw what $1,000 more saves in each field, and in the whole budget."""
    unit = result_of(data)[1]
    for number, colour in enumerate((BASE, BEST)):
        places = np.arange(data.sizes["field"]) + (number - 0.5) * HALF
        saved = 1e3 * data.saved_per_dollar.values[number]
        axes.barh(places, saved, HALF, color=colour)
        for place, amount_saved in zip(places, saved, strict=True):
            if not amount_saved > 0.0:
                style.note(axes, 0.0, float(place), "nothing", ha="left", color=colour)
        axes.xaxis.set_major_locator(MaxNLocator(3))
    if bool(data.budget_active) and data.attrs["times_cost"] == "false":
        worth = 1e3 * float(data.budget_value)
        axes.axvline(worth, color=style.VERMILION, linewidth=1.4, linestyle="--")
        axes.set_title("dashed: all of it")
    axes.set_xlabel(f"{'days' if unit == 'day' else unit} saved by\n" + r"\$1,000 more")
    style.grid(axes, "x")
