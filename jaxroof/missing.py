"""Missing numbers: one error names every number that an answer needs and its inputs lack."""

import contextlib
import dataclasses
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from jaxroof.dependence import dtypes
from jaxroof.errors import InputError
from jaxroof.records import Absent, Missing, get_at, replace_at, with_named_absences

# how errors start of JAX and NumPy that one number is expected where there is an array
ONE_NUMBER = (
    *("The truth value of an array", "Only scalar arrays"),
    *("only length-1 arrays", "only 0-dimensional arrays"),
)
BRANCH = (
    "a branch on a number, or a function that needs its value, where whole grids are evaluated at "
    "once; expected jax.numpy, such as jnp.where, or functions of jaxroof.formulas.arithmetic"
)


@contextlib.contextmanager
def naming_all(estimator: Any, inputs: Any, recipe: Any, searched: bool = False) -> Iterator[None]:
    """Make an error of the block name every missing number, not only the first.

    ``searched``: numbers that list or limit the plans count too.

    An error about a number whose value is asked for while whole grids are traced is explained too.
    """
    try:
        yield
    except Missing as error:
        found = lacking(estimator, inputs, recipe, searched)
        raise Missing(found or error.absent, estimator.name) from None
    except (TypeError, ValueError) as error:
        jax = sys.modules.get("jax")
        traced = jax is not None and isinstance(error, jax.errors.JAXTypeError)
        if not traced and not str(error).startswith(ONE_NUMBER):
            raise
        who = estimator.name or "estimator"
        raise InputError(f"{who}: {_place(error)}: {BRANCH}") from error


def _place(error: BaseException) -> str:
    """Return the file and the line of the estimator where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not {"jax", "jaxlib", "numpy"} & set(f.filename.split(os.sep))]
    return f"{os.path.basename(own[-1].filename)}, line {own[-1].lineno}"


def lacking(estimator: Any, inputs: Any, recipe: Any, searched: bool = False) -> list[Absent]:
    """Return the missing numbers that an answer needs; tracing the answer finds them."""
    if estimator.plan is not None:  # which numbers are needed does not depend on the plan
        ones = dict.fromkeys(estimator.plan_fields, 1.0)
        inputs = dataclasses.replace(inputs, plan=estimator.plan(**ones))

    def answer(asked: Any) -> Any:
        full = with_named_absences(asked)
        if searched:
            check_listed(estimator, full)
            if estimator.limit is not None:
                estimator.limit(full)
        parts = estimator.evaluate_parts(full, recipe)
        return estimator.step(full, recipe, **parts)

    found: list[Absent] = []
    while True:
        try:
            dtypes(answer, inputs)
        except Missing as error:
            found += error.absent
            for number in error.absent:
                inputs = replace_at(inputs, number.path, 1.0)
        except (TypeError, ValueError):  # another problem: reported once no number is missing
            return found
        else:
            return found


def check_listed(estimator: Any, inputs: Any) -> None:
    """Check that the numbers which list plans are given."""
    full = with_named_absences(inputs)
    for path in estimator.structural:
        value = get_at(full, path)
        if isinstance(value, Absent) and not value.field.metadata["zero"]:  # none is 0
            value.refuse()
