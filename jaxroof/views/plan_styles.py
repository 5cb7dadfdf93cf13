"""Plans of a study, one a configuration: points of its axes, styles, names, the best, the front."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import filled_paths, headlines, objective_of, rises, roles
from jaxroof.units import show

ALONG = "configuration"
DEGREES = {"data": "dp", "tensor": "tp", "context": "cp", "pipeline": "pp"}
PIECES = {"microbatches": "micro-\nbatches", "microbatch": "micro-\nbatch"}
ALONE = "one accelerator"


class Point(NamedTuple):
    """One point of a study's axes: what it is in words, and the plans tried there."""

    words: str
    data: xr.Dataset


def degrees(data: xr.Dataset) -> list[str]:
    """Return the degrees of the plans that any of them uses, and the three that all have."""
    found = [name for name in DEGREES if name in data.variables]
    return [name for name in found if name != "context" or int(data[name].max()) > 1]


def moved(data: xr.Dataset) -> list[str]:
    """Return what the axes of a study move, names before numbers; a named record is one thing."""
    labels = [
        str(name)
        for name, column in data.data_vars.items()
        if "flag_meanings" in column.attrs and name != "reason"
    ]
    paths = {
        str(name): str(column.attrs.get("path", "plan.")) for name, column in data.coords.items()
    }
    known = tuple(f"{name}." for name in (*labels, "plan"))
    return [*labels, *(name for name, path in paths.items() if not path.startswith(known))]


def points(data: xr.Dataset, within: Sequence[str] = ()) -> list[Point]:
    """Return the plans of each point of the axes, in the order in which they come.

    What is ``within`` a point makes none of its own.
    """
    names = [name for name in moved(data) if name not in within]
    if not names:
        return [Point("", data)]
    keys = list(zip(*(data[name].values.tolist() for name in names), strict=True))
    return [
        Point(
            ", ".join(moved_words(data, n, v) for n, v in zip(names, key, strict=True)),
            data.isel({ALONG: [i for i, other in enumerate(keys) if other == key]}),
        )
        for key in dict.fromkeys(keys)
    ]


def head_of(name: str) -> str:
    """Return an axis in words.

    >>> head_of("global_batch"), head_of("gpus")
    ('batch', 'gpus')
    """
    return name.replace("global_", "").replace("_", " ")


def value_words(data: xr.Dataset, name: str, value: Any) -> str:
    """Return a value of an axis; counts keep their digits."""
    flags = str(data[name].attrs.get("flag_meanings", "")).split()
    if flags or isinstance(value, str):
        return flags[int(value)] if flags else str(value)
    unit = str(data[name].attrs.get("units", "1"))
    if float(value).is_integer() and unit in ("1", "sample"):
        return f"{value:,.0f}"
    return show(value, unit)


def moved_words(data: xr.Dataset, name: str, value: Any) -> str:
    """Return what an axis is at one of its points."""
    said = value_words(data, name, value)
    if name == "gpus":
        return f"{said} accelerator{'' if value == 1 else 's'}"
    named = "flag_meanings" in data[name].attrs or isinstance(value, str)
    return said if named else f"{head_of(name)} {said}"


def styles_of(data: xr.Dataset) -> np.ndarray:
    """Return the style of parallelism of every plan: its degrees above 1.

    >>> columns = {"data": [1, 4], "tensor": [1, 4], "pipeline": [1, 1]}
    >>> styles_of(xr.Dataset({n: (ALONG, v) for n, v in columns.items()})).tolist()
    ['one accelerator', 'data x tensor']
    """
    names = degrees(data)
    above = np.stack([data[name].values > 1 for name in names], axis=-1)
    return np.array(
        [
            " x ".join(n for n, used in zip(names, row, strict=True) if used) or ALONE
            for row in above
        ]
    )


def fitting(data: xr.Dataset) -> np.ndarray:
    """Return the positions of the plans that are legal and fit, the best first."""
    name = merit(data)
    value = data[name].values * (-1.0 if rises(data, name) else 1.0)
    held = np.flatnonzero(data.feasible.values.astype(bool) & np.isfinite(value))
    return held[np.argsort(value[held], kind="stable")]


def merit(data: xr.Dataset) -> str:
    """Return the result that plans are ordered by: a headline of which more is better, if any."""
    return next((n for n in headlines(data) if rises(data, n)), objective_of(data))


def is_parallel(data: xr.Dataset) -> bool:
    """Return whether plans split by data, tensor and pipeline alone, so that they have a style."""
    known = {*DEGREES, *PIECES, "panels"}
    return {"data", "tensor", "pipeline"} <= set(map(str, data.variables)) and (
        known >= {*roles(data)["split"]}
    )


def split_words(data: xr.Dataset, position: int) -> str:
    """Return a plan as its degrees, and its microbatches where it has stages or several.

    >>> columns = {"data": [2], "tensor": [2], "pipeline": [4], "microbatches": [8]}
    >>> split_words(xr.Dataset({n: (ALONG, v) for n, v in columns.items()}), 0)
    '2 x 2 x 4, 8 microbatches'
    """
    said = " x ".join(str(int(data[name].values[position])) for name in degrees(data))
    count = int(data.microbatches.values[position]) if "microbatches" in data else 0
    staged = "pipeline" in data and int(data.pipeline.values[position]) > 1
    if count > 1 or (count and staged):
        said += f", {count} microbatch{'' if count == 1 else 'es'}"
    return said


def capacities(data: xr.Dataset) -> np.ndarray | None:
    """Return what each plan may need, None where the data do not tell."""
    given = json.loads(data.attrs.get("inputs", "{}"))
    limit = np.ones(data.sizes[ALONG])
    paths = filled_paths(data)
    for number, path in enumerate(paths):
        name = path.rpartition(".")[2]
        known = name in data.variables and data[name].dtype.kind in "if"
        value = data[name].values if known else given.get(path, 1.0 if number else None)
        if value is None:
            return None
        limit = limit * np.asarray(value, np.float64)
    return limit if paths else None
