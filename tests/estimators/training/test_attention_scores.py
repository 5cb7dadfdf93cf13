"""Keys that a query meets in layers of attention, against a count query by query."""

import dataclasses

import numpy as np
import pytest

from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.estimators.training.inputs import TrainingModel, training_model
from jaxroof.estimators.training.layer.scores import (
    chunk_context,
    context,
    index_scores,
    token_scores,
)
from jaxroof.estimators.training.recipe import Attention, Recipe
from jaxroof.settings import choose

LENGTHS = [(1, 1), (7, 3), (12, 4), (12, 11), (12, 12), (12, 13), (12, 0)]


def met(sequence: int, keys: np.ndarray) -> float:
    """Return the mean of the keys that each query meets, its own included."""
    return float(keys.sum() / sequence)


@pytest.mark.parametrize(("sequence", "window"), LENGTHS)
def test_a_window_is_counted_query_by_query(sequence: int, window: int) -> None:
    before = np.arange(sequence) + 1
    expected = met(sequence, np.minimum(before, window or sequence))
    assert float(context(float(sequence), float(window), 1.0)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("sequence", "chunk"), LENGTHS)
def test_chunks_are_counted_query_by_query(sequence: int, chunk: int) -> None:
    expected = met(sequence, np.arange(sequence) % (chunk or sequence) + 1)
    found = chunk_context(float(sequence), float(chunk), 1.0)
    assert float(found) == pytest.approx(expected, rel=1e-13)


def sparse(**fields: float) -> TrainingModel:
    """Return DeepSeek-V3 with an indexer."""
    model, choices = architecture_with_choices("deepseek-v3")
    recipe = choose(Recipe(), {**choices, "attention": Attention.SPARSE})
    asked = {"sequence": 64.0, "index_heads": 2.0, "index_size": 8.0, **fields}
    return training_model(dataclasses.replace(model, **asked), recipe)


def test_layers_with_an_indexer_meet_the_keys_that_it_keeps() -> None:
    """And the indexer itself all of them."""
    layers, width = 61.0, 128.0 * (192.0 + 128.0)
    few = sparse(index_layers=20.0, index_topk=16.0)
    keys = met(64, np.minimum(np.arange(64) + 1, 16))
    expected = width * (20.0 * keys + (layers - 20.0) * 32.5)
    assert float(token_scores(few, 1.0)) == pytest.approx(expected, rel=1e-13)
    assert float(index_scores(few)) == pytest.approx(20.0 * 2.0 * 8.0 * 32.5, rel=1e-13)
    every = sparse(index_layers=layers, index_topk=64.0)
    assert float(token_scores(every, 1.0)) == pytest.approx(width * layers * 32.5, rel=1e-13)
