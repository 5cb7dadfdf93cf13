"""Which points of a grid share a program: choices of the recipe that axes vary are one each."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis


class Program(NamedTuple):
    """A recipe, and the axes of numbers over the points that it answers."""

    recipe: Any
    axes: tuple[Axis, ...]


def programs(axes: Sequence[Axis], recipe: Any) -> list[Program]:
    """Return a program for every combination of the choices that axes vary, the last fastest.

    An axis of choices alone is left out of a program's axes; one over records that choose keeps
    the points with the choices of the program.
    """
    choosing = [axis for axis in axes if axis.choices]
    found = []
    for points in itertools.product(*map(groups, choosing)):
        chosen: dict[str, Any] = {}
        here = {axis.name: axis for axis in axes}
        for axis, some in zip(choosing, points, strict=True):
            chosen |= {key: column[some[0]] for key, column in axis.choices.items()}
            here[axis.name] = dataclasses.replace(axis.at(some), choices={})
        numbers = tuple(axis for axis in here.values() if axis.columns)
        made = dataclasses.replace(recipe, **chosen) if chosen else recipe
        found.append(Program(made, numbers))
    return found


def groups(axis: Axis) -> list[np.ndarray]:
    """Return the points of an axis that share their choices, in the order of their first points."""
    if not axis.columns:
        return [np.array([point]) for point in range(len(axis))]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for point, chosen in enumerate(zip(*axis.choices.values(), strict=True)):
        alike.setdefault(chosen, []).append(point)
    return [np.array(points) for points in alike.values()]
