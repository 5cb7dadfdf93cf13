"""Models of today from the catalogue, with their recipes, and the golden rows about them."""

import csv
import dataclasses
import gzip
from typing import Any

from places import GOLDEN

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.settings import choose


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a golden file, such as models/models."""
    with gzip.open(GOLDEN / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def architecture(name: str, **changed: Any) -> tuple[Architecture, Recipe]:
    """Return a model by name or file, with fields changed, and its recipe."""
    model, choices = architecture_with_choices(name)
    return dataclasses.replace(model, **changed), choose(Recipe(), choices)
