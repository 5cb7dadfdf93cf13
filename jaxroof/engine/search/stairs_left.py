"""The plans that may be steps of the staircase of objective against need, by a lower bound.

Plans are sorted by need. A step is faster than every plan before it. A plan whose lower bound is
above what a known plan before it reaches is therefore no step. Known plans are first those where
the running minimum of the bounds falls, then those whose bound is lowest against what is reached.
"""

import functools

import numpy as np

from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.search.candidates import PreparedPlans
from jaxroof.engine.search.direct import grid_objectives
from jaxroof.engine.search.groups import ProblemGroup
from jaxroof.engine.search.plans_left import SLACK, bound_rows
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.structure import structure

LEAST_PLANS = 1 << 16  # fewer are compared sooner than they are bounded
FEW = 1 << 13  # plans that are evaluated sooner than passed over
ROUNDS = 16  # limit on rounds of known plans


def stairs_left(question: SearchProblem, ready: PreparedPlans) -> np.ndarray:
    """Return the positions of one problem's plans that may be steps, among plans sorted by need."""
    group = ProblemGroup((), slice(0, 1), question.inputs, {}, ready)
    objectives = functools.partial(grid_objectives(question, group, []), 0)
    reads = bound_reads(question.estimator, question.recipe, structure(question.inputs))
    (rows,) = bound_rows(ready, reads.fields)
    bound = objectives(rows.first, bound=True)[rows.number, 0]
    value = np.full(len(bound), np.inf)
    known = np.flatnonzero(np.diff(np.minimum.accumulate(bound), prepend=np.inf) < 0.0)
    for _ in range(ROUNDS):
        value[known] = objectives(known)[:, 0]
        reached = np.minimum.accumulate(value)
        left = np.flatnonzero(bound <= reached * (1.0 + SLACK))
        new = left[np.isinf(value[left])]
        if len(new) <= FEW:
            break
        known = new[np.argpartition(bound[new] / reached[new], FEW)[:FEW]]
    return left
