"""Pipeline schedules side by side: time and memory of a training step under each."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof import schedules as pipelines
from jaxroof.analyses.evaluate import resolve_settings
from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance
from jaxroof.engine.grid.placement import place_best
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import reads
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.legality import RULES
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.scheduled_step import (
    Extra,
    ScheduledStep,
    Sends,
    closed_form,
    routes_of,
    scheduled_step,
)
from jaxroof.estimators.published.step import memory_limit, published
from jaxroof.limits import TooLarge
from jaxroof.missing import naming_all
from jaxroof.records import checked, leaves, value_or, with_named_absences
from jaxroof.schedules.table import Schedule, in_flight
from jaxroof.units import parse

SCHEDULES = ("1f1b", "interleaved", "zb-h1", "dualpipe")
UNPLACED = "placement_fills_domain"  # a rule that a plan may break and still run
FLAGS = {
    "allowed": "The schedule allows the plan",
    "memory_fits": "Memory is at most the usable capacity, on every device",
    "feasible": "Every verdict holds",
}
COUNTS = {
    "in_flight": "Most forwards held at once, each of one microbatch in one stage",
    "copies": "Copies of every weight",
    "stage_layers": "Layers of a stage",
}


class ScheduleProblem(NamedTuple):
    """The checked problem that every schedule is evaluated on."""

    inputs: Inputs
    recipe: Recipe
    chunks: int
    sends: Sends
    extra: Extra

    @property
    def devices(self) -> int:
        """Return the number of devices of the pipeline."""
        assert self.inputs.plan is not None
        return int(self.inputs.plan.pipeline)

    @property
    def microbatches(self) -> int:
        """Return the number of microbatches of a step on one data-parallel rank."""
        plan = self.inputs.plan
        assert plan is not None
        return int(self.inputs.global_batch) // int(plan.data * plan.microbatch)


def schedule(
    inputs: Inputs | Mapping[str, Any],
    recipe: Recipe | None = None,
    *,
    schedules: Sequence[str] | str = SCHEDULES,
    chunks: int = 2,
    first: float = 0.0,
    last: float = 0.0,
    sends: Sends | str = Sends.OVERLAPPED,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the time and memory of a training step under each of several pipeline schedules.

    Arguments: ``inputs`` with a plan, or settings by dotted path (``{"model": "gpt3-1t",
    "plan.tensor": 4, ...}``); ``chunks`` stages per device in schedules with several; ``first``
    and ``last`` are the extra time and weights of the first and the last stage, in units of one
    layer (0.1 for an embedding, 0.8 for a head); ``sends`` between stages are ``"overlapped"``
    with work, ``"blocking"`` or ``"free"``; ``settings`` and ``more`` are fields of the inputs or
    the recipe.
    Returns: a Dataset over ``schedule`` and ``device``. A schedule that does not allow the plan
    keeps its row: its numbers are missing and ``reason`` says why. DualPipe stores every weight
    twice.
    Raises: InputError for settings that are unknown or out of range, for an illegal plan, and if no
    schedule allows the plan.
    """
    chosen = {**(settings or {}), **more}
    asked = schedule_problem(inputs, recipe, chosen, chunks, first, last, sends)
    names = check_schedules([schedules] if isinstance(schedules, str) else schedules)
    found: dict[str, Mapping[str, Any]] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            pipeline = built(asked, name)
        except TooLarge:
            raise
        except InputError as error:
            reasons[name] = str(error)
            continue
        with naming_all(published, *asked[:2]):
            report, _ = scheduled_step(*asked[:2], pipeline, asked.sends, asked.extra)
        found[name] = {**_fields(report), **_counts(asked, pipeline)}
    if not found:
        told = "; ".join(dict.fromkeys(reasons.values()))
        raise InputError(told if len(names) == 1 else f"no schedule allows the plan: {told}")
    return _labelled(asked, names, found, reasons)


# ---- The problem --------------------------------------------------------------------------------


def schedule_problem(
    inputs: Inputs | Mapping[str, Any],
    recipe: Recipe | None,
    settings: Mapping[str, Any],
    chunks: int,
    first: float,
    last: float,
    sends: Sends | str,
) -> ScheduleProblem:
    """Return the checked problem.

    Raises: InputError that names the wrong setting and the allowed values.
    """
    begun, choices = _settled(inputs, recipe, settings)
    _check_plan(begun, choices)
    begun = place_best(published, begun, choices)
    if not isinstance(chunks, int | np.integer) or isinstance(chunks, bool) or chunks < 1:
        raise refusal("chunks", f"expected a whole number of at least 1, given {shown(chunks)}")
    extra = Extra(
        np.float64(layer_equivalents("first", first)), np.float64(layer_equivalents("last", last))
    )
    members = {kind.value: kind for kind in Sends}
    if not isinstance(sends, Sends) and sends not in members:
        raise unknown("sends", str(sends), "kind of sends", members)
    kind = sends if isinstance(sends, Sends) else members[sends]
    return ScheduleProblem(begun, choices, int(chunks), kind, extra)


def layer_equivalents(where: str, value: float | str) -> float:
    """Return the extra cost of a stage, in units of one layer.

    Raises: InputError if it is not a number of at least 0.
    """
    found = parse(value, "1", where)
    if found < 0:
        what = "expected layers' worth of at least 0, such as 0.8"
        raise refusal(where, f"{what}, given {shown(value)}")
    return found


def _settled(
    inputs: Inputs | Mapping[str, Any], recipe: Recipe | None, settings: Mapping[str, Any]
) -> tuple[Inputs, Recipe]:
    """Return inputs and recipe with the settings applied, every number scalar and in its range."""
    if isinstance(inputs, Mapping):
        chosen = vars(recipe) if recipe is not None else {}
        begun, choices = resolve_settings(published, {**chosen, **inputs, **settings})
    else:
        begun, choices, _ = published.resolve(inputs, recipe, settings)
    begun = checked(begun)
    for path, _, value in leaves(begun):
        if np.ndim(value):
            raise refusal(path, f"expected one number, given {np.size(value)} of them")
    return begun, choices


def _check_plan(inputs: Inputs, recipe: Recipe) -> None:
    """Check that there is a legal plan with a pipeline."""
    plan = inputs.plan
    if plan is None:
        raise refusal("plan", "not given; expected how the step is split, plan.pipeline and more")
    for rule in RULES[recipe.split]:
        fields = {f: value_or(getattr(plan, f), 1.0) for f in reads(rule.holds)}
        if rule.name != UNPLACED and not bool(rule.holds(inputs, **fields)):
            said = ", ".join(f"{name}={int(value)}" for name, value in fields.items())
            raise refusal("plan", f"{said} is one of the {rule.words}")
    if plan.pipeline < 2:
        what = "a schedule is of a pipeline; expected 2 stages or more"
        raise refusal("plan: pipeline", f"{what}, given {int(plan.pipeline)}")


def check_schedules(names: Sequence[str], where: str = "schedules") -> list[str]:
    """Return the names of schedules after checking them.

    Raises: InputError for a name that is unknown (with the nearest) or repeated.
    """
    for name in names:
        if name not in pipelines.NAMES:
            raise unknown(where, name, "schedule", pipelines.NAMES)
        if list(names).count(name) > 1:
            raise refusal(where, f"{name}: given twice; expected each once")
    if not names:
        raise refusal(where, f"expected at least one of {', '.join(pipelines.NAMES)}")
    return list(names)


def built(asked: ScheduleProblem, name: str) -> Schedule:
    """Return a schedule built for the plan of the problem.

    Raises: InputError if the schedule does not allow the plan.
    """
    chunks = asked.chunks if name in pipelines.CHUNKED else 1
    layers, stages = int(asked.inputs.model.layers), asked.devices * chunks
    if layers % stages:
        text = f"{asked.devices} x {chunks} stages do not divide the {layers} layers"
        raise refusal(name, f"{text}; expected chunks that divide {layers // asked.devices}")
    return pipelines.build(name, asked.devices, asked.microbatches, chunks)


# ---- The results --------------------------------------------------------------------------------


def _fields(report: ScheduledStep) -> dict[str, np.ndarray]:
    return {f.name: np.asarray(getattr(report, f.name)) for f in dataclasses.fields(report)}


def _counts(asked: ScheduleProblem, pipeline: Schedule) -> dict[str, np.ndarray]:
    """Return the whole-number properties that a schedule reports."""
    copies = int(routes_of(pipeline))
    return {
        "in_flight": in_flight(pipeline),
        "copies": np.asarray(copies),
        "stage_layers": np.asarray(int(asked.inputs.model.layers) * copies // pipeline.stages),
    }


def _labelled(
    asked: ScheduleProblem,
    names: Sequence[str],
    found: Mapping[str, Mapping[str, Any]],
    reasons: Mapping[str, str],
) -> xr.Dataset:
    """Return the results of all schedules over their names and devices."""
    one = next(iter(found.values()))
    columns: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for field, value in one.items():
        missing = np.full_like(value, -1 if value.dtype.kind == "i" else np.nan)
        values = np.stack([found[name][field] if name in found else missing for name in names])
        columns[field] = (("schedule", "device")[: values.ndim], values)
    limit = float(memory_limit(with_named_absences(asked.inputs)))
    allowed = np.array([name in found for name in names])
    fits = np.array([n in found and bool(np.all(found[n]["memory"] <= limit)) for n in names])
    attrs = provenance(
        published,
        asked.inputs,
        asked.recipe,
        chunks=asked.chunks,
        sends=asked.sends.value,
        first=float(asked.extra.first),
        last=float(asked.extra.last),
        picture="schedules",
    )
    data = dataset(columns, (), asked.inputs, field_metadata(ScheduledStep), attrs)
    for name, words in COUNTS.items():
        data[name].attrs = {"units": "1", "long_name": words}
    about = {"units": "B", "long_name": "Memory that a step may fill"}
    data["memory_limit"] = ((), limit, about)
    closed = closed_form(asked.inputs, asked.recipe, asked.sends)
    about = {"units": "1", "long_name": "Microbatches of a step on one data-parallel rank"}
    data["microbatches"] = ((), asked.microbatches, about)
    about = {"units": "s", "long_name": "Step time of 1F1B by the training estimator"}
    data["step_time_closed_form"] = ((), float(closed), about)
    for name, flags in zip(FLAGS, (allowed, fits, allowed & fits), strict=True):
        data[name] = ("schedule", flags, {"units": "1", "long_name": FLAGS[name]})
    why = np.array([reasons.get(name, "") for name in names], dtype=np.str_)
    data["reason"] = ("schedule", why, {"long_name": "Why a schedule does not allow the plan"})
    return data.assign_coords(
        schedule=("schedule", np.array(names, dtype=np.str_), {"long_name": "Schedule"}),
        device=("device", np.arange(asked.devices), {"long_name": "Device of the pipeline"}),
    )
