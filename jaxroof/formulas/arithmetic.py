"""Piecewise operations that all formulas share, with useful derivatives."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxroof.records import Number


def larger(a: Number, b: Number) -> Number:
    """Return the larger of two numbers; at a tie the slope is that of ``b``.

    >>> float(larger(2.0, 3.0))
    3.0
    """
    return jnp.where(a > b, a, b)


def smaller(a: Number, b: Number) -> Number:
    """Return the smaller of two numbers; at a tie the slope is that of ``b``.

    >>> float(smaller(2.0, 3.0))
    2.0
    """
    return jnp.where(a < b, a, b)


def largest(values: jax.Array) -> jax.Array:
    """Return the largest along the first dimension; at a tie the slope is that of the first.

    ``jnp.max`` shares the slope among those that tie, and has none where rounding leaves no tie.

    >>> float(jax.grad(lambda a: largest(jnp.stack([a, 2.0 * a, 2.0])))(1.0))
    2.0
    """
    where = jnp.argmax(values, axis=0, keepdims=True)
    return jnp.take_along_axis(values, where, axis=0)[0]


@jax.custom_jvp
def whole(a: Number, b: Number) -> Number:
    """Return floor(a / b), with the slope of a / b (the slope of a floor is 0).

    >>> float(whole(7.0, 2.0)), float(jax.grad(whole)(7.0, 2.0))
    (3.0, 0.5)
    """
    return jnp.floor(a / b)


@whole.defjvp
def _whole_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    a, b = primals
    a_dot, b_dot = tangents
    return whole(a, b), (a_dot - a / b * b_dot) / b
