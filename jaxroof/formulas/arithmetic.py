"""Operations beside operators that formulas share: NumPy in, NumPy out; JAX in, JAX out.

A formula calls these and knows neither. JAX is not imported for numbers that are not its own.
"""

from typing import Any

import numpy as np

from jaxroof.lazy_jax import namespace
from jaxroof.records import Number


def where(condition: Any, a: Number, b: Number) -> Number:
    """Return ``a`` where the condition holds, else ``b``.

    >>> float(where(2.0 > 1.0, 3.0, 4.0))
    3.0
    """
    return namespace(condition, a, b).where(condition, a, b)


def larger(a: Number, b: Number) -> Number:
    """Return the larger of two numbers; at a tie the slope is that of ``b``.

    >>> float(larger(2.0, 3.0))
    3.0
    """
    return where(a > b, a, b)


def smaller(a: Number, b: Number) -> Number:
    """Return the smaller of two numbers; at a tie the slope is that of ``b``.

    >>> float(smaller(2.0, 3.0))
    2.0
    """
    return where(a < b, a, b)


def largest(values: Any) -> Any:
    """Return the largest along the first dimension; at a tie the slope is that of the first.

    ``max`` shares the slope among those that tie, and has none where rounding leaves no tie.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> float(jax.grad(lambda a: largest(jnp.stack([a, 2.0 * a, 2.0])))(1.0))
    2.0
    """
    xp = namespace(values)
    first = xp.argmax(values.real if np.iscomplexobj(values) else values, axis=0, keepdims=True)
    return xp.take_along_axis(values, first, axis=0)[0]


def whole(a: Number, b: Number) -> Number:
    """Return floor(a / b), with the slope of a / b (the slope of a floor is 0).

    >>> import jax
    >>> float(whole(7.0, 2.0)), float(jax.grad(whole)(7.0, 2.0))
    (3.0, 0.5)
    """
    if namespace(a, b) is np:
        return _whole(a / b)
    from jaxroof.formulas.traced import whole as traced

    return traced(a, b)


def _whole(parts: Any) -> Any:
    if isinstance(parts, complex | np.ndarray) and np.iscomplexobj(parts):  # a complex step
        return np.floor(parts.real) + 1j * parts.imag
    return np.floor(parts)


def floor(value: Number) -> Number:
    """Return the largest whole number that is not above a value; its slope is 0.

    >>> float(floor(2.5))
    2.0
    """
    xp = namespace(value)
    return xp.floor(value.real if xp is np and np.iscomplexobj(value) else value)


def sqrt(value: Number) -> Number:
    """Return the square root of a number.

    >>> float(sqrt(4.0))
    2.0
    """
    return namespace(value).sqrt(value)


def log(value: Number) -> Number:
    """Return the natural logarithm of a number.

    >>> float(log(1.0))
    0.0
    """
    return namespace(value).log(value)


def exp(value: Number) -> Number:
    """Return e to the power of a number.

    >>> float(exp(0.0))
    1.0
    """
    return namespace(value).exp(value)
