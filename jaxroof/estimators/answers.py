"""The estimator of one question that is answered by one function, and fields of its records."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.records import quantity


def optional(unit: str, doc: str, **more: Any) -> Any:
    """Declare a number that the inputs may lack."""
    return quantity(unit, doc, default=None, **more)


def higher(unit: str, doc: str, **more: Any) -> Any:
    """Declare a result of which more is better."""
    return quantity(unit, doc, better="higher", **more)


def answers(
    system: System | str | None = None, recipe: Any = None, **example: Any
) -> Callable[[Callable[..., Any]], Estimator]:
    """Make a function of inputs and recipe the estimator of the question of its name.

    Arguments: ``system``, or its name in the catalogue, and ``example`` are reasonable inputs;
    ``recipe`` is the usual one where that is not the recipe's own default.
    """

    def made(step: Callable[..., Any]) -> Estimator:
        inputs, kind = list(step.__annotations__.values())[:2]
        has_system = any(field.name == "system" for field in dataclasses.fields(inputs))

        def reasonable() -> Any:
            held = named.system(system) if isinstance(system, str) else system
            return inputs(**({"system": held} if has_system else {}), **example)

        return Estimator(
            step=step,
            inputs=inputs,
            recipe=kind() if kind and recipe is None else recipe,
            name=step.__name__,
            names={"system": named.labelled_system} if has_system else {},
            example=reasonable,
            about=QUESTIONS[step.__name__],
        )

    return made
