"""The plans of today's training: the fastest that fit, those that need least, one of your own."""

import contextlib
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.catalog.chip import Chip
from jaxroof.catalog.lookup import nearest_words, refuse_torus
from jaxroof.engine.grid.question import Question, ask, long_names
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.none_legal import NoLegalPlan, none_legal
from jaxroof.engine.search.one_machine import (
    OneMachine,
    Whole,
    as_variables,
    fields_of,
    filled_of,
    limit_of,
    missed_of,
    one_machine,
    own_of,
    standing,
)
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.engine.search.several_limits import limits_told
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import TORUS, on_system
from jaxroof.estimators.training.inputs import TrainingInputs, planned
from jaxroof.estimators.training.interval import (
    REGIMES,
    inside,
    of_own_runs,
    reasons_outside,
)
from jaxroof.estimators.training.legality import refuse_illegal
from jaxroof.estimators.training.plans import DEGREES, SELDOM, STATES, cluster_sizes
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of
from jaxroof.estimators.training.step import fewest_state_bytes, stage_memory, training
from jaxroof.estimators.training.step_time import plan_time
from jaxroof.limits import check_bound
from jaxroof.missing import naming_all
from jaxroof.plan_lists import distinct_rows
from jaxroof.records import get_at, leaves, replace_at, with_named_absences
from jaxroof.units import percent

Rules = str | Iterable[str | Constraint]
Progress = Callable[[int, int], None]
LONGER = 0.1  # than the fastest, that a lean plan may take
OF_LAYER = {  # of one layer and one microbatch, forward and backward: what it is, and in words
    "matmul": ("Matrix products", "matrix products"),
    "attention": ("Attention", "attention"),
    "recurrent": ("Scans of recurrent layers", "recurrent scans"),
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
# plans of the same degrees and microbatch
ALIKE = math.prod(len(some) for name, some in STATES.items() if name not in SELDOM)
MOST = 16384  # accelerators that are tried for the fewest that hold a step


def plans_asked(
    estimator: Estimator, asked: Mapping[str, Any] | Question, where: Rules = ()
) -> SearchProblem:
    """Return the checked search of a training step, on any number of accelerators.

    Arguments: settings, of which None counts as not given, or a checked question.
    """
    of_memory = estimator is stage_memory  # settings of a machine's rates may stand beside
    found = ask(estimator, asked, whole=of_memory)
    if float(found.inputs.model.classes) > 0.0:
        raise refusal("model", "a model of pictures; expected a model with a vocabulary")
    inputs = dataclasses.replace(found.inputs, gpus=np.float64(1.0))
    return check_search(estimator, found._replace(inputs=inputs, axes=()), where=where)


def plans_on(asked: SearchProblem, gpus: Any, top: int = 1) -> OneMachine:
    """Return the legal plans of a search on some accelerators."""
    check_bound("top", "top", top)
    if not 1 <= float(gpus) == int(gpus) <= 1e9:
        raise refusal("gpus", f"expected a whole number from 1 to 1e9, given {gpus}")
    inputs = dataclasses.replace(asked.inputs, gpus=np.float64(gpus))
    return one_machine(dataclasses.replace(asked, inputs=inputs, top=top))


def names_of(**records: Any) -> dict[str, str]:
    """Return what records are called in the attributes of an answer."""
    return {
        key: type(named).__name__ if dataclasses.is_dataclass(named) else str(named)
        for key, named in records.items()
    }


def _on(machine: OneMachine) -> Whole:
    return {
        "gpus": (int(machine.question.inputs.gpus), "1", "Accelerators"),
        "capacity": (machine.limit, "B", "High-bandwidth memory that a step may fill"),
    }


# ---- The fastest that fit -----------------------------------------------------------------------


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
    of = on_system(training, system)
    found = fastest_of(plans_asked(of, given, where), gpus, top, own)
    return found.assign_attrs(names_of(**named), **_nearest(system, chip))


def _nearest(system: Any, chip: Any) -> dict[str, str]:
    """Return the sentence that no run of a system's chip was measured, if that is so."""
    said = nearest_words(system) if chip is None else ""
    return {"nearest": said} if said else {}


def fastest_of(asked: SearchProblem, gpus: Any, top: int = 1, own: str | None = None) -> xr.Dataset:
    """Return the fastest plans of a checked search on some accelerators, as ``fastest_plans``."""
    machine = plans_on(asked, gpus, top)
    if not machine.plans.size:
        raise NoLegalPlan(none_legal(machine.question, machine.refused))
    if not len(machine.fitting):
        why = f": {lack}" if (lack := machine.why_none) else ""
        least = "search --objective memory" if asked.estimator.name == TORUS else "fit"
        raise NoPlanFits(
            f"plan: none of {machine.plans.size:,} legal ones fits on {int(gpus):,} accelerators"
            f"{why}; expected more of them, or see what needs least: jaxroof {least}"
        )
    data = machine.reports(machine.best(top)[0])
    best = data.isel(plan=0)
    counts: Whole = {
        "plans_legal": (machine.plans.size, "1", "Legal plans"),
        "plans_feasible": (len(machine.fitting), "1", "Legal plans that fit"),
        **standing(machine, best, own),
    }
    data = data.assign(as_variables(counts))
    data = data.rename(own_need="own_device") if own is not None else data
    whole = as_variables({**_on(machine), **_lean(machine, best)})
    more, told = (_of_torus if asked.estimator.name == TORUS else _of_gpus)(machine, data)
    place = int(best.regime)
    own_runs = of_own_runs(best.step_time_low, best.step_time_high, place)
    return data.assign({**whole, **more}).assign_attrs(
        **limits_told(machine),
        question="fastest plans",
        options=json.dumps({"own": own}),
        regime=REGIMES[place].words + ", own runs" * bool(own_runs),
        **told,
    )


def _of_gpus(machine: OneMachine, data: xr.Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of a layer, the fastest measured plan, and what was never measured."""
    inputs, best = machine.question.inputs, data.isel(plan=0)
    degrees = [float(best[name]) for name in ("data", "tensor", "context", "pipeline")]
    extent = float(inputs.model.sequence), float(inputs.system.innermost)
    outside = [*reasons_outside(math.prod(degrees), degrees[1], *extent)]
    told = {
        "outside": json.dumps(outside),
        "software_year": float(inputs.software.year),
    }
    return {**_of_layers(machine, data), **as_variables(_measured(machine, best))}, told


def _of_torus(machine: OneMachine, data: xr.Dataset) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what of the best plan on a torus was never measured, and what runs it."""
    from jaxroof.estimators.tpu_training.step import outside

    never = [*outside(machine.question.inputs, data.isel(plan=0))]
    return {}, {"outside": json.dumps(never), "software": "MaxText", "accelerator": "chip"}


class NoPlanFits(InputError):
    """No legal plan fits on the accelerators that are asked for."""


def _lean(machine: OneMachine, best: xr.Dataset) -> Whole:
    """Return the plan that needs least of those not much slower than the best.

    Optimizer states stay on the accelerators unless the best moves them to the host.
    """
    near, values = machine.within(float(best.step_time) * (1.0 + LONGER))
    kept, off = np.ones(len(near), bool), "offload_optimizer"
    if off in best:
        kept = machine.at(near, (off,))[off] <= int(best[off])
    place = int(np.argmin(machine.need[near[kept]]))
    lean, which = int(near[kept][place]), f"of the leanest at most {percent(LONGER)} slower"
    return {
        "lean": (float(values[kept][place]), "s", f"Step time {which}"),
        "lean_memory": (float(machine.need[lean]), "B", f"Memory {which}"),
        **fields_of(machine, lean, "lean_plan"),
    }


def _of_layers(machine: OneMachine, plans: xr.Dataset) -> dict[str, xr.Variable]:
    question, size = machine.question, plans.sizes["plan"]
    fields = {field: plans[field].values for field in training.plan_fields}
    asked = with_named_absences(with_plans(training, question.inputs, fields))
    time = plan_time(asked, question.recipe)
    found: dict[str, Any] = {**time.layer._asdict(), **time.sharded._asdict()}
    return {
        f"layer_{name}": xr.Variable(
            ("plan",),
            np.broadcast_to(np.asarray(found[name], np.float64), size),
            {"units": "s", "long_name": text, "words": words},
        )
        for name, (text, words) in OF_LAYER.items()
    }


def _measured(machine: OneMachine, best: xr.Dataset) -> Whole:
    """Return the fastest plan of a measured kind, with its interval; none where the best is of one.

    Without offload and inside the envelope of measured runs; its interval is narrower.
    """
    inputs, fields = machine.question.inputs, ("tensor", "offload_optimizer")

    def is_measured(plans: Mapping[str, Any]) -> np.ndarray:
        extent = inputs.gpus, plans["tensor"], inputs.model.sequence, inputs.system.innermost
        return np.asarray(inside(*extent) * (plans["offload_optimizer"] == 0)) > 0.0

    if is_measured({name: best[name].values for name in fields}).item():
        return {}
    fits = machine.fitting
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


def better_batch(
    best: xr.Dataset, batch: int, ask: Callable[[int], xr.Dataset]
) -> tuple[int, float] | None:
    """Return the near batch that trains most sequences a second, and how many times as many.

    It is a multiple near a batch that divides badly. Arguments: ``best`` are the fastest plans at
    ``batch``, ``ask`` returns those at another. None if no near batch is worth it.
    """
    found: dict[int, float] = {}
    for size in MULTIPLES if all(batch % size for size in MULTIPLES) else ():
        near = max(round(batch / size), 1) * size
        near -= size * (size != MULTIPLES[0] and near % MULTIPLES[0] == 0)  # another than before
        with contextlib.suppress(InputError):  # no plan is legal or fits there
            found[near] = float(ask(near).throughput[0] / best.throughput[0])
    most = max(found, key=lambda near: found[near], default=None)
    return (most, found[most]) if most is not None and found[most] >= WORTH else None


# ---- Those that need the least memory -----------------------------------------------------------


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
    if on_system(training, system) is not training:
        refuse_torus(system)
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
    """Return the plans of a checked search that need the least memory, as ``least_memory``."""
    sizes = [gpus] if gpus is not None else _sizes(asked, most)
    size, tried = (sizes[0], 1) if gpus is not None else _leanest(asked, sizes, progress)[:2]
    machine = plans_on(asked, size, top)
    if not machine.plans.size:
        tried_to = most if gpus is None and len(sizes) > 1 else None
        raise NoLegalPlan(none_legal(machine.question, machine.refused, tried_to))
    whole = {
        **_on(machine),
        "fits": (len(machine.fitting) > 0, "1", "Whether a plan fits"),
        "plans_legal": (machine.plans.size, "1", "Legal plans on these accelerators"),
        "plans_feasible": (len(machine.fitting), "1", "Legal plans that fit"),
        "sizes_tried": (tried, "1", "Numbers of accelerators whose every plan was evaluated"),
        **(_place_of(machine, own) if own is not None else {}),
    }
    return (
        machine.reports(_first(machine, top))
        .assign(as_variables(whole))
        .assign_attrs(
            **limits_told(machine),
            question="least memory",
            options=json.dumps({"gpus": gpus and float(gpus), "most": most, "own": own}),
        )
    )


def fewest_accelerators(
    *,
    above: int = 0,
    most: int = MOST,
    where: Rules = (),
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **named: Any,
) -> int | None:
    """Return the smallest number of accelerators above another that holds a plan, None if none."""
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
        machine = plans_on(asked, size)
        if machine.need.min(initial=np.inf) < least:
            nearest, least = size, float(machine.need.min())
        if progress is not None:
            progress(tried, len(sizes))
        if len(machine.fitting):
            return size, tried, True
    return nearest, len(sizes), False


def _place_of(machine: OneMachine, own: str) -> Whole:
    """Return the memory and the place of the leanest plan with the fields of the user's."""
    found = own_of(machine, own)
    place = int([*found.some[machine.held[found.some]], *found.some][0])
    need = float(machine.need[place])
    rank = 1 + int(np.sum(machine.need < need))
    return {
        "own": (need, "B", "Memory of the leanest plan with the fields of yours"),
        "own_place": (rank, "1", "Its place among all legal plans, by memory"),
        **missed_of(machine, place),
        **fields_of(machine, place),
        **filled_of(machine, found, place),
    }


def _first(machine: OneMachine, top: int) -> np.ndarray:
    """Return the positions of the plans that need least, the first of those that are alike."""
    some = machine.leanest(top * ALIKE)
    plans = {name: column for name, column in machine.at(some).items() if name not in STATES}
    same = np.unique(machine.need[some], return_inverse=True)[1]
    return some[distinct_rows([same, *plans.values()])[0]][:top]


def _sizes(asked: SearchProblem, most: int) -> list[int]:
    """Return the numbers of accelerators that legal plans have and that could hold the states."""
    sizes = cluster_sizes(asked.inputs, asked.recipe, most)
    least = float(fewest_state_bytes(asked.inputs, asked.recipe))
    return [int(size) for size in sizes if least <= size * limit_of(asked)] or [int(sizes[-1])]


# ---- One plan: in part, or whole ----------------------------------------------------------------


class Filled(NamedTuple):
    """What a search fills a plan in part with."""

    plan: dict[str, int]  # the fields that were left open
    attrs: dict[str, str]  # those of them in which legal plans differ, in JSON


def filled_plan(inputs: Any, recipe: Any, size: float, own: Mapping[str, Any]) -> Filled | None:
    """Return the fields that a plan of ``training`` leaves open, as ``search --mine`` shows it.

    They are those of the fastest legal plan on ``size`` accelerators with the fields ``own`` that
    fits, else of the leanest. None where no chip is known, or where a search lists no such plan.
    """
    if inputs.system.chip is None or any(float(n) % 1.0 for n in (size, *own.values())):
        return None
    fields = {name: int(value) for name, value in own.items()}
    rules = [Constraint(name, "=", value) for name, value in fields.items()]
    try:
        machine = plans_on(plans_asked(training, Question(training, inputs, recipe), rules), size)
        found = machine.own("", fields) if machine.plans.size else None
    except InputError:  # what is wrong is said of the plan as it is given
        return None
    if found is None:
        return None
    every = machine.plan(found.place)
    left = {name: value for name, value in every.items() if name not in own}
    if every["context"] == 1 or recipe.context_exchange is not None:
        left.pop("exchange", None)  # nothing is exchanged, or as the recipe says
    return Filled(left, {"filled": json.dumps(machine.filled(found, found.place))})


def filled_settings(
    given: Mapping[str, Any], held: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings whose plan is filled in as a search does, and the attribute that says so.

    They stay as they are where the data degree, and so accelerators, is not given. ``held`` are
    fields of the plan that are no choice, unless the plan gives them.
    """
    _, begun, choices, _ = ask(training, settings=given)
    paths = [path for path in long_names(training, given) if path.startswith("plan.")]
    own = {path.removeprefix("plan."): get_at(begun, path) for path in paths}
    if "data" not in own:
        return dict(given), {}
    size = math.prod(own.get(name, 1.0) for name in DEGREES)
    filled = filled_plan(dataclasses.replace(begun, plan=None), choices, size, {**held, **own})
    if filled is None:
        return dict(given), {}
    more = {f"plan.{name}": value for name, value in filled.plan.items()}
    return {**given, **more}, filled.attrs


def training_step(
    inputs: TrainingInputs | Mapping[str, Any],
    recipe: TrainingRecipe | None,
    settings: Mapping[str, Any],
) -> tuple[TrainingInputs, TrainingRecipe]:
    """Return a step under one legal plan, of a record or of settings by path, all scalar."""
    _, begun, choices, _ = ask(training, inputs, recipe, settings)
    for path, _, value in leaves(begun):
        if np.ndim(value):
            raise refusal(path, f"expected one number, given {np.size(value)} of them")
    if begun.plan is None:
        raise refusal("plan", "not given; expected how the step is split, plan.tensor and more")
    exchange = exchange_of(choices, begun.plan.exchange)
    begun = replace_at(begun, "plan.exchange", np.float64(exchange))
    training.refuse_contradictions(begun)
    with naming_all(training, begun, choices):
        refuse_illegal(planned(with_named_absences(begun), choices), choices)
    return begun, choices
