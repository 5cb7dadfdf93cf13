"""One plan for all draws: how often each plan is best, and the cost of committing to it."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis, spread
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.driver import SearchResult
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.plan_lists import distinct_rows
from jaxroof.structure import map_numbers

STRATA = 16  # intervals of an input that a measurement of it can distinguish
WORST = 0.05  # share of the draws that count as the worst
POINTS = 1 << 20  # evaluations (plans times draws) per call, to limit memory
KEPT = 3  # least number of candidates: best at current inputs, on average, at worst
DIGITS = 12  # decimals of a share that are compared: plans equal to these tie

Plans = Mapping[str, np.ndarray]


class PlanScores(NamedTuple):
    """Candidate plans over a grid, each among the best of some draw, most probable first."""

    plans: dict[str, np.ndarray]  # [*axes, candidate], -1 where there are fewer
    need: np.ndarray
    probability: np.ndarray  # share of the draws with a plan that fits in which this is the best
    fits: np.ndarray  # share of those draws in which it fits
    regret_mean: np.ndarray  # excess over the best as a share of the best, mean where it fits
    regret_worst: np.ndarray  # the same over the worst 5 % of the draws
    today: np.ndarray  # candidate that is best at the current inputs, -1 if none, [*axes]
    committed: np.ndarray  # candidate that fits most often and then costs least, [*axes]
    winners: np.ndarray  # number of plans that are best in some draw, [*axes]
    known: np.ndarray  # share of the best saved by knowing one input alone, [*axes, input]
    best: np.ndarray  # objective of the best plan, NaN where none fits, [*axes, draw]
    kept: np.ndarray  # objective of plan ``today``, NaN where it does not fit, [*axes, draw]
    drawn: np.ndarray  # candidate that is best, -1 where no candidate is, [*axes, draw]


def score_plans(question: SearchProblem, found: SearchResult, draws: int, top: int) -> PlanScores:
    """Score the plans of a search over draws, each as one commitment for all draws.

    The last axis of the problem holds the current inputs, then the draws in two independent
    halves. ``top`` candidates are returned: the plan that is best at the current inputs, those
    that cost least on average and in the worst draws, and the most probable ones.
    """
    *grid, sample = question.axes
    lanes = [*grid, sample.part(slice(1, 1 + draws))]
    shape = tuple(map(len, grid))
    top = max(KEPT, top)
    drawn = {f: c[..., : 1 + draws, :].astype(np.int64) for f, c in found.plans.items()}
    plans, index = _pool(drawn, top)
    values = _at_plans(question, lanes, {f: c[..., None, :] for f, c in plans.items()})
    fits, need = _fitting(question, grid, lanes, plans)
    winner, today = index[..., 1:], index[..., 0]
    held = winner >= 0
    best = np.where(held, np.take_along_axis(values, winner[..., None], -1)[..., 0], np.nan)
    mine = np.broadcast_to(today[..., None, None], (*winner.shape, 1))
    keeps = (today[..., None] >= 0) & np.take_along_axis(fits, mine, -1)[..., 0]
    kept = np.where(keeps, np.take_along_axis(values, mine, -1)[..., 0], np.nan)
    size = np.where(held & (best != 0), np.abs(best), 1.0)[..., None]
    # a plan that ties with the best one may cost less than it by rounding
    beyond = np.maximum(question.sign * (values - best[..., None]) / size, 0.0)
    beyond = np.where(fits, beyond, np.nan)
    costs = np.apply_along_axis(_costs, -2, beyond)
    some = np.where(held.any(-1), held.sum(-1), np.nan)[..., None]
    wins = (winner[..., None] == np.arange(values.shape[-1])).sum(-2)
    answer = PlanScores(
        plans=plans,
        need=need,
        probability=wins / some,
        fits=(fits & held[..., None]).sum(-2) / some,
        regret_mean=costs[..., 0, :],
        regret_worst=costs[..., 1, :],
        today=today,
        committed=np.zeros(shape, np.int64),
        winners=(wins > 0).sum(-1),
        known=_information_value(beyond, np.stack(list(lanes[-1].columns.values()))),
        best=best,
        kept=kept,
        drawn=winner,
    )
    return _ordered(answer, top)


def _pool(plans: Plans, least: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the distinct plans at each point of a grid, and which of them is best in each draw.

    Arguments: fields of plans [*axes, draw, rank].
    Returns: fields of plans [*axes, candidate], sorted by the plan's fields and padded to at least
    ``least`` candidates; the index of the best candidate [*axes, draw].
    """
    *shape, draws, ranks = next(iter(plans.values())).shape
    flat = {f: column.reshape(-1, draws * ranks) for f, column in plans.items()}
    first_field = next(iter(flat.values()))
    point, place = np.nonzero(first_field >= 0)
    index = np.full(first_field.shape, -1)
    if not len(point):
        return {f: np.full((*shape, least), -1) for f in plans}, np.full((*shape, draws), -1)
    first, number = distinct_rows([point, *(c[point, place] for c in flat.values())])
    # rows are numbered in the order of their point, then of the plan's fields
    at = point[first]
    start = np.searchsorted(at, np.arange(len(first_field)))
    index[point, place] = number - start[point]
    most = max(least, int(index.max()) + 1)
    pool = {f: np.full((len(first_field), most), -1) for f in plans}
    for field, column in flat.items():
        pool[field][at, np.arange(len(first)) - start[at]] = column[at, place[first]]
    best = index.reshape(*shape, draws, ranks)[..., 0]
    return {f: column.reshape(*shape, -1) for f, column in pool.items()}, best


def _fitting(
    question: SearchProblem, grid: Sequence[Axis], lanes: Sequence[Axis], plans: Plans
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each plan fits in each draw [*axes, draw, plan], and its need [*axes, plan].

    The need does not depend on what is drawn.
    """
    estimator = question.estimator
    there = next(iter(plans.values())) >= 0
    need = np.zeros(there.shape)
    if estimator.need:
        need = _at_plans(question, grid, plans, estimator.need)
    wide = spread(question.inputs, lanes, extra=1)
    fits = np.broadcast_to(there[..., None, :], (*map(len, lanes), there.shape[-1]))
    if estimator.limit is not None:
        fits = fits & (need[..., None, :] <= np.asarray(estimator.limit(wide)))
    each = {field: column[..., None, :] for field, column in plans.items()}
    for other in estimator.limits[1:]:
        fits = fits & (_at_plans(question, lanes, each, other.result) <= other.of(wide))
    return fits, np.where(there, need, np.nan)


def _at_plans(
    question: SearchProblem, axes: Sequence[Axis], plans: Plans, name: str | None = None
) -> np.ndarray:
    """Return one result of several plans at every point of some axes, [*axes, plan].

    ``plans`` holds one column per field, each of a shape that broadcasts to the result.
    """
    estimator, result = question.estimator, name or question.objective
    assert estimator.plan is not None
    fields = {f: np.where(column < 0, 1.0, column) for f, column in plans.items()}
    shape = (*map(len, axes), next(iter(fields.values())).shape[-1])
    wide: Any = spread(question.inputs, axes, extra=1)
    wide = dataclasses.replace(wide, plan=estimator.plan(**fields))
    step, found = max(1, POINTS // math.prod(shape[1:])), []
    for start in range(0, shape[0], step):

        def column(leaf: Any, some: slice = slice(start, start + step)) -> Any:
            return np.broadcast_to(leaf, shape)[some].ravel() if np.ndim(leaf) else leaf

        asked = map_numbers(column, wide)
        values = evaluate_points(estimator, question.recipe, asked, result)[result]
        found.append(values.reshape(-1, *shape[1:]))
    return np.concatenate(found)


def _costs(row: np.ndarray) -> np.ndarray:
    """Return the mean of the finite values, and the mean of the worst share of them."""
    held = np.sort(row[np.isfinite(row)])
    if not len(held):
        return np.full(2, np.nan)
    return np.array([held.mean(), held[-math.ceil(WORST * len(held)) :].mean()])


def _information_value(beyond: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the average saving from choosing the plan by one input alone, [*axes, input].

    The draws are divided into strata of equal probability along the input. The plan that costs
    least in a stratum of one half of the draws is evaluated on the other half, so that chance
    does not count as a saving. Plans that do not fit in every draw are left out; NaN where none
    remains.
    """
    draws = drawn.shape[-1] // 2
    strata = min(STRATA, draws)
    order = np.argsort(drawn.reshape(len(drawn), 2, draws), axis=-1, kind="stable")
    halves = beyond.reshape(*beyond.shape[:-2], 2, draws, beyond.shape[-1])
    sorted_by = halves[..., np.arange(2)[:, None], order, :]  # [*axes, input, half, draw, plan]
    parts = sorted_by.reshape(*sorted_by.shape[:-2], strata, -1, beyond.shape[-1]).mean(-2)
    costs = np.where(np.isnan(parts), np.inf, parts)
    chosen = costs.argmin(-1)[..., ::-1, :, None]  # by the other half
    least = np.take_along_axis(costs, chosen, -1).mean((-3, -2, -1))
    always = np.where(np.isnan(beyond), np.inf, beyond).mean(-2).min(-1)
    there = np.isfinite(always)[..., None] & np.isfinite(least)
    saved = np.where(there, always[..., None], 0.0) - np.where(there, least, 0.0)
    return np.where(there, np.maximum(saved, 0.0), np.nan)


def _ordered(all_plans: PlanScores, top: int) -> PlanScores:
    """Return the ``top`` candidates, most probable first; of a tie, the plan that costs less."""
    there = np.isfinite(all_plans.need)
    costs = np.stack([all_plans.regret_mean, all_plans.regret_worst])
    cost, worst = np.round(np.where(np.isfinite(costs), costs, np.inf), DIGITS)
    seldom = np.where(there, -all_plans.probability, 2.0)
    unfit = np.where(there, -all_plans.fits, 2.0)
    number = np.broadcast_to(np.arange(there.shape[-1]), there.shape)
    committed = np.lexsort((number, all_plans.need, seldom, cost, unfit), axis=-1)[..., 0]
    safest = np.lexsort((cost, worst, unfit), axis=-1)[..., 0]
    told = np.zeros(there.shape, bool)
    for kept in (committed, safest, all_plans.today):
        told |= number == kept[..., None]
    chosen = np.lexsort((cost, seldom, ~told), axis=-1)[..., :top]

    def take(column: np.ndarray) -> np.ndarray:
        return np.take_along_axis(column, chosen, axis=-1)

    turn = np.lexsort((take(number), take(cost), take(seldom)), axis=-1)
    chosen = np.take_along_axis(chosen, turn, axis=-1)
    place = np.full((*there.shape[:-1], there.shape[-1] + 1), -1)  # last: for index -1
    np.put_along_axis(place, chosen, np.arange(chosen.shape[-1]), axis=-1)

    def placed(index: np.ndarray) -> np.ndarray:
        wide = index[..., None] if index.ndim < place.ndim else index
        return np.take_along_axis(place, wide, axis=-1).reshape(index.shape)

    return all_plans._replace(
        plans={f: take(column) for f, column in all_plans.plans.items()},
        **{
            name: take(getattr(all_plans, name))
            for name in ("need", "probability", "fits", "regret_mean", "regret_worst")
        },
        today=placed(all_plans.today),
        committed=placed(np.where((all_plans.fits > 0).any(-1), committed, -1)),
        drawn=placed(all_plans.drawn),
    )
