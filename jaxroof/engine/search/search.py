"""Search for the best plans of every machine of a grid."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import Axis, AxisValues, spread
from jaxroof.engine.grid.chunks import Progress, progress_share
from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance, stack_choices
from jaxroof.engine.grid.evaluate import evaluate_points, ravel_grid
from jaxroof.engine.search.cells import misses
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.driver import SearchResult, best_plans
from jaxroof.engine.search.none_legal import none_legal
from jaxroof.engine.search.one_machine import (
    FEASIBLE,
    as_variables,
    one_machine,
    standing,
)
from jaxroof.engine.search.problem import (
    SearchProblem,
    axis_roles,
    check_searches,
    fit_flags,
)
from jaxroof.engine.search.several_limits import relaxed_told
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.records import replace_all


def search(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    top: int = 1,
    placements: bool = False,
    own: str | None = None,
    progress: Progress | None = None,
    executor: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the best plans at every point of a grid of machines.

    Arguments: ``axes`` maps dotted paths to values, paths of records to names, and fields of the
    recipe to choices (or a new name to several paths that vary together); ``where`` constrains plan
    fields (``"tensor<=8,pipeline=4"``); ``objective`` names the result to optimise, in the
    direction that it declares as better; ``top`` is how many splits to return, each with its best
    placement, or how many plans with ``placements``; ``progress`` is called with (combinations
    done, combinations in all); ``executor`` is ``"numpy"`` or ``"jax"`` (default: NumPy where the
    combinations are few); ``settings`` and ``more`` are fields of the inputs or of the recipe;
    ``own`` are fields of a plan of yours on one machine (``"tensor=8,pipeline=4"``), whose place
    among all that fit is ``own_place``.
    Ties within 1e-12 go to the plan that needs less, then to the plan with the smaller tuple of
    fields. If the objective does not depend on the placement, the result is therefore not
    necessarily the fastest placement.
    Returns: a Dataset over the axes (and ``rank`` if top > 1) of the winners' plan fields and
    results, ``plans_legal``, ``plans_feasible``, the least need and how far it exceeds the limit.
    Without axes, ``plans_alike`` plans are too close to the best to tell apart, and the
    attribute ``relaxed`` (JSON) says what each of several limits keeps out, and the best objective
    where it alone is relaxed by 10 %.
    Where no plan fits, ``feasible`` is false, ``reason`` says why, floats are NaN and whole numbers
    are -1. Where none is legal and there are no axes, the attribute ``none_legal`` says which rules
    refuse them and on which near numbers of accelerators one is, as the command does.
    Raises: InputError for anything that is not a grid of this estimator.
    """
    every, asked = check_searches(
        estimator,
        inputs,
        recipe,
        axes=axes,
        where=where,
        objective=objective,
        top=top,
        placements=placements,
        executor=executor,
        settings={**(settings or {}), **more},
    )
    if every and own is not None:
        raise refusal("own", "a plan of yours, beside axes; expected it of one machine")
    found = best_of_each(asked, progress)
    data, machine = search_dataset(every, found), found[0][1].machine
    several = len(asked[0].estimator.limits) > 1
    if every or (machine is None and own is None and not several):
        return data
    machine = one_machine(asked[0]) if machine is None else machine
    data = data.assign_attrs(relaxed_told(machine))
    best = data.isel(rank=0) if "rank" in data.dims else data
    return data.assign(as_variables(standing(machine, best, own)))


def best_of_each(
    asked: Sequence[SearchProblem], progress: Progress | None = None
) -> list[tuple[SearchProblem, SearchResult]]:
    """Return the problem and the best plans of each of several searches."""
    return [
        (question, best_plans(question, progress_share(progress, number, len(asked))))
        for number, question in enumerate(asked)
    ]


def search_dataset(
    axes: Sequence[Axis], found: Sequence[tuple[SearchProblem, SearchResult]]
) -> xr.Dataset:
    """Return a Dataset of the winners for every choice of the recipe, with all their results."""
    question = found[0][0]
    estimator = question.estimator
    columns = stack_choices(axes, [_columns(*one) for one in found])
    others = (limit.result for limit in estimator.limits[1:])
    flags = (*fit_flags(estimator), "no_legal_plan", *others)
    meanings = {
        **FEASIBLE,
        **field_metadata(estimator.plan, question.report),
        "plans_legal": {"unit": "1", "doc": "Plans that every rule of the split allows"},
        "plans_feasible": {"unit": "1", "doc": "Legal plans that fit the limit"},
        "reason": {"unit": "1", "doc": "Why no plan is there", "flags": flags},
    }
    if axes and len(estimator.limits) > 1:  # counts along axes are those of the first limit
        words = f"plans within {estimator.need}"
        meanings["plans_feasible"] = {"unit": "1", "doc": f"Legal {words}", "words": words}
    if estimator.need:
        need = dict(meanings[estimator.need])
        least, missing = f"{estimator.need}_least", f"{estimator.need}_missing"
        meanings[least] = {**need, "doc": "Least that any legal plan needs"}
        meanings[missing] = {**need, "doc": "What the leanest plan needs beyond the limit"}
    for limit in estimator.limits[1:]:
        about, doc = meanings[limit.result], "What the nearest plan has beyond the limit"
        meanings[f"{limit.result}_missing"] = {**about, "doc": doc, "headline": False}
    refused = Counter[str]()
    for _, one in found:
        refused.update(one.refused)
    attrs = provenance(
        estimator,
        question.inputs,
        question.recipe,
        axes,
        question="search",
        objective=question.objective,
        top=str(question.top),
        placements=str(question.placements).lower(),
        where=[str(c) for c in question.where],
        refused=dict(refused),
        combinations=str(sum(one.combinations for _, one in found)),
    )
    if not axes and not found[0][1].legal.item():
        attrs["none_legal"] = none_legal(question, refused)
    result = dataset(columns, axes, question.inputs, meanings, attrs)
    if question.top == 1:
        return result.isel(rank=0, drop=True)
    rank = xr.Variable("rank", np.arange(1, question.top + 1), {"long_name": "Place, best first"})
    return result.assign_coords(rank=rank)


def _columns(
    question: SearchProblem, found: SearchResult
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the winners and the counts of one search as columns over the grid."""
    estimator = question.estimator
    dims = tuple(axis.name for axis in question.axes)
    ranked = (*dims, "rank")
    columns: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        field: (ranked, values.astype(np.int64)) for field, values in found.plans.items()
    }
    held = found.held
    verdicts = {}
    inputs, who = winning_inputs(question, found), question.executor
    for name, flat in evaluate_points(estimator, question.recipe, inputs, executor=who).items():
        values = flat.reshape(found.winner.shape)
        if values.dtype == bool:
            verdicts[name] = values & held
        else:
            columns[name] = (ranked, np.where(held, values, np.nan))
    columns["feasible"] = (ranked, verdicts.get("feasible", held))
    # copies: what no machine moves is stored once, and cannot be written
    columns["plans_legal"] = (dims, found.legal.copy())
    columns["plans_feasible"] = (dims, np.where(held[..., 0], found.feasible, 0))
    if estimator.need:
        columns[f"{estimator.need}_least"] = (dims, found.least_need.copy())
    if estimator.need and estimator.limit is not None:
        limit = np.asarray(estimator.limit(spread(question.inputs, question.axes)))
        missing = np.maximum(found.least_need - limit, 0.0)
        columns[f"{estimator.need}_missing"] = (dims, missing)
    reason = np.where(columns["plans_feasible"][1] > 0, 0, np.where(found.legal > 0, 1, 2))
    others = [limit.result for limit in estimator.limits[1:]]
    nearest = {name: np.where(found.legal > 0, 0.0, np.nan) for name in others}
    for here, told in _beyond(question, ~held[..., 0] & (found.legal > 0)) if others else ():
        for name, column in nearest.items():
            column[here] = told[name][1]
        most = np.argmax([told[name][0] for name in others], axis=0)
        fits = missing[here] == 0.0  # some plans fit the first limit
        reason[here] = np.where(fits, 3 + most, reason[here])
    for name, column in nearest.items():
        columns[f"{name}_missing"] = (dims, column)
    columns["reason"] = (dims, reason.astype(np.int8))
    return columns


def _beyond(
    question: SearchProblem, lacking: np.ndarray
) -> Iterator[tuple[tuple[np.ndarray, ...], Mapping[str, tuple[np.ndarray, np.ndarray]]]]:
    """Yield places of the grid without a plan, and what each limit keeps out there (``misses``).

    Places that differ in bounds of limits alone come together: their plans are evaluated once.
    """
    kind, wide = axis_roles(question), spread(question.inputs, question.axes)
    moved = [d for d in range(lacking.ndim) if d not in (*kind.swept, *kind.limits)]
    bounds = {
        limit.result: np.broadcast_to(limit.of(wide), lacking.shape)
        for limit in question.estimator.limits
    }
    alike: dict[tuple[int, ...], list[np.ndarray]] = {}
    for index in np.argwhere(lacking):
        alike.setdefault(tuple(index[moved]), []).append(index)
    for some in alike.values():
        values = {
            path: column[at]
            for axis, at in zip(question.axes, some[0], strict=True)
            for path, column in axis.columns.items()
        }
        inputs, here = replace_all(question.inputs, values), tuple(np.stack(some, axis=1))
        machine = one_machine(dataclasses.replace(question, inputs=inputs, axes=()))
        yield here, misses(machine.limited, {name: b[here] for name, b in bounds.items()})


def winning_inputs(question: SearchProblem, found: SearchResult) -> Any:
    """Return the inputs with the winning plan of every point and rank, as columns."""
    wide = ravel_grid(spread(question.inputs, question.axes, extra=1), found.winner.shape)
    plans = {f: np.where(v < 0, 1.0, v).reshape(-1) for f, v in found.plans.items()}
    return dataclasses.replace(wide, plan=question.estimator.plan(**plans))  # type: ignore[misc]
