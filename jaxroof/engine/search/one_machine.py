"""The plans of one machine: which fit, which are best, and which are as good as a value.

Where the estimator bounds its objective from below, plans whose bound is above what others reach
are passed over. Plans are a product as the estimator lists them, in the order of their fields, and
are neither sorted nor written out: a position stands for a plan. What is evaluated once is kept for
the next question about the same machine.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.threads import by_threads
from jaxroof.engine.search.bounded import SLACK, is_bounded
from jaxroof.engine.search.candidates import (
    InputsKey,
    PreparedPlans,
    ProductRows,
    SortedPlans,
    needed_plans,
    product_rows,
    read_paths,
)
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.direct import plan_objectives
from jaxroof.engine.search.distinct_rows import distinct_rows
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.estimator import TIE, Candidates, reads
from jaxroof.records import with_named_absences
from jaxroof.structure import structure

LEAST_PLANS = 1 << 15  # fewer are evaluated sooner than a bound is traced
FEW = 256  # rows of the least bounds whose plans are evaluated first
PIECE = 1 << 15  # plans evaluated at once, so that what is written stays in the cache


@dataclasses.dataclass(frozen=True, eq=False)
class OneMachine:
    """The legal plans of a problem without axes, and what each needs."""

    question: SearchProblem
    plans: Candidates
    need: np.ndarray

    @property
    def refused(self) -> Mapping[str, int]:
        """Return how many plans each rule refused."""
        return self.plans.refused

    @functools.cached_property
    def limit(self) -> float:
        """Return what a plan may need."""
        limit = self.question.estimator.limit
        return np.inf if limit is None else float(limit(self.question.inputs))

    @functools.cached_property
    def fitting(self) -> np.ndarray:
        """Return the positions of the plans that fit."""
        return np.flatnonzero(self.need <= self.limit)

    def at(
        self, positions: np.ndarray, fields: Collection[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Return fields, by default all, of some plans."""
        return self.plans.at(positions, fields)

    def having(self, rules: Iterable[Constraint]) -> np.ndarray:
        """Return the positions of the plans that satisfy constraints, the leanest first."""
        some = self.plans.positions(rules)
        return some[np.argsort(self.need[some], kind="stable")]

    def leanest(self, count: int) -> np.ndarray:
        """Return the positions of the plans that need least, the leanest first."""
        last = min(count, len(self.need)) - 1
        some = np.flatnonzero(self.need <= np.partition(self.need, last)[last])
        return some[np.argsort(self.need[some], kind="stable")][:count]

    def by_need(self, positions: np.ndarray) -> PreparedPlans:
        """Return some plans written out, by increasing need."""
        order = positions[np.argsort(self.need[positions], kind="stable")]
        kinds = functools.partial(self.question.estimator.kinds, self.question.inputs)
        some = SortedPlans(self.at(order), self.need[order], kinds)
        return PreparedPlans([some], [self.refused], some.plans)

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
        """Return the positions of the best distinct plans, best first, and their values.

        A value is what is minimised. Of a tie the plan that needs less wins, then the smaller.
        Arguments: ``among`` are positions of plans; by default all that fit.
        """
        some = self.fitting if among is None else among
        bounds, row = self._bounds[0], self._rows(some)
        there = np.zeros(len(bounds), bool)
        there[row] = True
        least = bounds[there]
        if len(least) > max(FEW, 4 * top):
            enough = np.partition(least, max(FEW, 4 * top))[max(FEW, 4 * top)]
            few = some[(bounds <= enough)[row]]
            order = self.distinct(self._ranked(few))
            if len(order) >= top:
                last = float(self.values(order[top - 1 : top])[0])
                some, _ = self.within(last + SLACK * abs(last), among)
        order = self.distinct(self._ranked(some))[:top]
        return order, self.values(order)

    def within(self, most: float, among: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions and the values of the plans with at most such a value."""
        some = self.fitting if among is None else among
        some = some[(self._bounds[0] <= most)[self._rows(some)]]
        values = self.values(some)
        return some[values <= most], values[values <= most]

    def values(self, positions: np.ndarray) -> np.ndarray:
        """Return what is minimised, of some plans."""
        known = self._known
        new = positions[known[positions] == 0.0]
        known[new] = self._evaluated(new)
        found: np.ndarray = known[positions]
        return found

    @functools.cached_property
    def _known(self) -> np.ndarray:
        """Return an array for the values of all plans, 0 where not evaluated."""
        return np.zeros(self.plans.size)

    @property
    def evaluated(self) -> int:
        """Return how many plans were evaluated."""
        return int(np.count_nonzero(self._known))

    def _ranked(self, positions: np.ndarray) -> np.ndarray:
        """Return some plans by value; of a tie the plan that needs less, then the smaller."""
        values = self.values(positions)
        order = np.argsort(values, kind="stable")
        sorted_values = values[order]
        rises = np.diff(sorted_values, prepend=sorted_values[:1]) > TIE * np.abs(sorted_values)
        some = positions[order]
        return some[np.lexsort((some, self.need[some], np.cumsum(rises)))]

    def _evaluated(self, positions: np.ndarray, bound: bool = False) -> np.ndarray:
        """Return what is minimised, or its lower bound, of some plans."""
        question, (rows, tables) = self.question, self._parts

        def piece(some: np.ndarray) -> np.ndarray:
            mine = {name: one.number(some) for name, one in rows.items()}
            fields = self.at(some)
            return plan_objectives(question, question.inputs, fields, tables, mine, (), bound)

        pieces = [positions[start : start + PIECE] for start in range(0, len(positions), PIECE)]
        return np.concatenate([np.empty(0), *by_threads(piece, pieces, len(pieces))])

    @functools.cached_property
    def _parts(self) -> tuple[dict[str, ProductRows], dict[str, Any]]:
        """Return every part on the distinct rows of its plan fields, and these rows."""
        question = self.question
        parts = question.estimator.parts
        rows = {name: product_rows(self.plans, reads(part)) for name, part in parts.items()}
        bare = with_named_absences(dataclasses.replace(question.inputs, plan=None))
        tables = {}
        with np.errstate(all="ignore"):
            for name, part in parts.items():
                some = self.at(rows[name].first, reads(part)).items()
                columns = {field: column.astype(np.float64) for field, column in some}
                tables[name] = part(bare, question.recipe, **columns)
        return rows, tables

    @functools.cached_property
    def _bounds(self) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray] | None]:
        """Return lower bounds of rows of plans, and a function from positions to their rows."""
        question = self.question
        if len(self.fitting) < LEAST_PLANS or not is_bounded(question):
            return np.full(1, -np.inf), None
        fields = bound_reads(question.estimator, question.recipe, structure(question.inputs)).fields
        rows = product_rows(self.plans, fields)
        return self._evaluated(rows.first, bound=True), rows.number

    def _rows(self, positions: np.ndarray) -> np.ndarray:
        """Return the row of some plans, among those that are bounded."""
        return self._rows_that_fit if positions is self.fitting else self._numbers(positions)

    @functools.cached_property
    def _rows_that_fit(self) -> np.ndarray:
        return self._numbers(self.fitting)

    def _numbers(self, positions: np.ndarray) -> np.ndarray:
        number = self._bounds[1]
        return np.zeros(len(positions), np.int32) if number is None else number(positions)


def one_machine(question: SearchProblem) -> OneMachine:
    """Return the plans of a problem without axes."""
    estimator, inputs, recipe = question.estimator, question.inputs, question.recipe
    asked = InputsKey.of(inputs, read_paths(estimator, recipe, inputs))
    found = needed_plans(estimator, recipe, question.where, asked)
    return OneMachine(question, found.plans, found.need)
