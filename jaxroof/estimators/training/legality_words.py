"""The rule of a plan's legality that is broken, the value, and what would be right."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxroof.errors import refusal
from jaxroof.estimator import reads
from jaxroof.estimators.legality import Rule
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.legality import fact, rules
from jaxroof.estimators.training.planned import BatchPlan, PlannedStep
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.limits import check_bound
from jaxroof.records import units

NAMES = {
    name: BatchPlan.__dataclass_fields__[name].metadata["symbol"] or name
    for name in units(BatchPlan)
}
EVEN = ("layer_division=even", "layer_split=even")  # the second where a split is given
FIRST = "batch_divisible"  # without it the number of microbatches means nothing
MOST = 4  # alternatives that an error names
FARTHEST = 2.0**16  # value that is tried


def refuse_too_large(plan: TrainingPlan) -> None:
    """Check that a plan has no more virtual stages than any model has layers.

    Raises: InputError with their number.
    """
    chunks = float(plan.pipeline * plan.interleave)
    check_bound("plan: pp x vp", "layers", chunks)


def refuse_illegal(inputs: PlannedStep, recipe: TrainingRecipe) -> None:
    """Check a plan against the rules of section 7 of docs/models/parameters_flops_memory.md.

    Raises: InputError for the first rule that it breaks, with values that keep the rule.
    """
    rule = broken_rule(inputs, recipe)
    if rule is not None:
        right = _alternatives(rule, inputs, recipe)
        expected = f"; expected {right}" if right else ""
        raise refusal("plan", f"{broken_words(rule, inputs)}{expected}")


def broken_rule(inputs: PlannedStep, recipe: TrainingRecipe) -> Rule | None:
    """Return the first rule that a plan breaks."""
    every, plan = sorted(rules(recipe), key=lambda rule: rule.name != FIRST), _fields(inputs)
    return next((rule for rule in every if not bool(rule.allows(inputs, plan))), None)


def broken_words(rule: Rule, inputs: PlannedStep) -> str:
    """Return what of a plan breaks a rule, the rule, and the number that decides."""
    plan = _fields(inputs)
    fields = [name for name in reads(rule.holds) if plan[name] != 1.0]
    said = ", ".join(_said(f, plan[f]) for f in fields or reads(rule.holds))
    return f"{said}: not legal ({rule.words}); {fact(rule, inputs)}"


def _fields(inputs: PlannedStep) -> dict[str, float]:
    return {name: float(getattr(inputs.plan, name)) for name in NAMES}


def _said(name: str, value: float) -> str:
    words = BatchPlan.__dataclass_fields__[name].metadata.get("flags", ())
    return f"{NAMES[name]}={words[int(value)] if words else f'{value:.0f}'}"


def _alternatives(rule: Rule, inputs: PlannedStep, recipe: TrainingRecipe) -> str:
    """Return values of single fields that keep every rule, the nearest ones below and above.

    Where there are none, those that keep the broken rule, a step on the way.
    """
    found = _nearest(rule, rules(recipe), inputs)
    if rule.name == "gpus_used" and not found:
        plan = inputs.plan
        each = int(plan.tensor * plan.context * plan.pipeline)
        return f"a multiple of {each:,} accelerators"
    found = found or _nearest(rule, (rule,), inputs)
    even = (
        [EVEN[isinstance(recipe.layer_division, tuple)]] if rule.name == "layers_divisible" else []
    )
    return " or ".join([*found[:MOST], *even])


def _nearest(rule: Rule, kept: Iterable[Rule], inputs: PlannedStep) -> list[str]:
    """Return the nearest values of the fields of a rule that keep some rules."""
    found, plan, kept = [], _fields(inputs), tuple(kept)
    for name in reads(rule.holds):
        if name == "microbatches":
            continue
        about = BatchPlan.__dataclass_fields__[name].metadata
        held, most = plan[name], min(8.0 * plan[name] + 1.0, about["most"])
        values = np.arange(1.0, min(most, FARTHEST) + 1.0)
        there: dict[str, Any] = {**plan, name: values}
        if {"data", "microbatch"} & {name} and inputs.global_batch is not None:
            whole = inputs.global_batch // (there["data"] * there["microbatch"])
            there["microbatches"] = np.maximum(whole, 1.0)
        allowed = np.ones(values.shape, dtype=bool)
        for one in kept:
            allowed = allowed & one.allows(inputs, there)
        below, above = values[allowed & (values < held)], values[allowed & (values > held)]
        found += [_said(name, value) for value in (*below[-1:], *above[:1])]
    return found
