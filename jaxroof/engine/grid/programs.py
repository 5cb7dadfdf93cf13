"""Programs of a grid: points with the same choices of the recipe share one program."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis

EACH = ""  # as a choice of an axis: each of its points is a program of its own


class Program(NamedTuple):
    """A recipe, and the numeric axes of the points that it evaluates."""

    recipe: Any
    axes: tuple[Axis, ...]


def programs(axes: Sequence[Axis], recipe: Any) -> list[Program]:
    """Return a program for every combination of the choices on the axes, the last axis fastest.

    A program's axes leave out axes that consist of choices alone. Of an axis over records that set
    choices, they include only the points with the program's choices.
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
        chosen.pop(EACH, None)
        made = dataclasses.replace(recipe, **chosen) if chosen else recipe
        found.append(Program(made, numbers))
    return found


def groups(axis: Axis) -> list[np.ndarray]:
    """Group the points of an axis by their choices, in the order of each group's first point."""
    if not axis.columns:
        return [np.array([point]) for point in range(len(axis))]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for point, chosen in enumerate(zip(*axis.choices.values(), strict=True)):
        alike.setdefault(chosen, []).append(point)
    return [np.array(points) for points in alike.values()]
