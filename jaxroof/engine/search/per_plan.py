"""Search that evaluates plan by plan, for estimators whose plans need programs of their own."""

import dataclasses
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import points, replace_all
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.candidates import list_plans
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.search.ranking import ranking_order
from jaxroof.records import replace_at


def search_per_plan(question: SearchProblem, found: Any, progress: Any = None) -> int:
    """Write the winners at every grid point into ``found``; return the number of combinations."""
    estimator = question.estimator
    places, plans = [], []
    for index, values in points(question.axes):
        inputs = replace_all(question.inputs, values)
        legal, refused, _ = list_plans(estimator, inputs, question.recipe, question.where)
        places.append((index, values))
        plans.append(legal)
        for name, count in refused.items():
            found.refused[name] = found.refused.get(name, 0) + count
    counts = [len(next(iter(legal.values()))) for legal in plans]
    total = sum(counts)
    if total == 0:
        return 0
    asked = question.inputs
    for path in {path for _, values in places for path in values}:
        column = np.repeat([float(values[path]) for _, values in places], counts)
        asked = replace_at(asked, path, column)
    assert estimator.plan is not None
    found.lists[:] = [{f: np.concatenate([p[f] for p in plans]) for f in plans[0]}]
    columns = {f: column.astype(float) for f, column in found.lists[0].items()}
    asked = dataclasses.replace(asked, plan=estimator.plan(**columns))
    results = evaluate_points(estimator, question.recipe, asked)
    value = question.sign * results[question.objective]
    need = results[estimator.need] if estimator.need else np.zeros(total)
    limit = np.full(total, np.inf)
    if estimator.limit is not None:
        limit = np.broadcast_to(np.asarray(estimator.limit(asked)), (total,))
    start = 0
    for (index, _), count in zip(places, counts, strict=True):
        some = slice(start, start + count)
        start += count
        if not count:
            continue
        fits = need[some] <= limit[some]
        order = ranking_order(value[some], need[some], fits)[: question.top]
        ranks = (*index, slice(0, len(order)))
        found.winner[ranks] = some.start + order
        found.objective[ranks] = question.sign * value[some][order]
        found.legal[index], found.feasible[index] = count, int(fits.sum())
        found.least_need[index] = need[some].min()
    if progress is not None:
        progress(total, total)
    return total
