"""The parameters by part that memory reads: those of a model's operations, and the tests' own."""

import dataclasses
import json
import types
from typing import Any

import numpy as np
import pytest
import training_memory as golden

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.estimators.training.memory_inputs import Counts
from jaxroof.estimators.training.memory_model import counts, memory_model
from jaxroof.estimators.training.model_size import SizeInputs, model_size
from jaxroof.estimators.training.recipe import Attention, Biases, Embeddings, Mlp, Norm, Recipe
from jaxroof.records import units
from jaxroof.settings import choose

ROWS = {
    row["model"]: json.loads(row["model"])
    for name in ("memory_cases", "memory_settings")
    for row in golden.rows(name)
}


def of_row(shape: dict[str, Any]) -> tuple[Architecture, Recipe, Any]:
    """Return a golden model as the catalogue would state it, and as the tests read it."""
    own = types.SimpleNamespace(**{**golden.MODEL, **shape})
    numbers = {name: float(getattr(own, name, 0.0)) for name in units(Architecture)}
    numbers |= {"head_norms": 2.0 * own.qk_norm, "sequence": 1024.0}
    recipe = Recipe(
        attention=Attention.LATENT if own.latent else Attention.HEADS,
        mlp=Mlp.GATED if own.gated else Mlp.PLAIN,
        norm=Norm(own.norm),
        biases=Biases(own.bias),
        embeddings=Embeddings.TIED if own.tied else Embeddings.SEPARATE,
    )
    return Architecture(**numbers), recipe, own


@pytest.mark.parametrize("shape", ROWS.values(), ids=range(len(ROWS)))
def test_counts_are_those_of_the_golden_rows(shape: dict[str, Any]) -> None:
    model, recipe, own = of_row(shape)
    ours, theirs = counts(model, recipe), golden.counts(own)
    routes = float(own.experts) > 0.0
    for field in dataclasses.fields(Counts):
        if routes or not field.name.startswith("rout"):  # no layer routes: they count no time
            assert float(getattr(ours, field.name)) == getattr(theirs, field.name), field.name
    seen = memory_model(model, recipe)
    for name in golden.Shape._fields:
        if name != "value_size" or own.latent:
            assert float(getattr(seen, name)) == float(getattr(own, name)), name


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_counts_of_all_layers_are_the_parameters_of_the_model(name: str) -> None:
    model, choices = architecture_with_choices(name)
    recipe = choose(Recipe(), choices)
    found = counts(model, recipe)
    routing = float(model.layers - model.first_dense_layers) if model.experts else 0.0
    whole = (float(model.layers) - routing) * (found.dense_sharded + found.dense_replicated)
    whole = whole + routing * (found.routing_sharded + found.routing_replicated + found.routed)
    size = model_size.evaluate(SizeInputs(model=model), recipe)
    parts = ("embedding", "head", "positions", "class_head", "extra")
    ends = sum(getattr(size, f"parameters_{part}") for part in parts)
    assert float(whole + found.norm) == float(np.asarray(size.parameters) - ends)
