"""No plan is legal: why, and on which numbers of accelerators one is."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.engine.search.candidates import list_plans, plan_product
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import SearchProblem, check_searches
from jaxroof.errors import InputError, listing
from jaxroof.records import get_at, replace_all, replace_at

SIZE = "gpus"  # the product of a plan's degrees, for estimators that have one
DOMAIN = "system.fast_domain"
NODE, NEAR = 8, 17  # accelerators by which other numbers are tried, and how many such steps
SAID = 3  # rules that are named
NEAREST = 5  # values of a field that legal plans have


class NoLegalPlan(InputError):
    """No plan is legal on the accelerators that are asked for."""


def check_legal(*asked: Any, **options: Any) -> None:
    """Check that a plan is legal at the last point of a grid; arguments are those of ``search``.

    Raises: NoLegalPlan, which says why none is and where one would be.
    """
    question = check_searches(*asked, **options)[1][-1]
    last = {path: column[-1] for axis in question.axes for path, column in axis.values.items()}
    inputs = replace_all(question.inputs, last)
    plans = plan_product(question.estimator, inputs, question.recipe, question.where)
    if not plans.size:
        point = dataclasses.replace(question, inputs=inputs, axes=())
        raise NoLegalPlan(none_legal(point, plans.refused))


def none_legal(question: SearchProblem, refused: Mapping[str, int], most: int | None = None) -> str:
    """Return in words that no plan is legal, what would be, and which rules refuse them.

    Arguments: a problem without axes; ``most``, if every number of accelerators up to it was tried.
    """
    if question.where and most is None and (said := _unmet(question)):
        return said
    given = f" with {' and '.join(map(str, question.where))}" if question.where else ""
    if SIZE not in question.estimator.products:
        why = _counts(question, refused)
        return f"plan: none is legal{given}; expected other inputs or rules{why}"
    size = int(get_at(question.inputs, SIZE))
    on = f"{size:,} accelerators" if most is None else f"up to {most:,} accelerators"
    near = [f"{found:,}" for found in _legal_near(question, size)] if most is None else []
    number = f"{' or '.join(near)} accelerators" if near else "another number"
    return (
        f"plan: none is legal on {on}{given}; expected {number}{_domain(question, size)}, "
        f"another batch or rule{_counts(question, refused)}"
    )


def _unmet(question: SearchProblem) -> str:
    """Return which rules no legal plan keeps; empty where none is legal without them either."""
    estimator = question.estimator
    named = [Constraint(rule.field, ">=", 0) for rule in question.where]  # seldom tried ones too
    legal = list_plans(estimator, question.inputs, question.recipe, named).plans
    if not len(next(iter(legal.values()))):
        return ""
    products = [int(get_at(question.inputs, SIZE))] if SIZE in estimator.products else []
    on = f"legal plan on {products[0]:,} accelerators" if products else "legal plan"
    alone = [rule for rule in question.where if not rule.holds(legal).any()]
    if not alone:
        rules = [_shortly(estimator, rule, rule.word or rule.value) for rule in question.where]
        sizes = [f"{found:,}" for found in _legal_near(question, products[0])] if products else []
        other = f"; expected {' or '.join(sizes)} accelerators" if sizes else ""
        why = _why(question)
        return f"where: no {on} keeps {listing(rules)} together{f': {why}' if why else ''}{other}"
    said = []
    for rule in alone:
        known = np.unique(legal[rule.field])
        near = np.sort(known[np.argsort(np.abs(known - rule.value), kind="stable")[:NEAREST]])
        equal = rule._replace(comparison="=")
        values = " or ".join(_shortly(estimator, equal, f"{value:.0f}") for value in near)
        asked = _shortly(estimator, rule, rule.word or rule.value)
        said.append(f"no {on} has {asked}; expected such as {values}")
    return f"where: {'; '.join(said)}"


def _why(question: SearchProblem) -> str:
    """Return the rule of the estimator that no plan with the fields of the constraints keeps."""
    hook = question.estimator.why_not
    given = {rule.field: rule.value for rule in question.where if rule.comparison in ("=", "==")}
    return hook(question.inputs, question.recipe, given) if hook is not None and given else ""


def _shortly(estimator: Any, rule: Constraint, value: object) -> str:
    return f"{estimator.shortest.get(rule.field, rule.field)}{rule.comparison}{value}"


def _domain(question: SearchProblem, size: int) -> str:
    """Return the largest smaller fast domain with a legal plan, where the plans hang on it."""
    domain = int(get_at(question.inputs, DOMAIN)) if DOMAIN in question.estimator.structural else 1
    parts = (part for part in range(domain - 1, 0, -1) if size % part == 0)
    fills = next((part for part in parts if _has_legal(question, DOMAIN, part)), None)
    return f", {DOMAIN}={fills}" if fills else ""


def _counts(question: SearchProblem, refused: Mapping[str, int]) -> str:
    """Return the rules that refuse most plans, with how many each does."""
    reasons = question.estimator.reasons
    words = reasons(question.recipe) if reasons is not None else {}
    most = sorted(((n, name) for name, n in refused.items() if n and name in words), reverse=True)
    said = [f"{words[name]} ({count:,})" for count, name in most[:SAID]]
    return f"; refused are {listing(said)}" if said else ""


def _legal_near(question: SearchProblem, size: int) -> list[int]:
    """Return the nearest numbers of accelerators with a legal plan, below and above, if near."""
    step = NODE if size > 2 * NODE else 1
    first = size - size % step
    below = range(first - step * (first == size), max(0, first - NEAR * step), -step)
    above = range(first + step, first + NEAR * step, step)
    return [
        found
        for sizes in (below, above)
        if (found := next((s for s in sizes if _has_legal(question, SIZE, s)), 0))
    ]


def _has_legal(question: SearchProblem, path: str, value: int) -> bool:
    inputs = replace_at(question.inputs, path, float(value))
    return plan_product(question.estimator, inputs, question.recipe, question.where).size > 0
