"""How much faster one choice is than another over cluster sizes."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxroof.errors import refusal, unknown
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.line_ends import end_labels

MOST = 5  # lines of a panel
USUAL = "1d"  # the base, where the data have it


@style.drawn
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
    shown = _shown(ratio, lines)
    if lines and len(shown) < ratio.sizes[lines]:
        title += f" ({len(shown)} of {ratio.sizes[lines]} systems)"
    made = style.figure(title, _finding(ratio, over, base), 1.4 + 3.6 * len(rows))
    cells = made.subplots(len(rows), len(others), squeeze=False, sharey="row")
    for row, (words, part) in zip(cells, rows, strict=True):
        for axes, name in zip(row, (names[i] for i in others), strict=True):
            _panel(axes, part.ratio.sel({over: name}), lines, shown)
            axes.set_title(", ".join(filter(None, (words, name))))
        _frame(row, base)
    return made


def _finding(ratio: xr.DataArray, over: str, base: str) -> str:
    """Return the largest and the least speed-up, and where they are."""
    values = ratio.values
    if not np.isfinite(values).any():
        return f"{base} and another fit together nowhere"

    def where(place: int) -> str:
        at = dict(zip(ratio.dims, np.unravel_index(place, ratio.shape), strict=True))
        point = ratio.isel(at)
        size = f"{float(point.gpus):,.0f} accelerators"
        names = [str(point[d].values) for d in ratio.dims if d not in ("gpus", over)]
        return f"{', '.join([*names, size])}"

    most, least = int(np.nanargmax(values)), int(np.nanargmin(values))
    other, axis = ratio[over].values.astype(str), ratio.dims.index(over)
    best, worst = (other[np.unravel_index(i, ratio.shape)[axis]] for i in (most, least))
    high, low = float(values.flat[most]), float(values.flat[least])
    gain = f"At most, {best} is {percent(high - 1.0)} faster than {base} ({where(most)})"
    slower = "slower" if low < 1.0 else "faster"
    return f"{gain}; at least, {worst} is {percent(abs(low - 1.0), 1)} {slower} ({where(least)})"


def _shown(ratio: xr.DataArray, lines: str) -> list[str]:
    """Return the lines to draw: where there are many, some from the greatest to the least gain."""
    if not lines:
        return []
    names = ratio[lines].values.astype(str)
    if len(names) <= MOST:
        return list(names.tolist())
    gain = ratio.mean([d for d in ratio.dims if d != lines]).fillna(0.0).values
    order = np.argsort(gain)[np.linspace(0, len(names) - 1, MOST).round().astype(int)]
    return [str(names[i]) for i in sorted(order)]


def _panel(axes: Axes, ratio: xr.DataArray, lines: str, shown: Sequence[str]) -> None:
    """Draw the lines of one panel, each named at its end."""
    ends = []
    for name in shown or [""]:
        values = (ratio.sel({lines: name}) if lines else ratio).values
        held = np.flatnonzero(np.isfinite(values))
        if len(held):
            look = style.line_style(shown, name) if name else {"color": style.BLUE, "marker": "o"}
            axes.plot(ratio.gpus.values, values, label=name or None, **look)
            ends.append((float(ratio.gpus[held[-1]]), float(values[held[-1]]), name, look["color"]))
    if lines:
        end_labels(axes, ends)


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
        style.sizes_axis(axes, sizes, 10 // len(row))
        style.grid(axes)
    row[0].set_ylabel(f"step time of {base}\nover that of the other")
