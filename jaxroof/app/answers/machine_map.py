"""A map over two fields of the question: the best plan at each point, and real machines on it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof import catalog
from jaxroof.app.answers.plans import name_of
from jaxroof.app.fields import DOMAINS, MAPPED, SIZES, SPAN, words_of
from jaxroof.app.question import Asked, numbers
from jaxroof.catalog.lookup import device
from jaxroof.catalog.needs import answers
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, unknown
from jaxroof.records import get_at

POINTS = (25, 19)  # across and up
FEW_POINTS = (13, 9)  # where plans are many
MANY = 100_000  # plans of a point from which on there are few points
NUMPY = "numpy"
NEAR = 0.3  # of the logarithm: systems nearer than that to another are not marked
SIZES_SHOWN = 4  # powers of two on either side of today's number of accelerators or sequences


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
    machines: tuple[tuple[str, float, float], ...]  # real ones within the map


def fields_for_map(found: Asked) -> dict[str, str]:
    """Return the numbers that a map may move, with their names."""
    known = {*numbers(found), "gpus", "global_batch"}
    return {path: words_of(path) for path in MAPPED if path in known}


def machine_map(found: Asked, data: xr.Dataset, across: str, up: str) -> Map:
    """Return the best plan at every point around the question, over two of its numbers.

    ``data`` are the best plans of the question; its system is not marked twice.
    Raises: InputError for a number that a map cannot move.
    """
    known = fields_for_map(found)
    for field, path in (("across", across), ("up", up)):
        if path not in known:
            raise unknown(field, path, "field of a map", known)
    if across == up:
        raise InputError(f"up: {words_of(up)} on both axes; expected another field")
    points = FEW_POINTS if int(data.plans_legal) > MANY else POINTS
    x, y = (axis(found, p, n) for p, n in zip((across, up), points, strict=True))
    axes = {across: x.tolist(), up: y.tolist()}
    name = str(data.attrs["system"])
    data = search(
        found.estimator, found.inputs, found.recipe, axes=axes, where=found.where, executor=NUMPY
    )
    order = tuple(next(d for d in data.dims if _is(data, d, path)) for path in (up, across))
    plan, words = _plans(data.transpose(*order, ...))
    told = numbers(found)
    here = told[across][0], told[up][0]
    return Map(
        across,
        up,
        x,
        y,
        _whole(data, "step_time", order),
        _whole(data, "mfu", order),
        _whole(data, "memory", order),
        plan,
        words,
        (str(told[across][1]["unit"]), str(told[up][1]["unit"])),
        here,
        tuple(_machines(found.estimator.name, name, (across, up), (x, y), here)),
    )


def _whole(data: xr.Dataset, name: str, order: tuple[Any, ...]) -> np.ndarray:
    """Return a result at every point, also where some axis does not move it."""
    return data[name].broadcast_like(data.step_time).transpose(*order).values


def _is(data: xr.Dataset, dim: Any, path: str) -> bool:
    return str(data[dim].attrs.get("path", dim)) == path or str(dim) == path.rpartition(".")[2]


def axis(found: Asked, path: str, points: int) -> np.ndarray:
    """Return the values of one axis, today's among them: in equal ratios, or whole numbers."""
    value, about = numbers(found)[path]
    if path in SIZES:
        low, high = value / 2.0**SIZES_SHOWN, value * 2.0**SIZES_SHOWN
        powers = value * 2.0 ** np.arange(-SIZES_SHOWN, SIZES_SHOWN + 1.0)
        whole = [v for v in powers if v == round(v) and low <= v <= min(high, SIZES[path])]
        return np.array(whole)
    if path == "system.fast_domain":
        return np.array(sorted({*(float(d) for d in DOMAINS if d <= 8 * value), value}))
    span = SPAN / 2.0
    values = value * np.geomspace(1.0 / span, span, points)
    return np.unique(np.maximum(np.round(values), 1.0)) if about["whole"] else values


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
    estimator: str,
    name: str,
    paths: tuple[str, str],
    axes: tuple[np.ndarray, np.ndarray],
    here: tuple[float, float],
) -> Iterator[tuple[str, float, float]]:
    """Yield the real systems that lie within the map, apart from ``here`` and from one another."""
    if not all(path.startswith("system.") for path in paths):
        return
    places = {here}
    for other in catalog.names("systems"):
        if estimator not in answers(other) or other == name:
            continue
        record = device(other)
        place = [get_at(record, path.removeprefix("system.")) for path in paths]
        if None in place:
            continue
        x, y = (float(v) for v in place)
        inside = all(a.min() <= v <= a.max() for v, a in zip((x, y), axes, strict=True))
        apart = all(max(abs(np.log(x / a)), abs(np.log(y / b))) > NEAR for a, b in places)
        if inside and apart:
            places.add((x, y))
            yield other, x, y


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
