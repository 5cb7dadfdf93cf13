"""The plans of one machine: which fit, which are best, and which are as good as a value.

Where the estimator bounds its objective from below, plans whose bound is above what others reach
are passed over. What is evaluated once is kept for the next question about the same machine.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.threads import by_threads
from jaxroof.engine.search.candidates import PreparedPlans, SortedPlans, first_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.direct import FAR, grid_objectives
from jaxroof.engine.search.distinct_rows import distinct_rows
from jaxroof.engine.search.groups import (
    MachineChunk,
    ProblemGroup,
    fits_by_limit,
    problem_groups,
)
from jaxroof.engine.search.plans_left import SLACK, bound_rows, is_bounded
from jaxroof.engine.search.problem import SearchProblem, axis_roles
from jaxroof.estimator import TIE
from jaxroof.structure import structure

LEAST_PLANS = 1 << 15  # fewer are evaluated sooner than a bound is traced
FEW = 256  # rows of the least bounds whose plans are evaluated first
PIECE = 1 << 15  # plans evaluated at once, so that what is written stays in the cache


@dataclasses.dataclass(frozen=True, eq=False)
class OneMachine:
    """The legal plans of a problem without axes, sorted by need, so that the first ones fit."""

    question: SearchProblem
    group: ProblemGroup

    @property
    def plans(self) -> SortedPlans:
        """Return the legal plans."""
        return self.group.ready.plans[0]

    @property
    def refused(self) -> Mapping[str, int]:
        """Return how many plans each rule refused."""
        return self.group.ready.refused[0]

    @functools.cached_property
    def fitting(self) -> int:
        """Return how many plans fit."""
        return int(fits_by_limit(self.question.estimator, self.group, []).item())

    @property
    def fitting_plans(self) -> PreparedPlans:
        """Return the plans that fit."""
        return first_plans(self.group.ready, self.fitting)

    def at(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return the fields of some plans."""
        return {field: column[positions] for field, column in self.plans.plans.items()}

    def having(self, rules: Iterable[Constraint]) -> np.ndarray:
        """Return the positions of the plans that satisfy constraints."""
        mask = np.ones(len(self.plans), bool)
        for rule in rules:
            mask &= rule.holds(self.plans.plans)
        return np.flatnonzero(mask)

    def distinct(self, positions: np.ndarray) -> np.ndarray:
        """Return positions without those of plans that differ from an earlier one only in name.

        They may differ in placement, if the search lists placements.
        """
        if not len(positions):
            return positions
        question, plans = self.question, self.at(positions)
        kinds = question.estimator.kinds(question.inputs, plans, placed=question.placements)
        return positions[np.sort(distinct_rows([*kinds.values()])[0])]

    def best(self, top: int, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the best distinct plans that fit, best first, and their values.

        A value is what is minimised. Of a tie the plan that needs less wins, then the smaller.
        Arguments: ``among`` are positions of plans that fit, increasing; by default all.
        """
        bounds, row = self._bounds
        some = np.arange(self.fitting) if among is None else among
        least = bounds[np.unique(row[some])]
        if len(least) > max(FEW, 4 * top):
            enough = np.partition(least, max(FEW, 4 * top))[max(FEW, 4 * top)]
            few = some[(bounds <= enough)[row[some]]]
            order = self.distinct(few[_ranked(self.values(few))])
            if len(order) >= top:
                last = float(self.values(order[top - 1 : top])[0])
                some, _ = self.within(last + SLACK * abs(last), among)
        order = self.distinct(some[_ranked(self.values(some))])[:top]
        return order, self.values(order)

    def within(self, most: float, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions and the values of the plans that fit with at most such a value."""
        bounds, row = self._bounds
        low = bounds <= most
        some = np.flatnonzero(low[row]) if among is None else among[low[row[among]]]
        values = self.values(some)
        return some[values <= most], values[values <= most]

    def values(self, positions: np.ndarray) -> np.ndarray:
        """Return what is minimised, of plans that fit."""
        known = self._known
        new = positions[np.isnan(known[positions])]
        known[new] = self._evaluated(new)
        found: np.ndarray = known[positions]
        return found

    @functools.cached_property
    def _known(self) -> np.ndarray:
        """Return an array for the values of the plans that fit, NaN where not evaluated."""
        return np.full(self.fitting, np.nan)

    def _evaluated(self, positions: np.ndarray, bound: bool = False) -> np.ndarray:
        """Return what is minimised, or its lower bound, of plans that fit."""
        pieces = [positions[start : start + PIECE] for start in range(0, len(positions), PIECE)]
        objectives = functools.partial(self._objectives, 0, bound=bound)
        found = by_threads(lambda some: objectives(some)[:, 0], pieces, len(pieces))
        return np.concatenate([np.empty(0), *found])

    @functools.cached_property
    def _objectives(self) -> Callable[..., np.ndarray]:
        group = dataclasses.replace(self.group, ready=self.fitting_plans)
        return grid_objectives(self.question, group, [])

    @functools.cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return lower bounds of rows of plans that fit, and the row of each of these plans."""
        question = self.question
        if self.fitting < LEAST_PLANS or not is_bounded(question):
            return np.full(1, -np.inf), np.zeros(self.fitting, np.int32)
        reads = bound_reads(question.estimator, question.recipe, structure(question.inputs))
        (rows,) = bound_rows(self.fitting_plans, reads.fields)
        return self._evaluated(rows.first, bound=True), rows.number


def one_machine(question: SearchProblem) -> OneMachine:
    """Return the plans of a problem without axes."""
    (group,) = problem_groups(question, axis_roles(question))
    return OneMachine(question, group)


def chunks_of_group(question: SearchProblem, group: ProblemGroup) -> Iterator[MachineChunk]:
    """Compare the plans of a problem without axes."""
    machine = OneMachine(question, group)
    best, values = machine.best(question.top)
    held = values < FAR
    position, objective = np.full((1, question.top), -1), np.zeros((1, question.top))
    position[0, : held.sum()] = best[held]
    objective[0, : held.sum()] = question.sign * values[held]
    yield MachineChunk((), position, objective, int(np.sum(~np.isnan(machine._known))))


def _ranked(values: np.ndarray) -> np.ndarray:
    """Return the order of plans that are sorted by need: by value, of a tie the first plan."""
    order = np.argsort(values, kind="stable")
    rises = np.diff(values[order], prepend=values[order[:1]]) > TIE * np.abs(values[order])
    return order[np.lexsort((order, np.cumsum(rises)))]
