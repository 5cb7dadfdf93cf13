"""The plans that need the least memory: on some accelerators, or on the fewest that hold one."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import names_of
from jaxroof.analyses.training_question import Rules, plans_asked, plans_on
from jaxroof.engine.search.candidates import needs_of, plan_product
from jaxroof.engine.search.none_legal import NoLegalPlan, none_legal
from jaxroof.engine.search.one_machine import (
    OneMachine,
    Whole,
    as_variables,
    fields_of,
    filled_of,
    limit_of,
    own_of,
)
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.estimators.training.plans import STATES, cluster_sizes
from jaxroof.estimators.training.step import fewest_state_bytes, stage_memory
from jaxroof.limits import check_bound
from jaxroof.plan_lists import distinct_rows

ALIKE = math.prod(map(len, STATES.values()))  # plans of the same degrees and microbatch
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
    named = {"model": model, "system": system}
    given = {**named, "global_batch": global_batch, **(settings or {}), **more}
    asked = plans_asked(stage_memory, given, where)
    data = least_memory_of(asked, gpus=gpus, most=most, top=top, own=own, progress=progress)
    return data.assign_attrs(names_of(**named))


def least_memory_of(
    asked: SearchProblem,
    *,
    gpus: Any = None,
    most: int = MOST,
    top: int = 1,
    own: str | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Return the plans of a checked search that need the least memory.

    Arguments and errors are as in ``least_memory``.
    """
    check_bound("top", "top", top)
    sizes = [gpus] if gpus is not None else _sizes(asked, most)
    size, tried = (sizes[0], 1) if gpus is not None else _leanest(asked, sizes, progress)[:2]
    machine = plans_on(asked, size)
    if not machine.plans.size:
        tried_to = most if gpus is None and len(sizes) > 1 else None
        raise NoLegalPlan(none_legal(machine.question, machine.refused, tried_to))
    data = machine.reports(_first(machine, top))
    whole: dict[str, tuple[Any, str, str]] = {
        "gpus": (int(size), "1", "Accelerators"),
        "capacity": (machine.limit, "B", "High-bandwidth memory that a step may fill"),
        "fits": (len(machine.fitting) > 0, "1", "Whether a plan fits"),
        "plans_legal": (machine.plans.size, "1", "Legal plans on these accelerators"),
        "plans_feasible": (len(machine.fitting), "1", "Legal plans that fit"),
        "sizes_tried": (tried, "1", "Numbers of accelerators whose every plan was evaluated"),
        **(_place_of(machine, own) if own is not None else {}),
    }
    return data.assign(as_variables(whole)).assign_attrs(
        question="least memory",
        options=json.dumps({"gpus": gpus and float(gpus), "most": most, "own": own}),
    )


def fewest_accelerators(
    *,
    model: Any,
    system: Any,
    global_batch: Any,
    above: int = 0,
    most: int = MOST,
    where: Rules = (),
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> int | None:
    """Return the smallest number of accelerators above another that holds a plan, None if none.

    Arguments and errors are as in ``least_memory``.
    """
    named = {"model": model, "system": system, "global_batch": global_batch}
    asked = plans_asked(stage_memory, {**named, **(settings or {})}, where)
    sizes = [size for size in _sizes(asked, most) if size > above]
    size, _, holds = _leanest(asked, sizes, progress) if sizes else (0, 0, False)
    return size if holds else None


def _leanest(
    asked: SearchProblem, sizes: list[int], progress: Progress | None
) -> tuple[int, int, bool]:
    """Return the first number of accelerators that holds a plan, how many were tried, and True.

    If none holds one, the number whose leanest plan needs least, and False.
    """
    nearest, least = sizes[0], np.inf
    for tried, size in enumerate(sizes, 1):
        inputs = dataclasses.replace(asked.inputs, gpus=np.float64(size), plan=None)
        plans = plan_product(stage_memory, inputs, asked.recipe, asked.where)
        need = needs_of(stage_memory, asked.recipe, inputs, plans)
        if need.min(initial=np.inf) < least:
            nearest, least = size, float(need.min())
        if progress is not None:
            progress(tried, len(sizes))
        if least <= limit_of(asked):
            return size, tried, True
    return nearest, len(sizes), False


def _place_of(machine: OneMachine, own: str) -> Whole:
    """Return the memory and the place of the leanest plan with the fields of the user's."""
    found = own_of(machine, own)
    place = int(found.some[0])
    need = float(machine.need[place])
    rank = 1 + int(np.sum(machine.need < need))
    return {
        "own": (need, "B", "Memory of the leanest plan with the fields of yours"),
        "own_place": (rank, "1", "Its place among all legal plans, by memory"),
        **fields_of(machine, place),
        **filled_of(machine, found, place),
    }


def _first(machine: OneMachine, top: int) -> np.ndarray:
    """Return the positions of the plans that need least.

    Of those that need as much and have the same degrees and microbatch, the first stands for all.
    """
    some = machine.leanest(top * ALIKE)
    plans = {name: column for name, column in machine.at(some).items() if name not in STATES}
    same = np.unique(machine.need[some], return_inverse=True)[1]
    return some[distinct_rows([same, *plans.values()])[0]][:top]


def _sizes(asked: SearchProblem, most: int) -> list[int]:
    """Return the numbers of accelerators that legal plans have and that could hold the states."""
    sizes = cluster_sizes(asked.inputs, asked.recipe, most)
    least = float(fewest_state_bytes(asked.inputs, asked.recipe))
    return [int(size) for size in sizes if least <= size * limit_of(asked)] or [int(sizes[-1])]
