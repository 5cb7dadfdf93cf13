"""Who evaluates: NumPy or JAX, by the number of evaluations or as the caller insists."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import pytest

import jaxroof as jr
from jaxroof.engine.grid import executor as executors
from jaxroof.engine.grid.executor import JAX, NUMPY, executor_of
from jaxroof.errors import InputError
from jaxroof.estimators.published.step import example, published

ONE = example()


def asked(evaluations: int, executor: str | None = None) -> str:
    return executor_of(published, published.recipe, ONE, evaluations, executor)


def test_small_questions_are_for_numpy_and_large_ones_for_programs():
    assert asked(1) == asked(executors.SMALL) == NUMPY
    assert asked(executors.SMALL + 1) == JAX
    assert asked(1, JAX) == JAX
    assert asked(10**9, NUMPY) == NUMPY


def test_formulas_that_call_jax_are_found_out():
    def step(inputs: Any, recipe: Any) -> Any:
        return {"time": jnp.maximum(inputs.global_batch, 1.0)}

    own = dataclasses.replace(published, name="own", step=step, parts={})
    assert executor_of(own, published.recipe, ONE, 1) == JAX
    with pytest.raises(InputError, match=r"^executor: the formulas of own loop, or call JAX; exp"):
        executor_of(own, published.recipe, ONE, 1, NUMPY)


def test_an_unknown_executor_is_a_line():
    with pytest.raises(InputError, match=r"^executor: .*numpi.*Did you mean 'numpy'"):
        jr.tabulate(published, ONE, executor="numpi")
