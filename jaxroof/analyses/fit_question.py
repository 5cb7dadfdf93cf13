"""The question whether a training step fits: settings in, checked inputs and a recipe out."""

import dataclasses
import enum
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.catalog.lookup import system as system_named
from jaxroof.catalog.system import System, usable_memory
from jaxroof.engine.grid.question import ask, long_names
from jaxroof.engine.search.plan_text import unknown_field
from jaxroof.errors import NoAnswer, refusal, shown, unknown
from jaxroof.estimators.training.inputs import RECOMPUTATION, SHORTHAND, TrainingInputs
from jaxroof.estimators.training.legality import refuse_illegal, refuse_too_large
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.recipe import (
    LayerDivision,
    Module,
    TrainingRecipe,
    exchange_of,
    modules_of,
)
from jaxroof.estimators.training.step import training
from jaxroof.records import Number, replace_at, with_named_absences
from jaxroof.settings import choose
from jaxroof.units import parse

BOTH = ("zero_stage", "offload_optimizer")  # fields of the plan that are settings too
BESIDE = ("microbatch_group", "early_forward")  # numbers of a step that may stand in a plan
LEVEL = "plan.recompute"  # by its word or its number
SELECTIVE = "selective"  # the choice of a search: what rc=1 computes again
EVEN = "even"  # a split of layers: as even as can be


def _machine(name: str | os.PathLike[str]) -> System:
    """Return a system, with its chip where runs of it were measured."""
    try:
        return system_named(name, calibrated=True)
    except NoAnswer:
        return system_named(name)


FIT = dataclasses.replace(  # training whose memory is asked: the rules say what contradicts a plan
    training,
    products={},
    names={**training.names, "system": _machine},
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
    """Return the path of a field that is given by its name, or the name of a choice as it is.

    >>> path_of("tp"), path_of("zero_stage"), path_of("attention_kernel")
    ('plan.tensor', 'plan.zero_stage', 'attention_kernel')
    """
    (path,) = long_names(FIT, {name: None})
    return path


def given_paths(
    plan: Mapping[str, Any], settings: Mapping[str, Any], beside: tuple[str, ...] = BESIDE
) -> dict[str, Any]:
    """Return the fields of a plan, and settings, by their paths, each once; None is not given.

    Raises: InputError for what is given twice, or in the wrong place, and for no field of a plan.
    """
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
    """Return a checked question of settings by path.

    Raises: InputError for what cannot be read, is out of range, or is a plan that is not legal.
    """
    found = unchecked_question(model, system, given)
    refuse_illegal(found.step, found.recipe)
    return found


def unchecked_question(model: Any, system: Any, given: Mapping[str, Any]) -> Question:
    """Return a question whose plan is not held to the rules of legality.

    Raises: InputError for what cannot be read, or is out of range.
    """
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
    refuse_too_large(inputs.plan)  # type: ignore[arg-type]
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
    Raises: InputError for no level, for what is given twice, and for modules without selective
    recomputation or the other way round.

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
    modules = frozenset() if named is None else listed_modules(named)
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


def listed_modules(value: Any) -> frozenset[Module]:
    """Return modules that are given as a list, or as a text such as ``core_attn,mlp``."""
    members = {member.value: member for member in Module}
    names = [item.value if isinstance(item, enum.Enum) else item for item in _listed(value)]
    for name in names:
        if name not in members:
            raise unknown("modules", name, "module of a layer", members)
    return frozenset(members[name] for name in names)


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
        found += [_whole(each)] * (_whole(times) if times else 1)
        if len(found) > inputs.model.layers:
            break
    return tuple(found)


def _whole(text: str) -> int:
    value = parse(text, "1", "layer_split")
    if value != int(value) or not 0 <= value <= 1e6:
        expected = "expected whole numbers of layers, such as 7,14x8,7, or even"
        raise refusal("layer_split", f"{expected}, given {shown(text.strip())}")
    return int(value)
