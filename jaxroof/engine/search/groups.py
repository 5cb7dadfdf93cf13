"""Groups of problems that share their parts and their need, and what fits each machine's limit."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis, points, replace_all, spread
from jaxroof.engine.grid.chunks import Place
from jaxroof.engine.search.candidates import InputsKey, PreparedPlans, prepare_plans, read_paths
from jaxroof.engine.search.problem import AxisRoles, SearchProblem
from jaxroof.estimator import Estimator

QUESTIONS = 64  # problems per call; limits the memory of their padded plans


@dataclasses.dataclass(frozen=True, eq=False)
class ProblemGroup:
    """Problems that share one call, because their parts and their need are the same."""

    index: list[tuple[int, ...]]  # of each problem: first the outer, then the structural axes
    inputs: Any
    varied: dict[str, np.ndarray]
    ready: PreparedPlans


@dataclasses.dataclass(frozen=True, eq=False)
class MachineChunk:
    """The winners of a group's problems on one chunk of the grid."""

    place: Place
    position: np.ndarray  # [problem, rank, *limits, *machine]
    objective: np.ndarray
    fits: np.ndarray  # [problem, *limits, *machine]


def problem_groups(question: SearchProblem, kind: AxisRoles) -> Iterator[ProblemGroup]:
    """Yield the problems of a search, those that share a call together."""
    axes, estimator, recipe = question.axes, question.estimator, question.recipe
    inner = list(points([axes[d] for d in kind.structural]))
    known = read_paths(estimator, recipe, question.inputs)
    for index, values in points([axes[d] for d in kind.outer]):
        inputs = replace_all(question.inputs, values)
        base = InputsKey.of(inputs, known)
        for start in range(0, len(inner), QUESTIONS):
            some = inner[start : start + QUESTIONS]
            numbers = tuple(base.at(v, known) for _, v in some)
            yield ProblemGroup(
                index=[index + i for i, _ in some],
                inputs=inputs,
                varied={p: np.array([v[p] for _, v in some]) for p in some[0][1]},
                ready=prepare_plans(estimator, recipe, question.where, numbers),
            )


def plans_that_fit(estimator: Estimator, group: ProblemGroup, axes: Sequence[Axis]) -> np.ndarray:
    """Return how many plans of each problem fit, [problem, *axes]."""
    plans = group.ready.plans
    fits = np.empty((len(plans), *(len(axis) for axis in axes)), np.int64)
    if estimator.limit is None:
        fits.T[...] = [len(some) for some in plans]
        return fits
    questions = [Axis("question", group.varied)] if group.varied else []
    limit = np.asarray(estimator.limit(spread(group.inputs, [*questions, *axes])))
    for q, (some, most) in enumerate(zip(plans, np.broadcast_to(limit, fits.shape), strict=True)):
        fits[q] = np.searchsorted(some.need, most, side="right")
    return fits
