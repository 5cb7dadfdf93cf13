"""A checked question about the plans of a training step."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import constraints_of
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.memory_step import memory_limit, stage_memory
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
