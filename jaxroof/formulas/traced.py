"""The slopes of arithmetic that JAX cannot find itself; imported when JAX numbers occur."""

from typing import Any

import jax
import jax.numpy as jnp


@jax.custom_jvp
def whole(a: Any, b: Any) -> Any:
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
