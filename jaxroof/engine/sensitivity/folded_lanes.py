"""The objectives of plans in parameter lanes, by the compiled parts of a fold."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.candidates import PreparedPlans, distinct_part_rows
from jaxroof.engine.search.folded import pack_plans
from jaxroof.engine.search.problem import SearchProblem


def folded_objectives(
    question: SearchProblem,
    ready: PreparedPlans,
    columns: Mapping[str, np.ndarray],
    block: int,
    look: int,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from positions of plans to sign * objective [plan, lane].

    ``columns`` are the values of the parameters in each lane. Lanes are padded, and positions to
    ``look`` of them.
    """
    fold = folding.FoldConfig(
        estimator=question.estimator,
        recipe=question.recipe,
        objective=question.objective,
        sign=question.sign,
        top=1,
        per_split=False,
        looks=1,
        every=False,
        block=block,
        rank=1,
    )
    sizes = distinct_part_rows(question.estimator, ready)[1]
    distinct, plans = pack_plans(question.estimator, ready, sizes)
    inputs: Any = replace_all(question.inputs, folding.shard_lanes(dict(columns)))
    tables = folding.tables(fold, inputs, distinct)

    def objectives(positions: np.ndarray) -> np.ndarray:
        asked = folding.replicate(np.pad(positions, (0, look - len(positions)), mode="edge"))
        return np.asarray(folding.objectives(fold, inputs, tables, plans, asked))[: len(positions)]

    return objectives
