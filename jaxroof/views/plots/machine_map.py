"""Maps over two fields of a machine: what the best plan reaches, or which resource binds."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from jaxroof.analyses.result_metadata import (
    about,
    label_of,
    need_of,
    resources_of,
    rises,
    roles,
    said_of,
    shares,
    telling_fields,
    unit_of,
    words_of,
)
from jaxroof.errors import listing, refusal
from jaxroof.units import amount, percent
from jaxroof.views.plots import labels, style, systems
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.lines import DAYS, shown_result
from jaxroof.views.plots.map_axes import (
    borders,
    frame,
    listed,
    primary,
    rank,
    readable,
    round_ticks,
)
from jaxroof.views.plots.tornado import colours_of, resource_words
from jaxroof.views.real_systems import Place
from jaxroof.views.text.elasticities import of_time
from jaxroof.views.text.interval import tokens_sentence
from jaxroof.views.text.plan import is_usual, split_fields

LEVELS = 20  # of the filled contour
NARROW = 1.03  # ratio of results below which the map says that all are alike
WIDE = 2.0  # ratio of results from which on the levels are in equal ratios
CELLS, ACROSS = 24, 6  # of a map of lists, each of which has its number; in a row of them
ALIKE = 2e-3  # relative difference of results that a reader calls the same
REGION = 0.025  # share of a map that a plan's region must have to be named
LETTERS = 78  # of a line of the legend
NO_PLAN = 2  # the reason that no plan is legal
DOTS = "real systems with these two numbers; the rest of the machine is unchanged"


class Map(NamedTuple):
    """A map: its data, its dimensions across and up, what is drawn, and where nothing is."""

    data: xr.Dataset
    dims: tuple[str, str]
    value: np.ndarray  # [up, across]
    unfit: np.ndarray


@style.drawn
def machine_map(
    data: xr.Dataset,
    value: str | None = None,
    at: Mapping[str, Any] | None = None,
    plans: bool = True,
) -> Figure:
    """Return a filled contour of a result over two machine axes, real systems marked.

    Over a short list of values it is a cell for each.

    ``value`` names the result, days of training or the estimator's headline unless said otherwise.
    ``at`` chooses points of further dimensions ({"gpus": 8192}); one that is left makes panels.
    Where nothing fits is hatched, with the least that it takes. ``plans`` draws where the
    best plan changes.
    Raises: InputError where the data lack the value, or two axes of numbers.
    """
    picture = "machine_map"
    kept = choose.best_plans(choose.pick(data, at, f"{picture}: at"))
    value = value or shown_result(kept)
    choose.check_has(kept, picture, (value,))
    x, y, across = axes_of(kept, picture)
    kept = kept.sortby([primary(kept, dim) for dim in (x, y)])
    held = choose.feasible_values(kept, kept[value])
    least, most = float(held.min()), float(held.max())
    title = choose.title(data, "What a machine's fields buy")
    made, maps = _maps(kept, held, (x, y, across), title, _best(kept, value, (x, y, across)))
    drawn = [d for axes, one in maps if (d := _contour(axes, one, (least, most))) is not None]
    if drawn:
        unit = unit_of(kept, value).strip("1")
        words = style.with_unit(label_of(kept, value), unit)
        if value == DAYS:
            said = tokens_sentence(kept).removeprefix("Days are of a training").rstrip(".")
            words = label_of(kept, value) + said
        if most / least < NARROW:
            words += f"\nall within {percent(most / least - 1.0, 1)}"
        bar = made.colorbar(drawn[0], ax=[axes for axes, _ in maps], label=words, fraction=0.05)
        bar.set_ticks(round_ticks(least, most))
        bar.ax.minorticks_off()
        bar.ax.yaxis.set_major_formatter(lambda number, _: f"{number:,.4g}")
    _finish(made, maps, plans=plans and bool(drawn))
    return made


@style.drawn
def binds(data: xr.Dataset) -> Figure:
    """Return a map of the resource that takes most of the step, the bounds of plans drawn in it.

    ``data`` are elasticities over two axes of a machine; one further dimension makes panels.
    Real systems are marked. Where nothing fits is hatched.
    Raises: InputError for data that are no such grid.
    """
    picture = "binds"
    choose.check_has(data, picture, ("elasticity",), ("parameter",))
    if not of_time(data):
        raise refusal(picture, f"of {data.attrs['of']}; expected elasticities of a time")
    kept = choose.best_plans(data)
    grid, known = kept.drop_dims("parameter"), resources_of(data)
    x, y, across = axes_of(grid, picture)
    if not known.limits:
        raise refusal(picture, "no parameter stands for a resource; expected a machine's rates")
    share = shares(kept.elasticity, known)
    most = (
        share.fillna(-1.0)
        .argmax("limit")
        .where(share.notnull().all("limit"))
        .transpose(*grid.sizes)
    )
    names = [resource_words(words) for words in known.limits.values()]
    title = choose.title(data, "Which resource binds")
    made, maps = _maps(grid, most, (x, y, across), title, choose.finding(data))
    colours = [colours_of(known)[name] for name in known.limits]
    for axes, one in maps:
        edges = [borders(one.data, dim) for dim in one.dims]
        look: dict[str, Any] = {"vmin": -0.5, "vmax": len(colours) - 0.5, "zorder": 1}
        axes.pcolormesh(
            *edges, np.ma.masked_invalid(one.value), cmap=ListedColormap(colours), **look
        )
        axes.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
    there = [i for i in range(len(names)) if (most == i).any()]
    _finish(made, maps, [Patch(color=colours[i], label=names[i]) for i in there])
    return made


def axes_of(data: xr.Dataset, picture: str) -> tuple[str, str, str]:
    """Return the dimensions of the x and the y axis, and the one that makes panels, if any."""
    numbers = [dim for dim in choose.number_dimensions(data) if dim != "gpus"]
    rest = [str(dim) for dim in data.sizes if dim not in numbers]
    if len(numbers) == 1 and "gpus" in rest:
        numbers, rest = [*numbers, "gpus"], [dim for dim in rest if dim != "gpus"]
    if len(numbers) != 2:
        has = f"the data have {choose.dimension_words(data)}"
        raise refusal(
            picture, f"needs two axes of numbers; {has}. Choose with at={{dimension: value}}."
        )
    if len(rest) > 1:
        raise refusal(picture, f"too many dimensions: {', '.join(rest)}; choose with at=.")
    numbers.sort(key=lambda dim: rank(primary(data, dim)))
    return numbers[0], numbers[1], rest[0] if rest else ""


def _maps(
    data: xr.Dataset, value: xr.DataArray, dims: tuple[str, str, str], title: str, found: str
) -> tuple[Figure, list[tuple[Axes, Map]]]:
    """Return a figure of panels with their frames, hatched and named where there is nothing."""
    parts = choose.panels(data.assign(drawn=value), dims[2:] if dims[2] else ())
    made, cells = style.panels(title, found, len(parts), 4.0)
    maps = []
    for axes, (name, part) in zip(cells, parts, strict=True):
        shown = part.drawn.transpose(dims[1], dims[0]).values
        one = Map(part, dims[:2], shown, ~np.isfinite(shown))
        axes.set_title(name)
        frame(axes, part, dims[:2])
        axes.add_patch(style.unfit_ground(axes))
        _grounds(axes, one)
        maps.append((axes, one))
    return made, maps


def _contour(axes: Axes, one: Map, limits: tuple[float, float]) -> Any:
    """Fill one map; return what a colour bar belongs to, None if all is empty."""
    if one.unfit.all() or min(one.value.shape) < 2:
        return None
    least, most = limits
    if most / least < NARROW:  # else a difference of nothing would take all colours
        most = least * (2.0 * NARROW - 1.0)
    space = np.geomspace if most / least > WIDE else np.linspace
    levels = space(least, most, LEVELS + 1)
    shown = np.ma.masked_invalid(one.value)
    look: dict[str, Any] = {"cmap": "viridis_r", "zorder": 1}
    x, y = (readable(one.data, dim)[0] for dim in one.dims)
    if not any(listed(one.data, dim) for dim in one.dims):
        return axes.contourf(x, y, shown, levels=levels, **look)
    if one.value.size <= CELLS and len(x) <= ACROSS:
        for i, j in np.argwhere(~one.unfit):
            said: dict[str, Any] = {"ha": "center", "va": "center", **labels.ON_COLOURS}
            axes.text(x[j], y[i], f"{one.value[i, j]:.4g}", zorder=4, **said)
    edges = [borders(one.data, dim) for dim in one.dims]
    norm = BoundaryNorm(levels, 256)  # a few listed values have nothing between them
    return axes.pcolormesh(*edges, shown, norm=norm, **look)


def _finish(
    made: Figure, maps: Sequence[tuple[Axes, Map]], handles: Sequence[Any] = (), plans: bool = True
) -> None:
    """Draw borders of plans and real systems, name them where there is room, say what all is."""
    every, whole = list(handles), maps[0][1].data
    barred = [_refused(one) for _, one in maps]
    empty = [one.unfit & ~no for (_, one), no in zip(maps, barred, strict=True)]
    for where, look, words in (
        (empty, style.UNFIT, "nothing fits"),
        (barred, style.BARRED, "not allowed"),
    ):
        if any(each.any() for each in where):
            every.append(Patch(label=words, **look))
    marks = [systems.marks(one.data, one.dims) for _, one in maps]
    if any(marks):
        look = {"marker": "o", "color": "white", "mec": "black", "linestyle": "none"}
        every.append(Line2D([], [], label=style.wrapped(DOTS, LETTERS), **look))
    fields = _named(whole) if plans else []
    if any(one.data[name].ndim for _, one in maps for name in fields):
        told = [n for n in fields if _usual(whole, n) is None or not is_usual(whole, n)]
        said = [" ".join(dict.fromkeys((words_of(whole, n), label_of(whole, n)))) for n in told]
        edge: Any = [withStroke(linewidth=3.0, foreground="#777777")]
        words = style.wrapped(
            f"white lines: another plan is best beyond; {', '.join(said)}", LETTERS
        )
        every.append(Line2D([], [], color="white", label=words, path_effects=edge))
    style.legend(made, (), extra=every)
    made.draw_without_rendering()  # names are placed where they are free when all has its size
    for (axes, one), own in zip(maps, marks, strict=True):
        taken = [text.get_window_extent().extents for text in axes.texts]
        _systems(axes, one, own, taken)
        if fields:
            _plans(axes, one, fields, taken)


def _systems(
    axes: Axes, one: Map, marks: Sequence[tuple[Place, str]], taken: list[labels.Box]
) -> None:
    """Mark real systems, and with a star the machine of the data; name them where there is room."""
    scales = [
        float((readable(one.data, dim)[0] / one.data[primary(one.data, dim)].values)[-1])
        for dim in one.dims
    ]
    base = systems.base_place(one.data, one.dims)
    own = [] if base is None else [(base, systems.base_name(one.data), "*", 14, "bold")]
    every = [*own, *((place, words, "o", 7, "normal") for place, words in marks)]
    points = [(place[0] * scales[0], place[1] * scales[1]) for place, *_ in every]
    for (x, y), (_, _, shape, large, _) in zip(points, every, strict=True):
        axes.plot(x, y, shape, color="white", mec="black", ms=large, clip_on=False, zorder=5)
        labels.take(axes, taken, x, y)
    for point, (_, words, _, _, weight) in zip(points, every, strict=True):
        labels.place(axes, taken, words, [point], labels.AROUND, weight=weight, **labels.ON_COLOURS)


def _named(data: xr.Dataset) -> list[str]:
    """Return the plan fields by which a map names its plans; none where the axes give the plan."""
    known = roles(data).get("split", ())
    given = any(name in data.coords and data[name].ndim for name in known)
    return [] if given else telling_fields(data, split_fields(data))


def _usual(data: xr.Dataset, name: str) -> float | None:
    found = about(data, name).get("default")
    return None if found is None else float(found)


def _plans(axes: Axes, one: Map, fields: Sequence[str], taken: list[labels.Box]) -> None:
    """Draw lines where the best plan changes, and name it in regions that have room for it."""
    whole = xr.broadcast(one.data[[*one.dims]], one.data[[*fields]])[1].transpose(*one.dims[::-1])
    degrees = np.stack([whole[name].values.astype(np.int64) for name in fields], axis=-1)
    plans, inverse = np.unique(degrees.reshape(-1, len(fields)), axis=0, return_inverse=True)
    plan = inverse.reshape(degrees.shape[:2])
    x, y = (borders(one.data, dim) for dim in one.dims)
    right, up = (readable(one.data, dim)[0] for dim in one.dims)
    sides = [
        [(x[j + 1], y[i]), (x[j + 1], y[i + 1])] for i, j in np.argwhere(np.diff(plan, axis=1))
    ]
    sides += [
        [(x[j], y[i + 1]), (x[j + 1], y[i + 1])] for i, j in np.argwhere(np.diff(plan, axis=0))
    ]
    look: dict[str, Any] = {"colors": "white", "linewidths": 1.2, "alpha": 0.8, "zorder": 2}
    axes.add_collection(LineCollection(sides, **look), autolim=False)
    for number, own in enumerate(plans):
        mine = plan == number
        if (own < 0).any() or mine.sum() < REGION * plan.size:
            continue

        def inside(box: labels.Box, mine: np.ndarray = mine) -> bool:
            ends = axes.transData.inverted().transform(np.array(box).reshape(2, 2))
            across = (x[1:] > ends[0, 0]) & (x[:-1] < ends[1, 0])
            return bool(mine[np.ix_((y[1:] > ends[0, 1]) & (y[:-1] < ends[1, 1]), across)].all())

        values = dict(zip(fields, own.tolist(), strict=True))
        told = [n for n, v in values.items() if v != _usual(one.data, n)] or fields
        words = " ".join(f"{words_of(one.data, n)} {said_of(one.data, n, values[n])}" for n in told)
        cells = np.argwhere(mine)
        far = np.abs((cells - np.median(cells, axis=0)) / mine.shape).sum(axis=1)
        near = [(right[j], up[i]) for i, j in cells[np.argsort(far, kind="stable")]]
        labels.place(axes, taken, words, near, turns=(0, 90), inside=inside, **labels.ON_COLOURS)


def _verdicts(data: xr.Dataset) -> list[str]:
    """Return the rules that the data have a verdict of, but for memory."""
    own = ("feasible", f"{need_of(data)}_fits")
    each = data.data_vars.items()
    return [str(name) for name, column in each if column.dtype == bool and name not in own]


def _refused(one: Map) -> np.ndarray:
    """Return where no plan is allowed, whatever memory there is."""
    allowed = xr.DataArray(True)
    for name in _verdicts(one.data):
        allowed = allowed & one.data[name].astype(bool)
    refused = one.data.reason == NO_PLAN if "reason" in one.data else ~allowed
    return np.asarray(_over(one, refused) & one.unfit)


def _over(one: Map, verdict: xr.DataArray) -> np.ndarray:
    """Return a verdict over both axes of a map [y, x]."""
    whole = xr.DataArray(np.zeros(one.unfit.shape, bool), dims=one.dims[::-1])
    bare = verdict.drop_vars(list(verdict.coords))
    return np.asarray((bare | whole).transpose(*one.dims[::-1]).values)


def _grounds(axes: Axes, one: Map) -> None:
    """Hatch and name where no plan is allowed, and name where none fits."""
    barred = _refused(one)
    x, y = (borders(one.data, dim) for dim in one.dims)
    for i, j in np.argwhere(barred):
        sides = (x[j + 1] - x[j], y[i + 1] - y[i])
        axes.add_patch(Rectangle((x[j], y[i]), *sides, zorder=0.5, **style.BARRED))
    for where, words in ((barred, _rule), (one.unfit & ~barred, _missing)):
        if where.any():
            _name_ground(axes, (x, y), where, words(one, where))


def _missing(one: Map, unfit: np.ndarray) -> str:
    """Return what the leanest plan would need where nothing fits."""
    name = f"{need_of(one.data)}_least"
    if name not in one.data:
        return "nothing fits"
    needs = float(one.data[name].where(xr.DataArray(unfit, dims=one.dims[::-1])).min())
    at_least = f": needs {choose.amount(needs, unit_of(one.data, name))}"
    return "nothing fits" + (at_least if np.isfinite(needs) else "")


def _rule(one: Map, barred: np.ndarray) -> str:
    """Return which rule forbids every plan, by its numbers or by its sentence."""
    data, sides = one.data, one.dims[::-1]

    def along(where: np.ndarray, dim: str) -> list[str]:
        return [f"{v:,.0f}" for v in data[dim].values[where.any(axis=1 - sides.index(dim))]]

    for name in _verdicts(data):
        broken = _over(one, ~data[name].astype(bool)) & barred
        if not broken.any():
            continue
        head, _, thing = name.partition("_divides_")
        of = choose.field(data, thing) if thing else None
        if head in one.dims and of is not None and not of.ndim:
            held = along(broken, head)
            does = "does" if len(held) == 1 else "do"
            return f"not allowed: {listing(held)} {does} not divide {float(of):,.0f} {thing}"
        rule = str(data[name].attrs.get("long_name", name.replace("_", " ")))
        return f'not allowed: breaks the rule\n"{rule}"'
    if "gpus" in one.dims:
        return f"not allowed: no plan divides {listing(along(barred, 'gpus'))} accelerators"
    return "not allowed: no legal plan"


def _name_ground(
    axes: Axes, edges: tuple[np.ndarray, np.ndarray], where: np.ndarray, words: str
) -> None:
    """Write words in the middle of a hatched part, upright where it is narrow."""
    cells = np.argwhere(where)
    row, column = cells[np.abs(cells - cells.mean(axis=0)).sum(axis=1).argmin()].tolist()
    across, up = _run(where[row], column), _run(where[:, column], row)
    ends = np.transpose([edges[0][list(across)], edges[1][list(up)]])
    (left, low), (right, high) = axes.transAxes.inverted().transform(axes.transData.transform(ends))
    wide, tall = (right - left) * axes.bbox.width, (high - low) * axes.bbox.height
    turned = 90 if wide < labels.wide(words) and tall > wide else 0
    middle = float(np.clip((left + right) / 2, 0.03, 0.97)), float((low + high) / 2)
    style.note(axes, *middle, words, rotation=turned, transform=axes.transAxes)


def _run(where: np.ndarray, place: int) -> tuple[int, int]:
    """Return where the cells around one that are all so begin and end.

    >>> _run(np.array([True, False, True, True]), 2)
    (2, 4)
    """
    outside = np.flatnonzero(~where)
    start = int(max(outside[outside < place], default=-1)) + 1
    return start, int(min(outside[outside > place], default=len(where)))


def _best(data: xr.Dataset, value: str, dims: tuple[str, str, str]) -> str:
    """Return the best of a map, where it begins, and how far the machine of the run is from it."""
    held = choose.feasible_values(data, data[value])
    if not np.isfinite(held.values).any():
        one = Map(
            data, dims[:2], held.values, ~np.isfinite(held.transpose(..., *dims[1::-1]).values)
        )
        barred = held.ndim == 2 and bool(_refused(one).all())
        return "No plan is allowed anywhere" if barred else "Nothing fits anywhere"
    more, unit = rises(data, value), unit_of(data, value)
    best = float(held.max() if more else held.min())
    near = np.argwhere(np.isfinite(held.values) & (abs(held.values / best - 1.0) < ALIKE))
    first = dict(zip(held.dims, near[near.sum(axis=1).argmin()].tolist(), strict=True))
    words = [choose.coordinate_words(data, [primary(data, d)], first[d]) for d in dims[:2]]
    words += [choose.label(data, dims[2], first[dims[2]])] if dims[2] else []
    beyond = held.isel({dim: slice(first[dim], None) for dim in dims[:2]})
    more_too = beyond.size > 1 and bool((abs(beyond / best - 1.0) < ALIKE).all())
    found = f"Best: {amount(best, unit)} with {listing(words)}{', or more' if more_too else ''}"
    base = systems.base_place(data, dims[:2])
    there = (
        None if base is None else held.sel(dict(zip(dims, base, strict=False)), method="nearest")
    )
    if there is None or there.ndim or not np.isfinite(float(there)):
        return found
    gap, name = abs(float(there) / best - 1.0), systems.base_name(data)
    if gap < ALIKE:
        return f"{found}; {name} is as good"
    way, does = ("less", "reaches") if more else ("more", "takes")
    return f"{found}; {name} {does} {amount(float(there), unit)}, {percent(gap, 1)} {way}"
