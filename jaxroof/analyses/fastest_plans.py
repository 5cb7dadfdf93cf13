"""The fastest plans of today's training that fit, each with the interval of its step time."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.least_memory import count_of, machine_of, reports, with_plans
from jaxroof.analyses.own_plan import fastest_place, filled_in, place_of
from jaxroof.analyses.plan_question import Question, Rules, question_of
from jaxroof.analyses.result_metadata import parts_of
from jaxroof.catalog.chip import Chip
from jaxroof.engine.search.none_legal import NoLegalPlan, none_legal
from jaxroof.engine.search.one_machine import OneMachine
from jaxroof.engine.search.problem import check_top
from jaxroof.errors import InputError
from jaxroof.estimator import TIE
from jaxroof.estimators.training.envelope import inside, reasons_outside
from jaxroof.estimators.training.interval import REGIMES, half_width_within_source, of_own_runs
from jaxroof.estimators.training.plan_time import plan_time
from jaxroof.estimators.training.plans import reasons
from jaxroof.estimators.training.step import training
from jaxroof.records import with_named_absences
from jaxroof.units import percent

LONGER = 0.1  # than the fastest, that a lean plan may take
OF_LAYER = {  # of one layer and one microbatch, forward and backward: what it is, and in words
    "matmul": ("Matrix products", "matrix products"),
    "attention": ("Attention", "attention"),
    "elementwise": ("Norms, activations and other element-wise kernels", "element-wise kernels"),
    "cast": ("Casts to few bits", "casts"),
    "recompute": ("What is computed again", "recomputation"),
    "tensor_comm": ("Messages of the tensor group that nothing hides", "tensor messages"),
    "context_comm": ("Exchange of the context group that nothing hides", "context messages"),
    "experts": ("Routed experts", "experts"),
    "expert_comm": ("Dispatch to experts and return", "expert messages"),
    "forward": ("Forward pass", "forward"),
    "backward": ("Backward pass", "backward"),
}
WAYS = ("forward", "backward")  # both of them are the whole layer


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
    given = {"chip": chip, **(settings or {}), **more}
    asked = question_of(model, system, global_batch, where, given, training)
    return fastest_of(asked, count_of(gpus), top, own).assign_attrs(
        model=str(model) if isinstance(model, str) else type(model).__name__,
        system=named,
    )


def fastest_of(asked: Question, size: int, top: int = 1, own: str | None = None) -> xr.Dataset:
    """Return the fastest plans of a checked question on some accelerators.

    Arguments and errors are as in ``fastest_plans``.
    """
    check_top(top)
    machine = machine_of(asked, size, training)
    if not machine.plans.size:
        raise NoLegalPlan(none_legal(machine.question, machine.refused))
    if not len(machine.fitting):
        raise NoPlanFits(
            f"plan: none of {machine.plans.size:,} legal ones fits on {size:,} accelerators; "
            f"expected more of them, or see what needs least: jaxroof fit"
        )
    return _told(asked, size, machine, top, own).assign_attrs(
        question="fastest plans", options=json.dumps({"own": own})
    )


class NoPlanFits(InputError):
    """No legal plan fits on the accelerators that are asked for."""


def _told(asked: Question, size: int, machine: OneMachine, top: int, own: str | None) -> xr.Dataset:
    """Return the first plans with all results, and what holds for all of them."""
    shown, times = machine.best(top)
    known = _measured_place(asked, size, machine, shown[0])
    lean = _lean_place(machine, shown[0], times[0])
    every = reports(machine, np.concatenate((shown, lean, known)))
    data = every.isel(plan=slice(len(shown)))
    place = int(data.regime[0])
    near, _ = machine.within(times[0] * np.exp(half_width_within_source(place)))
    whole = {
        "gpus": (size, "1", "Accelerators"),
        "capacity": (asked.capacity, "B", "High-bandwidth memory that a step may fill"),
        "plans_legal": (machine.plans.size, "1", "Legal plans on these accelerators"),
        "plans_feasible": (len(machine.fitting), "1", "Legal plans that fit"),
        "plans_alike": (
            len(machine.distinct(near)),
            "1",
            "Plans as fast as the best, to within the spread of runs",
        ),
    }
    whole |= _lean(machine.at(lean), every.isel(plan=[len(shown)]))
    if own is not None:
        whole |= _own(asked, machine, size, own)
    if len(known):
        whole |= _measured(machine.at(known), every.isel(plan=[-1]))
    made = {
        name: xr.Variable((), value, {"units": unit, "long_name": text})
        for name, (value, unit, text) in whole.items()
    }
    own_runs = of_own_runs(data.step_time_low[0], data.step_time_high[0], place)
    return data.assign({**_of_layers(machine, shown), **made}).assign_attrs(
        where=json.dumps([str(rule) for rule in asked.constraints]),
        refused=json.dumps(machine.refused),
        reasons=json.dumps(reasons(asked.recipe)),
        regime=REGIMES[place].words + ", own runs" * bool(own_runs),
        outside=json.dumps(_outside(asked, data.isel(plan=0))),
        software_year=float(asked.inputs.software.year),
    )


def _lean_place(machine: OneMachine, best: int, least: float) -> np.ndarray:
    """Return the position of the plan that needs least of those not much slower than the best.

    Optimizer states stay on the accelerators unless the best moves them to the host.
    """
    near, _ = machine.within(least * (1.0 + LONGER))
    off = machine.at(np.append(near, best), ("offload_optimizer",))["offload_optimizer"]
    some = near[off[:-1] <= off[-1]]
    return some[[np.argmin(machine.need[some])]]


def _lean(plan: Mapping[str, np.ndarray], report: xr.Dataset) -> dict[str, tuple[Any, str, str]]:
    """Return the leanest of the plans that are not much slower than the best."""
    fields = {name: int(n[0]) for name, n in plan.items()}
    about = f"of the leanest plan that takes at most {percent(LONGER)} longer than the fastest"
    return {
        "lean": (float(report.step_time[0]), "s", f"Step time {about}"),
        "lean_memory": (float(report.memory[0]), "B", f"Memory {about}"),
        "lean_plan": (json.dumps(fields), "1", "Its fields"),
    }


def _outside(asked: Question, plan: xr.Dataset) -> list[str]:
    """Return in words what of a plan lies outside the envelope of measured runs."""
    degrees = [float(plan[name]) for name in ("data", "tensor", "context", "pipeline")]
    inputs = asked.inputs
    extent = (float(inputs.model.sequence), float(inputs.system.fast_domain))
    return list(reasons_outside(math.prod(degrees), degrees[1], *extent))


def _of_layers(machine: OneMachine, shown: np.ndarray) -> dict[str, xr.Variable]:
    """Return the parts of one layer of the plans that are shown."""
    question = machine.question
    inputs = with_named_absences(with_plans(question.inputs, machine.at(shown)))
    time = plan_time(inputs, question.recipe)

    def column(values: Any, text: str, words: str) -> xr.Variable:
        wide = np.broadcast_to(np.asarray(values, np.float64), shown.shape)
        return xr.Variable(("plan",), wide, {"units": "s", "long_name": text, "words": words})

    return {f"layer_{n}": column(getattr(time, n), *said) for n, said in OF_LAYER.items()}


def _own(
    asked: Question, machine: OneMachine, size: int, own: str
) -> dict[str, tuple[Any, str, str]]:
    """Return the fastest plan with the fields of the user's, and its place among all that fit."""
    some = place_of(asked.inputs, asked.recipe, machine, size, own)
    place = fastest_place(machine, some)
    fields = {name: int(value[0]) for name, value in machine.at(place).items()}
    report = reports(machine, place)
    seconds = float(report.step_time[0])
    parts = {name: float(report[name][0]) for name in parts_of(report, "step_time")}
    faster, _ = machine.within(seconds * (1.0 - TIE))
    return {
        "own": (seconds, "s", "Step time of the fastest plan with the fields of yours"),
        **_interval("own", report),
        "own_device": (float(machine.need[place[0]]), "B", "Its memory"),
        "own_place": (1 + len(machine.distinct(faster)), "1", "Its place among plans that fit"),
        "own_plan": (json.dumps(fields), "1", "Its fields"),
        "own_filled": (
            json.dumps(filled_in(machine, own, some, int(place[0]))),
            "1",
            "Those that were left open",
        ),
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


def _measured_place(asked: Question, size: int, machine: OneMachine, best: int) -> np.ndarray:
    """Return the position of the fastest plan of a measured kind; none where the best is of one.

    Without offload and inside the envelope of measured runs; its interval is narrower.
    """

    def measured(positions: np.ndarray) -> np.ndarray:
        plans: Any = machine.at(positions, ("tensor", "offload_optimizer"))
        inputs = asked.inputs
        extent = inside(size, plans["tensor"], inputs.model.sequence, inputs.system.fast_domain)
        return positions[np.asarray(extent * (plans["offload_optimizer"] == 0)) > 0.0]

    if len(measured(np.array([best]))):
        return np.empty(0, np.int64)
    return machine.best(1, measured(machine.fitting))[0]


def _measured(plan: Mapping[str, Any], report: xr.Dataset) -> dict[str, tuple[Any, str, str]]:
    """Return the fastest plan of a measured kind, with its interval."""
    fields, time = {name: int(n[0]) for name, n in plan.items()}, float(report.step_time[0])
    about = "Step time of the fastest measured kind of plan"
    told: dict[str, tuple[Any, str, str]] = {"measured": (time, "s", about)}
    told["measured_plan"] = json.dumps(fields), "1", "Its fields"
    return {**told, **_interval("measured", report)}
