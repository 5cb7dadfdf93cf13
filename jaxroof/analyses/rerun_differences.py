"""How far results that were computed again are from those that a file holds."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.dataset import versions


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far one result that was computed again is from the stored one."""

    name: str
    largest: float  # of |now - then| / |then|; infinite where only one of them is a number
    points: int  # that differ
    where: Mapping[str, Any]  # labels of the point that differs most


@dataclasses.dataclass(frozen=True)
class Rerun:
    """The results of a stored Dataset that were computed again."""

    again: xr.Dataset
    compared: int  # results
    points: int  # values of all of them
    differences: tuple[Difference, ...]  # the largest first
    not_again: tuple[str, ...]  # results that are only stored
    versions: Mapping[str, tuple[str, str]]  # of packages that changed: then, now

    @property
    def identical(self) -> bool:
        """Return whether every stored result is the same to the last bit."""
        return not self.differences and not self.not_again


def compare(then: xr.Dataset, now: xr.Dataset) -> Rerun:
    """Return how the results of two Datasets differ, result by result."""
    both = [str(name) for name in then.data_vars if name in now.data_vars]
    differences = [one for name in both if (one := _difference(then[name], now[name])) is not None]
    return Rerun(
        again=now,
        compared=len(both),
        points=sum(then[name].size for name in both),
        differences=tuple(sorted(differences, key=lambda one: -one.largest)),
        not_again=tuple(str(name) for name in then.data_vars if name not in now.data_vars),
        versions=_changed(str(then.attrs.get("versions", "{}"))),
    )


def _difference(then: xr.DataArray, now: xr.DataArray) -> Difference | None:
    """Return how far a result is from the stored one; None where they are the same."""
    name = str(then.name)
    if {*then.dims} != {*now.dims} or then.sizes != now.sizes:
        return Difference(name, np.inf, then.size, {})
    old, new = then.values, now.transpose(*then.dims).values
    same = old == new
    if old.dtype.kind == new.dtype.kind == "f":
        same |= np.isnan(old) & np.isnan(new)
    if same.all():
        return None
    apart = np.where(same, 0.0, _relative(old, new))
    worst = np.unravel_index(int(np.argmax(apart)), apart.shape) if apart.ndim else ()
    where = {
        str(dim): then.coords[dim].values[at].item()
        for dim, at in zip(then.dims, worst, strict=True)
        if dim in then.coords
    }
    return Difference(name, float(np.max(apart)), int(np.sum(~same)), where)


def _relative(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return |new - old| / |old|, infinite where one is no number or the results are words."""
    if old.dtype.kind not in "iuf" or new.dtype.kind not in "iuf":
        return np.full(old.shape, np.inf)
    with np.errstate(all="ignore"):
        apart = np.abs(new.astype(float) - old) / np.abs(old)
    return np.where(np.isfinite(apart), apart, np.inf)


def _changed(written: str) -> dict[str, tuple[str, str]]:
    """Return the versions of packages that are not those of now."""
    try:
        then, now = dict(json.loads(written)), versions()
    except (ValueError, TypeError, RecursionError):
        return {}
    return {name: (str(v), now[name]) for name, v in then.items() if now.get(name, v) != v}
