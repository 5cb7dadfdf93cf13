"""Roles and metadata of the names in a Dataset, as the records of its estimator declare them."""

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr


def roles(data: xr.Dataset) -> Mapping[str, Any]:
    """Return the roles of the names of the estimator (see ``engine.dataset.roles``)."""
    return _roles(str(data.attrs.get("roles", "{}")))


_roles: Callable[[str], Mapping[str, Any]] = functools.lru_cache(maxsize=64)(json.loads)


def about(data: xr.Dataset, name: str) -> Mapping[str, Any]:
    """Return the attributes of one quantity."""
    own: Mapping[str, Any] = data.variables[name].attrs if name in data.variables else {}
    return own


def name_of(data: xr.Dataset, name: str, *keys: str) -> str:
    """Return the displayed name of a quantity: the first of some attributes, or its own name."""
    found = about(data, name)
    return next((str(found[key]) for key in keys if found.get(key)), name.replace("_", " "))


def _name_by(*keys: str) -> Callable[[xr.Dataset, str], str]:
    return lambda data, name: name_of(data, name, *keys)


head_of = _name_by("symbol", "words")  # of a column: its shortest name
words_of = _name_by("words", "symbol")  # within a sentence
label_of = _name_by("label", "words", "symbol")  # in a picture


def said_of(data: xr.Dataset, name: str, value: Any = None) -> str:
    """Return a whole number, by default that of a variable, by its word where it has one.

    A variable that says how another one is done says nothing where that one is 1.
    """
    number = int(data.variables[name].values if value is None else value)
    host = str(about(data, name).get("part_of", ""))
    if value is None and host in data.variables and int(data.variables[host].values) == 1:
        return "-"
    words = str(about(data, name).get("flag_meanings", "")).split()
    return words[number] if 0 <= number < len(words) else str(number)


def unit_of(data: xr.Dataset, name: str) -> str:
    """Return the unit of a quantity."""
    return str(about(data, name).get("units", "1"))


def unused(data: xr.Dataset) -> frozenset[str]:
    """Return the plan fields that are unused under every recipe choice in the data."""
    known = roles(data).get("unused", {})
    lists: list[Iterable[str]] = [
        by.get(str(label), ())
        for name, by in known.items()
        if isinstance(by, Mapping) and name in data.coords
        for label in np.atleast_1d(data.coords[name].values)
    ]
    lists = lists or [known.get("", ())]
    return frozenset.intersection(*map(frozenset, lists))


def objective_of(data: xr.Dataset) -> str:
    """Return the optimised result, else the estimator's objective; empty if it has none."""
    return str(data.attrs.get("objective") or roles(data).get("objective") or "")


def timed_of(data: xr.Dataset, name: str) -> str:
    """Return the work that a result times: ``step`` of ``step_time``; empty if it has words."""
    named = name.endswith("_time") and not about(data, name).get("words")
    return words_of(data, name.removesuffix("_time")) if named else ""


def run_of(data: xr.Dataset) -> str:
    """Return the unit of work that the objective times, or the words of what else it is."""
    aim = objective_of(data)
    return timed_of(data, aim) or words_of(data, aim)


def need_of(data: xr.Dataset) -> str:
    """Return the result that must not exceed a limit; empty if nothing limits the plans."""
    return str(roles(data).get("need") or "")


def headlines(data: xr.Dataset) -> list[str]:
    """Return the results that are printed first, led by the estimator's own objective."""
    plan = {*roles(data).get("split", ())}
    names = [str(name) for name in data.data_vars if str(name) not in plan]
    own = roles(data).get("objective")
    found = [name for name in names if name == own or about(data, name).get("headline")]
    aim = objective_of(data)
    return sorted(found, key=lambda name: name != own) or [aim] * (aim in data.data_vars)


def telling_fields(data: xr.Dataset, fields: Iterable[str]) -> list[str]:
    """Return the plan fields that name a plan in short form; by default all of them."""
    known = list(fields)
    return [name for name in known if about(data, name).get("headline")] or known


def optional(data: xr.Dataset, name: str) -> bool:
    """Return whether a plan field is optional: its value 1 means unused and is not shown."""
    return bool(about(data, name).get("default") == "1")


def parts_of(data: xr.Dataset, whole: str) -> list[str]:
    """Return the results that are parts of another one."""
    names = map(str, data.data_vars)
    return [name for name in names if about(data, name).get("part_of") == whole]


def filled_paths(data: xr.Dataset) -> list[str]:
    """Return the paths of the inputs whose product is the limit on the need."""
    filled = about(data, need_of(data)).get("resource") if need_of(data) else None
    known = roles(data).get("resources", {})
    return [path for path, (name, _) in known.items() if filled and name == filled]


def rises(data: xr.Dataset, name: str) -> bool:
    """Return whether a larger value of a result is better."""
    return about(data, name).get("better") == "higher"


def machine_of(data: xr.Dataset) -> str:
    """Return the path of the machine in the inputs."""
    return str(roles(data).get("machine") or "system")


def is_machine(data: xr.Dataset, path: str) -> bool:
    """Return whether a path of the inputs belongs to the machine."""
    return path.startswith(f"{machine_of(data)}.")


# ---- Resources ----------------------------------------------------------------------------------

CAPACITY = "capacity"  # limits which plans fit; takes no time
WORDS = {  # resources whose displayed name differs from their own
    "hbm": "HBM bandwidth",
    "fast_links": "NVLink",
    "slow_links": "the network",
    "torus_links": "the torus links",
}


class Resources(NamedTuple):
    """The resource that each machine parameter (by path) describes, and its displayed name.

    A time is homogeneous of degree one in reciprocal rates and latencies. With the ``signs`` of
    those parameters, their shares of the time sum to one. A parameter without a sign is a capacity,
    or it multiplies a rate and so repeats that rate's share.
    """

    of: Mapping[str, str]
    signs: Mapping[str, float]
    limits: Mapping[str, str]  # resources that take time, rates before latencies: displayed names


def resources(declared: Mapping[str, Sequence[Any]]) -> Resources:
    """Return the resources that an estimator declares: a name and a sign by path."""
    signs = {path: float(sign) for path, (_, sign) in declared.items() if sign}
    order = sorted(signs, key=lambda path: signs[path])  # rates first
    names = dict.fromkeys(str(declared[path][0]) for path in order)
    return Resources(
        of={path: str(name) for path, (name, _) in declared.items()},
        signs=signs,
        limits={name: WORDS.get(name, name.replace("_", " ")) for name in names},
    )


def resources_of(data: xr.Dataset) -> Resources:
    """Return the resources of the estimator that produced some results."""
    return resources(roles(data).get("resources", {}))


def shares(elasticity: xr.DataArray, known: Resources) -> xr.DataArray:
    """Return the share of a time that each resource takes, over ``limit``.

    ``elasticity`` is that of the time, over ``parameter`` and any other dimensions. The sign of a
    rate is reversed. A parameter that multiplies a rate is not counted again.
    """
    paths = [str(path) for path in elasticity.parameter.values]
    weights = [
        [known.signs.get(path, 0.0) * (known.of.get(path) == limit) for path in paths]
        for limit in known.limits
    ]
    by = xr.DataArray(weights, {"limit": list(known.limits)}, ("limit", "parameter"))
    bare = elasticity.drop_vars([n for n, c in elasticity.coords.items() if "parameter" in c.dims])
    return xr.dot(bare, by, dim="parameter")
