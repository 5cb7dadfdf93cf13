"""A map over two fields of a machine: which resource binds where, and which plan is best."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jaxroof.analyses.result_metadata import resources_of, shares
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.machine_map import axes_of, frame, mark_systems
from jaxroof.views.plots.map_axes import borders
from jaxroof.views.plots.map_grounds import LETTERS
from jaxroof.views.plots.map_regions import border_words, plan_borders
from jaxroof.views.plots.systems import Mark, base_name, base_place, marks, notes
from jaxroof.views.plots.tornado import colours_of, resource_words
from jaxroof.views.text.elasticities import of_time

PICTURE = "binds"


@style.drawn
def binds(data: xr.Dataset) -> Figure:
    """Return a map of the resource that takes most of the step, the bounds of plans drawn in it.

    ``data`` are elasticities over two axes of a machine; one further dimension makes panels.
    Real systems are marked. Where nothing fits is hatched.
    Raises: InputError for data that are no such grid.
    """
    choose.check_has(data, PICTURE, ("elasticity",), ("parameter",))
    if not of_time(data):
        raise refusal(PICTURE, f"of {data.attrs['of']}; expected elasticities of a time")
    kept = choose.best_plans(data)
    grid = kept.drop_dims("parameter")
    x, y, across = axes_of(grid, PICTURE)
    known = resources_of(data)
    if not known.limits:
        raise refusal(PICTURE, "no parameter stands for a resource; expected a machine's rates")
    colours, share = colours_of(known), shares(kept.elasticity, known)
    binding = share.fillna(-1.0).argmax("limit").where(share.notnull().all("limit"), -1)
    parts = choose.panels(grid.assign(binding=binding), (across,) if across else ())
    columns = min(2, len(parts))
    rows = -(-len(parts) // columns)
    finding = _finding(binding, known.limits, _at_base(grid, binding, (x, y)))
    made = style.figure(choose.title(data, "Which resource binds"), finding, 1.2 + 4.2 * rows)
    cells = made.subplots(rows, columns, squeeze=False).ravel()
    told: list[list[Mark]] = []
    for axes, (name, part) in zip(cells, parts, strict=False):
        axes.set_title(name)
        _map(axes, part, (x, y), [colours[name] for name in known.limits])
        told.append(marks(part, x, y))
    for spare in cells[len(parts) :]:
        spare.remove()
    there = [name for i, name in enumerate(known.limits) if (binding == i).any()]
    handles = [
        Patch(color=colours[name], label=resource_words(known.limits[name])) for name in there
    ]
    stars = notes([mark for own in told for mark in own])
    lines = ["colour: what takes most of the step", border_words(grid), *stars]
    title = "\n".join(style.wrapped(line, LETTERS) for line in lines if line)
    made.legend(handles=handles, loc="outside lower center", ncols=len(there), title=title)
    made.draw_without_rendering()  # names are placed where they are free when all has its size
    for axes, (_, part), own in zip(cells, parts, told, strict=False):
        plan_borders(axes, part, (x, y), mark_systems(axes, part, (x, y), own))
    return made


def _at_base(data: xr.Dataset, binding: xr.DataArray, dims: tuple[str, str]) -> tuple[str, int]:
    """Return the base machine's name and which resource binds there; -1 off the map."""
    base = base_place(data, dims)
    if base is None:
        return "", -1
    there = binding.sel(dict(zip(dims, base, strict=True)), method="nearest")
    return base_name(data), int(there) if there.ndim == 0 else -1


def _finding(binding: xr.DataArray, limits: Mapping[str, str], base: tuple[str, int]) -> str:
    """Return over how much of the map each resource takes most of the step, and on the base."""
    fits = int((binding >= 0).sum())
    found = {words: int((binding == i).sum()) for i, words in enumerate(limits.values())}
    ordered = sorted(found, key=lambda words: -found[words])
    if not fits:
        return "Nothing fits anywhere"
    first, *others = [w for w in ordered if found[w]]
    share = {w: percent(found[w] / fits, 1) for w in found}
    told = {w: f"on {share[w]}" for w in found}
    told[first] += " of the map"
    if base[1] >= 0:
        told[[*limits.values()][base[1]]] += f", the {base[0]} included"
    parts = [f"{resource_words(w)} {told[w]}" for w in [first, *others]]
    said = "; ".join([parts[0].replace(" on ", " takes most of the step on ", 1), *parts[1:]])
    return said[:1].upper() + said[1:]


def _map(axes: Axes, part: xr.Dataset, dims: tuple[str, str], shown: list[str]) -> None:
    """Colour one map."""
    held = part.binding.transpose(dims[1], dims[0]).values
    frame(axes, part, held < 0, dims)
    x, y = borders(part, dims[0]), borders(part, dims[1])
    axes.pcolormesh(
        x,
        y,
        np.ma.masked_less(held, 0),
        cmap=ListedColormap(shown),
        vmin=-0.5,
        vmax=len(shown) - 0.5,
        zorder=1,
    )
    axes.set(xlim=x[[0, -1]], ylim=y[[0, -1]])
