"""Dual numbers: a value and its slopes, so that NumPy differentiates what it evaluates."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


def _same(*_: Any) -> float:
    """Return the slope of a sum with each of its terms: 1."""
    return 1.0


RULES: dict[Any, tuple[Callable[..., Any], ...]] = {  # the slope of f with each of its arguments
    np.add: (_same, _same),
    np.subtract: (_same, lambda f, a, b: -1.0),
    np.multiply: (lambda f, a, b: b, lambda f, a, b: a),
    np.divide: (lambda f, a, b: 1.0 / b, lambda f, a, b: -f / b),
    np.power: (  # of 0 too
        lambda f, a, b: b * np.power(a, np.where(b == 0.0, 1.0, b - 1.0)),
        lambda f, a, b: f * np.log(np.where(a == 0.0, 1.0, a)),
    ),
    np.remainder: (_same, lambda f, a, b: -np.floor(a / b)),
    np.floor_divide: (lambda f, a, b: 0.0, lambda f, a, b: 0.0),
    np.negative: (lambda f, a: -1.0,),
    np.absolute: (lambda f, a: np.sign(a),),
    np.sqrt: (lambda f, a: 0.5 / f,),
    np.log: (lambda f, a: 1.0 / a,),
    np.exp: (lambda f, a: f,),
    np.expm1: (lambda f, a: f + 1.0,),
    np.log1p: (lambda f, a: 1.0 / (1.0 + a),),
    np.cos: (lambda f, a: -np.sin(a),),
    np.floor: (lambda f, a: 0.0,),
    np.ceil: (lambda f, a: 0.0,),
}


def _operators(ufunc: np.ufunc) -> tuple[Any, Any]:
    """Return an operator and the same with its sides exchanged: the ufunc's, in half the time."""
    rules = RULES[ufunc]

    def forward(a: Any, b: Any) -> Any:
        values = value_of(a), value_of(b)
        return _with_slope(ufunc(*values), rules, (a, b), values)

    return forward, lambda b, a: forward(a, b)


def _with_slope(found: Any, rules: Any, given: Sequence[Any], values: Sequence[Any]) -> "Dual":
    """Return the value of a function with its slope: the sum over its arguments, by their rules."""
    slope = None
    for rule, one in zip(rules, given, strict=True):
        if isinstance(one, Dual):
            part = one.slope if rule is _same else rule(found, *values) * one.slope
            slope = part if slope is None else slope + part
    return Dual(found, slope)


class Dual(NDArrayOperatorsMixin):
    """A number and its slopes along some directions, which operations carry along.

    f(x + h dx) = f(x) + h f'(x) dx

    ``slope`` has the shape of ``value`` behind a first dimension of directions. Comparisons are
    those of the values, so a kink has the slope of the branch that is taken.

    >>> area = Dual(np.float64(3.0), np.eye(2)[0]) * Dual(np.float64(2.0), np.eye(2)[1])
    >>> float(area.value), area.slope.tolist()
    (6.0, [2.0, 3.0])
    """

    __slots__ = ("slope", "value")
    dtype = np.dtype(np.float64)
    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.divide)

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **_: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        values = [one.value if isinstance(one, Dual) else one for one in given]
        found = ufunc(*values)
        rules = RULES.get(ufunc)
        if rules is None:
            return found if found.dtype != self.dtype else NotImplemented  # a comparison
        return _with_slope(found, rules, given, values)

    def __array_function__(self, function: Any, _: Any, given: Any, more: Any) -> Any:
        if function is not np.where or more:
            return NotImplemented
        condition, a, b = given
        value = np.where(condition, value_of(a), value_of(b))
        return Dual(value, np.where(condition, slope_of(a), slope_of(b)))

    def whole(self) -> "Dual":
        """Return the largest whole number that is not above, with the slope of this number."""
        return Dual(np.floor(self.value), self.slope)

    def __bool__(self) -> bool:
        return bool(self.value)


def value_of(number: Any) -> Any:
    """Return a number without its slopes.

    >>> value_of(2.0), value_of(Dual(3.0, np.ones(1)))
    (2.0, 3.0)
    """
    return number.value if isinstance(number, Dual) else number


def slope_of(number: Any) -> Any:
    """Return the slopes of a number, 0 if it has none.

    >>> slope_of(2.0)
    0.0
    """
    return number.slope if isinstance(number, Dual) else 0.0
