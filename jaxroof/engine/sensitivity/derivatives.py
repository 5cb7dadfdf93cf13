"""Exact slopes of results at many points, to both sides of a kink.

Dual numbers give them in NumPy where there are few points, compiled programs where there are many.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.dual import Dual, slope_of, value_of
from jaxroof.engine.grid.axes import column_length
from jaxroof.engine.grid.chunks import pad_points
from jaxroof.engine.grid.evaluate import iter_pieces
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.estimator import Estimator
from jaxroof.records import field_at, get_at, replace_at
from jaxroof.structure import map_numbers, results

CELLS = 1 << 16  # values and slopes that NumPy computes at a time
ROOMS = (64, 4096)  # points of a call of a program: few shapes, so few compiles
EPSILON = 1e-10  # relative to a parameter: a point closer to a kink than this counts as on it
SAME = 1e-6  # relative to the result: slopes that differ by less count as equal
SLIGHT = 1e-8  # relative to the result: least jump, all parameters moved, of a kink


def scale_parameters(inputs: Any, paths: Sequence[str], factors: Any) -> Any:
    """Return the inputs with each parameter times its factor [..., parameter]."""
    for number, path in enumerate(paths):
        inputs = replace_at(inputs, path, get_at(inputs, path) * factors[..., number])
    return inputs


def with_slopes(inputs: Any, paths: Sequence[str], ways: np.ndarray) -> Any:
    """Return inputs whose parameters carry their slopes along ways.

    Leaves are numbers or columns of one length; slopes are those with ln(parameter). Ways are
    [way, parameter], or [way, parameter, point].
    """
    ways = ways if ways.ndim == 3 else ways[..., None]
    for number, path in enumerate(paths):
        value = np.asarray(get_at(inputs, path), np.float64)
        value = value if value.ndim else value[None]
        inputs = replace_at(inputs, path, Dual(value, ways[:, number] * value))
    return inputs


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Some results of an estimator, or, without names, the contributions to its objective."""

    estimator: Estimator
    recipe: Any
    names: tuple[str, ...] = ()

    def __call__(self, inputs: Any) -> Mapping[str, Any]:
        """Return the numbers by name; contributions by displayed name.

        Contributions are those of the estimator; else the parts of the objective in its report, or
        the objective itself.
        """
        estimator, aim = self.estimator, self.estimator.objective
        if not self.names and estimator.contributions is not None:
            return dict(estimator.contributions(inputs, self.recipe))
        report = estimator.evaluate_checked(inputs, self.recipe)
        found = results(report)
        if self.names:
            return {name: found[name] for name in self.names}
        fields = dataclasses.fields(report)
        parts = [f for f in fields if f.metadata["part_of"] == aim]
        return {
            f.metadata["words"] or f.metadata["symbol"] or f.name.replace("_", " "): found[f.name]
            for f in parts or [f for f in fields if f.name == aim]
        }


def slopes_of(
    asked: Numbers, inputs: Any, paths: Sequence[str], ways: np.ndarray | None = None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return numbers and their slopes d value / d ln(parameter) at every point.

    Leaves of ``inputs``, the plan's included, are scalars or columns of one length. ``ways``
    [way, parameter] holds directions, [way, parameter, point] such of each point; slopes are taken
    along them instead of along each parameter.
    Returns: names, values [points, names], slopes [points, names, ways].
    """
    ways = np.eye(len(paths)) if ways is None else ways
    estimator, count = asked.estimator, column_length(inputs)
    each = 1 + len(ways)
    by_numpy = executor_of(estimator, asked.recipe, inputs, count * each) == NUMPY
    if by_numpy:
        room = max(1, CELLS // each)
    else:
        asked = dataclasses.replace(asked, recipe=estimator.sized_recipe(inputs, asked.recipe))
        sizing = estimator.sizing
        most = ROOMS[-1] if sizing is None else sizing.batch(asked.recipe)
        room = min([most, *(size for size in ROOMS if size >= min(count, most))])
    names: list[str] = []
    values, along = [], []
    for start, (size, piece) in enumerate(iter_pieces(inputs, count, room)):
        here = ways[..., start * room : start * room + size] if ways.ndim == 3 else ways
        found = (_by_numpy if by_numpy else _compiled)(asked, piece, tuple(paths), here, room)
        names, wide = list(found), size if by_numpy else room
        columns = [np.broadcast_to(value, (wide,)) for value, _ in found.values()]
        sloped = [np.broadcast_to(slope, (len(ways), wide)).T for _, slope in found.values()]
        values.append(np.stack(columns, axis=1)[:size])
        along.append(np.stack(sloped, axis=1)[:size])
    return names, np.concatenate(values), np.concatenate(along)


Found = dict[str, tuple[Any, Any]]  # by name: values [point], slopes [way, point]


def _by_numpy(
    asked: Numbers, inputs: Any, paths: tuple[str, ...], ways: np.ndarray, room: int
) -> Found:
    with np.errstate(all="ignore"):
        found = asked(with_slopes(inputs, paths, ways))
    return {name: (value_of(value), slope_of(value)) for name, value in found.items()}


def _compiled(
    asked: Numbers, inputs: Any, paths: tuple[str, ...], ways: np.ndarray, room: int
) -> Found:
    from jaxroof.engine.grid.compiled import slopes_jit

    def padded(leaf: Any) -> Any:
        column = np.asarray(leaf, np.float64)
        return pad_points(column, room) if column.ndim else column

    if ways.ndim == 3:
        ways = np.pad(ways, [(0, 0), (0, 0), (0, room - ways.shape[-1])])
    values, slopes = slopes_jit(asked, paths, map_numbers(padded, inputs), ways)
    return {name: (values[name], np.reshape(slopes[name], (len(ways), -1))) for name in values}


def slopes(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    paths: Sequence[str],
    name: str,
    ways: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return one result [points] and its slopes [points, ways], as ``slopes_of``.

    On a kink the slope is that of one side (see ``one_sided_slopes``).
    """
    _, value, slope = slopes_of(Numbers(estimator, recipe, (name,)), inputs, paths, ways)
    return value[:, 0], slope[:, 0]


class OneSided(NamedTuple):
    """A result and its one-sided slopes, d value / d ln(parameter)."""

    value: np.ndarray  # [points]
    above: np.ndarray  # [points, parameters], for an increase of the parameter
    below: np.ndarray  # [points, parameters], for a decrease
    tie: np.ndarray  # [points, parameters], true where they differ: the point lies on a kink


def one_sided_slopes(
    estimator: Estimator, recipe: Any, inputs: Any, paths: Sequence[str], name: str
) -> OneSided:
    """Return a result and its slopes to both sides, which differ where the point is on a kink.

    A kink is a point where two terms tie for the maximum. It is detected by comparing the slopes
    just before and just behind the point, along a direction that moves all parameters unequally.
    At a kink each parameter is then moved slightly by itself. A whole number is differentiated as
    a real number but not moved, since its quotients would round to another whole number. It has
    one slope.
    """
    count = column_length(inputs)
    free = np.array([not field_at(inputs, path).metadata["whole"] for path in paths])
    way = free * (1.0 + np.arange(len(paths)) / len(paths))

    def moved(rows: np.ndarray, steps: np.ndarray, *ways: np.ndarray) -> np.ndarray:
        some = map_numbers(lambda leaf: np.broadcast_to(leaf, (count,))[rows], inputs)
        beside = scale_parameters(some, paths, 1.0 + EPSILON * steps)
        return slopes(estimator, recipe, beside, paths, name, *ways)[1]

    value, slope = slopes(estimator, recipe, inputs, paths, name)
    sides = np.repeat([-1.0, 1.0], count)[:, None]
    before, behind = np.split(moved(np.tile(np.arange(count), 2), sides * way, way[None])[:, 0], 2)
    above, below = slope.copy(), slope.copy()
    scale = np.maximum(np.abs(value), np.finfo(float).tiny)
    ridge = np.flatnonzero(np.abs(behind - before) > SLIGHT * scale)
    if len(ridge):
        own = np.flatnonzero(free)
        one = np.tile(np.eye(len(paths))[own], (len(ridge), 1))
        for side, sign in ((above, 1.0), (below, -1.0)):
            each = moved(np.repeat(ridge, len(own)), sign * one)
            each = each.reshape(len(ridge), len(own), len(paths))
            side[np.ix_(ridge, own)] = each[:, np.arange(len(own)), own]
    tie = np.abs(above - below) > SAME * scale[:, None]
    return OneSided(value, np.where(tie, above, slope), np.where(tie, below, slope), tie)
