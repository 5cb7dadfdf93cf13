"""Layers moved from the fullest stages of a pipeline to others, so that each fits."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from jaxroof.analyses.fit_question import Question
from jaxroof.estimators.training.recipe import Split, TrainingRecipe
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.estimators.training.stages import chunk_split


def even_where_it_fits(asked: Question) -> Split:
    """Return the most even split of layers whose stages all fit, or () if there is none.

    A stage needs a + b l for l layers: a and b follow from the memory of two splits, so that the
    most layers that fit are known for every stage at once.

    Assumes: stages of one chunk; only those with more than one layer can give one.
    """
    inputs, recipe = asked.step, asked.recipe
    stages, layers = int(inputs.plan.pipeline), int(inputs.model.layers)
    if stages == 1 or inputs.plan.interleave != 1.0 or layers < 2 * stages:
        return ()
    given = recipe.layer_division
    own = given if isinstance(given, tuple) else chunk_split(inputs, recipe)
    now = np.array(own, dtype=float)
    device = _device(asked, recipe, own)
    less = _device(asked, recipe, tuple(max(number - 1, 0) for number in own))
    each = np.maximum(device - less, 1.0)
    most = np.floor(now + (float(asked.capacity) - device) / each)
    split = evenly(most, layers)
    if not split or split == own or _device(asked, recipe, split).max() > asked.capacity:
        return ()
    return split


def evenly(most: np.ndarray, layers: int) -> Split:
    """Return a split of layers as even as the most that each stage holds allows, or ().

    >>> evenly(np.array([1.0, 3.0, 9.0]), 9)
    (1, 3, 5)
    >>> evenly(np.array([9.0, 9.0, 9.0]), 8)
    (3, 3, 2)
    """
    if most.min() < 1 or most.sum() < layers:
        return ()
    level = next(level for level in range(1, layers + 1) if np.minimum(most, level).sum() >= layers)
    split = np.minimum(most, level).astype(int)
    over = int(split.sum()) - layers
    order = np.roll(np.arange(len(split)), 1)  # the last stage has the head, the first hold most
    for stage in [place for place in order if split[place] == level][:over]:
        split[stage] -= 1
    return tuple(int(number) for number in split)


def split_words(split: Sequence[int]) -> str:
    """Return a split as it is typed, with stages alike that follow each other counted.

    >>> split_words((7, 8, 8, 8, 7))
    '7,3x8,7'
    """
    runs = [(layers, len(list(some))) for layers, some in itertools.groupby(split)]
    return ",".join(f"{count}x{layers}" if count > 1 else f"{layers}" for layers, count in runs)


def _device(asked: Question, recipe: TrainingRecipe, split: Split) -> np.ndarray:
    found = memory_by_stage(asked.step, dataclasses.replace(recipe, layer_division=split))
    return np.asarray(found.device)
