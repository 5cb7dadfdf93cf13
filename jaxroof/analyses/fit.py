"""Does a training step fit? The memory of every stage, term by term, against the HBM there is."""

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.fit_changes import changes_dataset, changes_json, step_times
from jaxroof.analyses.fit_question import (
    BESIDE,
    FIT,
    LEVEL,
    SELECTIVE,
    Question,
    SoftwareAnswer,
    given_paths,
    path_of,
    plan_numbers,
    recomputation,
    software_answer,
    turns,
    unchecked_question,
)
from jaxroof.analyses.training_plans import Filled, fewest_accelerators, filled_plan, names_of
from jaxroof.catalog.lookup import TODAY, as_reported
from jaxroof.engine.details import detail
from jaxroof.engine.grid.axes import read_axes, unique_names
from jaxroof.engine.grid.dataset import attributes, versions
from jaxroof.engine.grid.question import Question as Asked
from jaxroof.engine.grid.spacing import Between, Spacing, length_of, listed_values
from jaxroof.errors import InputError, refusal, shown
from jaxroof.estimators.training.inputs import RECOMPUTATION
from jaxroof.estimators.training.legality import WARNINGS
from jaxroof.estimators.training.precision import with_precision
from jaxroof.estimators.training.recipe import Selective, modules_of
from jaxroof.estimators.training.report import DEVICE_ERROR, HOST, RESERVED_ERROR, StageMemory
from jaxroof.estimators.training.stage_memory import host_by_stage, memory_by_stage
from jaxroof.estimators.training.step import training
from jaxroof.records import get_at, leaves, replace_at, units
from jaxroof.settings import Named, choose
from jaxroof.units import percent

APART = ("system.", "software.", "shared.", "training_tokens")  # which no memory depends on
LISTS = ("modules", "layer_split")  # settings of a question that no search has
TIMED = ("software.", "shared.", "chip.", "plan.")  # settings that no search of memory has
BOUNDS = {"reserved": f"± {percent(RESERVED_ERROR)}", "device": f"± {percent(DEVICE_ERROR)}"}
DENSE, EXPERTS = "± 1 % + 15 MiB", "-6 to +9 %"  # section 10.6 of the sheet
KERNELS = "for the kernels assumed; with another attention kernel up to 42 % too low (section 10.3)"
ASSUMED = (  # what is said of a question that does not name it
    *("schedule", "recompute", "attention_kernel", "cross_entropy", "expert_weighting"),
    *("zero_stage", "weight_bytes", "gradient_bytes", "master_bytes", "moment_bytes"),
    *("routing_imbalance", "fragmentation", "cuda_context", "communicator"),
)
OF_EXPERTS = ("expert_weighting", "routing_imbalance")
DOUBTED = ("attention_kernel", "cross_entropy", "expert_weighting", "recompute")


def fit(
    *,
    model: Any,
    plan: Mapping[str, Any],
    system: Any,
    global_batch: Any,
    sequence: Any = None,
    gpus: Any = None,
    software: str | None = None,
    changes: int = 0,
    fill: bool = False,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the memory of every stage of a training step, and whether the fullest one fits.

    ``plan`` has degrees by name (``{"tensor": 8, "pipeline": 16}``, or ``tp``, ``pp``), the
    microbatch, ``interleave``, ``zero_stage`` and ``sequence_parallel``; what it lacks has its
    usual value; with ``fill``, where ``gpus`` or the data degree is given and the chip calibrated,
    that of the fastest plan with its fields that fits, as the attribute ``filled`` says.
    ``software`` names whose terms these are (``jaxroof list software``; ``"fsdp2"`` takes
    ``replicas`` in the plan, ``recompute``, ``ends`` and ``compiled``). ``settings`` and keywords
    change choices (``recompute="full"``, ``modules="core_attn,mlp"``, ``layer_split="7,14x8,7"``)
    and numbers (``master_bytes=0``, ``"system.hbm_capacity": "85.5 GB"``, ``"model.layers": 16``);
    ``precision`` (bf16, fp8, mxfp8, nvfp4) stands for several of them.

    Returns: a Dataset over ``stage`` of every term, ``allocated``, ``reserved`` and ``device``,
    each of the three with its ``bound``; without a stage ``capacity``, ``fits``, ``missing``,
    ``fullest_stage`` and ``largest_term``. Attributes, in JSON: ``assumed`` (what the question
    leaves open), ``hangs_on`` (those of them that would turn the answer) and, if as many
    ``changes`` are asked for, the cheapest changes as ``fit_changes`` finds them.
    Raises: InputError for bad input, and for a plan that is not legal, with what would be.

    >>> data = fit(model="llama3-8b", system="h100-nvs8", plan={"dp": 8}, global_batch=8)
    >>> bool(data.fits), str(data.largest_term.values)
    (False, 'gradients_dense')
    """
    if not isinstance(plan, Mapping):
        raise refusal("plan", f"expected degrees by name, as {{'tp': 8}}, given {shown(plan)}")
    sizes = {"global_batch": global_batch, "sequence": sequence, "gpus": gpus}
    given = {name: value for name, value in sizes.items() if value is not None}
    every = with_precision({**(settings or {}), **more, **given}, system, training)
    asks, filled = given_paths(plan, every, plan_numbers(software)), None
    if fill and software in (None, TODAY):
        filled = filled_fields(model, system, asks)
        asks |= {f"plan.{name}": n for name, n in filled.plan.items()} if filled else {}
    answered = software_answer(software, model, system, asks)
    asked = answered.asked
    of = Asked(FIT, asked.inputs, asked.recipe)
    data = detail(FIT, "memory", of, of=lambda step, recipe: answered.memory)
    data = data.drop_vars(["legal", "needed"])
    data.attrs = {
        **names_of(model=model, system=system),
        **_attributes(answered),
        **(filled.attrs if filled else {}),
        **_changes(answered, changes, model, system, asks),
        "software": TODAY,
    }
    _bound(data, answered)
    if answered.of_today:
        _beside(data, asked)
    for name, (value, metadata) in answered.pools.items():
        values = np.broadcast_to(value, data.device.shape).copy()
        data[name] = xr.Variable(("stage",), values, attributes(metadata))
    for name, value in answered.attributes.items():
        data.attrs[name] = value if isinstance(value, str) else json.dumps(value)
    return data


def _attributes(answered: SoftwareAnswer) -> dict[str, str]:
    """Return the question and what it leaves open, in JSON."""
    asked, choices = answered.asked, _choices(answered.asked)
    plan = vars(asked.step.plan)  # what costs time, or what some codes refuse, is a warning
    numbers = {path: float(value) for path, _, value in leaves(asked.inputs)}
    told = {
        "inputs": {path: n for path, n in numbers.items() if not path.startswith(APART)},
        "timed": {path: n for path, n in numbers.items() if path.startswith(TIMED[:2])},
        "recipe": choices,
        "assumed": {
            name: choices[name] if name in choices else float(get_at(asked.inputs, path_of(name)))
            for name in _open(asked, ASSUMED)
            if name != "schedule" or asked.step.plan.pipeline != 1.0
        },
        "hangs_on": turns(asked, answered.memory, _others(asked)),
        "warnings": [rule.words for rule in WARNINGS if not bool(rule.allows(asked.inputs, plan))],
        "versions": versions(),
    }
    plain = {name: json.dumps(value) for name, value in told.items()}
    return {"Conventions": "CF-1.11", "question": "fit", **plain}


def _changes(
    answered: SoftwareAnswer, most: int, model: Any, system: Any, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the cheapest changes in JSON, if asked for; other software cannot do all of them.

    Where neither the plan nor a change of it fits, the fewest more accelerators that hold any plan.
    """
    if not most or not answered.of_today:
        return {}
    found, inputs = changes_dataset(answered.asked, most), answered.asked.inputs
    changes: dict[str, Any] = {"changes": changes_json(found)}
    if found.attrs["fits"] or bool(found.fits.any()):
        return changes
    own = {"global_batch", "gpus", *LISTS}
    rest = {k: v for k, v in settings.items() if k not in own and not k.startswith(TIMED)}
    about = {"model": model, "system": system, "global_batch": inputs.global_batch}
    with contextlib.suppress(InputError):  # a setting that a search does not have
        fewest = fewest_accelerators(above=int(inputs.gpus or 1), settings=rest, **about)
        changes |= {} if fewest is None else {"fewest": fewest}
    return changes


def _beside(data: xr.Dataset, asked: Question) -> None:
    """Add what is known beside the accelerators' memory: the step time, the memory of the host.

    A step whose host memory does not hold what it keeps there does not fit.
    """
    time = float(step_times(asked.inputs, asked.recipe))
    if not np.isnan(time):
        data["step_time"] = ((), time, {"units": "s", "long_name": "Time of one step"})
    host, there = host_by_stage(asked.step, asked.recipe), asked.inputs.system.host_capacity
    if host.any():
        data["host"] = (("stage",), host, {"units": "B", "long_name": HOST.rstrip(".")})
    if host.any() and there is not None:
        about = {"units": "B", "long_name": "Memory of the host, the share of one accelerator"}
        data["host_capacity"] = ((), there, about)
        both = bool(data.fits) and bool(host.max() <= there)
        data["fits"] = ((), both, {"long_name": "Whether every stage fits"})


def _bound(data: xr.Dataset, answered: SoftwareAnswer) -> None:
    """Say how far the results may be off, and what the capacity is."""
    asked = answered.asked
    allocated = EXPERTS if asked.inputs.model.experts > 0.0 else DENSE
    for name, bound in {"allocated": allocated, **BOUNDS, **answered.bounds}.items():
        data[name].attrs["bound"] = bound
    if not answered.bounds and _open(asked, ("attention_kernel",)):
        data["allocated"].attrs["condition"] = KERNELS
    system, about = asked.inputs.system, data["capacity"].attrs
    if system.hbm_reported is not None:
        about["reported"] = float(system.hbm_reported)
    if system.hbm_capacity is not None and "system.hbm_capacity" not in asked.given:
        about["label"] = float(system.hbm_capacity)
    about["usable"] = float(system.hbm_usable)


# ---- What was assumed ---------------------------------------------------------------------------


def _choices(asked: Question) -> dict[str, Any]:
    """Return the choices of a question that memory depends on, as JSON holds them."""
    recipe, level = asked.recipe, int(asked.step.plan.recompute)
    division, modules = recipe.layer_division, modules_of(recipe) if level == 1 else ()
    names = ["attention_kernel", "context_exchange", "cross_entropy", "expert_weighting"]
    names += ["adapters"] * (asked.inputs.lora_rank is not None)
    chosen = {name: getattr(recipe, name) for name in ("schedule", *names)}
    return {
        **{name: getattr(member, "value", member) for name, member in chosen.items()},
        "recompute": RECOMPUTATION[level],
        "modules": sorted(module.value for module in modules),
        **({} if isinstance(division, tuple) else {"layer_division": division.value}),
        "layer_split": list(division) if isinstance(division, tuple) else [],
    }


def _open(asked: Question, names: tuple[str, ...]) -> list[str]:
    """Return those choices and numbers that the question leaves open and that matter to it."""
    routes = asked.inputs.model.experts > 0.0
    here = [name for name in names if routes or name not in OF_EXPERTS]
    return [name for name in here if not {name, path_of(name)} & asked.given]


def _others(asked: Question) -> Iterator[tuple[str, str, StageMemory]]:
    """Yield the other values of the choices left open, each with the memory of every stage."""
    step, recipe = asked.step, asked.recipe
    for name in _open(asked, DOUBTED):
        own = getattr(recipe, name, None)
        for member in () if own is None else type(own):
            if member is not own:
                other = dataclasses.replace(recipe, **{name: member})
                yield name, member.value, memory_by_stage(step, other)
        for level in (0, 2) if name == "recompute" else ():
            if level != step.plan.recompute:
                again = replace_at(step, "plan.recompute", np.float64(level))
                yield name, RECOMPUTATION[level], memory_by_stage(again, recipe)


# ---- A plan in part ------------------------------------------------------------------------------


def filled_fields(model: Any, system: Any, given: Mapping[str, Any]) -> Filled | None:
    """Return what a search fills a plan in part with, if accelerators are known, and no split."""
    asked = unchecked_question(model, system, given)
    if not {"gpus", "plan.data"} & asked.given or isinstance(asked.recipe.layer_division, tuple):
        return None
    inputs, recipe = asked.inputs, asked.recipe
    paths = [path for path in asked.given if path.startswith("plan.") or path in BESIDE]
    own = {path.removeprefix("plan."): get_at(inputs, path) for path in paths}
    if not recipe.selective:  # what a search computes again where it computes some
        selective = {name: value for name, value in given.items() if name == SELECTIVE}
        recipe = choose(dataclasses.replace(recipe, selective=Selective.LIGHT), selective)
    searched = dataclasses.replace(inputs, plan=None, gpus=None, system=as_reported(inputs.system))
    return filled_plan(searched, recipe, float(asked.inputs.gpus or 1.0), own)


# ---- Over axes -----------------------------------------------------------------------------------

MOST = 2**22  # points times stages of an answer


def fit_stages(
    *,
    model: Any,
    system: Any,
    global_batch: Any,
    axes: Mapping[str, Any],
    plan: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the memory of every stage over axes, each a dimension, with ``stage`` the last.

    A key of ``axes`` is a field of the plan (``tp``, ``microbatch``), a number, a choice
    (``recompute``), ``model`` or ``system``; its values are a list or a spacing. The other
    arguments are those of ``fit``.

    Returns: a Dataset of the terms that ``fit`` returns, over the axes and ``stage``; over the axes
    ``legal``, ``fits``, ``fullest_stage``, ``missing`` and ``capacity``. Memory is missing where a
    plan is not legal, and 0 beyond its last stage.
    Raises: InputError as ``fit`` does, and for more points than memory holds.

    >>> about = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}
    >>> data = fit_stages(**about, plan={"pp": 2}, axes={"tp": [1, 2, 3, 4]})
    >>> dict(data.sizes), data.legal.values.tolist()
    ({'tensor': 4, 'stage': 2}, [True, True, False, True])
    """
    given = {"global_batch": global_batch, **(settings or {}), **more}
    return stages_of(stages_asked(model, system, given_paths(plan or {}, given), axes))


def stages_asked(
    model: Any, system: Any, given: Mapping[str, Any], axes: Mapping[str, Any]
) -> Asked:
    """Return the checked question of the memory by stage, of settings by path and of axes."""
    base, tables = {"model": model, "system": system, **given}, dict[str, Any]()
    for key, values in axes.items():
        path, where = path_of(key), f"axes.{key or shown(key)}"
        if path in tables:
            raise refusal(where, f"given twice, as {_last(path)} too; expected it once")
        if base.get(path) is not None and path not in ("model", "system", "global_batch"):
            raise refusal(where, "given beside the axes too; expected it once")
        if isinstance(values, Mapping):
            raise refusal(where, "fields that move together; expected one field an axis")
        if isinstance(values, Spacing | Between | list) and length_of(values) < 1:
            raise refusal(where, "an empty axis; expected at least one value")
        tables[path] = values
    rest = base | {path: _first(path, values) for path, values in tables.items()}
    asked = unchecked_question(rest.pop("model"), rest.pop("system"), rest)
    if LEVEL in tables:
        asked, tables[LEVEL] = _levels(asked, rest, tables[LEVEL])
    inputs = asked.inputs
    if "gpus" not in asked.given:  # each plan uses its own
        inputs = dataclasses.replace(inputs, gpus=None)
    named = {_last(path) if path == LEVEL else path: values for path, values in tables.items()}
    read = read_axes(inputs, named, asked.recipe, FIT.names, asked.given - tables.keys())
    return Asked(FIT, inputs, asked.recipe, read)


def stages_of(asked: Asked) -> xr.Dataset:
    """Return the memory of every stage with every axis in every result."""
    stages = [axis.columns.get("plan.pipeline", np.ones(1)).max() for axis in asked.axes]
    most = max(float(asked.inputs.plan.pipeline), *stages, 1.0)
    count = int(math.prod(float(len(axis)) for axis in asked.axes) * most)
    if count > MOST:
        expected = f"expected at most {MOST:,}"
        raise refusal("axes", f"{count:,} points times stages, too many for memory; {expected}")
    data = detail(FIT, "memory", asked).drop_vars(["largest_term", "largest"])
    sizes = {axis.name: len(axis) for axis in unique_names(asked.axes, units(StageMemory))}
    found = {}
    for name in data.data_vars:
        one = data.variables[name]
        own = sizes | {dim: one.sizes[dim] for dim in ("stage",) if dim in one.dims}
        found[name] = xr.Variable([*own], one.set_dims(own).values, one.attrs)
    attrs = {"Conventions": "CF-1.11", "question": "fit_stages", "answer": "stages"}
    attrs["versions"] = json.dumps(versions())
    return xr.Dataset(found, {dim: data.coords[dim] for dim in (*sizes, "stage")}, attrs)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _first(path: str, values: Any) -> Any:
    if isinstance(values, Between):
        return values.ends[0]
    return values.start if isinstance(values, Spacing) else listed_values(path, values)[0]


def _levels(asked: Question, given: Mapping[str, Any], values: Any) -> tuple[Question, Named]:
    """Return the question with the modules of all levels of recomputation, and these by name."""
    if isinstance(values, Spacing | Between):
        said = "taken one by one, not in steps; expected a list of values"
        raise refusal("axes.recompute", said)
    some = listed_values("recompute", values)
    found = [recomputation({**given, LEVEL: value}) for value in some]
    modules = frozenset().union(*(some for _, some, _ in found))
    recipe = dataclasses.replace(asked.recipe, selective=modules)
    levels = Named(tuple(map(str, some)), {LEVEL: [level for level, _, _ in found]})
    return asked._replace(recipe=recipe), levels
