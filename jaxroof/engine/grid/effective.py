"""Fields of the inputs that the results of an estimator depend on."""

import functools
import itertools
from collections.abc import Collection
from typing import Any

import numpy as np

from jaxroof.dependence import dependence
from jaxroof.engine.grid.dependencies import Paths, dependencies
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.records import leaves, with_named_absences
from jaxroof.structure import Structure, structure


def check_effective(estimator: Estimator, inputs: Any, recipe: Any, paths: Collection[str]) -> None:
    """Check that some result depends on each field that a question sets or varies.

    Only estimators whose records have names share them with others, and so have fields that they
    do not read; inputs of one's own are as their author wants them.
    Raises: InputError that names the first one that nothing depends on, and what the estimator
    reads of the same record.
    """
    if not estimator.names:
        return
    held = {path: value for path, _, value in leaves(inputs) if np.ndim(value) == 0}
    asked = [path for path in paths if path in held and not path.startswith("plan.")]
    if not asked:
        return
    try:
        read = effective(estimator, recipe, structure(inputs))
    except (InputError, TypeError):  # a number is missing, or is of another kind: said later
        return
    for path in asked:
        if path not in read:
            record = path.rpartition(".")[0]
            near = sorted(p for p in read if p.rpartition(".")[0] == record)
            expected = f"; expected one of {', '.join(near)}" if near else ""
            who = estimator.name or "the estimator"
            raise refusal(path, f"does not enter the estimator {who}{expected}")


@functools.lru_cache(maxsize=64)
def effective(estimator: Estimator, recipe: Any, structure: Structure) -> Paths:
    """Return the paths that any result, the limit of plans or their list depends on."""
    inputs = structure.build(itertools.repeat(1.0))
    found = dependencies(estimator, recipe, structure)
    read = {*found.parts, *estimator.products}.union(*found.results.values())
    paths = [path for path, _, _ in leaves(inputs)]
    if estimator.limit is not None:
        bound = estimator.limit
        marked = {path: (path,) for path in paths}
        read |= dependence(lambda i: bound(with_named_absences(i)), inputs, marked).inputs
    return frozenset(read | {path for path in paths if estimator.lists_anew(path)})
