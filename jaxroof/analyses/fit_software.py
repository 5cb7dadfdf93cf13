"""A training step under named software: what it sets, what it cannot do, the memory it needs."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxroof.analyses.fit_question import BESIDE, FIT, Question, path_of, question
from jaxroof.catalog.lookup import TODAY, Software, software
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.training.inputs import RECOMPUTATION
from jaxroof.estimators.training.other_software import (
    Engine,
    Fsdp2Memory,
    Fsdp2Recipe,
    fsdp2_stage,
    stages_2021,
)
from jaxroof.estimators.training.recipe import LayerDivision
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import fullest_stage, memory_by_stage
from jaxroof.records import get_at, leaves
from jaxroof.settings import choose
from jaxroof.units import parse

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
    pools: dict[str, Any]  # terms of the reserved number alone
    bounds: dict[str, str]
    attributes: dict[str, Any]  # of the result, instead of those of a stage


def plan_numbers(name: str | None) -> tuple[str, ...]:
    """Return the numbers that a plan may have beside its fields under a software."""
    return BESIDE if name in (None, TODAY) else (*BESIDE, REPLICAS)


def software_answer(
    name: str | None, model: Any, system: Any, given: Mapping[str, Any]
) -> SoftwareAnswer:
    """Return the memory of a training step, of settings by path, under a software by name.

    Raises: InputError for what the software cannot do, and as ``question`` does.
    """
    if name is None or name == TODAY:
        asked = question(model, system, given)
        return SoftwareAnswer(asked, memory_by_stage(asked.step, asked.recipe), {}, {}, {})
    named = software(name)
    given, chosen = _of_software(named, given)
    own = {path_of(key): value for key, value in named.settings.items()}
    asked = question(model, system, {**own, **given})
    _check_only(named, asked)
    asked = asked._replace(given=asked.given - (own.keys() - given.keys()))
    return ANSWERS[named.formulas](named, asked, chosen)


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
        replicas = _replicas(rest.pop(REPLICAS))
        rest["plan.data"] = parse(rest.get("plan.data", 1.0), "1", "plan: dp") * replicas
        rest["states.optimizer_instances"] = replicas
    return rest, chosen


def _replicas(value: Any) -> float:
    found = parse(value, "1", "plan: replicas")
    if found < 1.0 or found != int(found):
        raise refusal("plan", f"replicas: expected a whole number above 0, given {shown(value)}")
    return found


def _check_only(named: Software, asked: Question) -> None:
    """Check that a software can do what is asked.

    Raises: InputError for the first field that it cannot, with the values that would be right.
    """
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


# ---- The formulas of each software --------------------------------------------------------------


def _by_stages(named: Software, asked: Question, chosen: Mapping[str, Any]) -> SoftwareAnswer:
    plan = asked.step.plan
    if named.name == "deepspeed" and plan.zero_stage >= 2.0 and plan.pipeline > 1.0:
        said = f"{plan.zero_stage:g}: DeepSpeed refuses it in a pipeline"
        raise refusal("zero", f"{said}; expected 0 or 1, or pp=1")
    memory = memory_by_stage(asked.step, asked.recipe)
    return SoftwareAnswer(asked, memory, {}, BOUNDS[named.name], {"software": named.name})


def _by_2021(named: Software, asked: Question, chosen: Mapping[str, Any]) -> SoftwareAnswer:
    if asked.recipe.layer_division is not LayerDivision.UNEVEN:
        raise refusal("layer_split", f"not under {named.name}; expected pp that divides the layers")
    engine = ENGINES[named.name, float(asked.step.plan.zero_stage)]
    memory = stages_2021(asked.step, asked.recipe, engine)
    return SoftwareAnswer(asked, memory, {}, BOUNDS[named.name], {"software": named.name})


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
    attributes = {
        "software": named.name,
        "recipe": plain,
        "assumed": {name: plain[name] for name in plain if name not in taken},
        "hangs_on": _turns(asked, recipe, chosen),
        "warnings": [],
    }
    pools = {
        name: (getattr(terms, name), Fsdp2Memory.__dataclass_fields__[name].metadata)
        for name in ("gradient_pool", "gather_pool", "holes")
    }
    return SoftwareAnswer(asked, memory, pools, bounds, attributes)


def _turns(asked: Question, recipe: Fsdp2Recipe, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the choices left open that would turn the answer, each with its bytes."""

    def full(one: Fsdp2Recipe) -> Any:
        return fullest_stage(fsdp2_stage(asked.step, asked.recipe, one)[0], asked.capacity)

    fits, found = bool(full(recipe).fits), []
    for field in (one for one in ("recompute", "loss") if one not in chosen):
        for member in type(getattr(recipe, field)):
            other = full(dataclasses.replace(recipe, **{field: member}))
            if bool(other.fits) != fits:
                said = {"choice": SETTINGS[field], "value": member.value}
                found.append({**said, "device": float(other.device)})
    return found


ANSWERS: dict[str, Callable[[Software, Question, Mapping[str, Any]], SoftwareAnswer]] = {
    "stages": _by_stages,
    "fsdp2": _by_fsdp2,
    "2021": _by_2021,
}
