"""The question whether a training step fits: settings in, checked inputs and a recipe out."""

import dataclasses
import enum
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.catalog.lookup import system as system_named
from jaxroof.catalog.system import System, usable_memory
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.plan_text import unknown_field
from jaxroof.errors import NoAnswer, refusal, shown, unknown
from jaxroof.estimators.training.inputs import (
    RECOMPUTATION,
    SHORTHAND,
    TrainingInputs,
    TrainingPlan,
)
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
from jaxroof.records import Number, replace_at, units, with_named_absences
from jaxroof.settings import choose
from jaxroof.units import parse

PATHS = {  # of the plan's fields in the inputs
    **{name: f"plan.{name}" for name in units(TrainingPlan) if name != "recompute"},
    **{name: name for name in ("microbatch_group", "early_forward")},
}
SHORT = {
    str(field.metadata["symbol"]): name
    for name, field in TrainingPlan.__dataclass_fields__.items()
    if name in PATHS
}
OF_STATES = {  # fields of the plan that are settings too
    f"states.{name}": f"plan.{name}" for name in ("zero_stage", "offload_optimizer")
}
BARE = {**SHORTHAND, "sequence": "model.sequence"}  # numbers that need no name of their record
LEVEL = ("rc", "recompute")  # of a plan: what is computed again
SELECTIVE = "selective"  # the choice of a search: what rc=1 computes again
EVEN = "even"  # a split of layers: as even as can be


def _machine(name: str | os.PathLike[str]) -> System:
    """Return a system, with its chip where runs of it were measured."""
    try:
        return system_named(name, calibrated=True)
    except NoAnswer:
        return system_named(name)


FIT = dataclasses.replace(  # training whose memory is asked: the rules say what contradicts a plan
    training, products={}, names={**training.names, "system": _machine}
)


class Question(NamedTuple):
    """A checked question: what the memory depends on, and what was said by its name."""

    inputs: TrainingInputs
    recipe: TrainingRecipe
    capacity: Number  # [B] of one accelerator, as much as a step may fill
    given: frozenset[str]  # choices and numbers that the question names

    @property
    def step(self) -> PlannedStep:
        """Return the inputs as memory reads them."""
        return planned(self.inputs, self.recipe)


def asked_question(
    *, model: Any, plan: Mapping[str, Any], system: Any, settings: Any = None, **more: Any
) -> Question:
    """Return a checked question whose settings are given in a mapping and by name."""
    given = {name: value for name, value in more.items() if value is not None}
    return question(model=model, plan=plan, system=system, settings={**(settings or {}), **given})


def question(
    *, model: Any, plan: Mapping[str, Any], system: Any, settings: Mapping[str, Any]
) -> Question:
    """Return a checked question.

    Raises: InputError for what cannot be read, is out of range, or is a plan that is not legal.
    """
    found = unchecked_question(model=model, plan=plan, system=system, settings=settings)
    refuse_illegal(found.step, found.recipe)
    return found


def unchecked_question(
    *, model: Any, plan: Mapping[str, Any], system: Any, settings: Mapping[str, Any]
) -> Question:
    """Return a question whose plan is not held to the rules of legality.

    Raises: InputError for what cannot be read, or is out of range.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    again, plan, rest = recomputation(plan, settings)
    by_path = _by_path(rest)
    by_path |= _plan_paths(plan, by_path)
    if "global_batch" not in by_path:
        raise refusal("global_batch", "not given; expected the sequences of one optimizer step")
    split = by_path.pop("layer_split", None)
    named = {"model": model, "system": system}
    named = {k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in named.items()}
    asked = {**named, **by_path, "plan.recompute": again.level}
    _, inputs, recipe, _ = ask(FIT, settings=asked, whole=True)
    if inputs.model.classes > 0.0 or inputs.model.vocabulary == 0.0:
        text = "a model of pictures, without a vocabulary; expected a model of language"
        raise refusal("model", text)
    float(with_named_absences(inputs.model, "model.").sequence)
    given = {*by_path, *(["recompute"] if again.given else ())}
    given |= {"layer_split"} if split is not None else set()
    if "system.hbm_capacity" in given and "system.hbm_reported" not in given:
        none: Any = None  # what the device reports is of the other capacity
        inputs = replace_at(inputs, "system.hbm_reported", none)
    if inputs.system.hbm_capacity is None and inputs.system.hbm_reported is None:
        text = "hbm_capacity: not given; expected the bytes of its high-bandwidth memory"
        raise refusal("system", text)
    inputs = replace_at(inputs, "plan.exchange", exchange_of(recipe, inputs.plan.exchange))
    inputs = _with_gpus(inputs, by_path)
    refuse_too_large(inputs.plan)  # type: ignore[arg-type]
    division = _division(split, recipe, inputs)
    recipe = dataclasses.replace(recipe, selective=again.modules, layer_division=division)
    return Question(inputs, recipe, usable_memory(inputs.system), frozenset(given))


# ---- Names of what is set -----------------------------------------------------------------------


def path_of(name: str) -> str:
    """Return the path of a field that is given by its name, or the name of a choice as it is.

    >>> path_of("tp"), path_of("zero_stage"), path_of("recompute")
    ('plan.tensor', 'plan.zero_stage', 'recompute')
    """
    field = BARE.get(name, SHORT.get(name, name))
    return OF_STATES.get(field, PATHS.get(field, field))


def _by_path(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their paths, each once."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path = path_of(name)
        if path in found:
            raise refusal(name, f"given twice, as {path} too; expected it once")
        found[path] = value
    return found


def _plan_paths(plan: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan, given by long or short names, by their paths."""
    found: dict[str, Any] = {}
    for name, value in plan.items():
        field = SHORT.get(name, name)
        if field == "microbatches":
            text = "microbatches: follow from the batch, data and microbatch; leave them out"
            raise refusal("plan", text)
        if field not in PATHS:
            raise unknown_field("plan", name, SHORT.values(), SHORT)
        if PATHS[field] in found or PATHS[field] in others:
            raise refusal("plan", f"{name}: given twice; expected each field once")
        found[PATHS[field]] = value
    for path in others:
        if path.startswith("plan.") and path not in OF_STATES.values():
            field = path.removeprefix("plan.")
            symbol = next((short for short, name in SHORT.items() if name == field), field)
            raise refusal("plan", f"{field}: expected it in the plan, as {symbol}=2")
    return found


def _with_gpus(inputs: TrainingInputs, given: Collection[str]) -> TrainingInputs:
    """Return inputs with accelerators from the degrees, or the data degree from accelerators."""
    plan = inputs.plan
    assert plan is not None
    rest = plan.tensor * plan.context * plan.pipeline
    if inputs.gpus is not None:
        if "plan.data" in given or inputs.gpus % rest != 0.0:
            return inputs
        return dataclasses.replace(inputs, plan=dataclasses.replace(plan, data=inputs.gpus / rest))
    return dataclasses.replace(inputs, gpus=plan.data * plan.tensor * plan.context * plan.pipeline)


# ---- Choices that no search has -----------------------------------------------------------------


class Recomputation(NamedTuple):
    """The level of a plan, the modules that level 1 computes again, and whether either is given."""

    level: float
    modules: frozenset[Module]
    given: bool


def recomputation(
    plan: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[Recomputation, dict[str, Any], dict[str, Any]]:
    """Return what is computed again, and the plan and the settings without it.

    ``recompute`` of the settings is a word, ``rc`` of the plan its number; ``selective`` of a
    search says which modules 1 computes again, unless ``modules`` does.
    Raises: InputError for another number than 0, 1 or 2, for what is given twice, and for modules
    without selective recomputation or the other way round.

    >>> recomputation({"dp": 8, "rc": 2}, {})
    (Recomputation(level=2.0, modules=frozenset(), given=True), {'dp': 8}, {})
    """
    number = next((value for name, value in plan.items() if name in LEVEL), None)
    word, named = settings.get("recompute"), settings.get("modules")
    if number is not None:
        if "recompute" in settings:
            raise refusal("recompute", "given twice, as rc of the plan too; expected it once")
        level = parse(number, "1", "plan: rc")
        if level not in range(len(RECOMPUTATION)):
            raise refusal("plan: rc", f"expected whole numbers from 0 to 2, given {shown(number)}")
    elif word is not None:
        if word not in RECOMPUTATION:
            raise unknown("recompute", word, "Recompute", RECOMPUTATION)
        level = float(RECOMPUTATION.index(word))
    else:
        level = 0.0 if named is None else 1.0
    if SELECTIVE in settings and "modules" in settings:
        raise refusal(SELECTIVE, "given twice, as modules too; expected it once")
    modules = frozenset() if named is None else listed_modules(named)
    if named is None and level == 1.0 and (number is not None or SELECTIVE in settings):
        chosen = {k: settings[k] for k in (SELECTIVE, "attention_kernel") if k in settings}
        modules = modules_of(choose(TrainingRecipe(), chosen))
    if modules and level != 1.0:
        said = f"go with recompute=selective, given recompute={RECOMPUTATION[int(level)]}"
        raise refusal("modules", said)
    if level == 1.0 and not modules:
        text = "selective says which modules are computed again; expected modules, such as"
        raise refusal("recompute", f"{text} modules={Module.CORE_ATTENTION.value}")
    given = not (number is None and word is None and named is None)
    own = (*LEVEL, SELECTIVE, "modules")
    rest = {name: value for name, value in settings.items() if name not in own}
    left = {name: value for name, value in plan.items() if name not in LEVEL}
    return Recomputation(level, modules, given), left, rest


def listed_modules(value: Any) -> frozenset[Module]:
    """Return modules that are given as a list, or as a text such as ``core_attn,mlp``."""
    members = {member.value: member for member in Module}
    found = []
    for item in listed(value):
        name = item.value if isinstance(item, enum.Enum) else item
        if name not in members:
            raise unknown("modules", name, "module of a layer", members)
        found.append(members[name])
    return frozenset(found)


def listed(value: Any) -> list[Any]:
    """Return the items of a list, or of a text such as ``core_attn,mlp``."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",")]
    if not isinstance(value, Iterable):
        raise refusal("", f"expected a list, given {shown(value)}")
    return list(value)


def _division(split: Any, recipe: TrainingRecipe, inputs: TrainingInputs) -> Any:
    """Return how layers are divided over stages: as a recipe does, or as a split says."""
    if split == EVEN:
        return LayerDivision.EVEN
    return (
        recipe.layer_division if split is None else _split(split, inputs) or recipe.layer_division
    )


def _split(value: Any, inputs: TrainingInputs) -> tuple[int, ...]:
    """Return the layers of every virtual stage, from a list such as ``7,14x8,7``."""
    layers = float(inputs.model.layers)
    found: list[int] = []
    for item in listed(value):
        times, _, each = str(item).rpartition("x")
        found += [_whole(each)] * (_whole(times) if times else 1)
        if len(found) > layers:
            break
    return tuple(found)


def _whole(text: str) -> int:
    value = parse(text, "1", "layer_split")
    if value != int(value) or not 0 <= value <= 1e6:
        expected = "expected whole numbers of layers, such as 7,14x8,7, or even"
        raise refusal("layer_split", f"{expected}, given {shown(text.strip())}")
    return int(value)
