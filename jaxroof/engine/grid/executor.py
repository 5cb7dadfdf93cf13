"""Who evaluates: NumPy where a question is small, a program compiled by JAX where it is large."""

from typing import Any

from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.errors import unknown
from jaxroof.estimator import Estimator
from jaxroof.structure import structure

NUMPY, JAX = "numpy", "jax"
EXECUTORS = (NUMPY, JAX)
SMALL = 3_000_000  # evaluations that NumPy does before a compiler has begun


def executor_of(
    estimator: Estimator, recipe: Any, inputs: Any, evaluations: int, executor: str | None = None
) -> str:
    """Return who evaluates: who the caller insists on, or by default who is faster.

    An estimator whose formulas loop, or call JAX themselves, is always evaluated by JAX.

    Raises: InputError for an unknown executor.
    """
    if executor is not None and executor not in EXECUTORS:
        raise unknown("executor", executor, "executor", EXECUTORS)
    if executor == JAX or estimator.sizing is not None:
        return JAX
    if executor is None and evaluations > SMALL:
        return JAX
    given = structure(inputs)
    return NUMPY if dependencies(estimator, recipe, given).on_numpy else JAX
