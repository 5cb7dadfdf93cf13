"""The parameters by part that memory reads: those of a model's operations, and the tests' own."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import training_memory as golden

from jaxroof import catalog
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.estimators.training.layer.sums import Counts, counts
from jaxroof.estimators.training.memory_model import MemoryModel, memory_model
from jaxroof.estimators.training.model_size import SizeInputs, model_size
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.records import units
from jaxroof.settings import choose

ROWS = {
    row["model"]: json.loads(row["model"])
    for name in ("memory_cases", "memory_settings")
    for row in golden.rows(name)
}


def test_counts_are_those_of_the_golden_rows() -> None:
    for shape in ROWS.values():
        (model, recipe), own = golden.of_model(shape), SimpleNamespace(**{**golden.MODEL, **shape})
        seen, theirs = memory_model(model, recipe), golden.counts(own)
        ours = counts(seen)
        routes = float(own.experts) > 0.0
        for field in Counts._fields:
            if routes or not field.startswith("rout"):  # no layer routes: they count no time
                assert float(getattr(ours, field)) == getattr(theirs, field), (shape, field)
        for name in shape:
            if name in units(MemoryModel):
                assert float(getattr(seen, name)) == float(getattr(own, name)), (shape, name)


@pytest.mark.parametrize("name", catalog.names("architectures"))
def test_counts_of_all_layers_are_the_parameters_of_the_model(name: str) -> None:
    model, choices = architecture_with_choices(name)
    recipe = choose(Recipe(), choices)
    found = counts(memory_model(model, recipe))
    routing = float(model.layers - model.first_dense_layers) if model.experts else 0.0
    whole = (float(model.layers) - routing) * (found.dense_sharded + found.dense_replicated)
    whole = whole + routing * (found.routing_sharded + found.routing_replicated + found.routed)
    size = model_size.evaluate(SizeInputs(model=model), recipe)
    parts = ("embedding", "head", "positions", "class_head", "extra")
    ends = sum(getattr(size, f"parameters_{part}") for part in parts)
    assert float(whole + found.norm) == float(np.asarray(size.parameters) - ends)
