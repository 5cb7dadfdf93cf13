"""A checked question about the plans of a training step."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.one_machine import OneMachine, one_machine
from jaxroof.engine.search.problem import check_search, constraints_of
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.step import memory_limit, stage_memory
from jaxroof.missing import check_listed, naming_all

Rules = str | Iterable[str | Constraint]


class Question(NamedTuple):
    """A checked question about the plans of a training step."""

    inputs: Any
    recipe: Any
    constraints: tuple[Constraint, ...]
    capacity: float  # bytes that a step may fill


def question_of(
    model: Any,
    system: Any,
    global_batch: Any,
    where: Rules,
    settings: Mapping[str, Any],
    estimator: Estimator = stage_memory,
) -> Question:
    """Return a checked question; settings that are None count as not given.

    Raises: InputError for bad input.
    """
    named = {"model": model, "system": system, "global_batch": global_batch}
    of_memory = estimator is stage_memory  # settings of a machine's rates may stand beside
    _, inputs, recipe, _ = ask(estimator, settings={**named, **settings}, whole=of_memory)
    constraints = constraints_of(estimator, where)
    if float(inputs.model.classes) > 0.0:
        raise refusal("model", "a model of pictures; expected a model with a vocabulary")
    with naming_all(estimator, inputs, recipe, searched=True):
        check_listed(estimator, dataclasses.replace(inputs, gpus=1.0))
        capacity = float(memory_limit(inputs))
    return Question(inputs, recipe, constraints, capacity)


def machine_of(
    asked: Question, size: int, estimator: Estimator = stage_memory, top: int = 1
) -> OneMachine:
    """Return the legal plans of a checked question on some accelerators."""
    inputs = dataclasses.replace(asked.inputs, gpus=np.float64(size), plan=None)
    rules = asked.constraints
    return one_machine(check_search(estimator, inputs, asked.recipe, where=rules, top=top))


def count_of(gpus: Any) -> int:
    """Return a number of accelerators.

    Raises: InputError if it is not a whole number from 1 to 1e9.
    """
    if not 1 <= float(gpus) == int(gpus) <= 1e9:
        raise refusal("gpus", f"expected a whole number from 1 to 1e9, given {gpus}")
    return int(gpus)


class Filled(NamedTuple):
    """What a search fills a plan in part with."""

    plan: dict[str, int]  # the fields that were left open
    chosen: dict[str, int]  # those of them in which legal plans differ

    @property
    def attrs(self) -> dict[str, str]:
        """Return the attribute of an answer that says what was chosen."""
        return {"filled": json.dumps(self.chosen)}


def filled_plan(
    asked: Question, size: float, own: Mapping[str, Any], estimator: Estimator
) -> Filled | None:
    """Return the fields that a plan leaves open, as ``search --mine`` shows the same plan.

    They are those of the fastest legal plan with its fields that fits; if none does, of the
    leanest. None where no chip is known, or where a search lists no plan with these fields.

    Arguments: ``size`` is the number of accelerators, ``own`` has the fields that are given.
    """
    given = {name: float(value) for name, value in own.items()}
    if asked.inputs.system.chip is None or any(n % 1.0 for n in (size, *given.values())):
        return None
    fields = {name: int(value) for name, value in given.items()}
    rules = [Constraint(name, "=", value) for name, value in fields.items()]
    try:
        some = asked._replace(constraints=(*asked.constraints, *rules))
        machine = machine_of(some, int(size), estimator)
        if not machine.plans.size:
            return None
        found = machine.own("", fields)
    except InputError:  # what is wrong is said of the plan as it is given
        return None
    every = machine.plan(found.place)
    left = {name: value for name, value in every.items() if name not in given}
    if every["context"] == 1 or asked.recipe.context_exchange is not None:
        left.pop("exchange", None)  # nothing is exchanged, or as the recipe says
    return Filled(left, machine.filled(found, found.place))
