"""Laws of the plans of today's training, over every model of language in the catalogue."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from jaxroof import catalog
from jaxroof.analyses.fit_legality import broken_rule
from jaxroof.catalog.lookup import architecture_with_choices, training_system
from jaxroof.estimators.training.inputs import TrainingInputs, TrainingPlan
from jaxroof.estimators.training.memory_step import memory_inputs
from jaxroof.estimators.training.plans import splits
from jaxroof.estimators.training.training_recipe import TrainingRecipe, memory_recipe
from jaxroof.settings import choose

MODELS = [
    name
    for name in catalog.names("architectures")
    if float(architecture_with_choices(name)[0].vocabulary) > 0.0
]
DRAWN = 40  # legal plans of each model that fit is asked about


def question(name: str, gpus: int, batch: int) -> tuple[TrainingInputs, TrainingRecipe]:
    """Return the inputs of a search, and its default recipe."""
    model, choices = architecture_with_choices(name)
    inputs = TrainingInputs(
        model=dataclasses.replace(model, sequence=8192.0),
        system=training_system("h100-nvs8"),
        gpus=float(gpus),
        global_batch=float(batch),
    )
    return inputs, choose(TrainingRecipe(), choices)


@pytest.mark.parametrize("gpus", [512, 768])
@pytest.mark.parametrize("name", MODELS)
def test_pipelines_are_weighed_and_legal_in_fit_too(name: str, gpus: int) -> None:
    """Whether or not they divide the layers; what a search lists, ``fit --plan`` takes."""
    inputs, recipe = question(name, gpus, gpus)
    plans, _ = splits(inputs, recipe, gpus)
    assert np.unique(plans["pipeline"]).size > 1
    draw = np.random.default_rng(gpus)
    for row in draw.integers(len(plans["data"]), size=DRAWN):
        fields: Any = {field: float(column[row]) for field, column in plans.items()}
        one = dataclasses.replace(inputs, plan=TrainingPlan(**fields))
        assert broken_rule(memory_inputs(one, recipe), memory_recipe(recipe)) is None, fields
