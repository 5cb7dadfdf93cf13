"""The question whether a training step fits: settings in, checked inputs and a recipe out."""

import dataclasses
import enum
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.analyses.plan_recomputation import with_recomputation
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.lookup import (
    ARCHITECTURE_CHOICES,
    architecture_with_choices,
    chip_of,
    with_chip,
)
from jaxroof.catalog.lookup import system as system_named
from jaxroof.catalog.system import System, usable_memory
from jaxroof.engine.search.plan_text import unknown_field
from jaxroof.errors import InputError, NoAnswer, refusal, shown, unknown
from jaxroof.estimators.training.legality_words import refuse_illegal, refuse_too_large
from jaxroof.estimators.training.memory_inputs import (
    Activations,
    Buffers,
    MemoryInputs,
    MemoryPlan,
    States,
)
from jaxroof.estimators.training.memory_model import counts, memory_model
from jaxroof.estimators.training.memory_recipe import (
    LayerDivision,
    MemoryRecipe,
    Module,
    Recompute,
    exchange_of,
)
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.estimators.training.software import Framework
from jaxroof.records import Number, checked, replace_at, units, with_named_absences
from jaxroof.settings import apply_settings, carried, choose
from jaxroof.units import parse

PATHS = {  # of the plan's fields in the inputs; the batch makes the number of microbatches
    **{name: f"plan.{name}" for name in units(MemoryPlan) if name != "microbatches"},
    "zero_stage": "states.zero_stage",
    "offload_optimizer": "states.offload_optimizer",
}
SHORT = {
    str(record.__dataclass_fields__[name].metadata["symbol"]): name
    for record in (MemoryPlan, States)
    for name in units(record)
    if record.__dataclass_fields__[name].metadata["symbol"]
}
BARE = {  # numbers that may be set without the name of their record
    name: f"{part}.{name}"
    for part, record in (("states", States), ("activations", Activations), ("buffers", Buffers))
    for name in units(record)
}
EVEN = "even"  # a split of layers: as even as can be


class Question(NamedTuple):
    """A checked question: what the memory depends on, and what was said by its name."""

    inputs: MemoryInputs
    recipe: MemoryRecipe
    capacity: Number  # [B] of one accelerator, as much as a step may fill
    system: System
    model_recipe: Recipe  # choices of the architecture
    given: frozenset[str]  # choices and numbers that the question names
    framework: Framework  # how it trains, which time alone depends on, as on
    shared: SharedConstants  # constants of all chips


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
    refuse_illegal(found.inputs, found.recipe)
    return found


def unchecked_question(
    *, model: Any, plan: Mapping[str, Any], system: Any, settings: Mapping[str, Any]
) -> Question:
    """Return a question whose plan is not held to the rules of legality.

    Raises: InputError for what cannot be read, or is out of range.
    """
    ours, rest = _apart(settings, "model.", ARCHITECTURE_CHOICES)
    system, rest = with_chip(rest, system)
    machine, rest = _apart(rest, "system.", ())
    timed = {}
    for name, record in {"software": Framework(), "shared": SharedConstants()}.items():
        own, rest = _apart(rest, f"{name}.", ())
        timed[name] = _applied(name, record, None, own)[0]
    architecture, made = _architecture(model, ours)
    if architecture.classes > 0.0 or architecture.vocabulary == 0.0:
        text = "a model of pictures, without a vocabulary; expected a model of language"
        raise refusal("model", text)
    chosen = {name: value for name, value in rest.items() if value is not None}
    length: Any = architecture.sequence
    if chosen.get("sequence") is None and length is None:
        with_named_absences(architecture, "model.").sequence.refuse()  # type: ignore[union-attr]
    inputs = MemoryInputs(
        model=memory_model(architecture, made),
        counts=counts(architecture, made),
        sequence=1.0 if length is None else length,
        plan=MemoryPlan(),
    )
    plan, chosen = with_recomputation(plan, chosen)
    by_path = _by_path(chosen)
    by_path |= _plan_paths(plan, by_path)
    lists: dict[str, Any] = {
        name: by_path.pop(name) for name in ("modules", "layer_split") if name in by_path
    }
    usual = MemoryRecipe(layer_division=LayerDivision.UNEVEN)  # as the search has it
    inputs, recipe = apply_settings(inputs, usual, by_path)
    inputs = replace_at(inputs, "plan.exchange", exchange_of(recipe, inputs.plan.exchange))
    inputs = _with_microbatches(checked(_with_gpus(inputs, by_path)))
    refuse_too_large(inputs)
    recipe = _with_lists(inputs, recipe, lists, "recompute" in by_path)
    more = [f"system.{name}" for name in machine] + ["recompute"] * ("modules" in lists)
    given = frozenset({*by_path, *chosen, *more})
    found = _system(system, machine)
    return Question(inputs, recipe, usable_memory(found), found, made, given, *timed.values())


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
    ('plan.tensor', 'states.zero_stage', 'recompute')
    """
    field = BARE.get(name, SHORT.get(name, name))
    return PATHS.get(field, field)


def _by_path(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their paths, each once."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path = path_of(name)
        if path in found:
            raise refusal(name, f"given twice, as {path} too; expected it once")
        if path.startswith("counts."):
            raise refusal(name, "follows from the model; expected fields of it, as model.layers")
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
        if path.startswith("plan."):
            field = path.removeprefix("plan.")
            raise refusal("plan", f"{field}: expected it in the plan, as {_shortest(field)}=2")
    return found


def _shortest(field: str) -> str:
    return next((short for short, name in SHORT.items() if name == field), field)


def _with_gpus(inputs: MemoryInputs, given: Collection[str]) -> MemoryInputs:
    """Return inputs with accelerators from the degrees, or the data degree from accelerators."""
    plan = inputs.plan
    rest = plan.tensor * plan.context * plan.pipeline
    if inputs.gpus is not None:
        if "plan.data" in given or inputs.gpus % rest != 0.0:
            return inputs
        return dataclasses.replace(inputs, plan=dataclasses.replace(plan, data=inputs.gpus / rest))
    return dataclasses.replace(inputs, gpus=plan.data * plan.tensor * plan.context * plan.pipeline)


def _with_microbatches(inputs: MemoryInputs) -> MemoryInputs:
    """Return inputs whose plan has as many microbatches as the batch makes, or the nearest."""
    if inputs.global_batch is None:
        raise refusal("global_batch", "not given; expected the sequences of one optimizer step")
    plan = inputs.plan
    whole = inputs.global_batch // (plan.data * plan.microbatch)
    return checked(
        dataclasses.replace(
            inputs, plan=dataclasses.replace(plan, microbatches=max(float(whole), 1.0))
        )
    )


def _with_lists(
    inputs: MemoryInputs, recipe: MemoryRecipe, choices: Mapping[str, Any], named: bool
) -> MemoryRecipe:
    """Return a recipe with its modules and its split of layers."""
    modules = _modules(choices["modules"]) if "modules" in choices else frozenset()
    recompute = recipe.recompute if named or not modules else Recompute.SELECTIVE
    if modules and recompute is not Recompute.SELECTIVE:
        text = f"go with recompute=selective, given recompute={recompute.value}"
        raise refusal("modules", text)
    if recompute is Recompute.SELECTIVE and not modules:
        text = "selective says which modules are computed again; expected modules, such as"
        raise refusal("recompute", f"{text} modules={Module.CORE_ATTENTION.value}")
    recipe = dataclasses.replace(recipe, modules=modules, recompute=recompute)
    if choices.get("layer_split") == EVEN:
        return dataclasses.replace(recipe, layer_division=LayerDivision.EVEN)
    split = _split(choices["layer_split"], inputs) if "layer_split" in choices else ()
    return dataclasses.replace(recipe, layer_split=split)


def _listed(value: Any) -> list[Any]:
    """Return the items of a list, or of a text such as ``core_attn,mlp``."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",")]
    if not isinstance(value, Iterable):
        raise refusal("", f"expected a list, given {shown(value)}")
    return list(value)


def _modules(value: Any) -> frozenset[Module]:
    members = {member.value: member for member in Module}
    found = []
    for item in _listed(value):
        name = item.value if isinstance(item, enum.Enum) else item
        if name not in members:
            raise unknown("modules", name, "module of a layer", members)
        found.append(members[name])
    return frozenset(found)


def _split(value: Any, inputs: MemoryInputs) -> tuple[int, ...]:
    """Return the layers of every virtual stage, from a list such as ``7,14x8,7``."""
    layers = float(inputs.model.layers)
    found: list[int] = []
    for item in _listed(value):
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
