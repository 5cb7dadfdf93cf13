"""Answers: each estimator maps one record of inputs to one record of results.

A new estimator gets a line here: the command line, files of rows and sweep files then know it by
name, and the laws hold it to account.
"""

import importlib

from jaxroof.errors import unknown
from jaxroof.estimator import Estimator

HOMES = {
    "training": "jaxroof.estimators.training.step",
}


def names() -> tuple[str, ...]:
    """Return the names of all estimators.

    >>> "training" in names()
    True
    """
    return tuple(HOMES)


def estimator(name: str) -> Estimator:
    """Return an estimator by name.

    Raises: InputError with the nearest name.

    >>> estimator("training").objective
    'step_time'
    """
    if name not in HOMES:
        raise unknown("", name, "estimator", HOMES)
    found = getattr(importlib.import_module(HOMES[name]), name)
    assert isinstance(found, Estimator)
    return found
