"""Missing numbers: one error names every number that an answer needs and its inputs lack."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from jaxroof.dependence import dtypes
from jaxroof.errors import InputError
from jaxroof.records import Absent, Missing, get_at, replace_at, with_named_absences


@contextlib.contextmanager
def naming_all(estimator: Any, inputs: Any, recipe: Any, searched: bool = False) -> Iterator[None]:
    """Make an error of the block name every missing number, not only the first.

    ``searched``: numbers that list or limit the plans count too.

    Raises: InputError instead of the one that names a single number.
    """
    try:
        yield
    except Missing as error:
        found = lacking(estimator, inputs, recipe, searched)
        raise Missing(found or error.absent, estimator.name) from None


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
        except InputError:  # another problem: it is reported once no number is missing
            return found
        else:
            return found


def check_listed(estimator: Any, inputs: Any) -> None:
    """Check that the numbers which list plans are given.

    Raises: InputError that names the first missing one.
    """
    full = with_named_absences(inputs)
    for path in estimator.structural:
        value = get_at(full, path)
        if isinstance(value, Absent):
            value.refuse()
