"""A plan of the user's among the legal ones, or why it is none of them."""

import dataclasses
import math
from typing import Any

import numpy as np

from jaxroof.analyses.fit_legality import UNEVEN, refuse_illegal
from jaxroof.analyses.plan_product import Listed
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.memory_step import memory_inputs, stage_memory
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.training_recipe import memory_recipe


def place_of(inputs: Any, recipe: Any, plans: Listed, gpus: int, own: str) -> np.ndarray:
    """Return the positions of the plans with the fields of the user's.

    Raises: InputError for fields that are not numbers, and with the rule that refuses the plan.
    """
    some = plans.having(own_fields(own))
    if not len(some):
        raise _why_not(inputs, recipe, gpus, own, plans)
    return some


def own_fields(own: str) -> tuple[Constraint, ...]:
    """Return the fields of the user's plan.

    Raises: InputError for what is not FIELD=NUMBER, and for a degree below 1.
    """
    found = parse_plan("mine", own, TrainingPlan, stage_memory.short_names)
    return tuple(Constraint(field, "=", value) for field, value in found.items())


def _why_not(inputs: Any, recipe: Any, gpus: int, own: str, plans: Listed) -> InputError:
    """Return why no legal plan has the fields of the user's: a rule, or a constraint.

    Fields that are not given have their usual values.
    """
    plan = {one.field: float(one.value) for one in own_fields(own)}
    split = math.prod(plan.get(name, 1.0) for name in DEGREES if name != "data")
    everywhere = {"data": 1.0, **plan}  # rules of the other fields first, on as many as they need
    ranks = plan.get("data", gpus // split)
    for size, fields in ((split * everywhere["data"], everywhere), (gpus, {"data": ranks, **plan})):
        asked = dataclasses.replace(inputs, gpus=np.float64(size), plan=TrainingPlan(**fields))
        try:
            refuse_illegal(memory_inputs(asked, recipe), memory_recipe(recipe), UNEVEN)
        except InputError as error:
            return refusal("mine", str(error).removeprefix("plan: "))
        if gpus % split:
            text = f"its degrees make {split:g}, which does not divide {gpus:,} accelerators"
            return refusal("mine", f"{own}: {text}")
    left = " that --where leaves" if plans.refused.get("where") else ""
    return refusal("mine", f"{own}: none of the {plans.size:,} legal plans{left} has these fields")
