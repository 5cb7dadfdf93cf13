"""Results as functions of complex numbers: an exact derivative that JAX has no part in.

A function is traced to its operations, which numpy then does on complex numbers: decisions go by
the real parts, so that f(x + i h) = f(x) + i h f'(x) to the last digit for tiny h. ``relaxed``
takes counts as real numbers: nothing is rounded down.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

H = 1e-30


class Looped(Exception):
    """The function has a loop: there are no plain operations to do."""


def _real(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **_: function(*(np.real(one) for one in given))


def _broadcast(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    full = [1] * len(shape)
    for own, dim in enumerate(broadcast_dimensions):
        full[dim] = np.shape(x)[own]
    return np.broadcast_to(np.reshape(x, full), shape)


def _select(which: Any, *cases: Any, **_: Any) -> Any:
    return np.choose(np.asarray(np.real(which), int), cases)


def _pow(x: Any, y: Any, **_: Any) -> Any:
    return np.where(np.real(x) == 0, 0.0, np.exp(y * np.log(np.where(np.real(x) == 0, 1.0, x))))


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> Any:
    steps = strides or (1,) * len(start_indices)
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _converted(x: Any, *, new_dtype: Any, **_: Any) -> Any:
    return x if np.dtype(new_dtype).kind == "f" else np.real(x).astype(new_dtype)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **_: function(*given)


def _larger(x: Any, y: Any, **_: Any) -> Any:
    return np.where(np.real(x) > np.real(y), x, y)


def _smaller(x: Any, y: Any, **_: Any) -> Any:
    return np.where(np.real(x) < np.real(y), x, y)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{n: _plain(getattr(np, n)) for n in ("exp", "log", "sqrt", "log1p", "expm1", "square")},
    "add": _plain(np.add), "add_any": _plain(np.add), "sub": _plain(np.subtract),
    "mul": _plain(np.multiply), "div": _plain(np.divide), "neg": _plain(np.negative), "pow": _pow,
    "integer_pow": lambda x, *, y, **_: x**y, "max": _larger, "min": _smaller,
    "abs": lambda x, **_: np.where(np.real(x) < 0, -x, x), "sign": _real(np.sign),
    "floor": _real(np.floor), "ceil": _real(np.ceil), "round": _real(np.round),
    "rem": lambda x, y, **_: x - y * np.trunc(np.real(x) / np.real(y)),
    "is_finite": _real(np.isfinite),
    **{n: _real(f) for n, f in (("gt", np.greater), ("lt", np.less), ("eq", np.equal))},
    **{n: _real(f) for n, f in (("ge", np.greater_equal), ("le", np.less_equal))},
    "ne": _real(np.not_equal), "and": _plain(np.logical_and), "or": _plain(np.logical_or),
    "not": _plain(np.logical_not), "select_n": _select,
    "broadcast_in_dim": _broadcast,
    "reshape": lambda x, *, new_sizes, **_: np.reshape(x, new_sizes),
    "squeeze": lambda x, *, dimensions, **_: np.squeeze(x, tuple(dimensions)),
    "transpose": lambda x, *, permutation, **_: np.transpose(x, permutation),
    "concatenate": lambda *xs, dimension, **_: np.concatenate(xs, dimension), "slice": _slice,
    "reduce_sum": lambda x, *, axes, **_: np.sum(x, axes),
    "reduce_and": lambda x, *, axes, **_: np.all(np.real(x), axes),
    "convert_element_type": _converted,
    "stop_gradient": lambda x, **_: np.real(x), "copy": lambda x, **_: x,
}  # fmt: skip
INSIDE = ("jaxpr", "call_jaxpr")  # where an operation holds operations


def _run(closed: Any, given: list[Any], operations: Mapping[str, Any]) -> list[Any]:
    held: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    held |= dict(zip(closed.jaxpr.invars, given, strict=True))

    def value(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else held[variable]

    for equation in closed.jaxpr.eqns:
        name, values = equation.primitive.name, [value(v) for v in equation.invars]
        inner = [equation.params[key] for key in INSIDE if key in equation.params]
        if name in ("pjit", "jit", "custom_jvp_call", "closed_call"):
            found = _run(inner[0], values, operations)
        elif name in operations:
            found = [operations[name](*values, **equation.params)]
        else:
            raise Looped(name)
        held |= dict(zip(equation.outvars, found, strict=True))
    return [value(v) for v in closed.jaxpr.outvars]


class Operations:
    """A function of one array as a list of operations, done on real or complex numbers."""

    def __init__(self, function: Callable[[Any], Any], at: Any, relaxed: bool = False) -> None:
        self.traced, shape = jax.make_jaxpr(function, return_shape=True)(at)
        self.structure = jax.tree.structure(shape)
        self.known = {**OPERATIONS, "floor": lambda x, **_: x} if relaxed else OPERATIONS

    def __call__(self, at: Any) -> Any:
        """Return the results. Raises: Looped where the function is no list of operations."""
        return jax.tree.unflatten(self.structure, _run(self.traced, [at], self.known))

    def slope(self, at: Any) -> Any:
        """Return the derivative of every result, by a complex step."""
        step = np.asarray(at, complex) + 1j * H
        return jax.tree.map(lambda y: np.imag(y) / H, self(step))
