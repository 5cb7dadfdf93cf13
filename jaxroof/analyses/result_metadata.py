"""Roles and metadata of the names in a Dataset, as the records of its estimator declare them."""

import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.dataset import attributes, field_metadata
from jaxroof.engine.grid.dataset import roles as declared_roles


def roles(data: xr.Dataset) -> Mapping[str, Any]:
    """Return the roles of the names of the estimator (see ``engine.dataset.roles``)."""
    told = data.attrs.get("roles")
    return _roles(str(told)) if told else _earlier()[0]


@functools.lru_cache(maxsize=64)
def _roles(told: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(told)
    return found


@functools.cache
def _earlier() -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """Return the roles and the metadata of training, for older files that have none."""
    from jaxroof.estimators.published.inputs import Plan
    from jaxroof.estimators.published.legality import lacked
    from jaxroof.estimators.published.recipe import Split
    from jaxroof.estimators.published.report import Report
    from jaxroof.estimators.published.step import example, published

    splits = {split.value: sorted(lacked(split.value)) for split in Split}
    known = declared_roles(published, example(), published.recipe)
    known["unused"] = {**splits, "split": splits}  # the recipe of such a file gives its split
    return known, {n: attributes(about) for n, about in field_metadata(Plan, Report).items()}


def about(data: xr.Dataset, name: str) -> Mapping[str, Any]:
    """Return the attributes of one quantity."""
    own: Mapping[str, Any] = data.variables[name].attrs if name in data.variables else {}
    return own if "roles" in data.attrs else {**_earlier()[1].get(name, {}), **own}


def name_of(data: xr.Dataset, name: str, *keys: str) -> str:
    """Return the displayed name of a quantity: the first of some attributes, or else its own name.

    >>> data = xr.Dataset({"data": ((), 4, {"symbol": "dp"}), "ring_size": 2}, attrs={"roles": "-"})
    >>> name_of(data, "data", "words", "symbol"), name_of(data, "ring_size", "words", "symbol")
    ('dp', 'ring size')
    """
    found = about(data, name)
    return next((str(found[key]) for key in keys if found.get(key)), name.replace("_", " "))


def head_of(data: xr.Dataset, name: str) -> str:
    """Return the head of a quantity's column: its shortest name."""
    return name_of(data, name, "symbol", "words")


def words_of(data: xr.Dataset, name: str) -> str:
    """Return the name of a quantity within a sentence."""
    return name_of(data, name, "words", "symbol")


def label_of(data: xr.Dataset, name: str) -> str:
    """Return the label of a quantity in a picture."""
    return name_of(data, name, "label", "words", "symbol")


def said_of(data: xr.Dataset, name: str, value: Any = None) -> str:
    """Return a whole number, by default that of a variable, by its word where it has one.

    A variable that says how another one is done says nothing where that one is 1.

    >>> data = xr.Dataset({"exchange": ((), 1, {"flag_meanings": "all-to-all ring"}), "data": 8})
    >>> said_of(data, "exchange"), said_of(data, "data")
    ('ring', '8')
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
    known = roles(data)["unused"]
    lists: list[Iterable[str]] = [
        by.get(str(label), ())
        for name, by in known.items()
        if isinstance(by, Mapping) and name in data.coords
        for label in np.atleast_1d(data.coords[name].values)
    ]
    if not lists and "" in known:
        lists = [known[""]]
    if not lists:
        recipe = json.loads(data.attrs.get("recipe", "{}")) or {}
        lists = [known.get(str(recipe.get("split")), ())]
    return frozenset.intersection(*map(frozenset, lists))


def objective_of(data: xr.Dataset) -> str:
    """Return the optimised result, else the estimator's objective; empty if it has none."""
    return str(data.attrs.get("objective") or roles(data).get("objective") or "")


def run_of(data: xr.Dataset) -> str:
    """Return the unit of work that the objective times: ``step`` of ``step_time``."""
    return words_of(data, objective_of(data).removesuffix("_time"))


def need_of(data: xr.Dataset) -> str:
    """Return the result that must not exceed a limit; empty if nothing limits the plans."""
    return str(roles(data).get("need") or "")


def headlines(data: xr.Dataset) -> list[str]:
    """Return the results that are printed first, led by the estimator's own objective."""
    plan = {*roles(data).get("split", ())}
    names = [str(name) for name in data.data_vars if str(name) not in plan]
    found = [name for name in names if about(data, name).get("headline")]
    own = roles(data).get("objective")
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
