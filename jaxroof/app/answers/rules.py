"""Rules on plans that no legal plan keeps: which, and the near values that legal plans have."""

import numpy as np

from jaxroof.app.question import Asked
from jaxroof.engine.search.candidates import list_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.errors import listing

NEAR = 5  # values that are named


def unmet(found: Asked) -> str:
    """Return which rules of a question of today's training no legal plan keeps.

    Empty where it is not the rules: where no plan is legal without them.
    """
    legal = list_plans(found.estimator, found.inputs, found.recipe).plans
    if not found.where or not len(next(iter(legal.values()))):
        return ""
    alone = [rule for rule in found.where if not rule.holds(legal).any()]
    on = f"legal plan on {found.gpus:,} accelerators"
    if not alone:
        return f"where: no {on} keeps {listing([_words(found, r) for r in found.where])} together"
    said = []
    for rule in alone:
        known = np.unique(legal[rule.field])
        near = np.sort(known[np.argsort(np.abs(known - rule.value), kind="stable")[:NEAR]])
        name = _short(found, rule.field)
        values = " or ".join(f"{name}={value:.0f}" for value in near)
        said.append(f"no {on} has {_words(found, rule)}; expected such as {values}")
    return f"where: {'; '.join(said)}"


def _words(found: Asked, rule: Constraint) -> str:
    return f"{_short(found, rule.field)}{rule.comparison}{rule.value}"


def _short(found: Asked, field: str) -> str:
    known = {full: short for short, full in reversed(found.estimator.short_names.items())}
    return known.get(field, field)
