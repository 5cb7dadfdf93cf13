"""The fastest plans of today's training that fit, each with the interval of its step time."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.training_question import Rules, plans_asked, plans_on
from jaxroof.catalog.chip import Chip
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.search.none_legal import NoLegalPlan, none_legal
from jaxroof.engine.search.one_machine import (
    OneMachine,
    Whole,
    as_variables,
    fields_of,
    ranked_plans,
)
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.errors import InputError
from jaxroof.estimators.training.interval import REGIMES, inside, of_own_runs, reasons_outside
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.limits import check_bound
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
MULTIPLES = (64, 16)  # sequences: batches of which most degrees divide
WORTH = 1.05  # times as many sequences a second that are worth a sentence


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
    named = {"model": model, "system": system}
    given = {**named, "global_batch": global_batch, "chip": chip, **(settings or {}), **more}
    found = fastest_of(plans_asked(training, given, where), gpus, top, own)
    return found.assign_attrs(names_of(**named))


def names_of(**records: Any) -> dict[str, str]:
    """Return what records are called in the attributes of an answer."""
    return {
        key: named if isinstance(named, str) else type(named).__name__
        for key, named in records.items()
    }


def fastest_of(asked: SearchProblem, gpus: Any, top: int = 1, own: str | None = None) -> xr.Dataset:
    """Return the fastest plans of a checked search on some accelerators.

    Arguments and errors are as in ``fastest_plans``.
    """
    check_bound("top", "top", top)
    machine, size = plans_on(asked, gpus, top), int(gpus)
    if not machine.plans.size:
        raise NoLegalPlan(none_legal(machine.question, machine.refused))
    if not len(machine.fitting):
        raise NoPlanFits(
            f"plan: none of {machine.plans.size:,} legal ones fits on {size:,} accelerators; "
            f"expected more of them, or see what needs least: jaxroof fit"
        )
    data = ranked_plans(machine, own)
    data = data.rename(own_need="own_device") if own is not None else data
    whole: dict[str, tuple[Any, str, str]] = {
        "gpus": (size, "1", "Accelerators"),
        "capacity": (machine.limit, "B", "High-bandwidth memory that a step may fill"),
        **_lean(machine, data.isel(plan=0)),
        **_measured(machine, data.isel(plan=0)),
    }
    best, inputs = data.isel(plan=0), asked.inputs
    place = int(best.regime)
    degrees = [float(best[name]) for name in ("data", "tensor", "context", "pipeline")]
    extent = float(inputs.model.sequence), float(inputs.system.fast_domain)
    own_runs = of_own_runs(best.step_time_low, best.step_time_high, place)
    return data.assign({**_of_layers(machine, data), **as_variables(whole)}).assign_attrs(
        question="fastest plans",
        options=json.dumps({"own": own}),
        regime=REGIMES[place].words + ", own runs" * bool(own_runs),
        outside=json.dumps([*reasons_outside(math.prod(degrees), degrees[1], *extent)]),
        software_year=float(inputs.software.year),
    )


class NoPlanFits(InputError):
    """No legal plan fits on the accelerators that are asked for."""


def _lean(machine: OneMachine, best: xr.Dataset) -> Whole:
    """Return the plan that needs least of those not much slower than the best.

    Optimizer states stay on the accelerators unless the best moves them to the host.
    """
    near, values = machine.within(float(best.step_time) * (1.0 + LONGER))
    off = machine.at(near, ("offload_optimizer",))["offload_optimizer"]
    kept = off <= int(best.offload_optimizer)
    place = int(np.argmin(machine.need[near[kept]]))
    lean, which = int(near[kept][place]), f"of the leanest at most {percent(LONGER)} slower"
    return {
        "lean": (float(values[kept][place]), "s", f"Step time {which}"),
        "lean_memory": (float(machine.need[lean]), "B", f"Memory {which}"),
        **fields_of(machine, lean, "lean_plan"),
    }


def _of_layers(machine: OneMachine, plans: xr.Dataset) -> dict[str, xr.Variable]:
    """Return the parts of one layer of some plans."""
    question = machine.question
    fields = {field: plans[field].values for field in training.plan_fields}
    asked = with_named_absences(with_plans(training, question.inputs, fields))
    time = plan_time(asked, question.recipe)
    found = {**time.layer._asdict(), **time.sharded._asdict()}

    def column(values: Any, text: str, words: str) -> xr.Variable:
        wide = np.broadcast_to(np.asarray(values, np.float64), plans.sizes["plan"])
        return xr.Variable(("plan",), wide, {"units": "s", "long_name": text, "words": words})

    return {f"layer_{n}": column(found[n], *said) for n, said in OF_LAYER.items()}


def _measured(machine: OneMachine, best: xr.Dataset) -> Whole:
    """Return the fastest plan of a measured kind, with its interval; none where the best is of one.

    Without offload and inside the envelope of measured runs; its interval is narrower.
    """
    inputs = machine.question.inputs

    def is_measured(plans: Mapping[str, Any]) -> np.ndarray:
        extent = inputs.gpus, plans["tensor"], inputs.model.sequence, inputs.system.fast_domain
        return np.asarray(inside(*extent) * (plans["offload_optimizer"] == 0)) > 0.0

    fits = machine.fitting
    fields = ("tensor", "offload_optimizer")
    if is_measured({name: best[name].values for name in fields}).item():
        return {}
    place = machine.best(1, fits[is_measured(machine.at(fits, fields))])[0]
    if not len(place):
        return {}
    plan = machine.reports(place).isel(plan=0)
    return {
        "measured": (float(plan.step_time), "s", "Step time of the fastest measured kind of plan"),
        **fields_of(machine, int(place[0]), "measured_plan"),
        "measured_low": (float(plan.step_time_low), "s", "The short end of 80 % of runs"),
        "measured_high": (float(plan.step_time_high), "s", "The long end of 80 % of runs"),
    }


def near_batches(batch: int) -> Iterator[int]:
    """Yield the nearest multiples to a batch that divides badly, none if it divides well.

    >>> list(near_batches(1023)), list(near_batches(1024)), list(near_batches(48))
    ([1024, 1008], [], [])
    """
    if any(batch % size == 0 for size in MULTIPLES):
        return
    for size in MULTIPLES:
        near = max(round(batch / size), 1) * size
        yield near if size == MULTIPLES[0] or near % MULTIPLES[0] else near - size


def better_batch(
    best: xr.Dataset, batch: int, ask: Callable[[int], xr.Dataset]
) -> tuple[int, float] | None:
    """Return the near batch that trains most sequences a second, and how many times as many.

    Arguments: ``best`` are the fastest plans at ``batch``, ``ask`` returns those at another. None
    if no near batch is worth it.
    """
    found: dict[int, float] = {}
    for near in near_batches(batch):
        try:
            found[near] = float(ask(near).throughput[0] / best.throughput[0])
        except InputError:  # no plan is legal or fits there
            continue
    most = max(found, key=lambda near: found[near], default=None)
    return (most, found[most]) if most is not None and found[most] >= WORTH else None
