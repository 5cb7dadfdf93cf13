"""The best machine over all plans: descents from many starts, then a bound for every plan."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from scipy.stats import qmc

from jaxroof.engine.codesign.cost_model import CostModel
from jaxroof.engine.codesign.cutting_planes import (
    Cut,
    Optimum,
    lower_bound,
    optimum,
    tangent,
)
from jaxroof.engine.codesign.machines import (
    CLOSE,
    DesignProblem,
    FeasiblePlans,
    best_plan_rows,
    value_and_slope,
)

SWEEPS = 40  # rounds that tighten bounds; then the remaining plans are solved one by one


@dataclasses.dataclass(frozen=True, eq=False)
class BestMachine:
    """The best machine, its plan and the proof of optimality."""

    row: int
    optimum: Optimum
    bound: float  # lower bound on the objective of every plan at every machine
    ends: np.ndarray  # objective where the descent from each start ended, NaN if no plan fits
    solved: int  # number of plans whose best machine was computed
    convex: bool  # false if a result lay below a cut


def initial_machines(market: CostModel, count: int) -> np.ndarray:
    """Return starting machines [start, fields]: the base, then varied splits of the budget.

    The splits are a Sobol sequence on the simplex. Values beyond a bound are clipped to it.
    """
    fields = len(market.way)
    first = np.clip(np.zeros((1, fields)), market.low, market.high)
    if count == 1:
        return first
    size = 1 << (count - 2).bit_length()
    even = qmc.Sobol(fields, rng=0).random(size)[: count - 1]
    parts = -np.log1p(-even)
    money = (market.budget - market.fixed) * parts / parts.sum(axis=1, keepdims=True)
    z = np.log(money / market.cost) / market.power
    return np.concatenate([first, np.clip(z, market.low, market.high)])


class Solver:
    """The best machine of each plan, computed once and stored."""

    def __init__(self, task: DesignProblem, plans: FeasiblePlans) -> None:
        self.task, self.plans = task, plans
        self.found: dict[int, Optimum] = {}

    def __call__(self, row: int, start: np.ndarray) -> Optimum:
        """Return the best machine of a plan."""
        if row not in self.found:
            plan = {field: column[[row]] for field, column in self.plans.plans.items()}

            def time(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                value, slope = value_and_slope(self.task, plan, z[None])
                return value[0], slope[0]

            self.found[row] = optimum(time, self.plans.low[row], self.task.market, start)
        return self.found[row]

    @property
    def best(self) -> int:
        """Return the row of the best plan solved so far."""
        return min(self.found, key=lambda row: (self.found[row].objective, row))


def descend(task: DesignProblem, plans: FeasiblePlans, solve: Solver, z: np.ndarray) -> np.ndarray:
    """Return the objective where the descent from each start ends.

    A descent alternates: the best plan of a machine, then the best machine of that plan. It ends
    when the plan no longer changes.
    """
    first = best_plan_rows(task, plans, z)
    follows: dict[int, int] = {}
    rows = dict.fromkeys(int(row) for row in first if row >= 0)
    start = dict(zip(first[::-1].tolist(), z[::-1], strict=True))
    while rows:
        for row in rows:
            solve(row, start.get(row, solve.found[solve.best].z if solve.found else z[0]))
        ends = np.array([solve.found[row].z for row in rows])
        follows |= dict(zip(rows, best_plan_rows(task, plans, ends).tolist(), strict=True))
        rows = dict.fromkeys(row for row in follows.values() if row not in follows)
    return np.array([_rest(int(row), follows, solve.found) for row in first])


def _rest(row: int, follows: Mapping[int, int], found: Mapping[int, Optimum]) -> float:
    """Follow the descent from a plan and return the objective where it no longer improves."""
    if row < 0:
        return np.nan
    after = follows[row]
    better = found[after].objective < found[row].objective * (1.0 - CLOSE)
    return _rest(after, follows, found) if better else found[row].objective


def best_machine(task: DesignProblem, plans: FeasiblePlans) -> BestMachine:
    """Return the best machine over all plans; every plan is solved or proven to be no better."""
    solve, starts = Solver(task, plans), initial_machines(task.market, task.starts)
    ends = descend(task, plans, solve, starts)
    if not solve.found:
        solve(0, plans.low[0])
    bound, convex = _prove_optimal(task, plans, solve)
    for row in np.argsort(bound, kind="stable"):
        if bound[row] < solve.found[solve.best].objective * (1.0 - CLOSE):
            bound[row] = max(bound[row], solve(int(row), solve.found[solve.best].z).bound)
    best, same = solve.found[solve.best], np.full(len(starts), solve.best)
    far = _tangents(task, plans, same, starts)[0] >= best.mean.at(starts) * (1.0 - CLOSE)
    convex &= bool(far.all()) and all(one.convex for one in solve.found.values())
    floor = min(best.objective, *(one.bound for one in solve.found.values()), float(bound.min()))
    return BestMachine(solve.best, best, floor, ends, len(solve.found), convex)


def _prove_optimal(
    task: DesignProblem, plans: FeasiblePlans, solve: Solver
) -> tuple[np.ndarray, bool]:
    """Return a lower bound on the objective of every unsolved plan, and whether all cuts held.

    Solved plans have bounds of their own and are inf here. The first bound of a plan combines its
    tangents at the points of the best plan's active cuts, with the same weights. This rules out
    most plans. A plan that may still be better adds a tangent at the minimum of its bound
    (Frank-Wolfe steps on the dual), so that its bound rises. A cut holds if no result lies below
    it.
    """
    market, best, convex = task.market, solve.found[solve.best], True
    bounds = np.full(len(plans.low), np.inf)  # stays inf for solved plans
    rows = np.array([row for row in range(len(plans.low)) if row not in solve.found], np.int64)
    if not len(rows):
        return bounds, convex
    cut = Cut(np.zeros(len(rows)), np.zeros((len(rows), len(market.way))))
    for weight, point in zip(best.weights, best.points, strict=True):
        one = _tangents(task, plans, rows, np.tile(point, (len(rows), 1)))[1]
        cut = Cut(cut.rest + weight * one.rest, cut.share + weight * one.share)
    bounds[rows], z = lower_bound(cut, plans.low[rows], market)
    for turn in range(SWEEPS):
        alive = bounds[rows] < solve.found[solve.best].objective * (1.0 - CLOSE)
        rows, z, cut = rows[alive], z[alive], Cut(*(part[alive] for part in cut))
        if not len(rows):
            break
        value, one = _tangents(task, plans, rows, z)
        convex &= bool(np.all(value >= cut.at(z) * (1.0 - CLOSE)))
        here = market.objective(value, z)
        leader = int(np.argmin(here))
        if here[leader] < solve.found[solve.best].objective * (1.0 - CLOSE):
            solve(int(rows[leader]), z[leader])
        step = 2.0 / (turn + 3.0)
        cut = Cut(*(a + step * (b - a) for a, b in zip(cut, one, strict=True)))
        higher, z = lower_bound(cut, plans.low[rows], market)
        bounds[rows] = np.maximum(bounds[rows], higher)
    return bounds, convex


def _tangents(
    task: DesignProblem, plans: FeasiblePlans, rows: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, Cut]:
    """Return the results of plans, each at its own machine, and their tangents there."""
    some = {field: column[rows] for field, column in plans.plans.items()}
    value, slope = value_and_slope(task, some, z)
    return value, tangent(value, slope, z)
