"""Answer the question of a stored Dataset again, and compare the results with those stored."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.compare import compare as systems_compared
from jaxroof.analyses.legal_plans import joined
from jaxroof.analyses.training_plans import fastest_of, least_memory_of, plans_asked
from jaxroof.engine.grid.dataset import versions
from jaxroof.engine.grid.question import Question, ask
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.engine.search.all_plans import survey
from jaxroof.engine.search.search import search
from jaxroof.engine.sensitivity.elasticities import elasticities
from jaxroof.errors import brief, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named


class Difference(NamedTuple):
    """How far one result that was computed again is from the stored one."""

    name: str
    largest: float  # of |now - then| / |then|; infinite where only one of them is a number
    points: int  # that differ
    where: Mapping[str, Any]  # labels of the point that differs most


class Rerun(NamedTuple):
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


class Asked(NamedTuple):
    """What a Dataset's attributes and coordinates say of its question."""

    estimator: Estimator
    settings: Mapping[str, Any]  # of every field and choice
    axes: Mapping[str, Mapping[str, list[Any]]]  # dimension -> path -> values
    where: list[str]
    options: Mapping[str, Any]  # of the search for plans of a training step

    @property
    def question(self) -> Question:
        """Return the checked question."""
        return ask(self.estimator, settings=self.settings, axes=self.axes, whole=True)


def rerun(data: xr.Dataset) -> Rerun:
    """Return the answer to the question that a Dataset's attributes hold, beside what is stored.

    Answered again are searches, tables, elasticities and the plans of a training step that are
    fastest or need the least memory.

    >>> import jaxroof as jr
    >>> found = rerun(jr.evaluate("matmul", batch=8, hidden=64, feedforward=64, system="tpu-v5e"))
    >>> found.identical
    True
    """
    asked = str(data.attrs.get("question", ""))
    if not asked:
        what = "the file does not say what was asked"
        raise refusal("question", f"{what}; expected results of jaxroof as .nc, .json or .zarr")
    if asked not in ANSWERS:
        said = f"{brief(asked)} cannot be answered again from a file"
        raise refusal(
            "question",
            f"{said}; expected a file of {', '.join(ANSWERS)}, or one that a command wrote",
        )
    return compare(data, ANSWERS[asked](data, _asked(data)))


def is_answered(data: xr.Dataset) -> bool:
    """Return whether the question of a Dataset is answered again from its record."""
    return str(data.attrs.get("question")) in ANSWERS


def _asked(data: xr.Dataset) -> Asked:
    """Return what was asked, from attributes and coordinates."""
    empty = {"inputs": "", "recipe": "", "where": "[]", "options": "{}"}
    try:
        told = [json.loads(data.attrs.get(name, text)) for name, text in empty.items()]
        name = str(data.attrs["estimator"])
    except (LookupError, ValueError, TypeError, RecursionError):
        told, name = [None] * 4, ""
    numbers, choices, where, options = told
    if [type(one) for one in (numbers, choices or {}, where, options)] != [dict, dict, list, dict]:
        raise refusal("question", "its attributes are damaged; expected those of jaxroof")
    axes: dict[str, dict[str, list[Any]]] = {}
    for coordinate in data.coords.values():
        if "path" in coordinate.attrs and len(coordinate.dims) == 1:
            along = axes.setdefault(str(coordinate.dims[0]), {})
            along[str(coordinate.attrs["path"])] = coordinate.values.tolist()
    labels = {p for paths in axes.values() for p, v in paths.items() if isinstance(v[0], str)}
    settings = {path: v for path, v in numbers.items() if path.partition(".")[0] not in labels}
    settings |= {key: value for key, value in (choices or {}).items() if value is not None}
    return Asked(named(name), settings, axes, [str(rule) for rule in where], options)


def _search(data: xr.Dataset, asked: Asked) -> xr.Dataset:
    return search(
        asked.estimator,
        asked.question,
        where=asked.where,
        objective=str(data.attrs["objective"]),
        top=data.sizes.get("rank", 1),
        placements=data.attrs.get("placements") == "true",
    )


def _elasticities(data: xr.Dataset, asked: Asked) -> xr.Dataset:
    return elasticities(
        asked.estimator,
        asked.question,
        parameters=data["parameter"].values.tolist(),
        of=str(data.attrs["of"]),
        where=asked.where,
        objective=data.attrs.get("objective"),
    )


def _of_training(data: xr.Dataset, asked: Asked) -> xr.Dataset:
    """Return the plans of a training step on each number of accelerators that a file has."""
    question = plans_asked(asked.estimator, asked._replace(axes={}).question, asked.where)
    sizes, several = data["gpus"].values.ravel().tolist(), data["gpus"].ndim > 0
    found = []
    for size in dict.fromkeys(sizes):
        options = {**asked.options, "top": sizes.count(size) if several else data.sizes["plan"]}
        if data.attrs["question"] == "fastest plans":
            found.append(fastest_of(question, size, options["top"], options.get("own")))
        else:
            options |= {"gpus": size} if several else {}
            found.append(least_memory_of(question, **options))
    return joined(found, {}) if several else found[0]


def _legal_plans(data: xr.Dataset, asked: Asked) -> xr.Dataset:
    """Return the stored plans among all legal ones of today; a plan that is none is left out."""
    plans, sized = _plans(asked.estimator, data), "gpus" in data and data["gpus"].ndim > 0
    sizes = data["gpus"].values.tolist() if sized else [asked.settings.get("gpus")] * len(plans)
    found = []
    for size in dict.fromkeys(sizes):
        one = asked._replace(settings={**asked.settings, "gpus": size}, axes={})
        every = survey(one.estimator, one.question, where=one.where)
        place = {plan: at for at, plan in enumerate(_plans(one.estimator, every))}
        wanted = [plan for plan, gpus in zip(plans, sizes, strict=True) if gpus == size]
        some = every.isel(plan=[place[plan] for plan in wanted if plan in place])
        found.append(some.assign(gpus=("plan", [size] * some.sizes["plan"])) if sized else some)
    return xr.concat(found, "plan", combine_attrs="override")


def _plans(estimator: Estimator, data: xr.Dataset) -> list[tuple[int, ...]]:
    columns = (data[field].values.tolist() for field in estimator.plan_fields)
    return list(zip(*columns, strict=True))


ANSWERS: dict[str, Callable[[xr.Dataset, Asked], xr.Dataset]] = {
    "compare": lambda _, asked: systems_compared(
        estimator=asked.estimator, where=asked.where, **asked.options
    ),
    "search": _search,
    "table": lambda _, asked: tabulate(asked.estimator, asked.question),
    "elasticities": _elasticities,
    "fastest plans": _of_training,
    "least memory": _of_training,
    "legal plans": _legal_plans,
}


# ---- How far results that are computed again are from those stored ------------------------------


def compare(then: xr.Dataset, now: xr.Dataset) -> Rerun:
    """Return how the results of two Datasets differ, result by result."""
    both = [str(name) for name in then.data_vars if name in now.data_vars]
    try:
        written, today = dict(json.loads(str(then.attrs.get("versions", "{}")))), versions()
        changed = {n: (str(v), today[n]) for n, v in written.items() if today.get(n, v) != v}
    except (ValueError, TypeError, RecursionError):
        changed = {}
    differences = [one for name in both if (one := _difference(then[name], now[name])) is not None]
    return Rerun(
        again=now,
        compared=len(both),
        points=sum(then[name].size for name in both),
        differences=tuple(sorted(differences, key=lambda one: -one.largest)),
        not_again=tuple(str(name) for name in then.data_vars if name not in now.data_vars),
        versions=changed,
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
