"""No plan is legal: why, and on which numbers of accelerators one is."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from jaxroof.analyses.plan_question import Question
from jaxroof.engine.search.candidates import plan_product
from jaxroof.errors import InputError, listing
from jaxroof.estimators.training.legality import rules
from jaxroof.estimators.training.memory_step import stage_memory
from jaxroof.estimators.training.training_recipe import memory_recipe

NODE, NEAR = 8, 17  # accelerators by which other numbers are tried, and how many such steps
SAID = 3  # rules that are named


class NoLegalPlan(InputError):
    """No plan is legal on the accelerators that are asked for."""


def no_legal_plan(asked: Question, sizes: list[int], refused: Mapping[str, int], most: int) -> str:
    """Return the words that no plan is legal, what would be, and which rules refuse them."""
    on = f"{sizes[0]:,} accelerators" if len(sizes) == 1 else f"up to {most:,} accelerators"
    given = f" with {' and '.join(map(str, asked.constraints))}" if asked.constraints else ""
    near = [f"{size:,}" for size in _legal_near(asked, sizes[0])] if len(sizes) == 1 else []
    number = f"{' or '.join(near)} accelerators" if near else "another number"
    return (
        f"plan: none is legal on {on}{given}; expected {number}, another batch or rule"
        f"{_counts(asked, refused)}"
    )


def _counts(asked: Question, refused: Mapping[str, int]) -> str:
    """Return the rules that refuse most plans, with how many each does."""
    words = {rule.name: rule.words for rule in rules(memory_recipe(asked.recipe))}
    most = sorted(((n, name) for name, n in refused.items() if n and name in words), reverse=True)
    said = [f"{words[name]} ({count:,})" for count, name in most[:SAID]]
    return f"; refused are {listing(said)}" if said else ""


def _legal_near(asked: Question, size: int) -> list[int]:
    """Return the nearest numbers of accelerators with a legal plan, below and above, if near."""
    step = NODE if size > 2 * NODE else 1
    first = size - size % step
    below = range(first - step * (first == size), max(0, first - NEAR * step), -step)
    above = range(first + step, first + NEAR * step, step)
    return [
        found
        for sizes in (below, above)
        if (found := next((s for s in sizes if _has_legal(asked, s)), 0))
    ]


def _has_legal(asked: Question, size: int) -> bool:
    inputs = dataclasses.replace(asked.inputs, gpus=np.float64(size), plan=None)
    return plan_product(stage_memory, inputs, asked.recipe, asked.constraints).size > 0
