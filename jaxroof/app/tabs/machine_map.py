"""A map over two fields of the question: the best plan at each point, and real machines on it."""

import json
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.app.fields import DOMAINS, MAPPED, SIZES, SPAN, words_of
from jaxroof.app.plans import name_of
from jaxroof.app.question import Asked, numbers
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, unknown
from jaxroof.views.real_systems import NEAR, apart, family, real_systems

POINTS = (25, 19)  # across and up
MANY = 100_000  # plans of a point from which on a map comes in pieces, a coarse one first
COARSE, FINE = (5, 3), (9, 7)  # points of these maps
PIECE = 3  # points of a piece
NUMPY = "numpy"
NOTHING: Mapping[str, float] = {}
SIZES_SHOWN = 4  # powers of two on either side of the middle of an axis of sizes
EQUAL = 1e-9  # of the logarithm: values nearer than that are one
SAME = "minimal"  # what has no dimension is the same in all pieces of a map

Paths = tuple[str, str]  # of the fields across and up


class Map(NamedTuple):
    """The best plan at every point of a grid over two numbers; arrays are [up, across]."""

    across: str
    up: str
    x: np.ndarray  # values [SI], ascending
    y: np.ndarray
    step_time: np.ndarray  # [s], NaN where nothing fits
    mfu: np.ndarray
    memory: np.ndarray  # [B]
    plan: np.ndarray  # number of the best plan in ``plans``, -1 where nothing fits
    plans: tuple[str, ...]
    units: tuple[str, str]
    here: tuple[float, float]  # the machine of the state
    machines: tuple[tuple[str, float, float, str], ...]  # real ones within the map, and all names


def fields_for_map(found: Asked) -> dict[str, str]:
    """Return the numbers that a map may move, with their names."""
    known = {*numbers(found), "gpus", "global_batch"}
    return {path: words_of(path) for path in MAPPED if path in known}


def machine_map(
    found: Asked, data: xr.Dataset, across: str, up: str, usual: Mapping[str, float] = NOTHING
) -> Map:
    """Return the best plan at every point around the question, over two of its numbers.

    Raises: InputError for a number that a map cannot move.
    """
    return [one for one in machine_maps(found, data, across, up, usual) if isinstance(one, Map)][-1]


def machine_maps(
    found: Asked, data: xr.Dataset, across: str, up: str, usual: Mapping[str, float] = NOTHING
) -> Iterator[Map | str]:
    """Yield maps as in ``machine_map``, each finer than the one before, and words between them.

    ``data`` are the best plans of the question, ``usual`` the values around which axes lie. Where
    each point has many plans, pieces of a map are computed one by one, so that nobody need wait for
    the rest of what is not asked any more.
    """
    known = fields_for_map(found)
    for field, path in (("across", across), ("up", up)):
        if path not in known:
            raise unknown(field, path, "field of a map", known)
    if across == up:
        raise InputError(f"up: {words_of(up)} on both axes; expected another field")
    axes = [axis(found, p, n, usual.get(p)) for p, n in zip((across, up), POINTS, strict=True)]
    name = str(data.attrs["system"])
    if int(data.plans_legal) <= MANY:
        yield _map(found, name, (across, up), axes, _searched(found, (across, up), axes))
        return
    here = [numbers(found)[path][0] for path in (across, up)]
    for points in (COARSE, FINE):
        some = [_thinned(v, n, at) for v, n, at in zip(axes, points, here, strict=True)]
        rows = yield from _in_pieces(found, (across, up), some)
        yield _map(found, name, (across, up), some, rows)


def _searched(found: Asked, paths: Paths, axes: Sequence[np.ndarray]) -> xr.Dataset:
    given = {path: values.tolist() for path, values in zip(paths, axes, strict=True)}
    return search(
        found.estimator, found.inputs, found.recipe, axes=given, where=found.where, executor=NUMPY
    )


def _in_pieces(
    found: Asked, paths: Paths, axes: Sequence[np.ndarray]
) -> Generator[str, None, xr.Dataset]:
    """Yield how far the search of a grid is, a few points at a time; return all of it."""
    across, up = axes
    whole, begun, done = len(across) * len(up), time.monotonic(), 0
    rows = []
    for value in up:
        parts = []
        for start in range(0, len(across), PIECE):
            some = across[start : start + PIECE]
            parts.append(_searched(found, paths, (some, np.array([value]))))
            done += len(some)
            left = (time.monotonic() - begun) / done * (whole - done)
            yield f"Working: {done} of {whole} points of the map, about {left:.0f} s more"
        rows.append(_joined(parts, paths[0]))
    return _joined(rows, paths[1])


def _joined(parts: list[xr.Dataset], path: str) -> xr.Dataset:
    dim = next(d for d in parts[0].dims if _is(parts[0], d, path))
    return xr.concat(
        parts, dim, data_vars=SAME, coords=SAME, compat="override", combine_attrs="override"
    )


def _thinned(values: np.ndarray, points: int, here: float) -> np.ndarray:
    """Return at most some values of an axis, evenly apart, today's among them."""
    step = -(-len(values) // points)
    return values[int(np.argmin(np.abs(values - here))) % step :: step]


def _map(
    found: Asked, name: str, paths: Paths, axes: Sequence[np.ndarray], data: xr.Dataset
) -> Map:
    """Return the map of the search over two axes; ``name`` is the system's of the question."""
    order = tuple(next(d for d in data.dims if _is(data, d, path)) for path in paths[::-1])
    plan, words = _plans(data.transpose(*order, ...))
    told = numbers(found)
    across, up = (told[path] for path in paths)
    return Map(
        paths[0],
        paths[1],
        axes[0],
        axes[1],
        _whole(data, "step_time", order),
        _whole(data, "mfu", order),
        _whole(data, "memory", order),
        plan,
        words,
        (str(across[1]["unit"]), str(up[1]["unit"])),
        (across[0], up[0]),
        tuple(_machines(found.estimator.name, name, paths, axes, (across[0], up[0]))),
    )


def _whole(data: xr.Dataset, name: str, order: tuple[Any, ...]) -> np.ndarray:
    """Return a result at every point, also where some axis does not move it."""
    return data[name].broadcast_like(data.step_time).transpose(*order).values


def _is(data: xr.Dataset, dim: Any, path: str) -> bool:
    return str(data[dim].attrs.get("path", dim)) == path or str(dim) == path.rpartition(".")[2]


def axis(found: Asked, path: str, points: int, usual: float | None = None) -> np.ndarray:
    """Return the values of one axis, today's among them: in equal ratios, or whole numbers.

    The middle is ``usual``, the catalogue's value, while today's is within the axis.
    """
    value, about = numbers(found)[path]
    if path in SIZES:
        middle = SIZES_SHOWN * round(np.log2(value) / SIZES_SHOWN)
        powers = 2.0 ** np.arange(max(0, middle - SIZES_SHOWN), middle + SIZES_SHOWN + 1.0)
        return np.unique([*(v for v in powers if v <= SIZES[path]), value])
    usual = usual or value
    if path == "system.fast_domain":
        return np.unique([*(float(d) for d in DOMAINS if d <= 8 * max(usual, value)), value])
    span = SPAN / 2.0
    middle = usual if usual / span <= value <= usual * span else value
    values = middle * np.geomspace(1.0 / span, span, points)
    if about["whole"]:
        values = np.maximum(np.round(values), 1.0)
    nearest = np.argmin(np.abs(np.log(values / value)))
    if abs(np.log(values[nearest] / value)) < EQUAL:
        values[nearest] = value
    return np.unique([*values, value])


def _plans(data: xr.Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the number of the best plan of every point, and the plans in words."""
    fields = [f for f in data.data_vars if str(f) in _split(data)]
    shape = data.step_time.shape
    columns = [np.broadcast_to(data[f].values, shape).ravel() for f in fields]
    rows, number = np.unique(np.stack(columns), axis=1, return_inverse=True)
    words = []
    for place in range(rows.shape[1]):
        one = {f: ((), int(v), data[f].attrs) for f, v in zip(fields, rows[:, place], strict=True)}
        words.append(name_of(xr.Dataset(one, attrs=data.attrs)))
    number = np.where(np.isfinite(data.step_time.values.ravel()), number.ravel(), -1)
    return number.reshape(shape), tuple(words)


def _split(data: xr.Dataset) -> list[str]:
    return list(json.loads(str(data.attrs["roles"]))["split"])


def _machines(
    estimator: str, name: str, paths: Paths, axes: Sequence[np.ndarray], here: tuple[float, float]
) -> Iterator[tuple[str, float, float, str]]:
    """Yield the real systems that lie within the map, those at one place together.

    The system of the question is not among them where it stands ``here``, unchanged.
    """
    if not all(path.startswith("system.") for path in paths):
        return
    fields = [path.removeprefix("system.") for path in paths]
    for place, names in real_systems(estimator, fields, axes).items():
        if name not in names or apart(place, here) >= NEAR:
            yield family(names), *place, ", ".join(names)


def map_sentence(found: Map) -> str:
    """Return how much the map's fields change the step, and how many plans win somewhere."""
    times = found.step_time[np.isfinite(found.step_time)]
    if not len(times):
        return "Nothing fits anywhere on this map."
    count = len(np.unique(found.plan[found.plan >= 0]))
    ratio = float(times.max() / times.min())
    none = int(np.sum(found.plan < 0))
    plans = "one plan is best everywhere" if count == 1 else f"{count} plans are best somewhere"
    said = f"Over this map the step changes by a factor of {ratio:.3g}, and {plans}."
    return said + (f" Nothing fits at {none} of {found.plan.size} points." if none else "")
