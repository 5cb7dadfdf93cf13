"""How much faster one choice is than another over cluster sizes."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from jaxroof.errors import refusal, unknown
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

USUAL = "1d"  # the base, where the data have it


def speedup(data: xr.Dataset, over: str = "split", base: str | None = None) -> Figure:
    """Return step times of one choice over those of the others, against cluster sizes.

    A panel for each other member of the dimension ``over`` (a row for each model), a line for each
    system, a point where both fit. Above 1 the other is faster. Unless it is given, ``base`` is
    1d where the data have it, else the first member.
    Raises: InputError where the data lack sizes or the dimension, or it lacks ``base``.
    """
    picture = "speedup"
    kept = data.isel(rank=0, drop=True) if "rank" in data.sizes else data
    choose.check_has(kept, picture, ("step_time",), ("gpus", over))
    names = kept[over].values.astype(str).tolist() if over in kept.coords else []
    if base is None:
        base = names[0] if names and USUAL not in names else USUAL
    if base not in names:
        raise unknown(f"{picture}: base", base, f"{over} in the data", names)
    others = [i for i, name in enumerate(names) if name != base]
    if not others:
        raise refusal(picture, f"needs a second {over} to compare with {base!r}.")
    time = choose.feasible_values(kept, kept.step_time)
    ratio = (time.isel({over: names.index(base)}, drop=True) / time.isel({over: others})).squeeze()
    ratio = ratio.expand_dims([d for d in ("gpus", over) if d not in ratio.dims])
    choose.check_dimensions(
        ratio.to_dataset(name="ratio"), picture, ("gpus", over, *choose.named_dimensions(kept))
    )
    lines = "system" if over != "system" and "system" in ratio.dims else ""
    rows = choose.panels(
        ratio.to_dataset(name="ratio"),
        [str(d) for d in ratio.dims if d not in ("gpus", over, lines)],
    )
    title = choose.title(data, f"Speed-up over {base}")
    made = style.figure(title, 1.0 + 4.8 * len(rows))
    cells = made.subplots(len(rows), len(others), squeeze=False, sharey="row")
    entries: dict[str, Line2D] = {}
    for row, (words, part) in zip(cells, rows, strict=True):
        for axes, name in zip(row, (names[i] for i in others), strict=True):
            entries |= _panel(axes, part.ratio.sel({over: name}), part, lines)
            axes.set_title(", ".join(filter(None, (words, name))), fontsize=10)
        _frame(row, base)
    if lines and entries:
        entries = style.ordered(entries, kept[lines].values.astype(str).tolist())
        made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=5)
    return made


def _panel(axes: Axes, ratio: xr.DataArray, part: xr.Dataset, lines: str) -> dict[str, Line2D]:
    names = part[lines].values.astype(str).tolist() if lines else [""]
    drawn: dict[str, Line2D] = {}
    for i, name in enumerate(names):
        values = (ratio.isel({lines: i}) if lines else ratio).values
        if np.isfinite(values).any():
            look = style.line_style(names, name)
            drawn[name] = axes.plot(part.gpus.values, values, label=name or None, **look)[0]
    return drawn


def _frame(row: Sequence[Axes], base: str) -> None:
    """Give the panels of a row one x axis, from the first size at which anything is compared."""
    points = [np.asarray(line.get_data()) for axes in row for line in axes.lines]
    held = [xy[0][np.isfinite(xy[1])] for xy in points]
    sizes = np.concatenate(held) if held else np.array([])
    for axes in row:
        if not axes.lines:
            style.nothing(axes, f"{base} and this fit together nowhere")
            continue
        axes.axhline(1.0, color="black", linewidth=0.9, zorder=1)
        style.sizes_axis(axes, sizes, 14 // len(row) + 1)
        style.grid(axes)
    row[0].set_ylabel(f"step time of {base} over that of the other")
