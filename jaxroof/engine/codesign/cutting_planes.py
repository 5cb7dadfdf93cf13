"""The best machine for one plan: cutting planes, a convex program, and a proof of optimality.

The time of a plan is a non-decreasing, convex, piecewise linear function of ``exp(-z)``, each
field's reciprocal relative to the base (``cost_model.CostModel``). Its tangents are therefore
cuts, lower bounds that hold everywhere. Optima lie on kinks of the time, so each new cut is added
at the minimum over the current cuts, until that minimum meets the time itself. Prices are powers,
so the whole problem is a geometric program, convex in z. The solution is the global optimum, and
the multipliers prove it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, minimize

from jaxroof.engine.codesign.cost_model import CostModel

MOST_CUTS = 100
CLOSE = 1e-10  # relative gap at which no more cuts are added
VIOLATED = 1e-9  # relative: a time further below a cut is not convex
ROUNDS = 64  # bisection steps for a multiplier
TINY = 1e-300

Time = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # z -> value, d value / dz


class Cut(NamedTuple):
    """A lower bound on a result: rest + sum over fields of share * exp(-z)."""

    rest: np.ndarray  # [...]
    share: np.ndarray  # [..., fields]

    def at(self, z: np.ndarray) -> np.ndarray:
        """Return the bound at z."""
        return self.rest + (self.share * np.exp(-z)).sum(axis=-1)


def tangent(value: np.ndarray, slope: np.ndarray, z: np.ndarray) -> Cut:
    """Return the cut that is tangent to a result at z, from its value and slope d value / dz.

    >>> cut = tangent(np.array(3.0), np.array([-2.0]), np.array([0.0]))
    >>> float(cut.at(np.array([0.0]))), float(cut.at(np.log(np.array([2.0]))))
    (3.0, 2.0)
    """
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
    held = (market.spent(z) <= market.budget * (1.0 + CLOSE)) & (low <= market.high).all(axis=-1)
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
    points, cuts = [z], [tangent(*time(z), z)]
    z = _lower_bound(cuts[0], low, market)[1]
    while len(points) < MOST_CUTS:
        value, slope = time(z)
        convex &= bool(value >= max(cut.at(z) for cut in cuts) * (1.0 - VIOLATED))
        points.append(z)
        cuts.append(tangent(value, slope, z))
        every = Cut(*(np.array(part) for part in zip(*cuts, strict=True)))
        found = _program(every, low, market, z)
        weights, worth = _multipliers(found, every)
        mean = mix_cuts(every, weights)
        here, bound = float(market.objective(value, z)), _lower_bound(mean, low, market)[0]
        held = (z, value, here) if best is None or here < best.objective else best[:3]
        bound = bound if best is None else max(bound, best.bound)
        best = Optimum(*held, bound, mean, np.array(points), weights, worth, convex)
        ahead = _affordable(found.x[:-1], low, market)
        if best.objective <= bound * (1.0 + CLOSE) or any((ahead == z).all() for z in points):
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
