"""What arithmetic does differently for numbers of JAX; imported when they occur."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


@jax.custom_jvp
def whole(a: Any, b: Any) -> Any:
    """Return floor(a / b), with the slope of a / b (the slope of a floor is 0)."""
    return jnp.floor(a / b)


@whole.defjvp
def _whole_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    a, b = primals
    a_dot, b_dot = tangents
    return whole(a, b), (a_dot - a / b * b_dot) / b


def loop(count: Any, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """Return a state after a number of steps."""
    return jax.lax.fori_loop(0, count, body, state)


def put(values: Any, index: Any, part: Any, add: bool) -> Any:
    """Return an array with a part replaced, or added to."""
    at = jnp.asarray(values).at[index]
    return at.add(part) if add else at.set(part)


def take(values: Any, index: Any) -> Any:
    """Return the values at given places along the first dimension, without a check of the range."""
    return jnp.take_along_axis(jnp.asarray(values), index, axis=0, mode="promise_in_bounds")


def erlang_loss(servers: Any, load: Any) -> Any:
    """Return the share of calls that Erlang's system loses."""
    more = servers + 1.0
    weight = jnp.exp(servers * jnp.log(load) - load - jax.scipy.special.gammaln(more))
    return weight / jax.scipy.special.gammaincc(more, load)
