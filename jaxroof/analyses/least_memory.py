"""The plans that need the least memory: on some accelerators, or on the fewest that hold one."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.no_legal_plan import NoLegalPlan, no_legal_plan
from jaxroof.analyses.own_plan import place_of
from jaxroof.analyses.plan_product import ALIKE, Listed, listed, memory_of_all, with_plans
from jaxroof.analyses.plan_question import Question, Rules, question_of
from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import check_top, searchable_report
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.legality import rules
from jaxroof.estimators.training.memory_step import (
    fewest_state_bytes,
    stage_memory,
)
from jaxroof.estimators.training.plans import STATES, cluster_sizes
from jaxroof.estimators.training.training_recipe import memory_recipe

MOST = 16384  # accelerators that are tried for the fewest that hold a step
Progress = Callable[[int, int], None]


def least_memory(
    *,
    model: Any,
    system: Any,
    global_batch: Any,
    gpus: Any = None,
    most: int = MOST,
    where: Rules = (),
    top: int = 1,
    own: str | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the plans of a training step that need the least memory, least first.

    With ``gpus``: those of that many accelerators, whether or not they fit. Without: those of the
    smallest number, at most ``most``, on which a plan fits. Every legal plan is evaluated, of every
    number from the first that could hold the states. ``where`` constrains plans
    (``"tensor<=8,zero<=1,rc<=1,off=0"``), ``settings`` and keywords are fields of the inputs or
    choices, as in ``jaxroof.evaluate``; ``own`` are fields of a plan of yours
    (``"tp=8,pp=16"``), whose leanest is placed among all; ``progress`` gets (numbers of
    accelerators tried, in all). Of plans that need as much and have the same degrees and
    microbatch, the first stands for all.

    Returns: a Dataset over ``plan`` of plan fields and all results, ``gpus``, ``capacity``,
    ``fits``, ``plans_legal`` and ``plans_feasible`` of that number of accelerators, and
    ``sizes_tried``. If no number holds it, the plans are those of the number with the least.
    Raises: InputError for bad input, and if no plan is legal.

    >>> data = least_memory(model="llama3-8b", system="h100-nvs8", global_batch=64, where="off=0")
    >>> int(data.gpus), bool(data.fits)
    (2, True)
    """
    asked = question_of(model, system, global_batch, where, {**(settings or {}), **more})
    data = least_memory_of(asked, gpus=gpus, most=most, top=top, own=own, progress=progress)
    return data.assign_attrs(model=_named(model), system=_named(system))


def least_memory_of(
    asked: Question,
    *,
    gpus: Any = None,
    most: int = MOST,
    top: int = 1,
    own: str | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Return the plans of a checked question that need the least memory.

    Arguments and errors are as in ``least_memory``.
    """
    check_top(top)
    inputs, recipe, constraints, capacity = asked
    sizes = [count_of(gpus)] if gpus is not None else _sizes(inputs, recipe, most, capacity)
    best = _leanest(inputs, recipe, sizes, constraints, capacity, progress)
    if not len(best.need):
        raise NoLegalPlan(no_legal_plan(asked, sizes, best.plans.refused, most))
    data = reports(inputs, recipe, best.gpus, best.plans, _first(best.plans, best.need, top))
    whole = _whole(best, capacity)
    if own is not None:
        whole |= _place_of(inputs, recipe, best, own)
    made = {n: xr.Variable((), value, _about(*about)) for n, (value, *about) in whole.items()}
    return data.assign(made).assign_attrs(
        question="least memory",
        options=json.dumps({"gpus": gpus and float(gpus), "most": most, "own": own}),
        where=json.dumps([str(rule) for rule in constraints]),
        refused=json.dumps(best.plans.refused),
        reasons=json.dumps({rule.name: rule.words for rule in rules(memory_recipe(recipe))}),
    )


class Leanest(NamedTuple):
    """The legal plans of one number of accelerators, and the memory of each."""

    gpus: int
    plans: Listed
    need: np.ndarray  # [B]
    tried: int  # numbers of accelerators

    @property
    def least(self) -> float:
        """Return the least memory of any plan."""
        return float(self.need.min(initial=np.inf))


def _leanest(
    inputs: Any,
    recipe: Any,
    sizes: Sequence[int],
    constraints: tuple[Constraint, ...],
    capacity: float,
    progress: Progress | None,
) -> Leanest:
    """Return the plans of the first number of accelerators that holds one, or of the nearest."""
    best: Leanest | None = None
    for tried, size in enumerate(sizes, 1):
        here = Leanest(size, *needs(inputs, recipe, size, constraints), tried)
        if best is None or here.least < best.least:
            best = here
        if progress is not None:
            progress(tried, len(sizes))
        if here.least <= capacity:
            return here
    assert best is not None
    return best._replace(tried=len(sizes))


Whole = dict[str, tuple[Any, str, str]]  # value, unit, sentence of what holds for all plans


def _about(unit: str, text: str) -> dict[str, str]:
    return {"units": unit, "long_name": text}


def _whole(best: Leanest, capacity: float) -> Whole:
    """Return what holds for all plans."""
    feasible = int(np.sum(best.need <= capacity))
    return {
        "gpus": (best.gpus, "1", "Accelerators"),
        "capacity": (capacity, "B", "High-bandwidth memory that a step may fill"),
        "fits": (feasible > 0, "1", "Whether a plan fits"),
        "plans_legal": (len(best.need), "1", "Legal plans on these accelerators"),
        "plans_feasible": (feasible, "1", "Legal plans that fit"),
        "sizes_tried": (best.tried, "1", "Numbers of accelerators whose every plan was evaluated"),
    }


def _place_of(inputs: Any, recipe: Any, best: Leanest, own: str) -> Whole:
    """Return the memory and the place of the leanest plan with the fields of the user's.

    Raises: InputError for fields that are not numbers, and with the rule that refuses the plan.
    """
    need, some = best.need, place_of(inputs, recipe, best.plans, best.gpus, own)
    place = int(some[np.argmin(need[some])])
    mine = {name: int(value[0]) for name, value in best.plans.at(np.array([place])).items()}
    rank = 1 + int(np.sum(need < need[place]))
    return {
        "own": (float(need[place]), "B", "Memory of the leanest plan with the fields of yours"),
        "own_place": (rank, "1", "Its place among all legal plans, by memory"),
        "own_plan": (json.dumps(mine), "1", "Its fields"),
    }


def needs(
    inputs: Any, recipe: Any, gpus: int, where: tuple[Constraint, ...] = ()
) -> tuple[Listed, np.ndarray]:
    """Return the legal plans of some accelerators, constrained, and the memory of each [B]."""
    asked = dataclasses.replace(inputs, gpus=np.float64(gpus), plan=None)
    found = listed(asked, recipe, gpus, where)
    return found, memory_of_all(asked, recipe, found)


def reports(
    inputs: Any,
    recipe: Any,
    gpus: int,
    found: Listed,
    positions: np.ndarray,
    estimator: Estimator = stage_memory,
) -> xr.Dataset:
    """Return some of the plans with all their results, as a Dataset over ``plan``."""
    asked = dataclasses.replace(inputs, gpus=np.float64(gpus), plan=None)
    some = found.at(positions)
    results = evaluate_points(estimator, recipe, with_plans(asked, some))
    columns = {**{field: column.astype(np.int64) for field, column in some.items()}, **results}
    meanings = field_metadata(estimator.plan, searchable_report(estimator, asked, recipe))
    return dataset(
        {name: (("plan",), values) for name, values in columns.items()},
        (),
        asked,
        meanings,
        provenance(estimator, asked, recipe),
    )


def _first(found: Listed, need: np.ndarray, top: int) -> np.ndarray:
    """Return the positions of the plans that need least, one of those that differ in states alone.

    Plans are sorted, so that the first of those that tie comes first.
    """
    some = np.argsort(need, kind="stable")[: top * ALIKE]
    split = [column for name, column in found.at(some).items() if name not in STATES]
    rows = np.stack([need[some], *split])
    _, first = np.unique(rows, axis=1, return_index=True)
    return some[np.sort(first)][:top]


def count_of(gpus: Any) -> int:
    """Return a number of accelerators.

    Raises: InputError if it is not a whole number from 1 to 1e9.
    """
    if not 1 <= float(gpus) == int(gpus) <= 1e9:
        raise refusal("gpus", f"expected a whole number from 1 to 1e9, given {gpus}")
    return int(gpus)


def _sizes(inputs: Any, recipe: Any, most: int, capacity: float) -> list[int]:
    """Return the numbers of accelerators that legal plans have and that could hold the states."""
    sizes = cluster_sizes(inputs, recipe, most)
    least = float(fewest_state_bytes(inputs, recipe))
    return [int(size) for size in sizes if least <= size * capacity] or [int(sizes[-1])]


def _named(what: Any) -> str:
    return type(what).__name__ if dataclasses.is_dataclass(what) else str(what)
