"""One plan of a training step: settings in, checked out; the rest of a plan, from a search."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.analyses.training_plans import plans_asked, plans_on
from jaxroof.engine.grid.question import Question, ask, long_names
from jaxroof.engine.search.constraints import Constraint
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.inputs import TrainingInputs, planned
from jaxroof.estimators.training.legality import refuse_illegal
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of
from jaxroof.estimators.training.step import training
from jaxroof.missing import naming_all
from jaxroof.records import get_at, leaves, replace_at, with_named_absences


class Filled(NamedTuple):
    """What a search fills a plan in part with."""

    plan: dict[str, int]  # the fields that were left open
    attrs: dict[str, str]  # those of them in which legal plans differ, in JSON


def filled_plan(inputs: Any, recipe: Any, size: float, own: Mapping[str, Any]) -> Filled | None:
    """Return the fields that a plan of ``training`` leaves open, as ``search --mine`` shows it.

    They are those of the fastest legal plan with its fields that fits; if none does, of the
    leanest. None where no chip is known, or where a search lists no plan with these fields.

    Arguments: ``size`` is the number of accelerators, ``own`` has the fields that are given.
    """
    if inputs.system.chip is None or any(float(n) % 1.0 for n in (size, *own.values())):
        return None
    fields = {name: int(value) for name, value in own.items()}
    rules = [Constraint(name, "=", value) for name, value in fields.items()]
    try:
        machine = plans_on(plans_asked(training, Question(training, inputs, recipe), rules), size)
        found = machine.own("", fields) if machine.plans.size else None
    except InputError:  # what is wrong is said of the plan as it is given
        return None
    if found is None:
        return None
    every = machine.plan(found.place)
    left = {name: value for name, value in every.items() if name not in own}
    if every["context"] == 1 or recipe.context_exchange is not None:
        left.pop("exchange", None)  # nothing is exchanged, or as the recipe says
    return Filled(left, {"filled": json.dumps(machine.filled(found, found.place))})


def filled_settings(
    given: Mapping[str, Any], held: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings whose plan is filled in as a search does, and the attribute that says so.

    They stay as they are where the data degree is not given, as accelerators are not known then.
    Arguments: ``held`` are fields of the plan that are no choice, unless the plan gives them.
    """
    _, begun, choices, _ = ask(training, settings=given)
    paths = [path for path in long_names(training, given) if path.startswith("plan.")]
    own = {path.removeprefix("plan."): get_at(begun, path) for path in paths}
    if "data" not in own:
        return dict(given), {}
    size = math.prod(own.get(name, 1.0) for name in DEGREES)
    filled = filled_plan(dataclasses.replace(begun, plan=None), choices, size, {**held, **own})
    if filled is None:
        return dict(given), {}
    more = {f"plan.{name}": value for name, value in filled.plan.items()}
    return {**given, **more}, filled.attrs


def training_step(
    inputs: TrainingInputs | Mapping[str, Any],
    recipe: TrainingRecipe | None,
    settings: Mapping[str, Any],
) -> tuple[TrainingInputs, TrainingRecipe]:
    """Return a step under one legal plan, of a record or of settings by path, every number scalar.

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
    return begun, choices
