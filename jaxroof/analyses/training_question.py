"""One training step of today under one plan: settings or records in, a checked question out."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.analyses.plan_question import Question, filled_plan
from jaxroof.engine.grid.question import ask, long_names
from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.legality import refuse_illegal
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of
from jaxroof.estimators.training.step import memory_limit, training
from jaxroof.missing import naming_all
from jaxroof.records import get_at, leaves, replace_at, with_named_absences


class TrainingStep(NamedTuple):
    """A training step under one legal plan, every number scalar and in its range."""

    inputs: TrainingInputs
    recipe: TrainingRecipe

    @property
    def plan(self) -> TrainingPlan:
        """Return the plan."""
        assert self.inputs.plan is not None
        return self.inputs.plan


def training_step(
    inputs: TrainingInputs | Mapping[str, Any],
    recipe: TrainingRecipe | None,
    settings: Mapping[str, Any],
) -> TrainingStep:
    """Return a checked question.

    Arguments: ``inputs`` is a record, or settings by dotted path (``{"model": "llama3-70b",
    "plan.tensor": 8, ...}``), among which ``precision`` and ``chip`` may be given by name.
    Raises: InputError for settings that are unknown or out of range, and for a plan that is not
    given or not legal.
    """
    _, begun, choices, _ = ask(training, inputs, recipe, settings)
    for path, _, value in leaves(begun):
        if np.ndim(value):
            raise refusal(path, f"expected one number, given {np.size(value)} of them")
    if begun.plan is None:
        raise refusal("plan", "not given; expected how the step is split, plan.tensor and more")
    exchange = exchange_of(choices, begun.plan.exchange)
    begun = replace_at(begun, "plan.exchange", np.float64(exchange))
    training.refuse_contradictions(begun)
    with naming_all(training, begun, choices):
        refuse_illegal(planned(with_named_absences(begun), choices), choices)
    return TrainingStep(begun, choices)


def filled_settings(
    given: Mapping[str, Any], held: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings whose plan is filled in as a search does, and the attribute that says so.

    They stay as they are where the data degree is not given, as accelerators are not known then.
    Arguments: ``held`` are fields of the plan that are no choice, unless the plan gives them.
    Raises: InputError for settings that are missing, unknown or out of range.
    """
    _, begun, choices, _ = ask(training, settings=given)
    paths = [path for path in long_names(training, given) if path.startswith("plan.")]
    own = {path.removeprefix("plan."): get_at(begun, path) for path in paths}
    if "data" not in own:
        return dict(given), {}
    size = math.prod(own.get(name, 1.0) for name in DEGREES)
    capacity = float(memory_limit(with_named_absences(begun)))
    asked = Question(dataclasses.replace(begun, plan=None), choices, (), capacity)
    filled = filled_plan(asked, size, {**held, **own}, training)
    if filled is None:
        return dict(given), {}
    more = {f"plan.{name}": value for name, value in filled.plan.items()}
    return {**given, **more}, filled.attrs
