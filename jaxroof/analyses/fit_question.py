"""The question whether a training step fits: settings in, checked inputs and a recipe out.

Under named software: what it sets, what it cannot do, the memory it needs.
"""

import dataclasses
import enum
import functools
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from jaxroof.catalog.lookup import TODAY, Software, software
from jaxroof.catalog.lookup import system as system_named
from jaxroof.catalog.system import usable_memory
from jaxroof.engine.grid.question import ask, long_names
from jaxroof.engine.search.plan_text import unknown_field
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.training.inputs import (
    RECOMPUTATION,
    SHORTHAND,
    PlannedStep,
    TrainingInputs,
    planned,
)
from jaxroof.estimators.training.legality import refuse_illegal
from jaxroof.estimators.training.other_software import (
    Engine,
    Fsdp2Memory,
    Fsdp2Recipe,
    fsdp2_stage,
    stages_2021,
)
from jaxroof.estimators.training.recipe import (
    LayerDivision,
    Module,
    TrainingRecipe,
    exchange_of,
    modules_of,
)
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import fullest_stage, memory_by_stage
from jaxroof.estimators.training.step import training
from jaxroof.limits import check_bound
from jaxroof.records import Number, get_at, leaves, replace_at, with_named_absences
from jaxroof.settings import choose
from jaxroof.units import parse

BOTH = ("zero_stage", "offload_optimizer")  # fields of the plan that are settings too
BESIDE = ("microbatch_group", "early_forward")  # numbers of a step that may stand in a plan
LEVEL = "plan.recompute"  # by its word or its number
SELECTIVE = "selective"  # the choice of a search: what rc=1 computes again
EVEN = "even"  # a split of layers: as even as can be


FIT = dataclasses.replace(  # training whose memory is asked: the rules say what contradicts a plan
    training,
    products={},
    names={**training.names, "system": functools.partial(system_named, calibrated=True)},
    shorthand={**SHORTHAND, **{f"states.{name}": f"plan.{name}" for name in BOTH}},
)
SHORT = {short: name for short, name in FIT.short_names.items() if name != "recompute"}


class Question(NamedTuple):
    """A checked question: what the memory depends on, and what was said by its name."""

    inputs: TrainingInputs
    recipe: TrainingRecipe
    capacity: Number  # [B] of one accelerator, as much as a step may fill
    given: frozenset[str]  # choices and paths of numbers that the question names

    @property
    def step(self) -> PlannedStep:
        """Return the inputs as memory reads them."""
        return planned(self.inputs, self.recipe)


def path_of(name: str) -> str:
    """Return the path of a field that is given by its name, or the name of a choice as it is."""
    (path,) = long_names(FIT, {name: None})
    return path


def given_paths(
    plan: Mapping[str, Any], settings: Mapping[str, Any], beside: tuple[str, ...] = BESIDE
) -> dict[str, Any]:
    """Return the fields of a plan, and settings, by their paths, each once; None is not given."""
    found: dict[str, Any] = {}
    for name in [name for name, value in settings.items() if value is not None]:
        path = path_of(name)
        field = path.removeprefix("plan.")
        if path in found:
            raise refusal(name, f"given twice, as {path} too; expected it once")
        if field in SHORT.values() and field != path and field not in BOTH:
            raise refusal("plan", f"{field}: expected it in the plan, as {FIT.shortest[field]}=2")
        found[path] = settings[name]
    for name, value in plan.items():
        field = FIT.short_names.get(name, name)
        if field == "microbatches":
            text = "microbatches: follow from the batch, data and microbatch; leave them out"
            raise refusal("plan", text)
        if field not in (*FIT.plan_fields, *beside):
            raise unknown_field("plan", name, SHORT.values(), SHORT)
        path = field if field in beside else f"plan.{field}"
        if path in found:
            raise refusal("plan", f"{name}: given twice; expected each field once")
        found[path] = value
    return found


def asked_question(
    *, model: Any, plan: Mapping[str, Any], system: Any, settings: Any = None, **more: Any
) -> Question:
    """Return a checked question whose settings are given in a mapping and by name."""
    return question(model, system, given_paths(plan, {**(settings or {}), **more}))


def question(model: Any, system: Any, given: Mapping[str, Any]) -> Question:
    """Return a checked question of settings by path, whose plan is legal."""
    found = unchecked_question(model, system, given)
    refuse_illegal(found.step, found.recipe)
    return found


def unchecked_question(model: Any, system: Any, given: Mapping[str, Any]) -> Question:
    """Return a question whose plan is not held to the rules of legality."""
    level, modules, rest = recomputation(given)
    split = rest.pop("layer_split", None)
    if "global_batch" not in rest:
        raise refusal("global_batch", "not given; expected the sequences of one optimizer step")
    named = {"model": model, "system": system}
    named = {k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in named.items()}
    _, inputs, recipe, _ = ask(FIT, settings={**named, **rest, LEVEL: level}, whole=True)
    if inputs.model.classes > 0.0 or inputs.model.vocabulary == 0.0:
        text = "a model of pictures, without a vocabulary; expected a model of language"
        raise refusal("model", text)
    float(with_named_absences(inputs.model, "model.").sequence)
    if "system.hbm_capacity" in rest and "system.hbm_reported" not in rest:
        none: Any = None  # what the device reports is of the other capacity
        inputs = replace_at(inputs, "system.hbm_reported", none)
    if inputs.system.hbm_capacity is None and inputs.system.hbm_reported is None:
        text = "hbm_capacity: not given; expected the bytes of its high-bandwidth memory"
        raise refusal("system", text)
    inputs = replace_at(inputs, "plan.exchange", exchange_of(recipe, inputs.plan.exchange))
    inputs = _with_gpus(inputs, "plan.data" in rest)
    plan: Any = inputs.plan
    check_bound("plan: pp x vp", "layers", float(plan.pipeline * plan.interleave))
    division = _division(split, inputs) or recipe.layer_division
    recipe = dataclasses.replace(recipe, selective=modules, layer_division=division)
    said = {*given, *([LEVEL] if "modules" in given else ())} - {"modules", SELECTIVE}
    return Question(inputs, recipe, usable_memory(inputs.system), frozenset(said))


def _with_gpus(inputs: TrainingInputs, whole: bool) -> TrainingInputs:
    """Return inputs with accelerators from the degrees, or the data degree from accelerators."""
    plan = inputs.plan
    assert plan is not None
    rest = plan.tensor * plan.context * plan.pipeline
    if inputs.gpus is None:
        return dataclasses.replace(inputs, gpus=plan.data * rest)
    if whole or inputs.gpus % rest != 0.0:
        return inputs
    return dataclasses.replace(inputs, plan=dataclasses.replace(plan, data=inputs.gpus / rest))


# ---- Choices that no search has -----------------------------------------------------------------


def recomputation(
    given: Mapping[str, Any],
) -> tuple[float, frozenset[Module], dict[str, Any]]:
    """Return the level of a plan, the modules that level 1 computes again, and the other settings.

    ``selective`` of a search says which modules level 1 computes again, unless ``modules`` does.

    >>> recomputation({"plan.data": 8, "plan.recompute": 2})
    (2.0, frozenset(), {'plan.data': 8})
    """
    value, named = given.get(LEVEL), given.get("modules")
    word = isinstance(value, str) and (value in RECOMPUTATION or not value[:1].isdigit())
    if value is None:
        level = 0.0 if named is None else 1.0
    elif word:
        if value not in RECOMPUTATION:
            raise unknown("recompute", value, "Recompute", RECOMPUTATION)
        level = float(RECOMPUTATION.index(value))
    else:
        level = parse(value, "1", "plan: rc")
        if level not in range(len(RECOMPUTATION)):
            raise refusal("plan: rc", f"expected whole numbers from 0 to 2, given {shown(value)}")
    if SELECTIVE in given and named is not None:
        raise refusal(SELECTIVE, "given twice, as modules too; expected it once")
    members = {member.value: member for member in Module}
    names = [getattr(item, "value", item) for item in _listed(() if named is None else named)]
    for name in names:
        if name not in members:
            raise unknown("modules", name, "module of a layer", members)
    modules = frozenset(members[name] for name in names)
    if named is None and level == 1.0 and (not word or SELECTIVE in given):
        chosen = {k: given[k] for k in (SELECTIVE, "attention_kernel") if k in given}
        modules = modules_of(choose(TrainingRecipe(), chosen))
    if modules and level != 1.0:
        said = f"go with recompute=selective, given recompute={RECOMPUTATION[int(level)]}"
        raise refusal("modules", said)
    if level == 1.0 and not modules:
        text = "selective says which modules are computed again; expected modules, such as"
        raise refusal("recompute", f"{text} modules={Module.CORE_ATTENTION.value}")
    own = (LEVEL, SELECTIVE, "modules")
    return level, modules, {name: value for name, value in given.items() if name not in own}


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or of a text such as ``core_attn,mlp``."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",")]
    if not isinstance(value, Iterable):
        raise refusal("", f"expected a list, given {shown(value)}")
    return list(value)


def _division(split: Any, inputs: TrainingInputs) -> Any:
    """Return the layers of every virtual stage, from ``even`` or a list such as ``7,14x8,7``."""
    if split is None or split == EVEN:
        return None if split is None else LayerDivision.EVEN
    found: list[int] = []
    for item in _listed(split):
        times, _, each = str(item).rpartition("x")
        counts = [parse(text, "1", "layer_split") for text in (times or "1", each)]
        if any(one != int(one) or not 0 <= one <= 1e6 for one in counts):
            expected = "expected whole numbers of layers, such as 7,14x8,7, or even"
            raise refusal("layer_split", f"{expected}, given {shown(str(item).strip())}")
        found += [int(counts[1])] * int(counts[0])
        if len(found) > inputs.model.layers:
            break
    return tuple(found)


# ---- Under named software ------------------------------------------------------------------------

REPLICAS = "replicas"  # of the shards of FSDP2 (HSDP), beside the fields of a plan
FSDP2_CHOICES = {  # setting, also as torchtitan calls it: field of the recipe
    "plan.recompute": "recompute",
    "ends": "ends",
    "cross_entropy": "loss",
    "loss": "loss",
    "compiled": "compiled",
    "compile": "compiled",
}
SETTINGS = {"recompute": "recompute", "loss": "cross_entropy", "ends": "ends"}  # by field, to print
NO_CHOICES = ("schedule", "modules", "layer_split", "attention_kernel", "expert_weighting")
TRUTH = {"yes": True, "no": False, "true": True, "false": False, True: True, False: False}
MEASURED = ("allocated", "reserved", "device")
NOT_MEASURED = "no bound: not measured"
BOUNDS = {  # software: of each number, where it differs from Megatron's of today
    "deepspeed": dict.fromkeys(MEASURED, NOT_MEASURED),
    "fsdp2": {"allocated": "0.6 % low on the one run measured", "reserved": "± 10 %"},
    "megatron-2021": {"allocated": "± 1 %", "reserved": "± 13 %"},
    "deepspeed-2021": {"allocated": "-5 to 0 %", "reserved": "0 to +10 %"},
}
HSDP = "no bound: replicas were not measured"


class SoftwareAnswer(NamedTuple):
    """A checked question under some software, with the memory of every stage."""

    asked: Question
    memory: StageMemory
    bounds: Mapping[str, str] = MappingProxyType({})
    attributes: Mapping[str, Any] = MappingProxyType({})  # instead of those of a stage
    pools: Mapping[str, Any] = MappingProxyType({})  # terms of the reserved number alone

    @property
    def of_today(self) -> bool:
        """Return whether the software is that of a search."""
        return not self.attributes


def plan_numbers(name: str | None) -> tuple[str, ...]:
    """Return the numbers that a plan may have beside its fields under a software."""
    return BESIDE if name in (None, TODAY) else (*BESIDE, REPLICAS)


def software_answer(
    name: str | None, model: Any, system: Any, given: Mapping[str, Any]
) -> SoftwareAnswer:
    """Return the memory of a training step, of settings by path, under a software by name."""
    if name is None or name == TODAY:
        asked = question(model, system, given)
        return SoftwareAnswer(asked, memory_by_stage(asked.step, asked.recipe))
    named = software(name)
    given, chosen = _of_software(named, given)
    own = {path_of(key): value for key, value in named.settings.items()}
    asked = question(model, system, {**own, **given})
    _check_only(named, asked)
    asked = asked._replace(given=asked.given - (own.keys() - given.keys()))
    if named.formulas == "fsdp2":
        return _by_fsdp2(named, asked, chosen)
    step, plan = asked.step, asked.step.plan
    if named.formulas == "2021" and asked.recipe.layer_division is not LayerDivision.UNEVEN:
        raise refusal("layer_split", f"not under {named.name}; expected pp that divides the layers")
    if named.name == "deepspeed" and plan.zero_stage >= 2.0 and plan.pipeline > 1.0:
        said = f"{plan.zero_stage:g}: DeepSpeed refuses it in a pipeline"
        raise refusal("zero", f"{said}; expected 0 or 1, or pp=1")
    if named.formulas == "2021":
        memory = stages_2021(step, asked.recipe, ENGINES[named.name, float(plan.zero_stage)])
    else:
        memory = memory_by_stage(step, asked.recipe)
    return SoftwareAnswer(asked, memory, BOUNDS[named.name], {"software": named.name})


def _of_software(
    named: Software, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings without the choices that only FSDP2 has, and these by field."""
    rest = dict(given)
    if named.formulas != "fsdp2":
        if REPLICAS in given:
            raise refusal("plan", f"replicas: not under {named.name}; expected it under fsdp2")
        return rest, {}
    for name in NO_CHOICES:
        if name in given:
            raise refusal(name, f"no choice under {named.name}; leave it out")
    chosen: dict[str, Any] = {}
    for name in [name for name in given if name in FSDP2_CHOICES]:
        field = FSDP2_CHOICES[name]
        if field in chosen:
            raise refusal(name, f"given twice, as {field} too; expected it once")
        chosen[field] = rest.pop(name)
    if "compiled" in chosen:
        if chosen["compiled"] not in TRUTH:
            raise unknown("compiled", chosen["compiled"], "answer", ["yes", "no"])
        chosen["compiled"] = TRUTH[chosen["compiled"]]
    if REPLICAS in rest:
        replicas = parse(value := rest.pop(REPLICAS), "1", "plan: replicas")
        if replicas < 1.0 or replicas != int(replicas):
            said = f"replicas: expected a whole number above 0, given {shown(value)}"
            raise refusal("plan", said)
        rest["plan.data"] = parse(rest.get("plan.data", 1.0), "1", "plan: dp") * replicas
        rest["states.optimizer_instances"] = replicas
    return rest, chosen


def _check_only(named: Software, asked: Question) -> None:
    """Refuse the first field that a software cannot do, with the values that would be right."""
    paths = {path.rpartition(".")[2]: path for path, _, _ in leaves(asked.inputs)}
    for name, allowed in named.only.items():
        held = getattr(asked.recipe, name, None)
        path = name if "." in name else paths.get(name, "")
        value = held.value if isinstance(held, enum.Enum) else float(get_at(asked.inputs, path))
        value = RECOMPUTATION[int(value)] if name == "recompute" else value
        if value not in allowed:
            said = value if isinstance(value, str) else f"{value:g}"
            right = " or ".join(str(one) for one in allowed)
            what = name if name == "recompute" else FIT.shortest.get(name, name)
            raise refusal(what, f"{said}: not under {named.name}; expected {right}")


ENGINES = {  # by software and ZeRO stage
    ("megatron-2021", 0.0): Engine.MEGATRON,
    ("deepspeed-2021", 0.0): Engine.DEEPSPEED,
    ("deepspeed-2021", 1.0): Engine.DEEPSPEED_FP16_ZERO_1,
}


def _by_fsdp2(named: Software, asked: Question, chosen: Mapping[str, Any]) -> SoftwareAnswer:
    recipe: Fsdp2Recipe = choose(Fsdp2Recipe(), chosen)
    memory, terms = fsdp2_stage(asked.step, asked.recipe, recipe)
    bounds = dict(BOUNDS[named.name])
    if asked.inputs.states.optimizer_instances > 1.0:
        bounds |= dict.fromkeys(MEASURED, HSDP)
    if recipe.recompute.value == "none":
        bounds |= dict.fromkeys(MEASURED, NOT_MEASURED)
    plain = {name: getattr(recipe, field).value for field, name in SETTINGS.items()}
    plain["compiled"] = "yes" if recipe.compiled else "no"
    taken = {SETTINGS.get(field, field) for field in chosen}
    others = (
        (SETTINGS[field], member.value, fsdp2_stage(asked.step, asked.recipe, other)[0])
        for field in ("recompute", "loss")
        for member in type(getattr(recipe, field))
        for other in [dataclasses.replace(recipe, **{field: member})]
        if field not in chosen
    )
    attributes = {
        "software": named.name,
        "recipe": plain,
        "assumed": {name: plain[name] for name in plain if name not in taken},
        "hangs_on": turns(asked, memory, others),
        "warnings": [],
    }
    pools = {
        name: (getattr(terms, name), Fsdp2Memory.__dataclass_fields__[name].metadata)
        for name in ("gradient_pool", "gather_pool", "holes")
    }
    return SoftwareAnswer(asked, memory, bounds, attributes, pools)


def turns(
    asked: Question, memory: StageMemory, others: Iterable[tuple[str, str, StageMemory]]
) -> list[dict[str, Any]]:
    """Return the choices left open whose other values would turn the answer, with their bytes."""
    fits = bool(fullest_stage(memory, asked.capacity).fits)
    every = ((name, value, fullest_stage(some, asked.capacity)) for name, value, some in others)
    return [
        {"choice": name, "value": value, "device": float(other.device)}
        for name, value, other in every
        if bool(other.fits) != fits
    ]
