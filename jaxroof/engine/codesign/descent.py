"""The best machine over all plans: cutting planes for one, descents, and a bound for every other.

The time of a plan is a non-decreasing, convex, piecewise linear function of ``exp(-z)``, each
field's reciprocal relative to the base (``machines.CostModel``). Its tangents are therefore
cuts, lower bounds that hold everywhere. Optima lie on kinks of the time, so each new cut is added
at the minimum over the current cuts, until that minimum meets the time itself. Prices are powers,
so the whole problem is a geometric program, convex in z. The solution is the global optimum, and
the multipliers prove it. Descents from many starts alternate between plan and machine.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize
from scipy.stats import qmc

from jaxroof.engine.codesign.machines import (
    CLOSE,
    CostModel,
    DesignProblem,
    FeasiblePlans,
    best_plan_rows,
    value_and_slope,
)

MOST_CUTS = 100
MEETS = 1e-10  # relative gap at which no more cuts are added
VIOLATED = 1e-9  # relative: a time further below a cut is not convex
ROUNDS = 64  # bisection steps for a multiplier
TINY = 1e-300


class Cut(NamedTuple):
    """A lower bound on a result: rest + sum over fields of share * exp(-z)."""

    rest: np.ndarray  # [...]
    share: np.ndarray  # [..., fields]

    def at(self, z: np.ndarray) -> np.ndarray:
        """Return the bound at z."""
        return self.rest + (self.share * np.exp(-z)).sum(axis=-1)


Time = Callable[[np.ndarray], tuple[np.ndarray, Cut]]  # z -> the result, its tangent


def tangent(value: np.ndarray, slope: np.ndarray, z: np.ndarray) -> Cut:
    """Return the cut that is tangent to a result at z, from its value and slope d value / dz."""
    return Cut(value + slope.sum(axis=-1), -slope * np.exp(z))


def mix_cuts(cuts: Cut, weights: np.ndarray) -> Cut:
    """Return the weighted mean of cuts [cut, ...], itself a cut."""
    return Cut(np.tensordot(weights, cuts.rest, axes=1), np.tensordot(weights, cuts.share, axes=1))


def lower_bound(cut: Cut, low: np.ndarray, market: CostModel) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum objective of each cut within bounds and budget, and where it lies.

    For a given multiplier w of the cost the fields separate: c exp(-z) + w p exp(k z) is least
    where c exp(-z) = w k p exp(k z), or at a bound. Bisection finds w. The objective is inf where
    no machine is feasible.

    Arguments: a cut [points] with shares [points, fields]; the least z of each [points, fields].
    Returns: objectives [points], z [points, fields].
    """
    grow = 1.0 + market.power
    with np.errstate(divide="ignore"):
        pull = np.log(np.maximum(cut.share, 0.0)) - np.log(market.cost * market.power)
    bottom = np.min(np.where(np.isfinite(pull), pull - grow * market.high, np.inf), axis=-1) - 1.0
    top = np.max(pull - grow * low, axis=-1) + 1.0
    bottom, top = (np.where(np.isfinite(end), end, 0.0) for end in (bottom, top))

    def at(weight: np.ndarray) -> np.ndarray:
        return np.clip((pull - weight[..., None]) / grow, low, market.high)

    for _ in range(ROUNDS):
        middle = 0.5 * (bottom + top)
        z = at(middle)
        spent = market.spent(z)
        dearer = spent > market.budget
        if market.times_cost:
            dearer |= middle < np.log(np.maximum(cut.at(z), TINY)) - np.log(spent)
        bottom, top = np.where(dearer, middle, bottom), np.where(dearer, top, middle)
    z = at(top)
    held = (market.spent(z) <= market.budget * (1.0 + MEETS)) & (low <= market.high).all(axis=-1)
    return np.where(held, market.objective(cut.at(z), z), np.inf), z


class Optimum(NamedTuple):
    """The best machine of one plan."""

    z: np.ndarray
    value: np.ndarray  # the result there
    objective: float
    bound: float  # lower bound on the objective of every machine
    mean: Cut  # mean of the active cuts, weighted by their multipliers
    points: np.ndarray  # z where the active cuts are tangent [cut, fields]
    weights: np.ndarray  # of the active cuts, with sum 1
    worth: float  # share of the objective saved per share of budget added
    convex: bool  # false if a time lay below a cut


def optimum(time: Time, low: np.ndarray, market: CostModel, start: np.ndarray) -> Optimum:
    """Return the best machine for one plan within bounds and budget; ``start`` is the first z."""
    z, best, convex = np.clip(start, low, market.high), None, True
    points, cuts = [z], [time(z)[1]]
    z = _lower_bound(cuts[0], low, market)[1]
    while len(points) < MOST_CUTS:
        value, cut = time(z)
        convex &= bool(value >= max(cut.at(z) for cut in cuts) * (1.0 - VIOLATED))
        points.append(z)
        cuts.append(cut)
        every = Cut(*(np.array(part) for part in zip(*cuts, strict=True)))
        found = _program(every, low, market, z)
        weights, worth = _multipliers(found, every)
        mean = mix_cuts(every, weights)
        here, bound = float(market.objective(value, z)), _lower_bound(mean, low, market)[0]
        held = (z, value, here) if best is None or here < best.objective else best[:3]
        bound = bound if best is None else max(bound, best.bound)
        best = Optimum(*held, bound, mean, np.array(points), weights, worth, convex)
        ahead = _affordable(found.x[:-1], low, market)
        if best.objective <= bound * (1.0 + MEETS) or any((ahead == z).all() for z in points):
            break
        z = ahead
    assert best is not None
    kept = best.weights > 1e-9
    return best._replace(points=best.points[kept], weights=best.weights[kept])


def _lower_bound(cut: Cut, low: np.ndarray, market: CostModel) -> tuple[float, np.ndarray]:
    """Return the minimum objective of one cut, and where it lies."""
    objective, z = lower_bound(Cut(cut.rest[None], cut.share[None]), low[None], market)
    return float(objective[0]), z[0]


def _program(cuts: Cut, low: np.ndarray, market: CostModel, start: np.ndarray) -> OptimizeResult:
    """Minimize the maximum of some cuts: SLSQP in z and the logarithm of the result."""
    count = len(low)

    def lines(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = cuts.share * np.exp(-x[:-1])
        return np.maximum(cuts.rest + parts.sum(axis=-1), TINY), parts

    def paid(x: np.ndarray) -> tuple[float, np.ndarray]:
        spent = float(market.spent(x[:-1]))
        return np.log(spent), market.power * market.costs(x[:-1]) / spent

    def aim(x: np.ndarray) -> tuple[float, np.ndarray]:
        slope = np.append(np.zeros(count), 1.0)
        if not market.times_cost:
            return x[-1], slope
        spent, along = paid(x)
        return x[-1] + spent, slope + np.append(along, 0.0)

    def room(x: np.ndarray) -> np.ndarray:
        return np.append(x[-1] - np.log(lines(x)[0]), np.log(market.budget) - paid(x)[0])

    def room_slope(x: np.ndarray) -> np.ndarray:
        totals, parts = lines(x)
        each = np.column_stack([parts / totals[:, None], np.ones(len(totals))])
        return np.vstack([each, np.append(-paid(x)[1], 0.0)])

    first = np.append(start, np.log(np.max(lines(np.append(start, 0.0))[0])))
    return minimize(
        aim,
        first,
        jac=True,
        method="SLSQP",
        bounds=Bounds(np.append(low, -np.inf), np.append(market.high, np.inf)),
        constraints=[{"type": "ineq", "fun": room, "jac": room_slope}],
        options={"ftol": 1e-15, "maxiter": 300},
    )


def _multipliers(found: OptimizeResult, cuts: Cut) -> tuple[np.ndarray, float]:
    """Return the weights of the cuts, with sum 1, and the multiplier of the budget."""
    active, worth = np.maximum(found.multipliers[:-1], 0.0), float(found.multipliers[-1])
    weights = active / np.maximum(cuts.at(found.x[:-1]), TINY)  # of the cuts, not their logarithms
    if not weights.sum() > 0:
        weights = (cuts.at(found.x[:-1]) >= np.max(cuts.at(found.x[:-1]))).astype(float)
    return weights / weights.sum(), max(worth, 0.0)


def _affordable(z: np.ndarray, low: np.ndarray, market: CostModel) -> np.ndarray:
    """Move a machine that exceeds bounds or budget by rounding back within them."""
    z = np.clip(z, low, market.high)
    over = max(0.0, float(market.spent(z) - market.budget))
    slope = float((market.power * market.costs(z))[z > low].sum())
    return np.maximum(z - 2.0 * over / max(slope, TINY), low)


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

            def time(z: np.ndarray) -> tuple[np.ndarray, Cut]:
                value, cut = _tangents(self.task, self.plans, np.array([row]), z[None])
                return value[0], Cut(cut.rest[0], cut.share[0])

            self.found[row] = optimum(time, self.plans.low[row], self.task.market, start)
        return self.found[row]

    @property
    def best(self) -> int:
        """Return the row of the best plan solved so far."""
        return min(self.found, key=lambda row: (self.found[row].objective, row))


def descend(task: DesignProblem, plans: FeasiblePlans, solve: Solver, z: np.ndarray) -> np.ndarray:
    """Return the objective where the descent from each start ends, NaN where no plan fits it.

    A descent alternates: the best plan of a machine, then the best machine of that plan. It ends
    when the objective no longer improves.
    """
    z, ends = z.copy(), np.full(len(z), np.nan)
    rows = best_plan_rows(task, plans, z)
    left = np.flatnonzero(rows >= 0)
    while len(left):
        found = [solve(int(rows[start]), z[start]) for start in left]
        objectives = np.array([one.objective for one in found])
        better = ~(objectives >= ends[left] * (1.0 - CLOSE))
        z[left], ends[left] = [one.z for one in found], np.fmin(ends[left], objectives)
        left = left[better]
        rows[left] = best_plan_rows(task, plans, z[left])
    return ends


def best_machine(task: DesignProblem, plans: FeasiblePlans) -> BestMachine:
    """Return the best machine over all plans; every plan is solved or proven to be no better."""
    solve, starts = Solver(task, plans), initial_machines(task.market, task.starts)
    ends = descend(task, plans, solve, starts)
    if not solve.found:
        solve(0, plans.low[0])
    bound, convex = _bounds(task, plans, solve)
    for row in np.argsort(bound, kind="stable"):
        if bound[row] < solve.found[solve.best].objective * (1.0 - CLOSE):
            bound[row] = max(bound[row], solve(int(row), solve.found[solve.best].z).bound)
    best, same = solve.found[solve.best], np.full(len(starts), solve.best)
    far = _tangents(task, plans, same, starts)[0] >= best.mean.at(starts) * (1.0 - CLOSE)
    convex &= bool(far.all()) and all(one.convex for one in solve.found.values())
    floor = min(best.objective, *(one.bound for one in solve.found.values()), float(bound.min()))
    return BestMachine(solve.best, best, floor, ends, len(solve.found), convex)


def _bounds(task: DesignProblem, plans: FeasiblePlans, solve: Solver) -> tuple[np.ndarray, bool]:
    """Return a lower bound on the objective of every unsolved plan, inf for solved ones.

    The bound of a plan combines its tangents at the points of the best plan's active cuts, with the
    same weights. Returns also whether all of these held: no result lies below them.
    """
    best, bounds = solve.found[solve.best], np.full(len(plans.low), np.inf)
    rows = np.delete(np.arange(len(bounds)), list(solve.found))
    if not len(rows):
        return bounds, True
    every = [
        _tangents(task, plans, rows, np.tile(point, (len(rows), 1)))[1] for point in best.points
    ]
    cut = mix_cuts(Cut(*(np.array(part) for part in zip(*every, strict=True))), best.weights)
    bounds[rows], z = lower_bound(cut, plans.low[rows], task.market)
    return bounds, bool(np.all(_tangents(task, plans, rows, z)[0] >= cut.at(z) * (1.0 - CLOSE)))


def _tangents(
    task: DesignProblem, plans: FeasiblePlans, rows: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, Cut]:
    """Return the results of plans, each at its own machine, and their tangents there."""
    some = {field: column[rows] for field, column in plans.plans.items()}
    value, slope = value_and_slope(task, some, z)
    return value, tangent(value, slope, z)
