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

    outer: tuple[int, ...]  # index on the outer axes
    some: slice  # of the points of the structural axes, one problem each
    inputs: Any
    varied: dict[str, np.ndarray]  # inputs by path, one value a problem
    ready: PreparedPlans

    def varied_at(self, plans: np.ndarray) -> dict[str, np.ndarray]:
        """Return what differs between the problems, for each of some plans among all."""
        if len(self.ready.plans) == 1:
            return {path: values[0] for path, values in self.varied.items()}
        problem = np.searchsorted(self.ready.starts, plans, side="right") - 1
        return {path: values[problem] for path, values in self.varied.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class MachineChunk:
    """The winners of a group's problems on one chunk of the grid."""

    place: Place
    position: np.ndarray  # [problem, rank, *limits, *machine]
    objective: np.ndarray
    compared: int  # pairs of a plan and a machine that were not passed over by a bound


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
                outer=index,
                some=slice(start, start + len(some)),
                inputs=inputs,
                varied={p: np.array([v[p] for _, v in some]) for p in some[0][1]},
                ready=prepare_plans(estimator, recipe, question.where, numbers),
            )


def plans_that_fit(estimator: Estimator, group: ProblemGroup, axes: Sequence[Axis]) -> np.ndarray:
    """Return how many plans of each problem fit, [problem, *axes], read-only.

    fits = number of plans with need <= limit; the plans are sorted by need
    """
    fits = fits_by_limit(estimator, group, axes)
    return np.broadcast_to(fits, (len(fits), *(len(axis) for axis in axes)))


def fits_by_limit(estimator: Estimator, group: ProblemGroup, axes: Sequence[Axis]) -> np.ndarray:
    """Return the same as ``plans_that_fit``, with size 1 along axes that do not move the limit."""
    plans, rank = group.ready.plans, len(axes)
    if estimator.limit is None:
        return np.array([len(some) for some in plans], np.int64).reshape(-1, *(1,) * rank)
    questions = [Axis("question", group.varied)] if group.varied else []
    limit = np.asarray(estimator.limit(spread(group.inputs, [*questions, *axes])))
    limit = limit.reshape((1,) * (rank + 1 - limit.ndim) + limit.shape)
    limits = np.broadcast_to(limit, (len(plans), *limit.shape[1:]))
    found = (np.searchsorted(p.need, m, side="right") for p, m in zip(plans, limits, strict=True))
    return np.stack(list(found)).astype(np.int64, copy=False)
