"""A plan of the user's among the legal ones, or why it is none of them."""

import dataclasses
import math
from typing import Any

import numpy as np

from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.one_machine import OneMachine
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import reads
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.legality_words import broken_rule, broken_words
from jaxroof.estimators.training.memory_step import memory_inputs, stage_memory
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.training_recipe import memory_recipe

OFFLOAD = "offload_optimizer"


def place_of(inputs: Any, recipe: Any, plans: OneMachine, gpus: int, own: str) -> np.ndarray:
    """Return the positions of the plans with the fields of the user's.

    Optimizer states lie in host memory only where the user's plan says so, or ``--where`` does.
    Raises: InputError for fields that are not numbers, and with the rule that refuses the plan.
    """
    fields = own_fields(own)
    some = plans.having(fields)
    if not len(some):
        raise _why_not(inputs, recipe, gpus, own, fields, plans)
    if any(one.field == OFFLOAD for one in fields):
        return some
    kept = some[plans.at(some, (OFFLOAD,))[OFFLOAD] == 0]
    return kept if len(kept) else some


def fastest_place(plans: OneMachine, some: np.ndarray) -> np.ndarray:
    """Return the position of the fastest of some plans that fits, of the leanest if none does.

    Arguments: ``some`` are the positions of the plans with the user's fields, the leanest first.
    """
    place, _ = plans.best(1, some[plans.need[some] <= plans.limit])
    return place if len(place) else some[:1]


def filled_in(plans: OneMachine, own: str, some: np.ndarray, place: int) -> dict[str, int]:
    """Return the fields that the user's plan left open, where plans differ, as one plan has them.

    Arguments: ``some`` are the positions of the plans with the user's fields, ``place`` is one.
    """
    every, chosen = plans.at(some), plans.at(np.array([place]))
    given = {one.field for one in own_fields(own)}
    return {
        field: int(chosen[field][0])
        for field, column in every.items()
        if field not in given and np.any(column != column[0])
    }


def own_fields(own: str) -> tuple[Constraint, ...]:
    """Return the fields of the user's plan.

    Raises: InputError for what is not FIELD=NUMBER, and for a degree below 1.
    """
    found = parse_plan("mine", own, TrainingPlan, stage_memory.short_names)
    return tuple(Constraint(field, "=", value) for field, value in found.items())


def _why_not(
    inputs: Any, recipe: Any, gpus: int, own: str, fields: tuple[Constraint, ...], plans: OneMachine
) -> InputError:
    """Return why no legal plan has the fields of the user's, and which are the nearest that have.

    Why is a rule, with usual values for the fields that are not given, or a constraint.
    """
    near = _near(plans, fields)
    plan = {one.field: float(one.value) for one in fields}
    split = math.prod(plan.get(name, 1.0) for name in DEGREES if name != "data")
    whole = gpus % split == 0
    # where the degrees do not divide the accelerators: on as many as they need
    ranks = plan.get("data", gpus // split if whole else 1.0)
    size = gpus if whole else split * ranks
    asked = dataclasses.replace(
        inputs, gpus=np.float64(size), plan=TrainingPlan(**{**plan, "data": ranks})
    )
    known = memory_inputs(asked, recipe), memory_recipe(recipe)
    rule = broken_rule(*known)
    if rule is not None and (whole or "data" not in reads(rule.holds)):
        return refusal("mine", f"{broken_words(rule, *known)}{near}")
    if not whole:
        text = f"its degrees make {split:g}, which does not divide {gpus:,} accelerators"
        return refusal("mine", f"{own}: {text}{near}")
    left = " that --where leaves" if plans.refused.get("where") else ""
    text = f"none of the {plans.plans.size:,} legal plans{left} has these fields"
    return refusal("mine", f"{own}: {text}{near}")


def _near(plans: OneMachine, own: tuple[Constraint, ...]) -> str:
    """Return the values of single fields, nearest to the user's, that a legal plan has with it."""
    found = []
    for one in own:
        left = plans.plans.having([other for other in own if other is not one])
        values = np.unique({**left.plans, **left.product}[one.field]) if left.size else np.empty(0)
        below, above = values[values < one.value], values[values > one.value]
        short = TrainingPlan.__dataclass_fields__[one.field].metadata["symbol"] or one.field
        found += [f"{short}={value:.0f}" for value in (*below[-1:], *above[:1])]
    alone = "" if len(own) == 1 else " with the rest of it"
    return f"; expected {' or '.join(found)}{alone}" if found else ""
