"""What is said where no plan is legal: on how many accelerators, and what would be."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from jaxroof.analyses.plan_product import listed
from jaxroof.analyses.plan_question import Question
from jaxroof.errors import InputError

NODE, NEAR = 8, 17  # accelerators by which other numbers are tried, and how many such steps


class NoLegalPlan(InputError):
    """No plan is legal on the accelerators that are asked for."""


def no_legal_plan(asked: Question, sizes: list[int], refused: Mapping[str, int], most: int) -> str:
    """Return the words that no plan is legal, and what would be."""
    on = f"{sizes[0]:,} accelerators" if len(sizes) == 1 else f"up to {most:,} accelerators"
    rules = f" with {' and '.join(map(str, asked.constraints))}" if asked.constraints else ""
    near = [f"{size:,}" for size in _legal_near(asked, sizes[0])] if len(sizes) == 1 else []
    number = f"{' or '.join(near)} accelerators" if near else "another number"
    divided = ", or layer_division=uneven" if refused.get("layers_divisible") else ""
    return f"plan: none is legal on {on}{rules}; expected {number}, another batch or rule{divided}"


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
    return bool(listed(inputs, asked.recipe, size, asked.constraints).size)
