"""What a search knows of a plan of the user's: why it is not legal, and what is as good."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.estimator import reads
from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.interval import half_width_within_source
from jaxroof.estimators.training.legality import broken_rule, broken_words
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import TrainingRecipe

USUAL = {"offload_optimizer": 0}  # optimizer states stay where they are, unless a plan says so


def close(best: Any) -> float:
    """Return by which share of its step time others are too close to a plan to tell apart."""
    return math.expm1(float(half_width_within_source(int(best["regime"]))))


def why_not(inputs: Any, recipe: TrainingRecipe, given: Mapping[str, int]) -> str:
    """Return the rule that no plan with some fields keeps, in words; empty if there is none.

    Assumes: usual values for the fields that are not given.
    """
    gpus, plan = int(inputs.gpus), {field: float(value) for field, value in given.items()}
    split = math.prod(plan.get(name, 1.0) for name in DEGREES if name != "data")
    whole = gpus % split == 0
    # where the degrees do not divide the accelerators: on as many as they need
    ranks = plan.get("data", gpus // split if whole else 1.0)
    size = gpus if whole else split * ranks
    asked = dataclasses.replace(
        inputs, gpus=np.float64(size), plan=TrainingPlan(**{**plan, "data": ranks})
    )
    step = planned(asked, recipe)
    rule = broken_rule(step, recipe)
    if rule is not None and (whole or "data" not in reads(rule.holds)):
        return broken_words(rule, step)
    if whole:
        return ""
    fields = TrainingPlan.__dataclass_fields__
    said = ",".join(f"{fields[name].metadata['symbol'] or name}={n}" for name, n in given.items())
    return f"{said}: its degrees make {split:g}, which does not divide {gpus:,} accelerators"
