"""Operations beside operators that formulas share: NumPy in, NumPy out; JAX in, JAX out.

A formula calls these and knows neither. JAX is not imported for numbers that are not its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.dual import Dual
from jaxroof.lazy_jax import namespace
from jaxroof.records import Number

TRUTH, SCALAR = (bool, np.bool_), (float, np.float64)


def where(condition: Any, a: Number, b: Number) -> Number:
    """Return ``a`` where the condition holds, else ``b``."""
    if type(condition) in TRUTH and type(a) in SCALAR and type(b) in SCALAR:
        return np.float64(a if condition else b)  # as NumPy does, a tenth of the time
    return namespace(condition, a, b).where(condition, a, b)


def chosen(place: Number, values: Sequence[Number]) -> Number:
    """Return the value at a whole place, a number."""
    found = values[0]
    for number, value in enumerate(values[1:], 1):
        found = where(place == float(number), value, found)
    return found


def larger(a: Number, b: Number) -> Number:
    """Return the larger of two numbers; at a tie the slope is that of ``b``."""
    return where(a > b, a, b)


def smaller(a: Number, b: Number) -> Number:
    """Return the smaller of two numbers; at a tie the slope is that of ``b``."""
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
    first = xp.argmax(values, axis=0, keepdims=True)
    return xp.take_along_axis(values, first, axis=0)[0]


def whole(a: Number, b: Number) -> Number:
    """Return floor(a / b), with the slope of a / b (the slope of a floor is 0).

    >>> import jax
    >>> float(whole(7.0, 2.0)), float(jax.grad(whole)(7.0, 2.0))
    (3.0, 0.5)
    """
    if namespace(a, b) is np:
        parts: Any = a / b
        found: Any = parts.whole() if isinstance(parts, Dual) else np.floor(parts)
        return found
    from jaxroof.formulas.traced import whole as traced

    return traced(a, b)


def ceiling(a: Number, b: Number) -> Number:
    """Return a / b rounded up, with the slope of a / b."""
    return -whole(-a, b)


def floor(value: Number) -> Number:
    """Return the largest whole number that is not above a value; its slope is 0."""
    return namespace(value).floor(value)


def loop(count: Any, body: Callable[[Any, Any], Any], state: Any, *values: Any) -> Any:
    """Return a state after a number of steps: ``state = body(step, state)``.

    ``values`` are numbers that decide, as those of the state, who runs the loop.

    >>> int(loop(4, lambda step, total: total + step, 0))
    6
    """
    every = (*state, *values) if isinstance(state, tuple) else (state, *values)
    if namespace(count, *every) is np:
        for step in range(int(count)):
            state = body(step, state)
        return state
    from jaxroof.formulas import traced

    return traced.loop(count, body, state)


def put(values: Any, index: Any, part: Any, add: bool = False) -> Any:
    """Return an array of the caller's own with a part replaced, or added to; NumPy's is changed."""
    places = index if isinstance(index, tuple) else (index,)
    if namespace(values, part, *places) is np:
        if add:
            np.add.at(values, index, part)
        else:
            values[index] = part
        return values
    from jaxroof.formulas import traced

    return traced.put(values, index, part, add)


def take(values: Any, index: Any) -> Any:
    """Return the values at given places along the first dimension; all places are in range."""
    if namespace(values, index) is np:
        return np.take_along_axis(values, index, axis=0)
    from jaxroof.formulas import traced

    return traced.take(values, index)


def alike(values: Any, *others: Any) -> Any:
    """Return an array of the kind of the others: one of JAX if any of them is."""
    return namespace(*others).asarray(values)


def stack(values: Sequence[Any]) -> Any:
    """Return arrays of one shape along a new first dimension."""
    return namespace(*values).stack(values)


def sqrt(value: Number) -> Number:
    """Return the square root of a number."""
    return namespace(value).sqrt(value)


def log(value: Number) -> Number:
    """Return the natural logarithm of a number."""
    return namespace(value).log(value)


def exp(value: Number) -> Number:
    """Return e to the power of a number."""
    return namespace(value).exp(value)


def expm1(value: Number) -> Number:
    """Return e to the power of a number, less 1."""
    return namespace(value).expm1(value)


def log1p(value: Number) -> Number:
    """Return the natural logarithm of 1 more than a number."""
    return namespace(value).log1p(value)


def cos(value: Number) -> Number:
    """Return the cosine of an angle in radians."""
    return namespace(value).cos(value)
