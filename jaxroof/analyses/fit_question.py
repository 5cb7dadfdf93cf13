"""The question whether a training step fits: settings in, checked inputs and a recipe out."""

import dataclasses
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.analyses.plan_recomputation import listed, recomputation
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.lookup import (
    ARCHITECTURE_CHOICES,
    architecture_with_choices,
    chip_of,
    with_chip,
)
from jaxroof.catalog.lookup import system as system_named
from jaxroof.catalog.system import System, usable_memory
from jaxroof.engine.search.plan_text import unknown_field
from jaxroof.errors import InputError, NoAnswer, refusal, shown
from jaxroof.estimators.training.inputs import SHORTHAND, TrainingInputs, TrainingPlan
from jaxroof.estimators.training.legality_words import refuse_illegal, refuse_too_large
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.recipe import LayerDivision, Recipe, TrainingRecipe, exchange_of
from jaxroof.records import Absent, Number, checked, replace_at, units, with_named_absences
from jaxroof.settings import apply_settings, carried, choose
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
EVEN = "even"  # a split of layers: as even as can be


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
    again, plan, settings = recomputation(plan, settings)
    ours, rest = _apart(_by_path(settings), "model.", ARCHITECTURE_CHOICES)
    system, rest = with_chip(rest, system)
    machine, by_path = _apart(rest, "system.", ())
    architecture, made = _architecture(model, ours)
    if architecture.classes > 0.0 or architecture.vocabulary == 0.0:
        text = "a model of pictures, without a vocabulary; expected a model of language"
        raise refusal("model", text)
    absent: Any = with_named_absences(architecture, "model.").sequence
    if isinstance(absent, Absent):
        absent.refuse()
    if "global_batch" not in by_path:
        raise refusal("global_batch", "not given; expected the sequences of one optimizer step")
    by_path |= _plan_paths(plan, by_path)
    split = by_path.pop("layer_split", None)
    found = _system(system, machine)
    usual = TrainingRecipe(**vars(made), selective=again.modules)
    inputs, recipe = apply_settings(
        TrainingInputs(
            model=architecture,
            system=found,
            global_batch=1.0,
            plan=TrainingPlan(recompute=again.level),
        ),
        usual,
        by_path,
    )
    assert inputs.plan is not None
    inputs = replace_at(inputs, "plan.exchange", exchange_of(recipe, inputs.plan.exchange))
    inputs = checked(_with_gpus(inputs, by_path))
    assert inputs.plan is not None
    refuse_too_large(inputs.plan)
    recipe = dataclasses.replace(recipe, layer_division=_division(split, recipe, inputs))
    given = {*by_path, *(f"model.{name}" for name in ours), *(f"system.{name}" for name in machine)}
    given |= {"recompute"} if again.given else set()
    given |= {"layer_split"} if split is not None else set()
    return Question(inputs, recipe, usable_memory(found), frozenset(given))


def _apart(
    settings: Mapping[str, Any], prefix: str, names: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a part, without its prefix, and the others."""
    ours = {key: value for key, value in settings.items() if key.startswith(prefix)}
    ours |= {key: settings[key] for key in names if key in settings}
    others = {key: value for key, value in settings.items() if key not in ours}
    return {key.removeprefix(prefix): value for key, value in ours.items()}, others


def _architecture(model: Any, settings: Mapping[str, Any]) -> tuple[Architecture, Recipe]:
    """Return an architecture and its choices, with settings applied."""
    recipe = choose(Recipe(), carried(model))
    if isinstance(model, str | os.PathLike):
        model, choices = architecture_with_choices(model)
        recipe = choose(recipe, choices)
    if not isinstance(model, Architecture):
        raise refusal("model", f"expected a name, a file or an Architecture, given {shown(model)}")
    with_settings: tuple[Architecture, Recipe] = _applied("model", checked(model), recipe, settings)
    return with_settings


def _system(system: Any, settings: Mapping[str, Any]) -> System:
    """Return a system with a known capacity, with settings applied."""
    if isinstance(system, str | os.PathLike):
        system = dataclasses.replace(system_named(system), chip=_chip(system))
    if not isinstance(system, System):
        raise refusal("system", f"expected a name, a file or a System, given {shown(system)}")
    if "hbm_capacity" in settings and "hbm_reported" not in settings:
        none: Any = None  # what the device reports is of the other capacity
        system = dataclasses.replace(system, hbm_reported=none)
    found, _ = _applied("system", system, None, settings)
    if found.hbm_capacity is None and found.hbm_reported is None:
        text = "hbm_capacity: not given; expected the bytes of its high-bandwidth memory"
        raise refusal("system", text)
    machine: System = checked(found)
    return machine


def _chip(system: str | os.PathLike[str]) -> Chip | None:
    """Return what training gets of the chip of a system, None where no runs of it were measured."""
    try:
        return chip_of(system)
    except NoAnswer:
        return None


def _applied(where: str, record: Any, recipe: Any, settings: Mapping[str, Any]) -> Any:
    try:
        return apply_settings(record, recipe, settings)
    except InputError as error:
        raise refusal(where, str(error)) from None


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
            raise refusal("plan", f"{field}: expected it in the plan, as {_shortest(field)}=2")
    return found


def _shortest(field: str) -> str:
    return next((short for short, name in SHORT.items() if name == field), field)


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
