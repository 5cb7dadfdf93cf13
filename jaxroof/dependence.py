"""What results depend on, found without numbers: a formula runs on what stands for its inputs."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from jaxroof.lazy_jax import is_traced
from jaxroof.records import Absent, leaves, replace_all
from jaxroof.structure import map_numbers

FLOAT, BOOL = np.dtype(np.float64), np.dtype(np.bool_)
NONE: frozenset[Any] = frozenset()


def _operators(ufunc: np.ufunc, of_floats: np.dtype[Any] = FLOAT) -> tuple[Any, Any]:
    """Return an operator and its mirror: what the ufunc does, in a third of the time on floats."""

    def quick(one: "Dependent", other: Any) -> "Dependent | None":
        if one.dtype is not FLOAT:
            return None
        if type(other) is float:
            return Dependent(one.inputs, of_floats)
        if type(other) is not Dependent or other.dtype is not FLOAT:
            return None
        return Dependent(_union(one.inputs, other.inputs), of_floats)

    def forward(self: "Dependent", other: Any) -> Any:
        found = quick(self, other)
        return ufunc(self, other) if found is None else found

    def backward(self: "Dependent", other: Any) -> Any:
        found = quick(self, other)
        return ufunc(other, self) if found is None else found

    return forward, backward


class Dependent(NDArrayOperatorsMixin):
    """A stand-in for a number: the inputs that it depends on; operations join those of theirs."""

    __slots__ = ("dtype", "inputs")
    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.divide)
    __gt__, __lt__ = _operators(np.greater, BOOL)[0], _operators(np.less, BOOL)[0]

    def __init__(self, inputs: frozenset[Any], dtype: np.dtype[Any] = FLOAT) -> None:
        self.inputs, self.dtype = inputs, dtype

    def __array_ufunc__(self, ufunc: Any, method: str, *values: Any, **_: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        return _joined(values, _dtype_of_result(ufunc, *map(_dtype, values)))

    def __array_function__(self, function: Any, _: Any, values: Any, more: Any) -> Any:
        if function is not np.where or more:
            return NotImplemented
        return _joined(values, _joint_dtype(*map(_dtype, values[1:])))

    def astype(self, dtype: Any) -> "Dependent":
        """Return the same in another type of number."""
        return Dependent(self.inputs, np.dtype(dtype))

    def __bool__(self) -> bool:
        raise TypeError("a stand-in has no value")


@functools.cache
def _joint_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(*dtypes)


@functools.cache
def _dtype_of_result(ufunc: np.ufunc, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
    found: np.dtype[Any] = ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))[-1]
    return found


def _union(some: frozenset[Any], others: frozenset[Any]) -> frozenset[Any]:
    """Return both; sets are shared where they can be."""
    if others <= some:
        return some
    return some | others if some else others


def _joined(values: Any, dtype: np.dtype[Any]) -> Dependent:
    """Return a stand-in for what depends on all of the values."""
    inputs = NONE
    for value in values:
        if isinstance(value, Dependent):
            inputs = _union(inputs, value.inputs)
        elif isinstance(value, Absent):
            value.refuse()
    return Dependent(inputs, dtype)


def _dtype(value: Any) -> np.dtype[Any]:
    if isinstance(value, Dependent):
        return value.dtype
    if isinstance(value, Absent):
        value.refuse()
    if isinstance(value, bool | int | float | complex):
        return BOOL if isinstance(value, bool) else FLOAT
    found: np.dtype[Any] = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return found


def has_value(value: Any) -> bool:
    """Return whether something is a number, not what stands for one.

    >>> has_value(1.0), has_value(Dependent(frozenset()))
    (True, False)
    """
    return not isinstance(value, Dependent) and not is_traced(value)


class Shown(NamedTuple):
    """What a function returns, without its numbers."""

    report: Any  # its results, of which each has a dtype
    inputs: Any  # the same with the set of inputs that each depends on
    on_numpy: bool  # whether it can run without JAX


def dependence(function: Callable[[Any], Any], tree: Any, inputs: Mapping[str, Any]) -> Shown:
    """Return what the results of a function of a record depend on.

    Arguments: ``inputs`` names for each path of ``tree`` the inputs that vary it; what has no path
    there stays as it is. A function that only JAX can run is traced by JAX.
    """
    marked = replace_all(tree, {path: Dependent(frozenset(n)) for path, n in inputs.items()})
    try:
        report = function(marked)
    except (TypeError, AttributeError):  # it calls JAX, or takes a number for an array
        return _traced(function, tree, inputs)
    if not all(_plain(leaf) for leaf in _numbers(report)):
        return _traced(function, tree, inputs)
    report = map_numbers(lambda leaf: leaf if hasattr(leaf, "dtype") else np.asarray(leaf), report)
    return Shown(report, map_numbers(lambda leaf: set(getattr(leaf, "inputs", ())), report), True)


def dtypes(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a function's results without their numbers: each has a dtype."""
    return dependence(function, tree, {path: () for path, _, _ in leaves(tree)}).report


def _plain(leaf: Any) -> bool:
    return isinstance(leaf, Dependent | np.ndarray | np.generic | bool | int | float)


def _numbers(report: Any) -> list[Any]:
    found: list[Any] = []
    map_numbers(found.append, report)
    return found


def _traced(function: Callable[[Any], Any], tree: Any, inputs: Mapping[str, Any]) -> Shown:
    """Find the same from shapes: each input has a dimension of its own, of size 2."""
    import jax
    import jax.numpy as jnp

    every = list(dict.fromkeys(name for names in inputs.values() for name in names))
    shapes = {}
    for path, names in inputs.items():
        shape = tuple(2 if name in names else 1 for name in every)
        shapes[path] = jax.ShapeDtypeStruct(shape, jnp.float64)
    shaped = replace_all(tree, shapes)
    report = jax.eval_shape(lambda asked: jax.tree.map(jnp.asarray, function(asked)), shaped)
    moved = jax.tree.map(
        lambda leaf: {name for name, n in zip(every, leaf.shape, strict=False) if n > 1},
        report,
    )
    return Shown(report, moved, False)
