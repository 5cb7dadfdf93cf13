"""The estimator of one question that is answered by one function."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS


def answers(
    name: str,
    step: Callable[..., Any],
    inputs: type,
    example: Callable[[], Any],
    recipe: Any = None,
) -> Estimator:
    """Return the estimator of one question."""
    has_system = any(field.name == "system" for field in dataclasses.fields(inputs))
    return Estimator(
        step=step,
        inputs=inputs,
        recipe=recipe,
        name=name,
        names={"system": named.labelled_system} if has_system else {},
        example=example,
        about=QUESTIONS[name],
    )
