"""Named systems, splits and models side by side, as bars of their step time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.analyses.result_metadata import headlines, label_of, objective_of, unit_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.text.tables import amount

EDGE = 0.9  # bars, from the middle of the first to the frame: its words are wider than it
SEEN = 3e-3  # of the longest bar: what is narrower is not in the legend
LETTERS = 84  # of all names below the bars in one line
MANY = 12  # bars, from which on their numbers stand upright


@style.drawn
def comparison(data: xr.Dataset) -> Figure:
    """Return the step times of named systems, splits and models as bars of their time parts.

    Above each bar stands its time, and how many times as long it takes as the fastest of its
    model; where nothing fits, the reason.
    Raises: InputError where the data vary over anything else, or lack time parts.
    """
    picture = "comparison"
    each = [n for n, c in data.coords.items() if c.dims == ("system",) and n != "system"]
    kept = choose.best_plans(data.drop_vars(each))  # the name of a system says what is its own
    choose.check_has(kept, picture, (headlines(kept) or [objective_of(kept)])[:1])
    choose.check_dimensions(kept, picture, choose.named_dimensions(kept))
    parts = choose.panels(kept, ("model",))
    title = choose.title(data, "Step times side by side")
    made = style.figure(title, _finding(parts), 1.2 + 3.6 * len(parts))
    cells = made.subplots(len(parts), 1, squeeze=False).ravel()
    for axes, (name, part) in zip(cells, parts, strict=True):
        _compare(axes, part)
        axes.set_title(name, pad=20 if "system" in part.sizes else 6)
    handles, words = cells[0].get_legend_handles_labels()
    made.legend(handles, words, loc="outside lower center", ncols=3)
    return made


def _finding(parts: Sequence[tuple[str, xr.Dataset]]) -> str:
    """Return which is the fastest of each model, and by how much it leads the next."""
    said = []
    for model, part in parts:
        aim = headlines(part)[0]
        held = choose.panels(part, [d for d in choose.named_dimensions(part) if d != "model"])
        times = sorted((float(row[aim]), words) for words, row in held if np.isfinite(row[aim]))
        if not times:
            said.append(f"{model}: nothing fits".removeprefix(": "))
            continue
        (best, name), *others = times
        lead = f"; {others[0][0] / best:.3g} times as fast as {others[0][1]}" if others else ""
        time = amount(best, unit_of(part, aim))
        of = f"{model}: " if model else ""
        said.append(f"{of}fastest: {name}, {time}{lead}" if name else f"{of}{time}")
    found = "; ".join(said)
    return found[:1].upper() + found[1:]


def _compare(axes: Axes, part: xr.Dataset) -> None:
    groups = choose.panels(part, ("system",))
    within = [dim for dim in choose.named_dimensions(part) if dim not in ("model", "system")]
    rows = [
        (place, words, group, row)
        for place, (group, held) in enumerate(groups)
        for words, row in choose.panels(held, within)
    ]
    centres = [i + 0.6 * place for i, (place, _, _, _) in enumerate(rows)]
    aim = headlines(part)[0]
    times = np.array([float(row[aim]) for _, _, _, row in rows])
    fastest = float(np.nanmin(times, initial=np.inf))
    top = float(np.nanmax(times, initial=0.0)) or 1.0
    start = np.zeros(len(rows))
    for name, (words, colour) in style.parts(part, aim).items():
        values = np.array([float(row[name]) for _, _, _, row in rows])
        seen = np.nanmax(values, initial=0.0) > SEEN * top
        label = words if seen else "_"
        axes.bar(centres, values, 0.8, bottom=start, color=colour, label=label)
        start = start + np.where(np.isfinite(values), values, 0.0)
    small: dict[str, Any] = {
        "ha": "center",
        "rotation": 0 if len(rows) <= MANY else 90,
    }
    for x, time, (_, _, _, row) in zip(centres, times, rows, strict=True):
        if np.isfinite(time):
            words = amount(time, unit_of(part, aim))
            words += f"\n{time / fastest:.2f}× as long" if time > fastest else ""
            axes.text(x, time + 0.01 * top, words, va="bottom", **small)
            continue
        style.band(axes, x - 0.4, x + 0.4)
        style.note(axes, x, 0.5 * top, choose.refusal_words(row), rotation=90)
    axes.set(
        ylim=(0, (1.3 if len(rows) <= MANY else 1.45) * top),
        ylabel=style.with_unit(label_of(part, aim), unit_of(part, aim)),
        xlim=(-EDGE, centres[-1] + EDGE),
    )
    plain = not within
    names = [group if plain else words for _, words, group, _ in rows]
    turned = 0 if len(rows) <= 5 else 60
    told = [name if turned else style.wrapped(name, max(8, LETTERS // len(rows))) for name in names]
    axes.set_xticks(centres, told, rotation=turned, ha="right" if turned else "center")
    style.grid(axes, "y")
    if not plain and "system" in part.sizes:
        _headings(axes, [(centres[i], rows[i][2]) for i in range(len(rows))])


def _headings(axes: Axes, members: Sequence[tuple[float, str]]) -> None:
    """Write the name of each group above its bars."""
    for name in dict.fromkeys(name for _, name in members):
        middle = float(np.mean([x for x, own in members if own == name]))
        where = axes.get_xaxis_transform()
        axes.text(middle, 1.01, name, ha="center", va="bottom", transform=where)
