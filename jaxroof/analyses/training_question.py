"""What is asked of a training step: its plans, or one of them; settings in, checked out."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.question import Question, ask, long_names
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.one_machine import OneMachine, one_machine
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan, planned
from jaxroof.estimators.training.legality import refuse_illegal
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of
from jaxroof.estimators.training.step import stage_memory, training
from jaxroof.missing import naming_all
from jaxroof.records import get_at, leaves, replace_at, with_named_absences

Rules = str | Iterable[str | Constraint]


def plans_asked(
    estimator: Estimator, asked: Mapping[str, Any] | Question, where: Rules = ()
) -> SearchProblem:
    """Return the checked search of a training step, on any number of accelerators.

    Arguments: settings, of which None counts as not given, or a checked question.
    Raises: InputError for bad input.
    """
    of_memory = estimator is stage_memory  # settings of a machine's rates may stand beside
    found = ask(estimator, asked, whole=of_memory)
    if float(found.inputs.model.classes) > 0.0:
        raise refusal("model", "a model of pictures; expected a model with a vocabulary")
    inputs = dataclasses.replace(found.inputs, gpus=np.float64(1.0))
    return check_search(estimator, found._replace(inputs=inputs, axes=()), where=where)


def plans_on(asked: SearchProblem, gpus: Any, top: int = 1) -> OneMachine:
    """Return the legal plans of a search on some accelerators.

    Raises: InputError if these are not a whole number from 1 to 1e9.
    """
    if not 1 <= float(gpus) == int(gpus) <= 1e9:
        raise refusal("gpus", f"expected a whole number from 1 to 1e9, given {gpus}")
    inputs = dataclasses.replace(asked.inputs, gpus=np.float64(gpus))
    return one_machine(dataclasses.replace(asked, inputs=inputs, top=top))


class Filled(NamedTuple):
    """What a search fills a plan in part with."""

    plan: dict[str, int]  # the fields that were left open
    chosen: dict[str, int]  # those of them in which legal plans differ

    @property
    def attrs(self) -> dict[str, str]:
        """Return the attribute of an answer that says what was chosen."""
        return {"filled": json.dumps(self.chosen)}


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
    return Filled(left, machine.filled(found, found.place))


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
    filled = filled_plan(dataclasses.replace(begun, plan=None), choices, size, {**held, **own})
    if filled is None:
        return dict(given), {}
    more = {f"plan.{name}": value for name, value in filled.plan.items()}
    return {**given, **more}, filled.attrs


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
    """Return a checked step, of a record or of settings by dotted path.

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
