"""The fastest plans of today's training that fit, each with the interval of its step time."""

import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.least_memory import (
    count_of,
    needs,
    reports,
)
from jaxroof.analyses.no_legal_plan import NoLegalPlan, no_legal_plan
from jaxroof.analyses.own_plan import place_of
from jaxroof.analyses.plan_product import ALIKE, Listed, plan_times, with_plans
from jaxroof.analyses.plan_question import Question, Rules, question_of
from jaxroof.analyses.result_metadata import parts_of
from jaxroof.analyses.training_settings import with_chip
from jaxroof.catalog.chip import Chip
from jaxroof.engine.grid.effective import check_effective
from jaxroof.engine.search.candidates import InputsKey, read_paths
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import check_top
from jaxroof.errors import InputError
from jaxroof.estimators.training.envelope import inside, reasons_outside
from jaxroof.estimators.training.interval import REGIMES, half_width_within_source, of_own_runs
from jaxroof.estimators.training.legality import rules
from jaxroof.estimators.training.plan_time import plan_time
from jaxroof.estimators.training.precision import with_precision
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.training_recipe import memory_recipe
from jaxroof.records import with_named_absences

TIE = 1e-12  # relative difference of times that take as long
PIECE = 1 << 15  # plans timed at once, so that what is written stays in the cache
OF_LAYER = {  # of one layer and one microbatch, forward and backward
    "matmul": "Matrix products",
    "attention": "Attention",
    "elementwise": "Norms, activations and other element-wise kernels",
    "cast": "Casts to few bits",
    "recompute": "What is computed again",
    "tensor_comm": "Messages of the tensor group that nothing hides",
    "context_comm": "Exchange of the context group that nothing hides",
    "experts": "Routed experts",
    "expert_comm": "Dispatch to experts and return",
    "forward": "Forward pass",
    "backward": "Backward pass",
}


def fastest_plans(
    *,
    model: Any,
    system: Any,
    global_batch: Any,
    gpus: Any,
    where: Rules = (),
    top: int = 1,
    own: str | None = None,
    chip: Chip | str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the plans of a training step that fit and take the shortest time, fastest first.

    Every legal plan is evaluated: memory decides which fit, then the step time ranks them.
    ``where``, ``own`` and settings are as in ``least_memory``; settings may also change
    ``chip.FIELD``, ``shared.FIELD`` (constants of all chips) and ``software.FIELD``. ``chip`` is
    that of the system, unless a record, another name or a file is given; with constants that
    ``jaxroof calibrate`` fitted to runs of your own, the interval is theirs.

    Returns: a Dataset over ``plan`` of plan fields and all results of the estimator ``training``
    (``step_time`` with its 80 % interval among them), and ``layer_*``, the parts of one layer;
    without a plan ``gpus``, ``plans_feasible``, ``plans_alike`` (as fast as the best to within the
    spread of runs of one software) and so on.
    Raises: InputError for bad input, for a system whose chip is not calibrated, and if no plan is
    legal or fits.

    >>> data = fastest_plans(
    ...     model="llama3-8b", system="h100-nvs8", global_batch=64, gpus=8, where="tp<=8"
    ... )
    >>> bool(data.step_time_low[0] < data.step_time[0] < data.step_time_high[0])
    True
    """
    named = str(system) if isinstance(system, str) else type(system).__name__
    given = with_precision({**(settings or {}), **more}, system, training)
    machine, rest = with_chip(given, system, chip)
    asked = question_of(model, machine, global_batch, where, rest, training)
    check_effective(training, asked.inputs, asked.recipe, rest)
    return fastest_of(asked, count_of(gpus), top, own).assign_attrs(
        model=str(model) if isinstance(model, str) else type(model).__name__,
        system=named,
    )


def fastest_of(asked: Question, size: int, top: int = 1, own: str | None = None) -> xr.Dataset:
    """Return the fastest plans of a checked question on some accelerators.

    Arguments and errors are as in ``fastest_plans``.
    """
    check_top(top)
    sized = _asked_for(asked, size)
    key = InputsKey.of(sized, read_paths(training, asked.recipe, sized))
    found, need = _needs(asked.recipe, key, asked.constraints)
    if not found.size:
        raise NoLegalPlan(no_legal_plan(asked, [size], found.refused, size))
    fitting = np.flatnonzero(need <= asked.capacity)
    if not len(fitting):
        raise NoPlanFits(
            f"plan: none of {found.size:,} legal ones fits on {size:,} accelerators; "
            f"expected more of them, or see what needs least: jaxroof fit"
        )
    ranking = Ranking(found, need, fitting, _times(asked, size, found, fitting))
    return _told(asked, size, ranking, top, own).assign_attrs(
        question="fastest plans", options=json.dumps({"own": own})
    )


@functools.lru_cache(maxsize=2)  # lists are long; a question that changes rates alone has the same
def _needs(
    recipe: Any, known: InputsKey, where: tuple[Constraint, ...]
) -> tuple[Listed, np.ndarray]:
    """Return the legal plans and the memory of each, by what these depend on alone."""
    inputs = known.inputs()
    found, need = needs(inputs, recipe, int(inputs.gpus), where)
    need.setflags(write=False)
    return found, need


class NoPlanFits(InputError):
    """No legal plan fits on the accelerators that are asked for."""


class Ranking(NamedTuple):
    """The plans of a question, and the times of those that fit."""

    plans: Listed
    need: np.ndarray  # of every plan [B]
    fitting: np.ndarray  # positions of the plans that fit
    times: np.ndarray  # theirs [s]


def _told(asked: Question, size: int, ranking: Ranking, top: int, own: str | None) -> xr.Dataset:
    """Return the first plans with all results, and what holds for all of them."""
    found, _, fitting, times = ranking
    shown = _distinct(found, fitting[_fastest_first(ranking, top)])[:top]
    known = _measured_place(asked, size, ranking)
    every = reports(asked.inputs, asked.recipe, size, found, np.append(shown, known), training)
    data = every.isel(plan=slice(len(shown)))
    place = int(data.regime[0])
    near = times <= times.min() * np.exp(half_width_within_source(place))
    alike = len(_distinct(found, fitting[near]))
    whole = {
        "gpus": (size, "1", "Accelerators"),
        "capacity": (asked.capacity, "B", "High-bandwidth memory that a step may fill"),
        "plans_legal": (found.size, "1", "Legal plans on these accelerators"),
        "plans_feasible": (len(fitting), "1", "Legal plans that fit"),
        "plans_alike": (alike, "1", "Plans as fast as the best, to within the spread of runs"),
    }
    if own is not None:
        whole |= _own(asked, ranking, size, own)
    if len(known):
        whole |= _measured(found.at(known), every.isel(plan=[-1]))
    made = {
        name: xr.Variable((), value, {"units": unit, "long_name": text})
        for name, (value, unit, text) in whole.items()
    }
    own_runs = of_own_runs(data.step_time_low[0], data.step_time_high[0], place)
    layers = _of_layers(asked, size, found, shown)
    return data.assign({**layers, **made}).assign_attrs(
        where=json.dumps([str(rule) for rule in asked.constraints]),
        refused=json.dumps(found.refused),
        reasons=json.dumps({rule.name: rule.words for rule in rules(memory_recipe(asked.recipe))}),
        regime=REGIMES[place].words + ", own runs" * bool(own_runs),
        outside=json.dumps(_outside(asked, data.isel(plan=0))),
        deepest_pipeline=int(found.split["pipeline"].max()),
        software_year=float(asked.inputs.software.year),
    )


def _fastest_first(ranking: Ranking, top: int) -> np.ndarray:
    """Return the order of the first plans that fit: by time, those that take as long by memory."""
    _, need, fitting, times = ranking
    last = min(top * ALIKE, len(times)) - 1
    some = np.flatnonzero(times <= np.partition(times, last)[last] * (1.0 + TIE))
    some = some[np.argsort(times[some], kind="stable")]
    later = np.diff(times[some]) > TIE * times[some][1:]
    group = np.concatenate(([0], np.cumsum(later)))
    return some[np.lexsort((need[fitting[some]], group))]


def _distinct(found: Listed, places: np.ndarray) -> np.ndarray:
    """Return places without those of plans that differ from an earlier one only in name.

    Without replicas there is nothing to shard, whatever the ZeRO stage.
    """
    plans = found.at(places)
    stage = np.where(plans["data"] * plans["context"] > 1, plans["zero_stage"], -1)
    columns = np.stack([*({**plans, "zero_stage": stage}).values()])
    _, first = np.unique(columns, axis=1, return_index=True)
    return places[np.sort(first)]


def _outside(asked: Question, plan: xr.Dataset) -> list[str]:
    """Return in words what of a plan lies outside the envelope of measured runs."""
    degrees = [float(plan[name]) for name in ("data", "tensor", "context", "pipeline")]
    inputs = asked.inputs
    extent = (float(inputs.model.sequence), float(inputs.system.fast_domain))
    return list(reasons_outside(math.prod(degrees), degrees[1], *extent))


def _asked_for(asked: Question, size: int) -> Any:
    """Return the inputs on some accelerators, without a plan."""
    return dataclasses.replace(asked.inputs, gpus=np.float64(size), plan=None)


def _times(asked: Question, size: int, found: Listed, positions: np.ndarray) -> np.ndarray:
    """Return the step time of plans at some positions."""
    inputs = _asked_for(asked, size)
    pieces = (positions[start : start + PIECE] for start in range(0, len(positions), PIECE))
    return np.concatenate([plan_times(inputs, asked.recipe, found.at(some)) for some in pieces])


def _of_layers(
    asked: Question, size: int, found: Listed, shown: np.ndarray
) -> dict[str, xr.Variable]:
    """Return the parts of one layer of the plans that are shown."""
    inputs = with_named_absences(with_plans(_asked_for(asked, size), found.at(shown)))
    time = plan_time(inputs, asked.recipe)

    def column(values: Any, text: str) -> xr.Variable:
        wide = np.broadcast_to(np.asarray(values, np.float64), shown.shape)
        return xr.Variable(("plan",), wide, {"units": "s", "long_name": text})

    return {f"layer_{n}": column(getattr(time, n), text) for n, text in OF_LAYER.items()}


def _own(asked: Question, ranking: Ranking, size: int, own: str) -> dict[str, tuple[Any, str, str]]:
    """Return the fastest plan with the fields of the user's, and its place among all that fit."""
    found, need, fitting, times = ranking
    some = place_of(asked.inputs, asked.recipe, found, size, own)
    chosen, places, _ = np.intersect1d(fitting, some, assume_unique=True, return_indices=True)
    taken = times[places]
    if not len(chosen):  # what needs least decides whether any could fit
        chosen = some[[np.argmin(need[some])]]
        taken = _times(asked, size, found, chosen)
    least = int(np.argmin(taken))
    place, seconds = chosen[least], float(taken[least])
    fields = {name: int(value[0]) for name, value in found.at(np.array([place])).items()}
    report = reports(asked.inputs, asked.recipe, size, found, np.array([place]), training)
    parts = {name: float(report[name][0]) for name in parts_of(report, "step_time")}
    return {
        "own": (seconds, "s", "Step time of the fastest plan with the fields of yours"),
        **_interval("own", report),
        "own_device": (float(need[place]), "B", "Its memory"),
        "own_place": (1 + int(np.sum(times < seconds)), "1", "Its place among plans that fit"),
        "own_plan": (json.dumps(fields), "1", "Its fields"),
        "own_parts": (json.dumps(parts), "s", "The parts of its step time"),
    }


def _interval(of: str, report: xr.Dataset) -> dict[str, tuple[Any, str, str]]:
    """Return the ends of the interval of the first plan's step time."""
    return {
        f"{of}_{end}": (
            float(report[f"step_time_{end}"][0]),
            "s",
            f"The {words} end of 80 % of runs",
        )
        for end, words in (("low", "short"), ("high", "long"))
    }


def _measured_place(asked: Question, size: int, ranking: Ranking) -> np.ndarray:
    """Return the position of the fastest plan of a measured kind; none where the best is of one.

    Without offload and inside the envelope of measured runs; its interval is narrower.
    """
    found, _, fitting, times = ranking
    plans: Any = found.at(fitting)
    inputs = asked.inputs
    extent = inside(size, plans["tensor"], inputs.model.sequence, inputs.system.fast_domain)
    known = np.asarray(extent * (plans["offload_optimizer"] == 0)) > 0.0
    if known[np.argmin(times)] or not known.any():
        return fitting[:0]
    return fitting[np.flatnonzero(known)[[np.argmin(times[known])]]]


def _measured(plan: Mapping[str, Any], report: xr.Dataset) -> dict[str, tuple[Any, str, str]]:
    """Return the fastest plan of a measured kind, with its interval."""
    fields, time = {name: int(n[0]) for name, n in plan.items()}, float(report.step_time[0])
    about = "Step time of the fastest measured kind of plan"
    told: dict[str, tuple[Any, str, str]] = {"measured": (time, "s", about)}
    told["measured_plan"] = json.dumps(fields), "1", "Its fields"
    return {**told, **_interval("measured", report)}
