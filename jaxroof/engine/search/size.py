"""The size of a search, and its check, before any array of that size is made."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.size import NUMBER, check_lists, check_search
from jaxroof.engine.search.candidates import plan_product
from jaxroof.engine.search.problem import SearchProblem, axis_roles
from jaxroof.structure import results


def check_search_size(question: SearchProblem) -> None:
    """Check that the best plans of every point, and the lists of plans, fit in memory.

    The lists are those of the points that share no list with others; a sample says how long.
    Raises: TooLarge with the size, the limit and the way out.
    """
    estimator, fields = question.estimator, len(question.estimator.plan_fields)
    check_search(question.axes, question.top, fields, question.report)
    if estimator.sizing is not None:  # every plan of every point is evaluated by itself
        some = question.axes
    else:
        kind = axis_roles(question)
        some = tuple(question.axes[d] for d in kind.outer + kind.structural)

    def plans_at(values: Mapping[str, Any]) -> int:
        inputs = replace_all(dataclasses.replace(question.inputs, plan=None), values)
        return plan_product(estimator, inputs, question.recipe, question.where).size

    check_lists(some, NUMBER * (fields + len(results(question.report))), plans_at)
